"""Carries a viewer through a task that waits: where nothing can be written at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..close_codes import Close
from ..viewers.ports import Feed


class TaskTransport:
    """Carries one viewer through the task that calls :meth:`run`; see ``ViewerTransport``."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._evicted: asyncio.Future[Close] = asyncio.get_running_loop().create_future()

    @property
    def write(self) -> Callable[[bytes], None]:
        """Never called, since :meth:`writable` is never true."""
        return _nowhere

    @property
    def descriptor(self) -> None:
        """None, for the same reason."""

    def writable(self) -> bool:
        """Never, so that everything waits for the task."""
        return False

    def wake(self) -> None:
        """Let the task drain the feed."""
        self._woken.set()

    def evict(self, close: Close) -> None:
        """Let :meth:`run` return ``close``."""
        if not self._evicted.done():
            self._evicted.set_result(close)

    async def run(self, feed: Feed) -> Close:
        """Drain ``feed`` whenever woken, until it is over or the viewer is evicted; returns why."""
        draining = asyncio.get_running_loop().create_task(self._keep_draining(feed))
        try:
            await asyncio.wait([draining, self._evicted], return_when=asyncio.FIRST_COMPLETED)
            return self._evicted.result() if self._evicted.done() else draining.result()
        finally:
            draining.cancel()
            feed.leave()

    async def _keep_draining(self, feed: Feed) -> Close:
        while (close := await feed.drain()) is None:
            await self._woken.wait()
            self._woken.clear()
        return close


def _nowhere(data: bytes) -> None:
    raise NotImplementedError

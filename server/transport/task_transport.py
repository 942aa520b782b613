"""Owns the carrying of viewers for whom a task waits: where nothing can be written at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..viewers.ports import Showing
from ..viewers.wire import Close


class WaitingCarrier:
    """Carries one viewer through the task that calls :meth:`show`."""

    def __init__(self) -> None:
        self._roused = asyncio.Event()
        self._expelled: asyncio.Future[Close] = asyncio.get_running_loop().create_future()

    @property
    def write(self) -> Callable[[bytes], None]:
        """Nothing is ever written; see :class:`server.viewers.viewer.Carrier`."""
        return _nowhere

    @property
    def descriptor(self) -> None:
        """None, for the same reason."""

    def free(self) -> bool:
        """Never, so that everything waits for the task."""
        return False

    def rouse(self) -> None:
        """Something waits."""
        self._roused.set()

    def expel(self, close: Close) -> None:
        """The connection must end."""
        if not self._expelled.done():
            self._expelled.set_result(close)

    async def expelled(self) -> Close:
        """Wait until the connection must end."""
        return await asyncio.shield(self._expelled)

    async def show(self, show: Showing) -> Close:
        """Show until it is over or the viewer must go; returns why."""
        showing = asyncio.get_running_loop().create_task(self._keep_showing(show))
        try:
            await asyncio.wait([showing, self._expelled], return_when=asyncio.FIRST_COMPLETED)
            return self._expelled.result() if self._expelled.done() else showing.result()
        finally:
            showing.cancel()
            show.leave()

    async def _keep_showing(self, show: Showing) -> Close:
        while (close := await show.go_on()) is None:
            await self._roused.wait()
            self._roused.clear()
        return close


def _nowhere(data: bytes) -> None:
    raise NotImplementedError

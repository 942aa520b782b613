"""Viewers who wait for the next episode, whichever it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .relay import in_turns
from .viewer import Viewer


class Waiters:
    """Wakes its viewers when an episode starts, a few at a time.

    Args:
        next_start: Gives the event that is set when another episode starts.
        tasks: The group that the waking runs in.
    """

    def __init__(self, next_start: Callable[[], asyncio.Event], tasks: asyncio.TaskGroup) -> None:
        self._next_start = next_start
        self._tasks = tasks
        self._viewers: dict[Viewer, None] = {}
        self._waking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._viewers)

    def add(self, viewer: Viewer) -> None:
        """Wake ``viewer`` at the next start, once, unless it is discarded before."""
        self._viewers[viewer] = None
        if self._waking is None:
            self._waking = self._tasks.create_task(self._wake_all(self._next_start()), name="waiters")

    def discard(self, viewer: Viewer) -> None:
        """Forget a viewer, if it waits here."""
        self._viewers.pop(viewer, None)
        if not self._viewers and self._waking is not None:
            self._waking.cancel()
            self._waking = None

    async def _wake_all(self, start: asyncio.Event) -> None:
        await start.wait()
        self._waking = None
        woken, self._viewers = self._viewers, {}
        await in_turns(woken, Viewer.wake)

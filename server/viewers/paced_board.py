"""A board of what is recorded elsewhere: looked at for all its viewers at once, at a bounded pace."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from spectator.clock import Clock
from spectator.merge_patch import make_patch

from ..security.masking import ShowsNames
from . import wire
from .patched_frames import PatchedFrames
from .relay import in_turns
from .viewer import Viewer
from .wire import Frame

INTERVAL_S: Final = 1.0
"""Least time between two looks."""

SHARE: Final = 0.05
"""Of a processor, what looking and drawing may take: a look that took long is followed by a longer pause."""


class PacedBoard(ABC):
    """Something that changes, for any number of viewers; it is looked at only while somebody watches.

    Args:
        kind: What its frames are called, and the field that they hold it in.
        picture: What is shown before the first look.
        clock: Time.
        names: Says which names are hidden.
    """

    def __init__(self, kind: str, picture: dict[str, Any], clock: Clock, names: ShowsNames) -> None:
        self.picture = picture
        """What is shown; made anew by every change."""
        self._clock = clock
        self._names = names
        self._frames = PatchedFrames(kind, kind)
        self._viewers: dict[Viewer, None] = {}
        self._order = asyncio.Lock()
        self._looked_s: float | None = None
        self._pause_s = INTERVAL_S

    @property
    def version(self) -> int:
        """Raised by every change."""
        return self._frames.version

    @property
    def idle(self) -> bool:
        """Whether nobody watches it."""
        return not self._viewers

    @property
    def pause_s(self) -> float:
        """Seconds until the next look."""
        return self._pause_s

    def after(self, version: int) -> Frame:
        """What a viewer of ``version`` needs: the last change where that is enough, else all."""
        return wire.masked(self._frames.after(version, lambda: self.picture), self._names.mask)

    def add(self, viewer: Viewer) -> None:
        """Send ``viewer`` every change."""
        self._viewers[viewer] = None

    def discard(self, viewer: Viewer) -> None:
        """Send ``viewer`` nothing more; safe to call twice."""
        self._viewers.pop(viewer, None)

    async def look(self) -> None:
        """Take in what came, unless that was done a moment ago, and tell whoever watches."""
        async with self._order:
            began = self._clock.monotonic()
            if self._looked_s is not None and began - self._looked_s < INTERVAL_S / 2:
                return
            before = self.version
            await self._take()
            self._looked_s = now = self._clock.monotonic()
            self._pause_s = max(INTERVAL_S, (now - began) / SHARE)
            change = self._frames.change
            if change is not None and self.version > before:
                (batch,) = wire.batches([wire.masked(change, self._names.mask)])
                await in_turns(self._viewers, partial(Viewer.send_lossy, batch=batch))

    @abstractmethod
    async def _take(self) -> None:
        """Take in what came, and draw it."""

    def _draw(self, picture: dict[str, Any]) -> None:
        if picture != self.picture:
            self._frames.note(make_patch(self.picture, picture))
            self.picture = picture


class Lookouts:
    """The tasks that look at boards while somebody watches them.

    Args:
        clock: Time.
        tasks: The group that boards are looked at in.
    """

    def __init__(self, clock: Clock, tasks: asyncio.TaskGroup) -> None:
        self._clock = clock
        self._tasks = tasks
        self._watching: dict[PacedBoard, asyncio.Task[None]] = {}

    def keep_up(self, board: PacedBoard, over: Callable[[], None] = lambda: None) -> None:
        """Look at a board from time to time from now on, as long as somebody watches.

        Args:
            board: What is looked at.
            over: Called when nobody watches it any more.
        """
        if board in self._watching:
            return

        def ended(_: asyncio.Task[None]) -> None:
            self._watching.pop(board, None)
            over()

        task = self._watching[board] = self._tasks.create_task(self._look(board), name="board")
        task.add_done_callback(ended)

    async def _look(self, board: PacedBoard) -> None:
        while not board.idle:
            await self._clock.sleep(board.pause_s)
            await board.look()

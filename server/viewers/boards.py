"""Boards: changing state, read once for all its viewers and sent as patches.

New viewers get it whole. It is read at a bounded pace.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from spectator.clock import Clock
from spectator.events import encode_json
from spectator.json_values import make_patch

from ..security.masking import NameMaskSource
from . import wire
from .broadcast import in_turns
from .viewer import SendFrames, Viewer
from .wire import Frame

UNSEEN: Final = -2
"""Where a viewer stands that has seen nothing, or wants to see everything again."""


class PatchedFrames:
    """The frames of something that changes: ``NAME`` with all of it, ``NAME.changed`` with a merge patch.

    Args:
        name: Of the frames.
        field: Under which they hold it.
    """

    def __init__(self, name: str, field: str) -> None:
        self.version = 0
        """Raised by every change."""
        self.change: Frame | None = None
        """The last change."""
        self._name = name
        self._field = field
        self._whole: Frame | None = None

    def note(self, changes: Mapping[str, Any]) -> None:
        """It has changed by this merge patch."""
        self.version += 1
        self.change, self._whole = self._frame(f"{self._name}.changed", changes), None

    def whole(self, content: Callable[[], Mapping[str, Any]]) -> Frame:
        """The frame with all of it; encoded once for all who ask between two changes."""
        if self._whole is None:
            self._whole = self._frame(self._name, content())
        return self._whole

    def after(self, version: int, content: Callable[[], Mapping[str, Any]]) -> Frame:
        """What a viewer of ``version`` needs: the last change where that is enough, else all of it."""
        change = self.change
        return change if change is not None and self.version == version + 1 else self.whole(content)

    def _frame(self, name: str, shown: Mapping[str, Any]) -> Frame:
        text = encode_json({"frame": name, "version": self.version, self._field: shown})
        return Frame(text, seq=self.version)


class Board(Protocol):
    """What is shown to viewers by :class:`PatchedFrames`."""

    @property
    def version(self) -> int:
        """Raised by every change."""
        ...

    def after(self, version: int) -> Frame:
        """What a viewer of ``version`` needs."""
        ...

    def add(self, viewer: Viewer) -> None:
        """Send ``viewer`` every change."""
        ...

    def discard(self, viewer: Viewer) -> None:
        """Send ``viewer`` nothing more; safe to call twice."""
        ...


class BoardFeed:
    """Shows a board to one viewer: at once while it keeps up, else as a whole when it has caught up.

    Args:
        board: What is shown.
        viewer: What waits for it.
        send: Sends to it.
    """

    __slots__ = ("_board", "_send", "_viewer")

    def __init__(self, board: Board, viewer: Viewer, send: SendFrames) -> None:
        self._board = board
        self._viewer = viewer
        self._send = send
        viewer.position = UNSEEN
        board.add(viewer)

    async def drain(self) -> None:
        """Show what the viewer has not seen; see :class:`server.viewers.viewer.Feed`."""
        viewer = self._viewer
        while True:
            if viewer.position != self._board.version:
                frame = self._board.after(viewer.position)
                await self._send([frame])
                viewer.position = frame.seq or 0
            elif (taken := viewer.take()) is None:
                return
            else:
                again, frames = taken
                await self._send([frame for frame in frames if frame.seq is None])
                viewer.position = viewer.position if again is None else UNSEEN

    def leave(self) -> None:
        """Show nothing more; safe to call twice."""
        self._board.discard(self._viewer)


INTERVAL_S: Final = 1.0
"""Least time between two looks."""

SHARE: Final = 0.05
"""Of a processor, what looking and drawing may take: a look that took long is followed by a longer pause."""


class PolledBoard(ABC):
    """Something that changes, for any number of viewers; it is looked at only while somebody watches.

    Args:
        kind: What its frames are called, and the field that they hold it in.
        picture: What is shown before the first look.
        clock: Time.
        names: Says which names are hidden.
    """

    def __init__(self, kind: str, picture: dict[str, Any], clock: Clock, names: NameMaskSource) -> None:
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


class BoardPoller:
    """The tasks that look at boards while somebody watches them.

    Args:
        clock: Time.
        tasks: The group that boards are looked at in.
    """

    def __init__(self, clock: Clock, tasks: asyncio.TaskGroup) -> None:
        self._clock = clock
        self._tasks = tasks
        self._watching: dict[PolledBoard, asyncio.Task[None]] = {}

    def keep_up(self, board: PolledBoard, over: Callable[[], None] = lambda: None) -> None:
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

    async def _look(self, board: PolledBoard) -> None:
        while not board.idle:
            await self._clock.sleep(board.pause_s)
            await board.look()

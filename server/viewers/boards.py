"""Boards: changing state that is read once for all viewers and sent as patches.

New viewers get the whole state. It is polled at a bounded rate.
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
"""Position of a viewer that has seen nothing, or wants everything again."""


class PatchedFrames:
    """Frames of changing state: ``NAME`` and merge patches ``NAME.changed``."""

    def __init__(self, name: str, field: str) -> None:
        self.version = 0
        """Increased by every change."""
        self.change: Frame | None = None
        """The last change."""
        self._name = name
        self._field = field
        self._whole: Frame | None = None

    def note(self, changes: Mapping[str, Any]) -> None:
        """Record a change, as a merge patch."""
        self.version += 1
        self.change, self._whole = self._frame(f"{self._name}.changed", changes), None

    def whole(self, content: Callable[[], Mapping[str, Any]]) -> Frame:
        """Return the frame with the whole state; encoded once between two changes."""
        if self._whole is None:
            self._whole = self._frame(self._name, content())
        return self._whole

    def after(self, version: int, content: Callable[[], Mapping[str, Any]]) -> Frame:
        """Return what a viewer of ``version`` needs: the last change, or the whole state."""
        change = self.change
        return change if change is not None and self.version == version + 1 else self.whole(content)

    def _frame(self, name: str, shown: Mapping[str, Any]) -> Frame:
        text = encode_json({"frame": name, "version": self.version, self._field: shown})
        return Frame(text, seq=self.version)


class Board(Protocol):
    """State that viewers are sent as :class:`PatchedFrames`."""

    @property
    def version(self) -> int:
        """Increased by every change."""
        ...

    def after(self, version: int) -> Frame:
        """Return what a viewer of ``version`` needs."""
        ...

    def add(self, viewer: Viewer) -> None:
        """Send ``viewer`` every change."""
        ...

    def discard(self, viewer: Viewer) -> None:
        """Send ``viewer`` nothing more; safe to call twice."""
        ...


class BoardFeed:
    """Shows a board to one viewer.

    A viewer gets each change while it keeps up, else the whole state later.
    """

    __slots__ = ("_board", "_send", "_viewer")

    def __init__(self, board: Board, viewer: Viewer, send: SendFrames) -> None:
        self._board = board
        self._viewer = viewer
        self._send = send
        viewer.position = UNSEEN
        board.add(viewer)

    async def drain(self) -> None:
        """Send what the viewer has not seen; see :class:`server.viewers.viewer.Feed`."""
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
        """Stop showing the board; safe to call twice."""
        self._board.discard(self._viewer)


INTERVAL_S: Final = 1.0
"""Least seconds between two polls."""

SHARE: Final = 0.05
"""Share of a processor that polling may take: a slow poll is followed by a longer pause."""


class PolledBoard(ABC):
    """A board that is polled while it has viewers.

    Args:
        kind: Name of its frames, and of their field that holds the state.
    """

    def __init__(self, kind: str, picture: dict[str, Any], clock: Clock, names: NameMaskSource) -> None:
        self.picture = picture
        """The current state; a new object after every change."""
        self._clock = clock
        self._names = names
        self._frames = PatchedFrames(kind, kind)
        self._viewers: dict[Viewer, None] = {}
        self._order = asyncio.Lock()
        self._looked_s: float | None = None
        self._pause_s = INTERVAL_S

    @property
    def version(self) -> int:
        """Increased by every change."""
        return self._frames.version

    @property
    def idle(self) -> bool:
        """Whether it has no viewers."""
        return not self._viewers

    @property
    def pause_s(self) -> float:
        """Seconds until the next poll."""
        return self._pause_s

    def after(self, version: int) -> Frame:
        """Return what a viewer of ``version`` needs: the last change, or the whole state."""
        return wire.masked(self._frames.after(version, lambda: self.picture), self._names.mask)

    def add(self, viewer: Viewer) -> None:
        """Send ``viewer`` every change."""
        self._viewers[viewer] = None

    def discard(self, viewer: Viewer) -> None:
        """Send ``viewer`` nothing more; safe to call twice."""
        self._viewers.pop(viewer, None)

    async def look(self) -> None:
        """Poll, unless that was done just now, and send the change to the viewers."""
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
        """Read what is new, and update the state."""

    def _draw(self, picture: dict[str, Any]) -> None:
        if picture != self.picture:
            self._frames.note(make_patch(self.picture, picture))
            self.picture = picture


class BoardPoller:
    """Polls boards while they have viewers."""

    def __init__(self, clock: Clock, tasks: asyncio.TaskGroup) -> None:
        self._clock = clock
        self._tasks = tasks
        self._watching: dict[PolledBoard, asyncio.Task[None]] = {}

    def keep_up(self, board: PolledBoard, over: Callable[[], None] = lambda: None) -> None:
        """Poll a board from now on, as long as it has viewers.

        Args:
            over: Called when it has no viewers left.
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

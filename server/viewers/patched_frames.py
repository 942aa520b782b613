"""Something that changes, as frames: whole for whoever comes, then only its changes, each encoded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from spectator.events import encode_json

from .ports import SendFrames
from .viewer import Viewer
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
        """Show what the viewer has not seen; see :class:`server.viewers.ports.Feed`."""
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

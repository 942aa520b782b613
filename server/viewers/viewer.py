"""Owns what one viewer was sent, and what waits for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from .wire import Batch, Close, Frame, Position


class Carrier(Protocol):
    """Whoever carries a viewer's connection."""

    @property
    def write(self) -> Callable[[bytes], None]:
        """Writes framed messages at once; called only while the viewer has caught up."""
        ...

    @property
    def descriptor(self) -> int | None:
        """Its socket, where bytes may go past :attr:`write` while the viewer has caught up."""
        ...

    def free(self) -> bool:
        """Whether the connection takes bytes now; :meth:`Viewer.hold` tells when it does not any more."""
        ...

    def rouse(self) -> None:
        """Something waits for the viewer, or its episode is over; said again and again."""
        ...

    def expel(self, close: Close) -> None:
        """The connection must end; said once."""
        ...


class Company(Protocol):
    """Those who are in step with a viewer."""

    def part_with(self, viewer: Viewer) -> None:
        """It is not in step any more; its position is told to it."""
        ...


class Viewer:
    """The way to one viewer: straight to its connection while it keeps up, else through what waits for it.

    Args:
        carrier: Who carries its connection.
        backlog_bytes: What may wait before it is closed as too slow.
    """

    __slots__ = (
        "_asked",
        "_backlog_bytes",
        "_bytes",
        "_carrier",
        "_expelled",
        "_waiting",
        "caught_up",
        "company",
        "descriptor",
        "over",
        "position",
        "write",
    )

    def __init__(self, carrier: Carrier, backlog_bytes: int) -> None:
        self.position = 0
        """It was sent everything up to here; while it has :attr:`company`, that knows better."""
        self.caught_up = False
        """Nothing waits, and its connection takes bytes: write."""
        self.company: Company | None = None
        """Those it is in step with, if it is with any."""
        self.over = False
        """Nothing more comes after what waits."""
        self.write = carrier.write
        self.descriptor = carrier.descriptor
        self._carrier = carrier
        self._backlog_bytes = backlog_bytes
        self._waiting: list[Frame] | None = None
        self._bytes = 0
        self._asked: Position | None = None
        self._expelled = False

    @property
    def waiting_bytes(self) -> int:
        """What waits, in characters of text."""
        return self._bytes

    def hold(self) -> None:
        """The connection holds bytes back, or is gone: what comes now waits until it is taken."""
        self.caught_up = False
        if self.company is not None:
            self.company.part_with(self)

    def is_ready_for(self, batch: Batch) -> bool:
        """Whether it can be written to now, and has not what is in ``batch`` yet."""
        return self.caught_up and (batch.first is None or batch.first > self.position)

    def offer(self, batch: Batch) -> None:
        """Write ``batch``, or let it wait behind what does; a viewer too far behind is expelled instead."""
        if self.is_ready_for(batch):
            self.position = batch.last or self.position
            self.write(batch.message)
            return
        if self._expelled:
            return
        self._bytes += batch.size
        if self._bytes > self._backlog_bytes:
            self.expel(Close.TOO_SLOW)
            return
        if self._waiting is None:
            self._waiting = []
        self._waiting.extend(batch.frames)
        self.rouse()

    def say(self, batch: Batch) -> None:
        """Write what is no event, or let it wait if nothing does; a viewer further behind misses it."""
        if self._waiting is None:
            self.offer(batch)

    def ask(self, position: Position) -> None:
        """Let the viewer's wish to resume wait for its turn; a later one replaces it."""
        self._asked = position
        self.rouse()

    def end(self) -> None:
        """Nothing more comes after what waits."""
        self.over = True
        self.rouse()

    def begin(self) -> None:
        """Be ready for another episode."""
        self.over = False

    def expel(self, close: Close) -> None:
        """End the connection; what waits is forgotten."""
        self.hold()
        self._forget()
        if not self._expelled:
            self._expelled = True
            self._carrier.expel(close)

    def rouse(self) -> None:
        """There may be something to show."""
        self.hold()
        self._carrier.rouse()

    def take(self) -> tuple[Position | None, Sequence[Frame]] | None:
        """A wish to resume, if there is one, and every frame that waits.

        Returns:
            ``None`` when there is neither; from then on the viewer is written to at once, if its connection
            takes bytes and its episode is not over.
        """
        if self._waiting is None and self._asked is None:
            self.caught_up = not self.over and not self._expelled and self._carrier.free()
            return None
        taken = (self._asked, self._waiting or ())
        self._forget()
        return taken

    def _forget(self) -> None:
        self._waiting = None
        self._bytes = 0
        self._asked = None

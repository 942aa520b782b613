"""Owns the rows of an episode's viewers: who is written to in one go, and who in them is in step."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Final

from .viewer import Viewer

SEATS: Final = 200
"""Viewers that are written to before others of the process get a turn: 1 to 2 ms."""


class Row:
    """Viewers who are written to in one go: those in step by their sockets alone, the others singly.

    In step is who has everything up to the same event as the others in step, and takes bytes. Their sockets
    stand side by side, and nobody is looked at when something is sent; who falls behind parts from them.
    """

    __slots__ = ("apart", "descriptors", "in_step", "position")

    def __init__(self) -> None:
        self.apart: dict[Viewer, None] = {}
        self.in_step: list[Viewer] = []
        self.descriptors: array[int] = array("i")
        """Of those in step, in their order."""
        self.position = 0
        """What those in step have everything up to."""

    def __len__(self) -> int:
        return len(self.apart) + len(self.in_step)

    def fall_in(self, viewers: Iterable[Viewer], descriptors: Iterable[int]) -> None:
        """Let ``viewers`` of this row, who have what those in step have, be in step from now on."""
        for viewer in viewers:
            del self.apart[viewer]
            self.in_step.append(viewer)
            viewer.company = self
        self.descriptors.extend(descriptors)

    def part_with(self, viewer: Viewer) -> None:
        """One in step is not any more."""
        place = self.in_step.index(viewer)
        del self.in_step[place], self.descriptors[place]
        self.apart[viewer] = None
        viewer.company, viewer.position = None, self.position

    def disband(self) -> None:
        """Nobody is in step any more."""
        for viewer in tuple(self.in_step):
            self.part_with(viewer)


class Rows:
    """All viewers of an episode. Who comes is in no row until :meth:`seat` is called."""

    def __init__(self) -> None:
        self._row_of: dict[Viewer, Row | None] = {}
        self._newcomers: dict[Viewer, None] = {}
        self._rows: list[Row] = []

    def __len__(self) -> int:
        return len(self._row_of)

    def __iter__(self) -> Iterator[Viewer]:
        return iter(self._row_of)

    def __contains__(self, viewer: Viewer) -> bool:
        return viewer in self._row_of

    def add(self, viewer: Viewer) -> None:
        """Let a viewer come."""
        self._row_of[viewer] = None
        self._newcomers[viewer] = None

    def discard(self, viewer: Viewer) -> None:
        """Let a viewer go, if it is here."""
        self._newcomers.pop(viewer, None)
        row = self._row_of.pop(viewer, None)
        if row is None:
            return
        if viewer.company is not None:
            viewer.company.part_with(viewer)
        del row.apart[viewer]
        if not row:
            self._rows.remove(row)

    def seat(self) -> tuple[Row, ...]:
        """Let all newcomers sit down, and tell the rows."""
        if self._newcomers:
            self._seat_newcomers()
        return tuple(self._rows)

    def _seat_newcomers(self) -> None:
        free = [row for row in self._rows if len(row) < SEATS]
        for viewer in self._newcomers:
            if not free:
                free.append(Row())
                self._rows.append(free[-1])
            row = self._row_of[viewer] = free[-1]
            row.apart[viewer] = None
            if len(row) == SEATS:
                free.pop()
        self._newcomers.clear()

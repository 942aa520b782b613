"""Owns the rows of an episode's viewers: who is written to in one go, and whether they are in step."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

from .viewer import Viewer

SEATS: Final = 200
"""Viewers that are written to before others of the process get a turn: 1 to 2 ms."""


class Row:
    """Viewers who are written to in one go.

    They are in step while each has everything up to the same event and takes bytes. Their sockets stand side
    by side then, and nobody is looked at singly when something is sent; who falls behind breaks the step.
    """

    __slots__ = ("descriptors", "position", "viewers")

    def __init__(self) -> None:
        self.viewers: dict[Viewer, None] = {}
        self.descriptors: array[int] | None = None
        """Of all its viewers, in their order, while they are in step."""
        self.position = 0
        """What all have everything up to, while they are in step."""

    def fall_in(self, descriptors: array[int], position: int) -> None:
        """All are in step from now on."""
        self.descriptors, self.position = descriptors, position
        for viewer in self.viewers:
            viewer.company = self

    def break_step(self) -> None:
        """Each must be looked at singly; safe to call at any time."""
        if self.descriptors is not None:
            self.descriptors = None
            for viewer in self.viewers:
                viewer.company, viewer.position = None, self.position


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
        if row is not None:
            row.break_step()
            del row.viewers[viewer]
            if not row.viewers:
                self._rows.remove(row)

    def seat(self) -> tuple[Row, ...]:
        """Let all newcomers sit down, and tell the rows."""
        if self._newcomers:
            self._seat_newcomers()
        return tuple(self._rows)

    def _seat_newcomers(self) -> None:
        free = [row for row in self._rows if len(row.viewers) < SEATS]
        for viewer in self._newcomers:
            if not free:
                free.append(Row())
                self._rows.append(free[-1])
            row = self._row_of[viewer] = free[-1]
            row.break_step()
            row.viewers[viewer] = None
            if len(row.viewers) == SEATS:
                free.pop()
        self._newcomers.clear()

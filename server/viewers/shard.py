"""Shards of an episode's viewers: who is written to in one go, and who of them is in sync."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Final

from .viewer import Viewer

SHARD_SIZE: Final = 200
"""Viewers that are written to before others of the process get a turn: 1 to 2 ms."""


class Shard:
    """Viewers who are written to in one go: those in sync by their sockets alone, the lagging ones singly.

    In sync are those who have everything up to the same event, and take bytes. Their sockets stand side by
    side in one array, so that nothing is looked up per viewer when a message is sent; whoever falls behind is
    demoted.
    """

    __slots__ = ("descriptors", "in_sync", "lagging", "position")

    def __init__(self) -> None:
        self.lagging: dict[Viewer, None] = {}
        self.in_sync: list[Viewer] = []
        self.descriptors: array[int] = array("i")
        """Sockets of those in sync, in their order."""
        self.position = 0
        """Those in sync have everything up to this event."""

    def __len__(self) -> int:
        return len(self.lagging) + len(self.in_sync)

    def promote(self, viewers: Iterable[Viewer], descriptors: Iterable[int]) -> None:
        """Count lagging ``viewers``, who have caught up with those in sync, among them."""
        for viewer in viewers:
            del self.lagging[viewer]
            self.in_sync.append(viewer)
            viewer.sync_group = self
        self.descriptors.extend(descriptors)

    def demote(self, viewer: Viewer) -> None:
        """Count a viewer that was in sync among the lagging ones."""
        place = self.in_sync.index(viewer)
        del self.in_sync[place], self.descriptors[place]
        self.lagging[viewer] = None
        viewer.sync_group, viewer.position = None, self.position

    def demote_all(self) -> None:
        """Demote everybody who is in sync."""
        for viewer in tuple(self.in_sync):
            self.demote(viewer)


class Shards:
    """All viewers of an episode. A newcomer is in no shard until :meth:`assign` is called."""

    def __init__(self) -> None:
        self._shard_of: dict[Viewer, Shard | None] = {}
        self._newcomers: dict[Viewer, None] = {}
        self._shards: list[Shard] = []

    def __len__(self) -> int:
        return len(self._shard_of)

    def __iter__(self) -> Iterator[Viewer]:
        return iter(self._shard_of)

    def __contains__(self, viewer: Viewer) -> bool:
        return viewer in self._shard_of

    def add(self, viewer: Viewer) -> None:
        """Take a viewer in."""
        self._shard_of[viewer] = None
        self._newcomers[viewer] = None

    def discard(self, viewer: Viewer) -> None:
        """Let a viewer go, if it is here."""
        self._newcomers.pop(viewer, None)
        shard = self._shard_of.pop(viewer, None)
        if shard is None:
            return
        if viewer.sync_group is not None:
            viewer.sync_group.demote(viewer)
        del shard.lagging[viewer]
        if not shard:
            self._shards.remove(shard)

    def assign(self) -> tuple[Shard, ...]:
        """Assign newcomers to shards; returns all shards."""
        newcomers, self._newcomers = self._newcomers, {}
        free = [shard for shard in self._shards if len(shard) < SHARD_SIZE] if newcomers else []
        for viewer in newcomers:
            if not free:
                free.append(Shard())
                self._shards.append(free[-1])
            shard = self._shard_of[viewer] = free[-1]
            shard.lagging[viewer] = None
            if len(shard) == SHARD_SIZE:
                free.pop()
        return tuple(self._shards)

"""Streams in memory for tests of the cache of events, which fail when they are told to."""

from __future__ import annotations

from collections.abc import Sequence

from spectator.events import RecordedEvent
from spectator.journal.stores.redis_streams import CacheFailed, WantedEvents, key_of


class StreamsInMemory:
    """What Redis would keep."""

    def __init__(self) -> None:
        self.entries: dict[str, list[tuple[int, str]]] = {}
        self.why: str | None = None
        """What whoever asks is told, where it fails."""
        self.questions: list[int] = []
        """How much was asked for, at each reading."""
        self.proofs = 0

    async def prove(self) -> None:
        self.proofs += 1
        self._work()

    async def put(self, events: Sequence[RecordedEvent]) -> None:
        self._work()
        for one in events:
            self.entries.setdefault(key_of(one.episode_id, one.event.epoch), []).append((one.seq, one.text))

    async def read(self, wanted: Sequence[WantedEvents]) -> list[list[tuple[int, str]]]:
        self.questions.append(len(wanted))
        self._work()
        return [
            [entry for entry in self.entries.get(one.key, []) if entry[0] > one.after_seq][: one.limit]
            for one in wanted
        ]

    def _work(self) -> None:
        if self.why is not None:
            raise CacheFailed(self.why)

"""The record of one episode in memory: as much of a journal as playing one needs."""

from __future__ import annotations

from collections.abc import Sequence

from spectator.events import CALLS_BEHIND, RecordedEvent
from spectator.journal.contract import Attachments
from spectator.model_calls import ModelCall


class EpisodeInMemory:
    """Takes what is appended to the record of one episode.

    ``texts`` are its events as recorded, ``calls`` the model calls behind each decision, ``truth`` the sealed
    truth as JSON text.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: list[Sequence[ModelCall]] = []
        self.truth: str | None = None

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        """Take events and what belongs to them."""
        self.texts.extend(recorded.text for recorded in events)
        decisions = sum(recorded.event.type in CALLS_BEHIND for recorded in events)
        if attachments is not None:
            self.calls += attachments.calls
            self.truth = attachments.truth or self.truth
            decisions -= len(attachments.calls)
        self.calls += [()] * decisions

"""Appends to episodes that are not to be found yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spectator.events import RecordedEvent
from spectator.journal.attachments import Attachments
from spectator.journal.stores.writer import Writer


@dataclass(slots=True)
class Staging:
    """An episode that is not to be found yet: its first event, and whether more of it is only staged."""

    first: RecordedEvent | None = None
    goes_on: bool = True


class StagedAppends:
    """Which episodes this process stages, and what an append to one of them has to do."""

    def __init__(self) -> None:
        self.episodes: dict[str, Staging] = {}
        """What is not to be found yet, by its id."""

    def begin(self, episode_id: str) -> None:
        """Let an episode that is about to begin be found by nobody yet."""
        self.episodes[episode_id] = Staging()

    def end(self, episode_id: str) -> None:
        """Let the next append to an episode make it one."""
        staging = self.episodes[episode_id]
        staging.goes_on = False
        if staging.first is None:  # nothing was written
            del self.episodes[episode_id]

    def drop(self, episode_id: str) -> bool:
        """Stage an episode no more; whether it was staged."""
        return self.episodes.pop(episode_id, None) is not None

    async def append(
        self, writer: Writer, events: Sequence[RecordedEvent], attachments: Attachments | None
    ) -> None:
        """Append to an episode that may be staged, or may become one that is not any more."""
        episode_id, first = events[0].episode_id, None
        staging = self.episodes.get(episode_id)
        if staging is not None and staging.first is None:
            staging.first = events[0]
        staged = staging is not None and staging.goes_on
        if staging is not None and not staged:
            first = staging.first
        await writer.append(events, attachments, staged=staged, first=first)
        if first is not None:
            self.drop(episode_id)

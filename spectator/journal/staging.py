"""Write an episode in batches before readers can find it.

Until then it looks like an episode whose removal has begun: it has events, a row in ``removals`` and none in
``episodes``. So if writing is interrupted, its rows are removed like those of an interrupted removal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, func, insert, select

from spectator.events import RecordedEvent
from spectator.journal.contract import Attachments
from spectator.journal.schema import events, removals

if TYPE_CHECKING:
    from spectator.journal.writer import Writer


def begin_staging(connection: Connection, episode_id: str) -> None:
    """Mark a new episode as staged, with a row in ``removals``."""
    connection.execute(insert(removals).values(episode_id=episode_id))


def end_staging(connection: Connection, episode_id: str) -> None:
    """Remove the mark of a staged episode, whose row follows in the same transaction.

    Raises:
        ValueError: Its staged events were removed.
    """
    if not connection.execute(delete(removals).where(removals.c.episode_id == episode_id)).rowcount:
        raise ValueError(f"the staged events of {episode_id} were removed")


def last_within(connection: Connection, episode_id: str, characters: int, until: int) -> int:
    """Return the last event, at most ``until``, up to which a record has at most ``characters``; else 0."""
    sizes = (
        select(events.c.seq, func.sum(func.length(events.c.text)).over(order_by=events.c.seq).label("size"))
        .where(events.c.episode_id == episode_id, events.c.seq <= until)
        .subquery()
    )
    return connection.scalar(select(func.max(sizes.c.seq)).where(sizes.c.size <= characters)) or 0


@dataclass(slots=True)
class Staging:
    """A hidden episode: its first event, and whether its next events are staged too."""

    first: RecordedEvent | None = None
    goes_on: bool = True


class StagedAppends:
    """The staged episodes of this process, and how to append to them."""

    def __init__(self) -> None:
        self.episodes: dict[str, Staging] = {}
        """The hidden episodes, by id."""

    def begin(self, episode_id: str) -> None:
        """Hide a new episode from readers."""
        self.episodes[episode_id] = Staging()

    def end(self, episode_id: str) -> None:
        """Make the next append publish the episode."""
        staging = self.episodes[episode_id]
        staging.goes_on = False
        if staging.first is None:  # nothing was written
            del self.episodes[episode_id]

    def drop(self, episode_id: str) -> bool:
        """Stop staging an episode; return whether it was staged."""
        return self.episodes.pop(episode_id, None) is not None

    async def append(
        self, writer: Writer, events: Sequence[RecordedEvent], attachments: Attachments | None
    ) -> None:
        """Append to an episode, which may be staged or be published by this append."""
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

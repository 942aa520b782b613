"""What a fork has from its parent, as the facts that its own record begins with, a batch at a time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from spectator.episodes.record.reader import ViewReader
from spectator.episodes.record.stream import TurnFacts
from spectator.episodes.replay.recorded_calls import CallsInOrder
from spectator.episodes.replay.replayer import FROM_OUTSIDE
from spectator.episodes.run.plan import EpisodePlan
from spectator.errors import JournalError
from spectator.events import Event, Fact, core_fact
from spectator.journal.attachments import Attachments
from spectator.journal.base import Journal
from spectator.model_calls import ModelCall

NOT_COPIED: Final = FROM_OUTSIDE | {"episode.started", "narration.line", "episode.ended"}
"""Event types that are not taken over: they are the parent's own, or follow from the others."""

BATCH_CHARACTERS: Final = 1_000_000
"""Characters of the parent's record that are copied at once: what copying takes in memory, and how long
others wait for the journal meanwhile."""


@dataclass(slots=True)
class PastBatch:
    """Facts of a parent that its fork records next, together.

    Args:
        steps: The facts, with the turns that they belong to.
        calls: For each decision among them, in order, the model calls behind it.
        characters: About how many characters of record they are.
    """

    steps: list[TurnFacts] = field(default_factory=list)
    calls: list[Sequence[ModelCall]] = field(default_factory=list)
    characters: int = 0

    @property
    def attachments(self) -> Attachments | None:
        """The calls, to be recorded beside the facts; ``None`` without any."""
        return Attachments(calls=self.calls) or None


async def shared_past(
    journal: Journal, records: ViewReader, plan: EpisodePlan
) -> AsyncGenerator[PastBatch, None]:
    """What the record of a fork begins with, its own start first; the world is not stepped for it.

    Args:
        journal: Where the parent's model calls are.
        records: Reads the parent.
        plan: The fork's; it names its parent.

    Raises:
        JournalError: The parent cannot be read, or ends before the fork begins.
    """
    parent = plan.parent
    assert parent is not None, "the plan is a fork's"
    batch, seq = PastBatch([(0, [core_fact(plan.started())])]), 0
    calls = CallsInOrder(journal.calls(parent.episode_id))
    async with aclosing(_events(records, parent.episode_id, parent.seq)) as events:
        async for event, size in events:
            seq = event.seq
            if event.type in NOT_COPIED:
                continue
            if batch.characters >= BATCH_CHARACTERS:
                yield batch
                batch = PastBatch()
            batch.steps.append((event.turn, [Fact(event.type, event.data)]))
            batch.characters += size
            if event.type == "decision.made":
                batch.calls.append(await calls.behind(event.turn) if event.data.get("exchanges") else ())
    if seq < parent.seq:
        raise JournalError(f"events {seq + 1} to {parent.seq} of {parent.episode_id} are gone")
    yield batch


async def _events(
    records: ViewReader, episode_id: str, until: int
) -> AsyncGenerator[tuple[Event, int], None]:
    """The events of an episode up to number ``until``, each with how many characters it takes."""
    async for one in records.stream(episode_id):
        yield one.event, len(one.text)
        if one.seq >= until:
            return

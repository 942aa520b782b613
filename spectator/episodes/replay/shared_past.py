"""What a fork has from its parent, recorded as the beginning of its own record, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from spectator.episodes.record.opening import Stream
from spectator.episodes.record.stream import TurnFacts
from spectator.episodes.replay.fork_start import ParentRecord
from spectator.episodes.replay.recorded_calls import CallsInOrder
from spectator.episodes.replay.replayer import FROM_OUTSIDE
from spectator.episodes.run.plan import EpisodePlan
from spectator.errors import JournalError
from spectator.events import Fact, core_fact
from spectator.journal.attachments import Attachments
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


async def copy_past(
    parent: ParentRecord, plan: EpisodePlan, stream: Stream, need_time: Callable[[], None]
) -> tuple[Sequence[TurnFacts], Attachments | None]:
    """Record what a fork begins with, where nobody finds it yet, but for the last batch; no world is stepped.

    Args:
        parent: The parent's record.
        plan: The fork's.
        stream: The fork's, at its beginning.
        need_time: Called between two batches; raises where there is no time for more.

    Returns:
        The last batch, which makes it an episode once it is recorded, and what belongs to that.

    Raises:
        JournalError: The parent cannot be read, or ends before the fork begins; or it cannot be recorded.
    """
    journal, seq, staged = parent.journal, 0, False
    batch, calls = PastBatch([(0, [core_fact(plan.started())])]), None
    async for one in parent.records.stream(parent.episode_id):
        if one.seq > parent.until:
            break
        seq = one.seq
        if one.type in NOT_COPIED:
            continue
        if batch.characters >= BATCH_CHARACTERS:
            if not staged:
                journal.begin_staging(stream.episode_id)
            staged = True
            attached = Attachments(batch.calls) if any(batch.calls) else None
            await stream.emit_steps(batch.steps, patient=False, attachments=attached)
            need_time()
            batch = PastBatch()
        event = one.event
        batch.steps.append((event.turn, [Fact(event.type, event.data)]))
        batch.characters += len(one.text)
        if event.type == "decision.made":
            behind: Sequence[ModelCall] = ()
            if event.data.get("exchanges"):
                calls = calls or CallsInOrder(journal.calls(parent.episode_id))
                behind = await calls.behind(event.turn)
            batch.calls.append(behind)
    if seq < parent.until:
        raise JournalError(f"events {seq + 1} to {parent.until} of {parent.episode_id} are gone")
    if staged:
        journal.end_staging(stream.episode_id)
    return batch.steps, Attachments(batch.calls) if any(batch.calls) else None

"""Verifies a recorded episode: plays it again from its seed and decisions, and compares."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass

from spectator.catalog import load_world
from spectator.episodes.record.derived import is_derived
from spectator.episodes.replay.replayer import Replay, ReplayDivergence
from spectator.events import RecordedEvent
from spectator.steppers.opening import inline


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Where the record and the world part.

    Args:
        seq: The recorded event.
        message: How they differ.
    """

    seq: int
    message: str


async def verify(recorded: AsyncIterable[RecordedEvent]) -> list[Discrepancy]:
    """Play a recorded episode again and compare every event and every patch that is recorded.

    Args:
        recorded: All events of one episode, in order.

    Returns:
        What differs, in order; empty when the record says the truth. After an event that should not
        be there, the rest cannot be compared and is left out.

    Raises:
        InvalidRequest: Its world is not in the catalogue.
    """
    replay: Replay | None = None
    found: list[Discrepancy] = []
    expected_seq = 1
    async for one in recorded:
        event = one.event
        if event.seq != expected_seq:
            return [*found, Discrepancy(event.seq, f"event {expected_seq} is missing")]
        if replay is None:
            if event.type != "episode.started":
                return [Discrepancy(event.seq, f"begins with {event.type}")]
            world = load_world(event.data["environment"])
            replay = Replay(world, inline(world, event.episode_id), derived=is_derived(event))
        try:
            differences = await replay.compare(event)
        except ReplayDivergence as divergence:
            return [*found, Discrepancy(event.seq, str(divergence))]
        found += [Discrepancy(event.seq, difference) for difference in differences]
        expected_seq += 1
    if replay is not None and not replay.ended:
        found.append(Discrepancy(expected_seq, "the record stops before the end"))
    return found

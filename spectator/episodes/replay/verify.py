"""Verifies a recorded episode: plays it again from its seed and decisions, and compares."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass

from spectator.catalog import LoadWorld, load_world
from spectator.episodes.record.derived import is_derived
from spectator.episodes.replay.replayer import Replay, ReplayDivergence
from spectator.events import Event, RecordedEvent
from spectator.steppers.base import Stepper
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


async def verify(
    recorded: AsyncIterable[RecordedEvent], *, load: LoadWorld | None = None
) -> list[Discrepancy]:
    """Play a recorded episode again and compare every event and every patch that is recorded.

    Args:
        recorded: All events of one episode, in order.
        load: Finds the world; the catalogue's own function when left out.

    Returns:
        What differs, in order; empty when the record says the truth. After an event that should not
        be there, the rest cannot be compared and is left out.

    Raises:
        InvalidRequest: Its world is not in the catalogue.
    """
    comparison = _Comparison(load or load_world)
    try:
        async for one in recorded:
            if not await comparison.take(one.event):
                break
        else:
            comparison.end()
    finally:
        await comparison.aclose()
    return comparison.found


class _Comparison:
    """What differs between a record and its world's own account so far."""

    def __init__(self, load: LoadWorld) -> None:
        self.found: list[Discrepancy] = []
        self._load = load
        self._expected_seq = 1
        self._replay: Replay | None = None
        self._stepper: Stepper | None = None

    async def take(self, event: Event) -> bool:
        """Compare the next event; whether those after it can be compared."""
        if event.seq != self._expected_seq:
            return self._note(event.seq, f"event {self._expected_seq} is missing")
        if self._replay is None:
            if event.type != "episode.started":
                return self._note(event.seq, f"begins with {event.type}")
            world = self._load(event.data["environment"])
            self._stepper = inline(world, event.episode_id)
            self._replay = Replay(world, self._stepper, derived=is_derived(event))
        try:
            differences = await self._replay.compare(event)
        except ReplayDivergence as divergence:
            return self._note(event.seq, str(divergence))
        for difference in differences:
            self._note(event.seq, difference)
        self._expected_seq += 1
        return True

    def end(self) -> None:
        """Nothing more is recorded."""
        if self._replay is not None and not self._replay.ended:
            self._note(self._expected_seq, "the record stops before the end")

    async def aclose(self) -> None:
        """Let go of the world."""
        if self._stepper is not None:
            await self._stepper.aclose()

    def _note(self, seq: int, message: str) -> bool:
        self.found.append(Discrepancy(seq, message))
        return False

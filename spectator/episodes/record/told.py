"""What the record of an episode tells of the turns that one agent was answered for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from spectator.episodes.record.stream import TurnFacts
from spectator.events import EpisodeEnded, Fact
from spectator.journal.attachments import Attachments
from spectator.model_calls import ModelCall


@dataclass(frozen=True, slots=True)
class Told:
    """What a record tells of some turns.

    Args:
        steps: Each turn with its facts, in order.
        calls: For each of them, the model calls behind its decision.
        ended: The end, once there is one.
        truth: What the world hid, as JSON text, to be recorded with the end.
    """

    steps: Sequence[TurnFacts] = ()
    calls: Sequence[Sequence[ModelCall]] = ()
    ended: EpisodeEnded | None = None
    truth: str | None = None

    def turns(self) -> Iterator[tuple[int, Sequence[Fact], Attachments | None]]:
        """Each turn with its facts and what is recorded beside them."""
        for (turn, facts), calls in zip(self.steps, self.calls, strict=True):
            yield turn, facts, Attachments(calls=[calls]) if calls else None


NOTHING_TOLD: Final = Told()

"""What the record of an episode tells of the turns that one agent was answered for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spectator.episodes.record.stream import TurnFacts
from spectator.events import EpisodeEnded
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


NOTHING_TOLD: Final = Told()

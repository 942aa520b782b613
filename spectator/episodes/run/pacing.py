"""Pacing: how fast an episode is played before its viewers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from spectator.events import Fact


class Pace(StrEnum):
    """How fast an episode is played."""

    BROADCAST = "broadcast"
    FAST = "fast"
    MAX = "max"


BROADCAST_BEAT_S: Final = 2.0
"""Seconds that a beat (a ball, say) lasts at the broadcast pace."""

BROADCAST_STEP_S: Final = 0.15
"""Seconds that a step without any beat lasts at the broadcast pace, so that the eye can follow."""

FAST_STEP_S: Final = 0.1
"""Seconds that a step lasts at the fast pace."""


def beats_in(facts: Sequence[Fact], beats: Mapping[str, float]) -> float:
    """How many beats these facts are worth; every step is one when a world names none."""
    return sum(beats.get(fact.type, 0.0) for fact in facts) if beats else 1.0


def step_duration(pace: Pace, beats: float) -> float:
    """Seconds from the start of a step to the start of the next."""
    match pace:
        case Pace.BROADCAST:
            return max(BROADCAST_STEP_S, BROADCAST_BEAT_S * beats)
        case Pace.FAST:
            return FAST_STEP_S
        case Pace.MAX:
            return 0.0

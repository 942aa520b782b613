"""How long an episode may wait for whom, and how much it may record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class EpisodeLimits:
    """How long an episode may wait for whom, and how much it may record.

    Args:
        decision_s: Seconds for one decision.
        step_s: Seconds for one step of the world.
        reset_s: Seconds for its beginning, which may load data.
        episode_s: Seconds for all of it, pauses left out.
        characters: Characters of its record after which it is cut short.
    """

    decision_s: float = 120.0
    step_s: float = 30.0
    reset_s: float = 60.0
    episode_s: float = 6 * 3600.0
    characters: float = math.inf

    @classmethod
    def patient(cls, decision_s: float) -> Self:
        """The usual limits, but at least ``decision_s`` for a decision."""
        return cls(decision_s=max(cls().decision_s, decision_s))

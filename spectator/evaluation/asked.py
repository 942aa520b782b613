"""What was asked of a captain in all its matches, and what that took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pydantic import BaseModel, Field

from spectator.evaluation.figures import SeatFigures


class Asked(BaseModel):
    """What was asked of one captain in all its matches, and what that took."""

    decisions: int = Field(default=0, ge=0)
    fallbacks: dict[str, int] = Field(
        default_factory=dict,
        description="Decisions that somebody else made, by the class of failure (docs/failures.md)",
    )
    tokens: int = Field(default=0, ge=0, description="Prompt and answer together; 0 where no model was asked")
    cost: float = Field(default=0.0, ge=0, description="By the prices of the captains' catalogue")


def asked_of(seats: Iterable[SeatFigures]) -> Asked:
    """The sums over one captain's seats, in matches that broke down too."""
    decisions, tokens, cost, fallbacks = 0, 0.0, 0.0, Counter[str]()
    for seat in seats:
        decisions += seat.decisions
        tokens += seat.figures.get("tokens", 0.0)
        cost += seat.figures.get("cost", 0.0)
        fallbacks.update(seat.fallbacks)
    return Asked(
        decisions=decisions,
        fallbacks=dict(sorted(fallbacks.items())),
        tokens=round(tokens),
        cost=round(cost, 6),
    )

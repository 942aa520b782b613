"""What was asked of a captain in all its matches, and what that took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pydantic import BaseModel, Field

from spectator.evaluation.figures import SeatFigures
from spectator.evaluation.measures import RANKED_SHARE


class Asked(BaseModel):
    """What was asked of one captain in all its matches, and what that took."""

    decisions: int = Field(default=0, ge=0)
    fallbacks: dict[str, int] = Field(
        default_factory=dict,
        description="Decisions that somebody else made, by the class of failure (docs/failures.md)",
    )
    tokens: int = Field(default=0, ge=0, description="Prompt and answer together; 0 where no model was asked")
    cost: float = Field(default=0.0, ge=0, description="By the prices of the captains' catalogue")

    @property
    def own_share(self) -> float | None:
        """Share of the decisions that the captain made itself; ``None`` where it was asked for none."""
        return 1.0 - sum(self.fallbacks.values()) / self.decisions if self.decisions else None

    @property
    def ranked(self) -> bool:
        """Whether enough of the decisions are the captain's own, see :data:`RANKED_SHARE`."""
        return self.own_share is None or self.own_share >= RANKED_SHARE


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

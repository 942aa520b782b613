"""What models used, as answers show it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from spectator.journal.base import EpisodeSummary

from ..services import Services


class SeatUsage(BaseModel):
    """What the model in one seat took so far."""

    decisions: int = Field(ge=0, description="Decisions that were asked of it")
    fallbacks: int = Field(ge=0, description="How many of them a scripted captain made in its place")
    tokens_in: int = Field(ge=0)
    tokens_out: int = Field(ge=0)
    cost: float = Field(
        ge=0, description="US dollars, by the prices of the captains' catalogue; 0 where there are none"
    )
    latency_s: float = Field(ge=0, description="Time that its decisions took")


class DayUsage(BaseModel):
    """What all models of this server took today, UTC."""

    tokens: int = Field(ge=0)
    cost: float = Field(ge=0)
    seconds: float = Field(ge=0)
    refusal: str | None = Field(description="Why no episode with a model can be started until tomorrow")


def usage_in(used: Mapping[str, Any]) -> dict[str, SeatUsage]:
    """By actor, from ``usage`` of the viewers' state; empty where no model was asked."""
    return {actor: SeatUsage(**taken) for actor, taken in used.items()}


async def usage_of(summary: EpisodeSummary, services: Services) -> dict[str, SeatUsage]:
    """The same of a running or recorded episode."""
    live = services.supervisor.live(summary.episode_id)
    if live is not None:
        return usage_in(live.usage)
    snapshot = await services.finals.of(summary)
    return usage_in(json.loads(snapshot.text)["state"].get("usage", {}))


def usage_today(services: Services) -> DayUsage:
    """See :class:`DayUsage`."""
    spent = services.ledger.spent
    return DayUsage(
        tokens=spent.tokens,
        cost=round(spent.cost, 6),
        seconds=round(spent.seconds, 3),
        refusal=services.ledger.known_refusal(),
    )

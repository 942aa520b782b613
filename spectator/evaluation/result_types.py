"""What an evaluation found, as it stands in ``results.json``."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from spectator.evaluation import statistics
from spectator.evaluation.asked import Asked
from spectator.evaluation.exact_intervals import Interval
from spectator.events import EndReason, FailedDecisions


class Estimate(BaseModel):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int = Field(description="Independent units (seeds) that it rests on")

    @classmethod
    def of(cls, interval: Interval) -> Estimate:
        """From the statistics."""
        return cls(value=interval.value, low=interval.low, high=interval.high, n=interval.n)


class MatchCount(BaseModel):
    """Matches counted."""

    matches: int
    wins: int
    ties: int
    losses: int
    unfinished: int = Field(
        description="Matches that broke down, or in which a captain made no decision of its own; their whole "
        "pair is left out of the shares"
    )


class CaptainResult(BaseModel):
    """What one captain was worth."""

    name: str
    label: str
    source: str
    own_share: float | None = Field(
        default=None,
        description="Share of its decisions that it made itself; null where it was asked for none",
    )
    rank: int | None = Field(
        description="1 is the best; null for whoever is not ranked: less than 98 % of its decisions are its "
        "own, or nobody else is ranked"
    )
    rank_low: int | None = Field(description="Best rank that 95 % of bootstrap samples give it")
    rank_high: int | None = Field(description="Worst likewise")
    best: float = Field(description="Share of bootstrap samples in which it is the best")
    rating: Estimate | None = Field(
        description="Bradley-Terry, Elo points against the mean of the field; null for whoever is not ranked"
    )
    share: Estimate = Field(
        description="Share of matches won, ties half: against everybody who is ranked, or, for whoever is "
        "not, against everybody"
    )
    tally: MatchCount = Field(description="The same matches counted")
    measures: dict[str, Estimate] = Field(description="By measure; what was not measured is missing")
    asked: Asked = Asked()


class PairResult(BaseModel):
    """One captain against another."""

    first: str
    second: str
    share: Estimate | None = Field(description="The first one's; null when no pair of matches was finished")
    edge: Estimate | None = Field(
        default=None,
        description="Paired difference of `decision_value` a match, the first one's less the second one's; "
        "null where the world does not measure it, or on one seed alone",
    )
    tally: MatchCount = Field(description="From the first one's side")


class PlayedMatch(BaseModel):
    """One match, to be looked up in the journal."""

    episode_id: str
    seed: int
    home: str
    away: str | None
    reason: EndReason
    outcome: float | None = Field(description="Home's: 1, 0.5 or 0; null without an outcome")
    result: str | None
    capped: list[str] = Field(
        default_factory=list,
        description="Captains that were not asked to the end, because the cap of an episode was reached",
    )
    forfeited: str | None = Field(default=None, description="The captain who lost it by not deciding")
    unreached: list[str] = Field(
        default_factory=list, description="Captains that made no decision of their own: it counts for nobody"
    )


class Results(BaseModel):
    """Everything that an evaluation found."""

    format: int = 1
    environment: str
    environment_version: str
    title: str
    pack: str
    pack_version: str
    options: dict[str, Any]
    failed_decisions: FailedDecisions = Field(
        default="fallback", description="What counted where a captain did not decide"
    )
    sealed: bool = Field(description="Whether the seeds come from a secret phrase")
    seeds: int
    head_to_head: bool = Field(description="Whether captains met; else their scores on a seed are compared")
    spectator_version: str
    level: float = statistics.LEVEL
    draws: int = statistics.DRAWS
    planned: int | None = Field(default=None, description="Matches that were to be played")
    cut_short: str | None = Field(
        default=None,
        description="Why not all of them were; only seeds whose matches were all played are judged",
    )
    captains: list[CaptainResult] = Field(description="Best first, then those that are not ranked")
    pairs: list[PairResult]
    matches: list[PlayedMatch]

    @property
    def ranked(self) -> list[CaptainResult]:
        """The captains that are ranked, best first; none where fewer than two could be."""
        return [one for one in self.captains if one.rank is not None]

"""The results of an evaluation, computed from the figures of its matches."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import numpy as np
from pydantic import BaseModel, Field

from spectator import __version__
from spectator.core_events import FailedDecisions
from spectator.environments.contract import DECISION_VALUE, OUTCOME
from spectator.environments.world import SEALED_BIT
from spectator.errors import ConfigurationError, EndReason
from spectator.evaluation import statistics
from spectator.evaluation.certificate import Replies
from spectator.evaluation.cross_table import CrossTable, Found, judged, looking_at, outcome_of, tables_of
from spectator.evaluation.figures import MOST_LOST, EpisodeFigures, SeatFigures, lost_decisions, measures_of
from spectator.evaluation.intervals import Interval
from spectator.evaluation.schedule import Schedule, ScheduledMatch
from spectator.evaluation.sequential import StoppingRule, follow
from spectator.policies.model_presets import ModelBuild
from spectator.policies.policy import Preset


class Asked(BaseModel):
    """Decisions and usage of one captain in all its matches."""

    decisions: int = Field(default=0, ge=0)
    fallbacks: dict[str, int] = Field(
        default_factory=dict, description="Failed decisions, by the class of failure (docs/failures.md)"
    )
    tokens: int = Field(default=0, ge=0, description="Prompt and answer together; 0 where no model was asked")
    cost: float = Field(default=0.0, ge=0, description="By the prices of the captains' catalogue")
    settings: dict[str, Any] | None = Field(
        default=None, description="Of a model: its settings that reach the endpoint, with secrets masked"
    )
    replies: Replies = Field(default_factory=Replies, description="What its endpoint said of its replies")

    @property
    def own_share(self) -> float | None:
        """Share of the decisions that the captain made itself; ``None`` where it was asked for none."""
        return 1.0 - sum(self.fallbacks.values()) / self.decisions if self.decisions else None

    def lost_share(self, rule: FailedDecisions) -> float:
        """Return the share of decisions that say nothing about the captain; 0 where it was asked for none."""
        return lost_decisions(self.fallbacks, rule) / self.decisions if self.decisions else 0.0

    def ranked(self, rule: FailedDecisions) -> bool:
        """Whether few enough decisions say nothing about the captain, see :data:`MOST_LOST`."""
        return self.lost_share(rule) <= MOST_LOST


def asked_of(seats: Sequence[SeatFigures], preset: Preset | None = None) -> Asked:
    """Sum up one captain's seats, including unfinished matches.

    Args:
        preset: The captain, for its settings.
    """
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
        settings=how_asked(preset),
        replies=Replies.of(seat.replies for seat in seats),
    )


def how_asked(preset: Preset | None) -> dict[str, Any] | None:
    """The settings of a model that reach its endpoint; ``None`` for other captains."""
    build = None if preset is None else preset.build
    return build.captain.sent() if isinstance(build, ModelBuild) else None


class Estimate(BaseModel):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int = Field(description="Independent units (seeds) that it rests on")

    @classmethod
    def of(cls, interval: Interval) -> Estimate:
        """Convert an interval."""
        return cls(value=interval.value, low=interval.low, high=interval.high, n=interval.n)


class MatchCount(BaseModel):
    """Matches counted."""

    matches: int
    wins: int
    ties: int
    losses: int
    unfinished: int = Field(
        description="Matches that did not finish, or in which a captain was not reached; their whole pair is "
        "left out of the shares"
    )


class CaptainResult(BaseModel):
    """The results of one captain."""

    name: str
    label: str
    source: str
    own_share: float | None = Field(
        default=None,
        description="Share of its decisions that it made itself; null where it was asked for none",
    )
    rank: int | None = Field(
        description="1 is the best; null if more than 2 % of its decisions failed for other reasons than its "
        "answers, or if no other captain is ranked"
    )
    rank_low: int | None = Field(description="Best rank that 95 % of bootstrap samples give it")
    rank_high: int | None = Field(description="Worst likewise")
    best: float = Field(description="Share of bootstrap samples in which it is the best")
    rating: Estimate | None = Field(
        description="Bradley-Terry, Elo points against the mean of the field; null if not ranked"
    )
    share: Estimate | None = Field(
        description="Share of matches won against all ranked captains, ties half; null if not ranked"
    )
    tally: MatchCount = Field(description="The same matches counted")
    measures: dict[str, Estimate] = Field(description="By measure; what was not measured is missing")
    asked: Asked = Asked()


class PairResult(BaseModel):
    """One captain against another."""

    first: str
    second: str
    share: Estimate | None = Field(
        description="The first one's; null when no pair of matches was finished, or one is not ranked"
    )
    edge: Estimate | None = Field(
        default=None,
        description="Paired difference of `decision_value` a match, the first one's less the second one's; "
        "null where the world does not measure it, or on one seed alone",
    )
    tally: MatchCount = Field(description="From the first one's side")


class PlayedMatch(BaseModel):
    """One match, with its id in the journal."""

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
        default_factory=list,
        description="Captains none of whose decisions says anything about them; the match is not counted",
    )


class Until(BaseModel):
    """The stopping rule of an evaluation, by which pairs play different numbers of seeds."""

    half_width: float = Field(
        gt=0, lt=0.5, description="Half the width of the intervals at which it stops, in shares of 1"
    )
    most: int = Field(ge=1, description="Most seeds of each pair")
    alpha: float = Field(description="Probability that the interval of one pair ever fails (Bonferroni)")
    reached: bool = Field(description="Whether the rule stopped it; its intervals hold in any case")
    seeds: dict[str, Annotated[int, Field(ge=0)]] = Field(
        description="By pair, as `first|second`: seeds that it played, the first ones"
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
    planned: int | None = Field(default=None, description="Number of planned matches")
    until: Until | None = Field(
        default=None, description="How it stopped by itself; null if it plays a fixed number of matches"
    )
    cut_short: str | None = Field(
        default=None, description="Why matches are missing; only seeds whose matches are all finished count"
    )
    captains: list[CaptainResult] = Field(description="Best first, then those that are not ranked")
    pairs: list[PairResult]
    matches: list[PlayedMatch]

    @property
    def ranked(self) -> list[CaptainResult]:
        """The captains that are ranked, best first; none where fewer than two could be."""
        return [one for one in self.captains if one.rank is not None]


RESAMPLING_SEED: Final = 20_26
"""Seed of the bootstrap, so that the same matches always give the same report."""


def results_of(planned: Schedule, found: Found, cut_short: str | None = None) -> Results:
    """Compute the results of an evaluation.

    Args:
        planned: All matches.
        found: Figures of the finished matches.
        cut_short: Why matches are missing.

    Raises:
        ConfigurationError: No seed has all its matches finished.
    """
    schedule = judged(planned, found)
    if not schedule.pairs:
        raise ConfigurationError(
            f"no results yet: {len(found)} of {len(planned.matches)} matches are finished, "
            "but no seed is complete; run the evaluation again to continue"
        )
    rng = np.random.default_rng(RESAMPLING_SEED)
    tables = tables_of(schedule, found)
    seats: dict[str, list[SeatFigures]] = {name: [] for name in schedule.captains}
    for match in schedule.matches:
        for seat in found[match].seats:
            whose = match.home if seat is found[match].seats[0] else match.away
            seats.get(whose or "", []).append(seat)
    asked = {name: asked_of(taken, schedule.world.captains[name]) for name, taken in seats.items()}
    field = tables.among([name for name in schedule.captains if asked[name].ranked(planned.failed_decisions)])
    places = statistics.rank(field.names, field.points, field.games, rng) if len(field.names) > 1 else []
    ranked = {one.name: (place, one) for place, one in enumerate(places, 1)}
    unranked = [name for name in schedule.captains if name not in ranked]
    captains = [
        *(_captain(schedule, found, asked[name], field, name, rng, ranked) for name in ranked),
        *(_captain(schedule, found, asked[name], tables, name, rng, ranked) for name in unranked),
    ]
    return Results(
        environment=schedule.world.name,
        environment_version=schedule.world.version,
        title=schedule.world.title,
        pack=schedule.pack.name,
        pack_version=schedule.pack.version,
        options=dict(schedule.options),
        failed_decisions=schedule.failed_decisions,
        sealed=any(match.seed >= SEALED_BIT for match in schedule.matches),
        seeds=schedule.pairs,
        head_to_head=bool(schedule.world.opponents),
        spectator_version=__version__,
        planned=len(planned.matches),
        until=_until(schedule, found),
        cut_short=cut_short,
        captains=captains,
        pairs=[
            _pair(schedule, found, tables, pair, rng, ranked={*pair} <= ranked.keys())
            for pair in itertools.combinations([*ranked, *unranked], 2)
        ],
        matches=[_played(match, found[match]) for match in schedule.matches],
    )


def _until(schedule: Schedule, found: Found) -> Until | None:
    rule = schedule.rule
    if rule is None:
        return None
    path = follow(rule, schedule.compared, looking_at(schedule, found))
    return Until(
        half_width=rule.half_width,
        most=rule.most,
        alpha=rule.alpha,
        reached=path.finished,
        seeds={"|".join(pair): one.judged for pair, one in path.comparisons.items()},
    )


Ranking = Mapping[str, tuple[int, statistics.Ranked]]
"""By captain, the best first: its place from 1, and how sure that is."""


def _captain(
    schedule: Schedule,
    found: Found,
    asked: Asked,
    tables: CrossTable,
    name: str,
    rng: np.random.Generator,
    ranking: Ranking,
) -> CaptainResult:
    preset, at = schedule.world.captains[name], tables.names.index(name)
    place, ranked = ranking.get(name, (None, None))
    points, games = tables.points[:, at, :].sum(axis=1), tables.games[:, at, :].sum(axis=1)
    rule = schedule.rule  # a share is drawn in any case, so that other intervals stay the same
    share = _share(points, games, rng) if rule is None else _share_of_field(tables, at, rule)
    return CaptainResult(
        name=preset.name,
        label=preset.label,
        source=preset.source,
        own_share=asked.own_share,
        rank=place,
        rank_low=None if ranked is None else ranked.rank_low,
        rank_high=None if ranked is None else ranked.rank_high,
        best=0.0 if ranked is None else ranked.best,
        rating=None if ranked is None else Estimate.of(ranked.rating),
        share=None if ranked is None else share or Estimate(value=0.5, low=0.0, high=1.0, n=0),
        tally=_tally([one for (mine, _), met in tables.outcomes.items() if mine == name for one in met]),
        measures=_measured(schedule, found, name, rng),
        asked=asked,
    )


def _edges(schedule: Schedule, found: Found, pair: tuple[str, str]) -> list[float]:
    """What the decisions of the first were worth beyond those of the second, a mean a match, by seed."""
    by_seed: dict[int, list[float]] = {}
    for match in schedule.matches:
        if match.away is not None and {match.home, match.away} == {*pair} and found[match].counts:
            home, away = (seat.figures.get(DECISION_VALUE) for seat in found[match].seats)
            if home is not None and away is not None:
                edge = home - away if match.home == pair[0] else away - home
                by_seed.setdefault(match.pair, []).append(edge)
    return [float(np.mean(edges)) for edges in by_seed.values()]


def _pair(
    schedule: Schedule,
    found: Found,
    tables: CrossTable,
    pair: tuple[str, str],
    rng: np.random.Generator,
    *,
    ranked: bool,
) -> PairResult:
    edges, rule = _edges(schedule, found, pair), schedule.rule
    i, j = (tables.names.index(name) for name in pair)
    points, games = tables.points[:, i, j], tables.games[:, i, j]
    share = _share(points, games, rng) if rule is None else _share_by_rule(points, games, rule)
    return PairResult(
        first=pair[0],
        second=pair[1],
        share=share if ranked else None,
        edge=Estimate.of(statistics.mean_interval(edges, rng)) if len(edges) > 1 else None,
        tally=_tally(tables.outcomes[pair]),
    )


def _share(points: statistics.Floats, games: statistics.Floats, rng: np.random.Generator) -> Estimate | None:
    met = games > 0
    if not met.any():
        return None
    return Estimate.of(statistics.share_interval(list(points[met] / games[met]), rng))


def _share_by_rule(
    points: statistics.Floats, games: statistics.Floats, rule: StoppingRule
) -> Estimate | None:
    """The share of a pair, with an interval that holds although results decided when to stop."""
    shares = points[games > 0] / games[games > 0]
    return Estimate.of(rule.interval([float(one) for one in shares])) if shares.size else None


def _share_of_field(tables: CrossTable, at: int, rule: StoppingRule) -> Estimate | None:
    """The mean of a captain's shares over its opponents, who may have played different numbers of seeds.

    Its interval holds with those of the pairs, which hold together.
    """
    others = (other for other in range(len(tables.names)) if other != at)
    met = [_share_by_rule(tables.points[:, at, one], tables.games[:, at, one], rule) for one in others]
    if not (shares := [one for one in met if one is not None]):
        return None
    value, low, high = (
        float(np.mean([getattr(one, end) for one in shares])) for end in ("value", "low", "high")
    )
    return Estimate(value=value, low=low, high=high, n=min(one.n for one in shares))


def _tally(outcomes: Sequence[float | None]) -> MatchCount:
    whole = [one for one in outcomes if one is not None]
    return MatchCount(
        matches=len(outcomes),
        wins=sum(one > 0.5 for one in whole),
        ties=sum(one == 0.5 for one in whole),
        losses=sum(one < 0.5 for one in whole),
        unfinished=len(outcomes) - len(whole),
    )


def _measured(schedule: Schedule, found: Found, name: str, rng: np.random.Generator) -> dict[str, Estimate]:
    """Mean of each measure over seeds; a seed's value is the mean over this captain's episodes on it."""
    by_seed: dict[int, list[SeatFigures]] = {}
    for match in schedule.matches:
        figures = found[match]
        if figures.finished:
            mine = (
                seat
                for seat in figures.seats
                if (match.home if seat is figures.seats[0] else match.away) == name
                and (figures.counts or not seat.reached(figures.failed_decisions))
            )
            by_seed.setdefault(match.pair, []).extend(mine)
    measured = {}
    for measure in measures_of(schedule.world, schedule.options):
        if measure.name == OUTCOME:
            continue
        values = [
            float(np.mean(shown))
            for seats in by_seed.values()
            if (shown := [seat.figures[measure.name] for seat in seats if measure.name in seat.figures])
        ]
        if values:
            measured[measure.name] = Estimate.of(statistics.mean_interval(values, rng, bounds=measure.range))
    return measured


def _played(match: ScheduledMatch, figures: EpisodeFigures) -> PlayedMatch:
    return PlayedMatch(
        episode_id=figures.episode_id,
        seed=match.seed,
        home=match.home,
        away=match.away,
        reason=figures.reason,
        outcome=outcome_of(figures),
        result=figures.result,
        capped=[seat.captain for seat in figures.seats if seat.fallbacks.get("spent")],
        unreached=[
            seat.captain
            for seat in figures.seats
            if not figures.reached and not seat.reached(figures.failed_decisions)
        ],
        forfeited=next((seat.captain for seat in figures.seats if seat.actor == figures.forfeited), None),
    )

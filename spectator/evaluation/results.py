"""The results of an evaluation: who beat whom how often, their order, and what they showed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from pydantic import BaseModel, Field

from spectator import __version__
from spectator.environments.base import OUTCOME, SEALED_BIT
from spectator.errors import ConfigurationError
from spectator.evaluation import statistics
from spectator.evaluation.asked import Asked, asked_of
from spectator.evaluation.figures import EpisodeFigures, SeatFigures
from spectator.evaluation.measures import measures_of
from spectator.evaluation.schedule import Schedule, ScheduledMatch
from spectator.events import EndReason

RESAMPLING_SEED: Final = 20_26
"""Seed of the bootstrap, so that the same matches always give the same report."""

Found = Mapping[ScheduledMatch, EpisodeFigures]


class Estimate(BaseModel):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int = Field(description="Independent units (seeds) that it rests on")

    @classmethod
    def of(cls, interval: statistics.Interval) -> Estimate:
        """From the statistics."""
        return cls(value=interval.value, low=interval.low, high=interval.high, n=interval.n)


class MatchCount(BaseModel):
    """Matches counted."""

    matches: int
    wins: int
    ties: int
    losses: int
    unfinished: int = Field(description="Matches that broke down; their whole pair is left out of the shares")


class CaptainResult(BaseModel):
    """What one captain was worth."""

    name: str
    label: str
    source: str
    rank: int = Field(description="1 is the best")
    rank_low: int = Field(description="Best rank that 95 % of bootstrap samples give it")
    rank_high: int = Field(description="Worst likewise")
    best: float = Field(description="Share of bootstrap samples in which it is the best")
    rating: Estimate = Field(description="Bradley-Terry, Elo points against the mean of the field")
    share: Estimate = Field(description="Share of matches won, against the whole field; ties are half")
    tally: MatchCount
    measures: dict[str, Estimate] = Field(description="By measure; what was not measured is missing")
    asked: Asked = Asked()


class PairResult(BaseModel):
    """One captain against another."""

    first: str
    second: str
    share: Estimate | None = Field(description="The first one's; null when no pair of matches was finished")
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


class Results(BaseModel):
    """Everything that an evaluation found."""

    format: int = 1
    environment: str
    environment_version: str
    title: str
    pack: str
    pack_version: str
    options: dict[str, Any]
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
    captains: list[CaptainResult] = Field(description="Best first")
    pairs: list[PairResult]
    matches: list[PlayedMatch]


def results_of(planned: Schedule, found: Found, cut_short: str | None = None) -> Results:
    """Conclude.

    Args:
        planned: What was to be played.
        found: Figures of its matches, as many as were played.
        cut_short: Why not all were.

    Raises:
        ConfigurationError: On no seed were all matches played, so that there is nothing to judge.
    """
    schedule = planned.whole(found)
    if not schedule.pairs:
        raise ConfigurationError(
            f"there is nothing to judge yet: {len(found)} of {len(planned.matches)} matches are played, "
            "and on no seed all"
        )
    rng = np.random.default_rng(RESAMPLING_SEED)
    points, games, outcomes = _tables(schedule, found)
    ranked = _ranked(schedule.captains, points, games, rng)
    captains = [
        _captain(schedule, found, place, one, points, games, outcomes, rng)
        for place, one in enumerate(ranked, 1)
    ]
    order = [one.name for one in captains]
    return Results(
        environment=schedule.world.name,
        environment_version=schedule.world.version,
        title=schedule.world.title,
        pack=schedule.pack.name,
        pack_version=schedule.pack.version,
        options=dict(schedule.options),
        sealed=any(match.seed >= SEALED_BIT for match in schedule.matches),
        seeds=schedule.pairs,
        head_to_head=bool(schedule.world.opponents),
        spectator_version=__version__,
        planned=len(planned.matches),
        cut_short=cut_short,
        captains=captains,
        pairs=[
            _pair(schedule, pair, points, games, outcomes, rng) for pair in itertools.combinations(order, 2)
        ],
        matches=[_played(match, found[match]) for match in schedule.matches],
    )


Outcomes = Mapping[tuple[str, str], Sequence[float | None]]
"""By captain and opponent: each match's outcome, ``None`` when it broke down."""


def _tables(schedule: Schedule, found: Found) -> tuple[statistics.Floats, statistics.Floats, Outcomes]:
    """Points and games by seed, captain and opponent; and every single outcome."""
    names = schedule.captains
    points = np.zeros((schedule.pairs, len(names), len(names)))
    games = np.zeros_like(points)
    outcomes: dict[tuple[str, str], list[float | None]] = {}
    for pair, of_seed in itertools.groupby(schedule.matches, key=lambda match: match.pair):
        played = {(match.home, match.away): found[match] for match in of_seed}
        for (i, a), (j, b) in itertools.combinations(enumerate(names), 2):
            met = list(_meetings(a, b, played))
            outcomes.setdefault((a, b), []).extend(met)
            outcomes.setdefault((b, a), []).extend(None if one is None else 1.0 - one for one in met)
            whole = [one for one in met if one is not None]
            if len(whole) == len(met):
                points[pair, i, j], points[pair, j, i] = sum(whole), len(whole) - sum(whole)
                games[pair, i, j] = games[pair, j, i] = len(whole)
    return points, games, outcomes


def _meetings(
    a: str, b: str, played: Mapping[tuple[str, str | None], EpisodeFigures]
) -> Iterator[float | None]:
    """Outcomes for ``a`` on one seed: of both matches, or of comparing the scores in the agent's seat."""
    if (a, None) in played:
        yield _compared(played[a, None], played[b, None])
        return
    there, back = played[a, b], played[b, a]
    outcomes = _outcome(there), _outcome(back)
    if there.finished and back.finished and None in outcomes:
        yield _compared(there, back)
        return
    yield outcomes[0]
    yield None if outcomes[1] is None else 1.0 - outcomes[1]


def _outcome(figures: EpisodeFigures) -> float | None:
    return figures.seats[0].figures.get(OUTCOME) if figures.finished else None


def _compared(mine: EpisodeFigures, other: EpisodeFigures) -> float | None:
    scores = [one.seats[0].figures.get("score") if one.finished else None for one in (mine, other)]
    if scores[0] is None or scores[1] is None:
        return None
    return 0.5 if scores[0] == scores[1] else float(scores[0] > scores[1])


def _ranked(
    names: Sequence[str], points: statistics.Floats, games: statistics.Floats, rng: np.random.Generator
) -> list[statistics.Ranked]:
    return statistics.rank(names, points, games, rng)


def _captain(
    schedule: Schedule,
    found: Found,
    place: int,
    ranked: statistics.Ranked,
    points: statistics.Floats,
    games: statistics.Floats,
    outcomes: Outcomes,
    rng: np.random.Generator,
) -> CaptainResult:
    preset = schedule.world.captains[ranked.name]
    at = schedule.captains.index(ranked.name)
    against = [one for (name, _), of in outcomes.items() if name == ranked.name for one in of]
    return CaptainResult(
        name=preset.name,
        label=preset.label,
        source=preset.source,
        rank=place,
        rank_low=ranked.rank_low,
        rank_high=ranked.rank_high,
        best=ranked.best,
        rating=Estimate.of(ranked.rating),
        share=_share(points[:, at, :].sum(axis=1), games[:, at, :].sum(axis=1), rng)
        or Estimate(value=0.5, low=0.0, high=1.0, n=0),
        tally=_tally(against),
        measures=_measured(schedule, found, ranked.name, rng),
        asked=asked_of(
            seat
            for match in schedule.matches
            for seat in found[match].seats
            if _captain_of(match, seat, found[match]) == ranked.name
        ),
    )


def _pair(
    schedule: Schedule,
    pair: tuple[str, str],
    points: statistics.Floats,
    games: statistics.Floats,
    outcomes: Outcomes,
    rng: np.random.Generator,
) -> PairResult:
    i, j = (schedule.captains.index(name) for name in pair)
    share = _share(points[:, i, j], games[:, i, j], rng)
    return PairResult(first=pair[0], second=pair[1], share=share, tally=_tally(outcomes[pair]))


def _share(points: statistics.Floats, games: statistics.Floats, rng: np.random.Generator) -> Estimate | None:
    met = games > 0
    if not met.any():
        return None
    return Estimate.of(statistics.share_interval(list(points[met] / games[met]), rng))


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
            mine = (seat for seat in figures.seats if _captain_of(match, seat, figures) == name)
            by_seed.setdefault(match.pair, []).extend(mine)
    measured = {}
    for measure in measures_of(schedule.world):
        if measure.name == OUTCOME:
            continue
        values = [
            float(np.mean(shown))
            for seats in by_seed.values()
            if (shown := [seat.figures[measure.name] for seat in seats if measure.name in seat.figures])
        ]
        if values:
            measured[measure.name] = Estimate.of(statistics.mean_interval(values, rng))
    return measured


def _captain_of(match: ScheduledMatch, seat: SeatFigures, figures: EpisodeFigures) -> str | None:
    return match.home if seat is figures.seats[0] else match.away


def _played(match: ScheduledMatch, figures: EpisodeFigures) -> PlayedMatch:
    return PlayedMatch(
        episode_id=figures.episode_id,
        seed=match.seed,
        home=match.home,
        away=match.away,
        reason=figures.reason,
        outcome=_outcome(figures),
        result=figures.result,
        capped=[seat.captain for seat in figures.seats if seat.fallbacks.get("spent")],
    )

"""What captains won of each other, seed by seed, from the figures of their matches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spectator.environments.contract import OUTCOME
from spectator.evaluation import statistics
from spectator.evaluation.figures import EpisodeFigures
from spectator.evaluation.schedule import Schedule, ScheduledMatch
from spectator.evaluation.sequential import Look, Pair, SeedResult, follow

Found = Mapping[ScheduledMatch, EpisodeFigures]
"""Figures of the finished matches."""

Outcomes = Mapping[tuple[str, str], Sequence[float | None]]
"""By captain and opponent: each match's outcome, ``None`` where it does not count."""


@dataclass(frozen=True, slots=True)
class CrossTable:
    """What captains won of each other.

    Args:
        names: The captains.
        points: Wins and half the ties by seed, captain and opponent; shape (seeds, k, k).
        games: Games likewise.
        outcomes: Every single match.
    """

    names: Sequence[str]
    points: statistics.Floats
    games: statistics.Floats
    outcomes: Outcomes

    def among(self, names: Sequence[str]) -> CrossTable:
        """The same among some of the captains, as if the others had not been there."""
        kept = [self.names.index(name) for name in names]
        square = np.ix_(range(len(self.points)), kept, kept)
        outcomes = {pair: met for pair, met in self.outcomes.items() if {*pair} <= {*names}}
        return CrossTable(names, self.points[square], self.games[square], outcomes)


def tables_of(schedule: Schedule, found: Found) -> CrossTable:
    """Points and games by seed, captain and opponent; and every single outcome."""
    names = schedule.captains
    points = np.zeros((schedule.pairs, len(names), len(names)))
    games = np.zeros_like(points)
    outcomes: dict[tuple[str, str], list[float | None]] = {}
    by_seed = itertools.groupby(schedule.matches, key=lambda match: match.pair)
    for pair, (_, of_seed) in enumerate(by_seed):
        played = {(match.home, match.away): found[match] for match in of_seed}
        for (i, a), (j, b) in itertools.combinations(enumerate(names), 2):
            met = list(meetings(a, b, played))
            outcomes.setdefault((a, b), []).extend(met)
            outcomes.setdefault((b, a), []).extend(None if one is None else 1.0 - one for one in met)
            whole = [one for one in met if one is not None]
            if met and len(whole) == len(met):
                points[pair, i, j], points[pair, j, i] = sum(whole), len(whole) - sum(whole)
                games[pair, i, j] = games[pair, j, i] = len(whole)
    return CrossTable(names, points, games, outcomes)


def meetings(
    a: str, b: str, played: Mapping[tuple[str, str | None], EpisodeFigures]
) -> Iterator[float | None]:
    """Outcomes for ``a`` on one seed: of both matches, or of comparing the scores in the agent's seat.

    None if they did not meet on it.
    """
    if (a, None) in played and (b, None) in played:
        yield _compared(played[a, None], played[b, None])
    if (a, b) not in played or (b, a) not in played:
        return
    there, back = played[a, b], played[b, a]
    outcomes = outcome_of(there), outcome_of(back)
    if there.counts and back.counts and None in outcomes:
        yield _compared(there, back)
        return
    yield outcomes[0]
    yield None if outcomes[1] is None else 1.0 - outcomes[1]


def outcome_of(figures: EpisodeFigures) -> float | None:
    """Return what the agent's seat won of a match, from 0 to 1; ``None`` if it does not count."""
    return figures.seats[0].figures.get(OUTCOME) if figures.counts else None


def _compared(mine: EpisodeFigures, other: EpisodeFigures) -> float | None:
    scores = [one.seats[0].figures.get("score") if one.counts else None for one in (mine, other)]
    if scores[0] is None or scores[1] is None:
        return None
    return 0.5 if scores[0] == scores[1] else float(scores[0] > scores[1])


def judged(planned: Schedule, found: Found) -> Schedule:
    """As much of a schedule as can be judged: the seeds whose matches are all found.

    With a stopping rule, of each pair the seeds before the first that is not whole, as far as the rule chose
    them for this pair. In a world without opponents a captain may have played further; that is left out.
    """
    if planned.rule is None:
        return planned.whole(found)
    path = follow(planned.rule, planned.compared, looking_at(planned, found))
    return planned.part({pair: one.judged for pair, one in path.comparisons.items()})


def looking_at(schedule: Schedule, found: Found) -> Look:
    """Return what a stopping rule looks at: a pair's result on a seed, from the figures of its matches.

    Args:
        schedule: Matches, at least those of ``found``.
        found: Figures of the finished matches.
    """
    by_seed: dict[int, dict[tuple[str, str | None], EpisodeFigures]] = {}
    for match in schedule.matches:
        if match in found:
            by_seed.setdefault(match.pair, {})[match.home, match.away] = found[match]
    alone = not schedule.world.opponents

    def look(pair: Pair, number: int) -> SeedResult | None:
        a, b = pair
        there = by_seed.get(number, {})
        needed: list[tuple[str, str | None]] = [(a, None), (b, None)] if alone else [(a, b), (b, a)]
        if any(one not in there for one in needed):
            return None
        met = list(meetings(a, b, there))
        whole = [one for one in met if one is not None]
        seats = [seat for one in needed for seat in there[one].seats]
        return SeedResult(
            sum(whole) / len(whole) if len(whole) == len(met) else None,
            sum(seat.figures.get("cost", 0.0) for seat in seats),
            sum(seat.figures.get("latency_s", 0.0) * seat.decisions for seat in seats),
        )

    return look

"""The joint fit: move parameters until simulated matches reproduce the tables' margins.

The tables give the outcome by situation, by batter and by bowler, each averaged over all the rest. Adding
effects read from each table alone would count the same cause twice (a side six down has its tail in; a set
opener is at the wicket when few are lost). So whole matches are simulated with drawn squads and effects and
counted in the same cells, and every parameter is moved by the difference, until all margins agree at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spectator.environments.cricket.forecast.arrays import (
    InningsArrays,
    InningsTotals,
    ModelArrays,
    SimulatedBalls,
)
from spectator.environments.cricket.forecast.batch_innings import play
from tools.cricket_model.fitting import people, situations
from tools.cricket_model.fitting.counts import CATEGORIES, Floats, phase_of
from tools.cricket_model.fitting.population import Population, draw_population
from tools.cricket_model.fitting.selection import BowlerSelection

SIZE = len(CATEGORIES)
_RATE_EDGES = np.array([6.0, 8.0, 10.0, 13.0])
_BAND_OF_WICKETS = np.array([0, 0, 1, 1, 2, 2, 3, 3, 3, 3])
_PHASE_OF_OVER = np.array([phase_of(over) for over in range(20)])

_LATE_STAND = 6
"""Wickets lost from which stands are distinguished within their band."""

_PRIOR_SD = {"order": 0.35, "set": 0.35, "both": 0.12, "bowler": 0.25}
"""Prior standard deviations of log effects: place in the order, balls faced, the two together, bowler and
hand."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of the raking: logs of factors.

    Args:
        first: By over and wickets band, shape ``(20, 4, 11)``.
        chase: With the required-rate band, shape ``(20, 4, 5, 11)``.
        order: By phase and place in the order, shape ``(3, 11, 11)``.
        settled: By phase and balls-faced bin, shape ``(3, 9, 11)``.
        both: By phase, order group and bin, shape ``(3, 5, 9, 11)``.
        bowler: By phase, style and hand, shape ``(3, 6, 2, 11)``.
        stand: Wicket category by innings and wickets lost, shape ``(2, 10)``: late stands last longer
            than the mean of their band.
    """

    first: Floats
    chase: Floats
    order: Floats
    settled: Floats
    both: Floats
    bowler: Floats
    stand: Floats

    @property
    def batter(self) -> Floats:
        """Everything about the batter together, shape ``(3, 11, 9, 11)``."""
        return self.order[:, :, None] + self.settled[:, None] + self.both[:, people.GROUP_OF_ORDER]


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations of the effects that a match and an innings share."""

    match: float
    innings: float


@dataclass(slots=True)
class Tallies:
    """Simulated counts in the tables' cells."""

    first: Floats
    chase: Floats
    person: Floats

    @classmethod
    def empty(cls) -> Tallies:
        """Return empty tallies."""
        return cls(np.zeros((20, 4, SIZE)), np.zeros((20, 4, 5, SIZE)), np.zeros((3, 11, 9, 6, 2, SIZE)))

    def count(self, step: SimulatedBalls) -> None:
        """Add one step."""
        over = step.balls // 6
        band = _BAND_OF_WICKETS[step.wickets]
        category = step.category.astype(np.int64)
        if step.chasing:
            rate = np.searchsorted(_RATE_EDGES, 6.0 * step.required / (120 - step.balls), side="right")
            cell = (over * 4 + band) * 5 + rate
            target = self.chase
        else:
            cell = over * 4 + band
            target = self.first
        target += np.bincount(cell * SIZE + category, minlength=target.size).reshape(target.shape)
        self.person += np.bincount(step.person * SIZE + category, minlength=self.person.size).reshape(
            self.person.shape
        )


def starting_point() -> tuple[Parameters, Floats, Floats]:
    """Return parameters before raking, with the target shares by cell."""
    first = situations.first_innings_bands()
    chase = situations.chase_bands()
    zero = Parameters(
        first,
        chase,
        order=np.zeros((3, 11, SIZE)),
        settled=np.zeros((3, 9, SIZE)),
        both=np.zeros((3, 5, 9, SIZE)),
        bowler=np.zeros((3, 6, 2, SIZE)),
        stand=np.zeros((2, 10)),
    )
    return zero, np.exp(first), np.exp(chase)


def rake(
    parameters: Parameters,
    targets: tuple[Floats, Floats],
    compiled: ModelArrays,
    spread: Spread,
    rng: np.random.Generator,
    selection: BowlerSelection,
    *,
    rounds: int,
    matches: int,
) -> Parameters:
    """Move the parameters until the simulated margins are the tables'.

    Args:
        parameters: Where to start.
        targets: Shares by cell of first innings and of chases.
        compiled: A model whose other parts (powerplay, gains, details) are used as they are.
        spread: The shared effects.
        rng: Source of all chance.
        selection: Choice of bowlers by over.
        rounds: Rounds of simulating and moving; the last third is averaged.
        matches: Matches a round.
    """
    tables = people.order_counts(), people.batter_counts(), people.bowler_counts()
    broken = people.broken_stands()
    kept: list[Parameters] = []
    for turn in range(rounds):
        tallies = Tallies.empty()
        model = with_parameters(compiled, parameters, selection)
        ends = simulate(model, draw_population(matches, rng, selection), spread, rng, tallies)
        pace = 0.8 if turn < rounds // 2 else 0.4
        parameters = replace(
            _move(parameters, targets, tallies, tables, pace),
            stand=parameters.stand + 0.4 * pace * _stand_step(ends, broken),
        )
        if turn >= rounds - max(1, rounds // 3):
            kept.append(parameters)
    names = ("first", "chase", "order", "settled", "both", "bowler", "stand")
    return Parameters(*(np.mean([getattr(one, name) for one in kept], axis=0) for name in names))


def simulate(
    compiled: ModelArrays,
    population: Population,
    spread: Spread,
    rng: np.random.Generator,
    tallies: Tallies | None = None,
    *,
    overs: int = 20,
) -> tuple[InningsTotals, InningsTotals]:
    """Play every match of a population; returns how both innings ended."""
    n = population.bowlers.shape[2]
    watch = None if tallies is None else tallies.count
    match: Floats = np.asarray(rng.normal(0.0, spread.match, n))
    opened = opening(population, 0, np.asarray(match + rng.normal(0.0, spread.innings, n)), overs)
    first = play(compiled, population.people, opened, rng, watch)
    chase = opening(population, 1, np.asarray(match + rng.normal(0.0, spread.innings, n)), overs)
    chase.target = first.runs + 1
    return first, play(compiled, population.people, chase, rng, watch)


def opening(population: Population, innings: int, effect: Floats, overs: int = 20) -> InningsArrays:
    """Return the first ball of an innings in every match.

    Innings of fewer than 20 overs are bowled as the last overs of 20.
    """
    n = population.bowlers.shape[2]
    row = (2 * np.arange(n) + innings) * 11
    nought = np.zeros(n, dtype=np.int64)
    return InningsArrays(
        innings_balls=6 * overs,
        powerplay_balls=round(1.8 * overs),
        wickets_limit=10,
        target=None,
        balls=nought,
        runs=nought,
        wickets=nought,
        order=row[None, :] + np.arange(11)[:, None],
        striker=row,
        partner=row + 1,
        faced=nought,
        faced_partner=nought,
        next_in=nought + 2,
        bowlers=population.bowlers[innings][20 - overs :],
        effect=effect.astype(np.float32),
        free_hit=np.zeros(n, dtype=np.bool_),
    )


def with_parameters(compiled: ModelArrays, parameters: Parameters, selection: BowlerSelection) -> ModelArrays:
    """Return the model with other situation, batter and bowler tables.

    The choice of bowlers affects every over.
    """
    shift = np.zeros((20, SIZE))
    gain = compiled.gain * selection.runs
    shift[:, 0] = -compiled.dot_share * gain
    shift[:, 4] = shift[:, 5] = gain
    shift[:, 6] = selection.wickets
    first = situations.spread_wickets(parameters.first + shift[:, None])
    chase = situations.spread_wickets(parameters.chase + shift[:, None, None])
    first[..., 6] += parameters.stand[0]
    chase[..., 6] += parameters.stand[1][:, None]
    first = first.reshape(-1, SIZE)
    chase = situations.spread_rates(chase).reshape(-1, SIZE)
    base = np.concatenate([first, chase])
    person = parameters.batter[:, :, :, None, None] + parameters.bowler[:, None, None]
    return replace(
        compiled,
        base=np.concatenate([np.exp(base), compiled.base[-1:]]).astype(np.float32),
        person=np.exp(person).reshape(-1, SIZE).astype(np.float32),
    )


def _move(
    at: Parameters,
    targets: tuple[Floats, Floats],
    tallies: Tallies,
    tables: tuple[Floats, Floats, Floats],
    pace: float,
) -> Parameters:
    orders, batters, bowlers = tables
    first, chase = at.first.copy(), at.chase.copy()
    expected = tallies.first.sum(axis=-1, keepdims=True) * targets[0]
    first += pace * _log_ratio(expected, tallies.first)
    expected = tallies.chase.sum(axis=-1, keepdims=True) * targets[1]
    by_wickets = _log_ratio(expected.sum(axis=2), tallies.chase.sum(axis=2))
    chase += 0.6 * pace * by_wickets[:, :, None]
    for phase in range(3):
        overs = _PHASE_OF_OVER == phase
        chase[overs] += 0.6 * pace * _log_ratio(expected[overs].sum(axis=0), tallies.chase[overs].sum(axis=0))
    by_order, by_bowler = tallies.person.sum(axis=(2, 3, 4)), tallies.person.sum(axis=(1, 2))
    by_batter = np.zeros(batters.shape)
    for place, group in enumerate(people.GROUP_OF_ORDER):
        by_batter[:, group] += tallies.person[:, place].sum(axis=(2, 3))
    return replace(
        at,
        first=first,
        chase=chase,
        order=at.order + pace * _newton(orders, by_order, at.order, _PRIOR_SD["order"]),
        settled=at.settled
        + pace * _newton(batters.sum(axis=1), by_batter.sum(axis=1), at.settled, _PRIOR_SD["set"]),
        both=at.both + pace * _newton(batters, by_batter, at.both, _PRIOR_SD["both"]),
        bowler=at.bowler + pace * _newton(bowlers, by_bowler, at.bowler, _PRIOR_SD["bowler"]),
    )


def _stand_step(ends: tuple[InningsTotals, InningsTotals], broken: Floats) -> Floats:
    """Return the log ratio of real to simulated stands that end, from six down."""
    step = np.zeros((2, 10))
    for innings, end in enumerate(ends):
        for lost in range(_LATE_STAND, 10):
            begun = float((end.wickets >= lost).sum())
            fell = float((end.wickets > lost).sum())
            step[innings, lost] = np.log(broken[innings, lost] * begun / max(1.0, fell))
    return np.clip(step, -0.2, 0.2)


def _log_ratio(expected: Floats, counted: Floats) -> Floats:
    """Return the log ratio of wanted to simulated counts, shrunk to 0 for few counts."""
    return np.asarray(np.log((expected + 30.0) / (counted + 30.0)), dtype=np.float64)


def _newton(counts: Floats, simulated: Floats, value: Floats, prior_sd: float) -> Floats:
    """Take one Newton step of the penalised likelihood of ``counts``.

    The simulated shares are the prediction, first scaled to the phase's totals: the level belongs to the
    situation, only the pattern to people.
    """
    phases = tuple(range(1, simulated.ndim - 1))
    mean = simulated.sum(axis=phases, keepdims=True)
    mean = mean / mean.sum(axis=-1, keepdims=True)
    shares = (simulated + 200.0 * mean) / (simulated.sum(axis=-1, keepdims=True) + 200.0)
    wanted = counts.sum(axis=phases, keepdims=True)
    shares = shares * (wanted / (counts.sum(axis=-1, keepdims=True) * shares).sum(axis=phases, keepdims=True))
    predicted = counts.sum(axis=-1, keepdims=True) * shares
    step = (counts - predicted - value / prior_sd**2) / (predicted + prior_sd**-2)
    return np.asarray(np.clip(step, -0.3, 0.3), dtype=np.float64)

"""Win chances at every score of an innings, by dynamic programming.

One table serves an over of the decision account, and a whole innings of :mod:`.outlook`. Both sides do what
real sides do, the planned bowlers and the batters to come are given, and pitch and day are unknown. It leaves
out only small effects: which of the pair is on strike, free hits, rhythm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.situation import WICKET_FIT, match_up, out_of_place
from spectator.environments.cricket.ball.tables import (
    BYE,
    CATEGORIES,
    FOUR,
    NO_BALL,
    RATE_PLACES,
    RUN_OUT,
    SET_LIMITS,
    SIX,
    STYLE_INDEX,
    STYLES,
    WICKET,
    WIDE,
    Tables,
    effect_scale,
)
from spectator.environments.cricket.forecast.arrays import (
    MAX_REQUIRED,
    ModelArrays,
    SituationWeights,
    ground_table,
    model_arrays,
    rate_places,
    situation_weights,
)
from spectator.environments.cricket.forecast.state import ForecastState, plan_overs, tired_overs
from spectator.environments.cricket.people import Player

Table = NDArray[np.float32]

NODES: Final = (-math.sqrt(3.0), 0.0, math.sqrt(3.0))
SHARES: Final = (1 / 6, 2 / 3, 1 / 6)
"""Three values that represent a normal variable (Gauss-Hermite nodes), and their weights."""

FACING: Final = ((0, 0.5), (1, 0.25), (2, 0.25))
"""Who faces, by the number of batters who came in later, and the share of the balls. Either of a pair is out
as often as the other, so the last but one in is still batting half of the time; otherwise an earlier one."""

SETTLED_BINS: Final = len(SET_LIMITS) + 1
"""Bins of balls faced in the tables of batters."""

_RUNS_A_BALL: Final = 2.0
_SPARE_RUNS: Final = 60
"""Totals beyond this many runs per ball plus spare runs count as the largest total considered."""

_VALID: Final = tuple(category for category in range(CATEGORIES) if category not in (WIDE, NO_BALL))


class WinTable:
    """The batting side's chances to win, at every score from a state on.

    Args:
        state: Current state of the match, as the forecast uses it.
        reply: The chance to win by first-innings total (see :func:`reply_to`); unused in a chase.
        plan: The bowler of each over; by default as the forecast expects.
        places: Places in the order at which the two batters in came in, from 1; by default their own.

    Raises:
        ValueError: ``reply`` is missing for a first innings.
    """

    __slots__ = ("_chances", "_lost", "_runs", "_start", "_target", "places", "plan", "state")

    def __init__(
        self,
        state: ForecastState,
        model: BallModel,
        reply: Table | None = None,
        plan: Sequence[int] | None = None,
        places: Sequence[int] | None = None,
    ) -> None:
        self.state = state
        self.places = None if places is None else tuple(places)
        self.plan = tuple(plan_overs(state) if plan is None else plan)
        self._runs: list[float] = mean_runs(model.tables).tolist()
        self._start, self._lost, self._target = state.balls, state.wickets, state.target
        weights = category_chances(state, model, self.plan, self.places, chasing=state.target is not None)
        if state.target is None:
            if reply is None:
                raise ValueError("a first innings needs reply; use reply_to(state, model)")
            first = min(state.runs, reply.shape[1] - 1)
            solved = solve_first_innings(state, model, weights, reply[:, first:])
        else:
            solved = solve_chase(state, model, weights, state.target - state.runs)
        self._chances: Table = np.einsum("k,bwkn->bwn", np.array(SHARES, dtype=np.float32), solved)

    def chance(self, balls: int, wickets: int, runs: int) -> float:
        """Return the batting side's chance once the innings reaches this score.

        Args:
            balls: Valid balls bowled, at least the state's.
            wickets: Wickets lost, at least the state's.
        """
        place = runs - self.state.runs if self._target is None else max(0, self._target - runs)
        lost = min(wickets, self.state.wickets_limit) - self._lost
        of_score = self._chances[balls - self._start, lost]
        return float(of_score[min(place, len(of_score) - 1)])

    def after(self, balls: int, wickets: int, runs: int) -> list[float]:
        """Return the chance after each of the eleven categories of the next ball."""
        last, found = self.state.innings_balls, []
        for category, gained in enumerate(self._runs):
            ball = min(last, balls + (category not in (WIDE, NO_BALL)))
            lost, low = wickets + (category in (WICKET, RUN_OUT)), runs + int(gained)
            chance = self.chance(ball, lost, low)
            found.append(chance + gained % 1.0 * (self.chance(ball, lost, low + 1) - chance))
        return found


def reply_state(state: ForecastState) -> ForecastState:
    """Return the state of the reply to a first innings, before its first ball."""
    return state._replace(
        balls=0, runs=0, wickets=0, target=1, striker=0, striker_balls=0, partner=1, partner_balls=0,
        to_come=tuple(range(2, 11)), batting=state.bowling, bowling=state.batting, bowler=None,
        last_bowler=None, free_hit=False, attack=state.reply, reply=None,
        overs_left=tuple(state.bowler_overs if player.bowls else 0 for player in state.batting),
        second=True,
    )  # fmt: skip


def reply_to(state: ForecastState, model: BallModel, plan: Sequence[int] | None = None) -> Table:
    """Return the first side's chance to win, by the day's effect and its total.

    Args:
        state: A first innings.
        plan: The bowler of each over of the reply; by default as the forecast expects.

    Returns:
        Shape ``(3, totals)``: one row for each value of the day's effect that the table considers.
    """
    chase = reply_state(state)
    plan = plan_overs(chase) if plan is None else plan
    cap = most_runs(state.innings_balls)
    solved = solve_chase(chase, model, category_chances(chase, model, plan, None, chasing=True), cap)[0, 0]
    beaten = 1.0 - solved[:, np.minimum(np.arange(cap + 1) + 1, cap)]
    result: Table = (next_days(model) @ beaten).astype(np.float32)
    return result


def most_runs(innings_balls: int) -> int:
    """Return the largest total, or need, that tables of this length tell apart."""
    return min(MAX_REQUIRED - 1, int(_RUNS_A_BALL * innings_balls) + _SPARE_RUNS)


def next_days(model: BallModel) -> Table:
    """Return the second innings' effect weights given the first's effect.

    Both innings share the match's effect.
    """
    match_sd, innings_sd = model.tables.effect_sd
    shared = match_sd**2 / max(1e-9, match_sd**2 + innings_sd**2)
    rest = max(1e-6, 1.0 - shared**2)
    rows = []
    for first in NODES:
        density = [
            share * math.exp(-(shared**2 * (first**2 + node**2) - 2.0 * shared * first * node) / (2.0 * rest))
            for node, share in zip(NODES, SHARES, strict=True)
        ]
        rows.append([value / sum(density) for value in density])
    return np.array(rows, dtype=np.float32)


def category_chances(
    state: ForecastState,
    model: BallModel,
    plan: Sequence[int],
    places: Sequence[int] | None,
    *,
    chasing: bool,
) -> Table:
    """Return the probabilities of the categories.

    Shape ``(balls left, wickets from the state's on, 3, 11)``; in a chase ``(..., rate places, 11)``.
    """
    arrays = model_arrays(model.tables)
    balls, wickets = np.arange(state.balls, state.innings_balls), np.arange(state.wickets, 10)
    at = situation_weights(arrays, state.innings_balls, state.powerplay_balls, chasing)
    width = RATE_PLACES if chasing else 1
    rows = at.row_of_ball[balls][:, None, None] + (wickets * width)[:, None] + np.arange(width)
    base = at.weights[rows][:, :, None]
    bowler = np.array(plan)[balls // 6]
    favour = _favour(state, model, bowler, balls) - _out_of_place(state, places)
    tired = tired_overs(plan, state.bowling)[:, balls // 6] if state.fatigue else None
    if tired is not None:
        favour += tired[0][:, None]
    mean: Table | None = None
    for back, share in FACING:
        batter = np.clip(wickets - state.wickets + 1 - back, 0, len(_line(state)) - 1)
        people = _people(state, model, arrays, at, bowler, wickets, favour, batter, back)
        if tired is not None:
            people[..., (WIDE, NO_BALL)] *= tired[1][:, None, None, None]
        if state.boundaries:
            people *= _ground(state, model, at, bowler, batter)
        part = base * people[:, :, :, None]
        part *= share / part.sum(axis=-1, keepdims=True)
        mean = part if mean is None else mean + part
    assert mean is not None
    return mean if chasing else mean[:, :, :, 0]


def _people(
    state: ForecastState,
    model: BallModel,
    arrays: ModelArrays,
    at: SituationWeights,
    bowler: NDArray[np.int64],
    wickets: NDArray[np.int64],
    favour: Table,
    batter: NDArray[np.int64],
    back: int,
) -> Table:
    """Return the multipliers of bowler and batter, shape ``(balls, wickets, 3, 11)``.

    ``batter`` is the batter in at each wicket, as an index of the line, ``back`` batters before the last.
    """
    line = _line(state)
    balls = np.arange(state.balls, state.innings_balls)
    person = at.phase_of_ball[balls][:, None] * 11 + np.array([one.order - 1 for one in line])[batter]
    styles = np.array([STYLE_INDEX[one.style] for one in state.bowling])[bowler][:, None]
    left = np.array([int(one.bats == "left") for one in line])[batter]
    rows = (
        (person[..., None] * SETTLED_BINS + np.arange(SETTLED_BINS)) * len(STYLES) + styles[..., None]
    ) * 2
    found = (arrays.person[rows + left[..., None]] * _settled(balls, wickets, back)[..., None]).sum(axis=2)
    factors = np.ones((len(balls), len(wickets), len(NODES), CATEGORIES), dtype=np.float32)
    match_sd, innings_sd = model.tables.effect_sd
    effect = model.level + math.hypot(match_sd, innings_sd) * np.array(NODES)
    effect = effect * effect_scale(state.innings_balls)
    skill = _of(line, "bat_runs")[batter] * _of(state.bowling, "bowl_runs")[bowler][:, None]
    favour = favour[:, batter]
    shift = arrays.gain * (np.log(skill) + favour)[:, :, None] + effect
    factors[..., 0] = np.exp(-arrays.dot_share * shift)
    factors[..., FOUR] = factors[..., SIX] = np.exp(shift)
    out = _of(line, "bat_out")[batter] * _of(state.bowling, "bowl_wickets")[bowler][:, None]
    factors[..., WICKET] = (out * np.exp(-WICKET_FIT * favour))[:, :, None] * np.exp(
        -arrays.wicket_share * effect
    )
    factors[..., WIDE] = _of(state.bowling, "bowl_extras")[bowler][:, None, None]
    factors[..., NO_BALL] = factors[..., WIDE]
    weighted: Table = factors * found[:, :, None]
    return weighted


def _settled(balls: NDArray[np.int64], wickets: NDArray[np.int64], back: int) -> Table:
    """Return the chance of each balls-faced bin, shape ``(balls, wickets, 9)``.

    Wickets fall at random balls of the innings so far, and a batter has faced half of the balls since coming
    in. So a batter with ``back`` later ones has been in for the last ``back + 1`` of the gaps between them.

    Args:
        back: Number of batters who came in later than this one.
    """
    limits = np.array([*SET_LIMITS, np.inf])
    part = np.minimum(1.0, 2.0 * (limits + 1.0) / np.maximum(1, balls)[:, None])
    found = np.empty((len(balls), len(wickets), SETTLED_BINS), dtype=np.float32)
    for at, lost in enumerate(int(wicket) for wicket in wickets):
        within = (part >= 1.0).astype(np.float64)
        if lost > back:
            within = np.ones_like(part)
            for fell in range(back + 1):
                within -= math.comb(lost, fell) * part**fell * (1.0 - part) ** (lost - fell)
        found[:, at] = np.diff(within, axis=1, prepend=0.0)
    return found


def _ground(
    state: ForecastState,
    model: BallModel,
    at: SituationWeights,
    bowler: NDArray[np.int64],
    batter: NDArray[np.int64],
) -> Table:
    """Return the ground's multipliers, shape ``(balls, wickets, 1, 11)``."""
    balls = np.arange(state.balls, state.innings_balls)
    kind = np.array([int(one.bowls != "pace") for one in state.bowling])[bowler][:, None]
    left = np.array([int(one.bats == "left") for one in _line(state)])[batter]
    factors = ground_table(model.tables, state.boundaries)
    found: Table = factors[(balls // 6 % 2)[:, None], at.phase_of_ball[balls][:, None], kind, left]
    return found[:, :, None]


def _line(state: ForecastState) -> list[Player]:
    """Return batters in the expected order: two at the crease, then those to come."""
    return [state.batting[player] for player in (state.striker, state.partner, *state.to_come)]


def _favour(
    state: ForecastState, model: BallModel, bowler: NDArray[np.int64], balls: NDArray[np.int64]
) -> Table:
    """Return every match-up's log ratio of runs, shape ``(balls, batters)``."""
    met = np.array(
        [[match_up(one, by, state.conditions, state.second) for one in _line(state)] for by in state.bowling]
    )
    styles = np.array(model.prices(state.innings_balls).styles)
    style = np.array([STYLE_INDEX[one.style] for one in state.bowling])[bowler]
    favour: Table = (met[bowler] + styles[balls // 6, style][:, None]).astype(np.float32)
    return favour


def _out_of_place(state: ForecastState, places: Sequence[int] | None) -> Table:
    """Return the log ratio of runs that each batter loses by batting out of place."""
    line = _line(state)
    crease = [one.order for one in line[:2]] if places is None else places
    come_in = [*crease, *range(state.wickets + 3, state.wickets + 1 + len(line))]
    lost = [out_of_place(one.order, place) for one, place in zip(line, come_in, strict=True)]
    return np.array(lost, dtype=np.float32)


def _of(players: Sequence[Player], skill: str) -> Table:
    return np.array([getattr(player, skill) for player in players], dtype=np.float32)


def mean_runs(tables: Tables) -> NDArray[np.float64]:
    """Return the mean runs of each category, such as 1.2 off a wide."""

    def mean(name: str) -> float:
        shares: list[float] = tables.details[name]
        return sum(runs * share for runs, share in enumerate(shares)) / sum(shares)

    runs = np.array([0, 1, 2, 3, 4, 6, 0, 0, 0, 0, 0], dtype=np.float64)
    runs[RUN_OUT], runs[WIDE] = mean("run_out_runs"), 1.0 + mean("wide_runs")
    runs[NO_BALL], runs[BYE] = 1.0 + mean("noball_bat"), 1.0 + mean("legbye_runs")
    return runs


class _Gains:
    """Where a ball leads: chances after each category, between two whole scores where runs vary.

    Args:
        place: Returns the places of a table's last axis after whole runs.
    """

    def __init__(self, model: BallModel, place: Callable[[int], NDArray[np.int64]]) -> None:
        self._more: list[tuple[NDArray[np.int64], NDArray[np.int64], float]] = [
            (place(int(runs)), place(int(runs) + 1), runs % 1.0) for runs in mean_runs(model.tables).tolist()
        ]

    def chance(self, later: Table, category: int) -> Table:
        """Return the chances after this category, by place before the ball."""
        low, high, part = self._more[category]
        found = later.take(low, axis=-1)
        return found + np.float32(part) * (later.take(high, axis=-1) - found) if part else found


def solve_first_innings(state: ForecastState, model: BallModel, weights: Table, reply: Table) -> Table:
    """Return chances by balls, wickets, day and runs, from the state on."""
    runs = np.arange(reply.shape[1])
    after = _Gains(model, lambda gained: np.minimum(runs + gained, runs[-1]))
    ends = np.broadcast_to(reply, (11 - state.wickets, *reply.shape))
    return _solve(state, ends, after, lambda ball: np.moveaxis(weights[ball], -1, 0)[..., None])


def solve_chase(state: ForecastState, model: BallModel, weights: Table, cap: int) -> Table:
    """Return the same chances by runs still needed."""
    need = np.arange(cap + 1)
    after = _Gains(model, lambda gained: np.maximum(need - gained, 0))
    ends = np.where(need == 0, 1.0, np.where(need == 1, 0.5, 0.0)).astype(np.float32)
    places = rate_places(state.innings_balls)

    def of_ball(ball: int) -> Table:
        left = state.innings_balls - state.balls - ball
        by_category = np.ascontiguousarray(np.moveaxis(weights[ball], -1, 0))
        by_need: Table = by_category.take(places[left, need], axis=-1)
        return by_need

    return _solve(state, np.broadcast_to(ends, (11 - state.wickets, len(NODES), cap + 1)), after, of_ball)


def _solve(
    state: ForecastState, ends: NDArray[np.float32], after: _Gains, weights: Callable[[int], Table]
) -> Table:
    """Solve backwards from the last ball.

    Args:
        weights: Returns the chances of the categories of a ball, each an array by wickets, day and place.

    Returns:
        Shape ``(balls + 1, wickets + 1, 3, places)``.
    """
    left, limit = state.innings_balls - state.balls, state.wickets_limit - state.wickets
    table = np.empty((left + 1, *ends.shape), dtype=np.float32)
    table[left] = ends
    for ball in range(left - 1, -1, -1):
        later, chances = table[ball + 1], weights(ball)
        found = np.zeros_like(later[:-1])
        for category in _VALID:
            then = later[1:] if category in (WICKET, RUN_OUT) else later[:-1]
            found += chances[category] * after.chance(then, category)
        again = found / (1.0 - chances[WIDE] - chances[NO_BALL])
        for category in (WIDE, NO_BALL):
            found += chances[category] * after.chance(again, category)
        table[ball, :-1] = found
        table[ball, limit:] = ends[limit:]
    return table

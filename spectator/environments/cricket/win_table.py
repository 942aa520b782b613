"""Win chances at every score of an innings, and the account of decisions.

The table comes from dynamic programming. It values decisions while a captain learns, when the Monte Carlo
forecast would be too expensive: one table serves an over. Both sides do what real sides do, the planned
bowlers and the batters to come are the match's own, and pitch and day are unknown. It leaves out only small
effects: which of the pair is on strike, free hits, rhythm.

The account assigns every change of the chance to win to exactly one of three parts: the captain's own
decisions, the other captain's, and the luck of the ball. They add up to the result minus the chance at the
start. A decision is compared with the usual one in the same state (real sides' intent, the standard field,
the side's usual bowler, the next batter of the order), over all outcomes of the ball. The actual outcome does
not count, so the same random numbers cannot be luckier for one captain than for another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.cricket.ball.prices import RUNS
from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.situation import WICKET_FIT, Situation, match_up, out_of_place
from spectator.environments.cricket.ball.tables import (
    CATEGORIES,
    FOUR,
    NO_BALL,
    RATE_PLACES,
    RUN_OUT,
    SET_LIMITS,
    SIX,
    STYLE_INDEX,
    WICKET,
    WIDE,
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
from spectator.environments.cricket.laws import SIDES, Side
from spectator.environments.cricket.match.engine import BattingIntent, BowlingIntent, Match, usual_bowler
from spectator.environments.cricket.match.field import standard_field
from spectator.environments.cricket.match.forecasts import forecast_state, with_batters, with_bowler
from spectator.environments.cricket.people import Player, Team
from spectator.environments.cricket.scorer import other

Table = NDArray[np.float32]

_NODES: Final = (-math.sqrt(3.0), 0.0, math.sqrt(3.0))
_SHARES: Final = (1 / 6, 2 / 3, 1 / 6)
"""Three values that represent a normal variable (Gauss-Hermite nodes), and their weights."""

_FACING: Final = ((0, 0.5), (1, 0.25), (2, 0.25))
"""Who faces, by the number of batters who came in later, and the share of the balls. Either of a pair is out
as often as the other, so the last but one in is still batting half of the time; otherwise an earlier one."""

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

    __slots__ = ("_chances", "_lost", "_start", "_target", "places", "plan", "state")

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
        self._start, self._lost, self._target = state.balls, state.wickets, state.target
        weights = _weights(state, model, self.plan, self.places, chasing=state.target is not None)
        if state.target is None:
            if reply is None:
                raise ValueError("a first innings needs reply; use reply_to(state, model)")
            first = min(state.runs, reply.shape[1] - 1)
            solved = _first_innings(state, weights, reply[:, first:])
        else:
            solved = _chase(state, weights, state.target - state.runs)
        self._chances: Table = np.einsum("k,bwkn->bwn", np.array(_SHARES, dtype=np.float32), solved)

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
        last = self.state.innings_balls
        return [
            self.chance(
                min(last, balls + (category not in (WIDE, NO_BALL))),
                wickets + (category in (WICKET, RUN_OUT)),
                runs + gained,
            )
            for category, gained in enumerate(RUNS)
        ]


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
    cap = _most_runs(state.innings_balls)
    solved = _chase(chase, _weights(chase, model, plan, None, chasing=True), cap)[0, 0]
    beaten = 1.0 - solved[:, np.minimum(np.arange(cap + 1) + 1, cap)]
    result: Table = (_conditional(model) @ beaten).astype(np.float32)
    return result


def _most_runs(innings_balls: int) -> int:
    return min(MAX_REQUIRED - 1, int(_RUNS_A_BALL * innings_balls) + _SPARE_RUNS)


def _conditional(model: BallModel) -> Table:
    """Return the second innings' effect weights given the first's effect.

    Both innings share the match's effect.
    """
    match_sd, innings_sd = model.tables.effect_sd
    shared = match_sd**2 / max(1e-9, match_sd**2 + innings_sd**2)
    rest = max(1e-6, 1.0 - shared**2)
    rows = []
    for first in _NODES:
        density = [
            share * math.exp(-(shared**2 * (first**2 + node**2) - 2.0 * shared * first * node) / (2.0 * rest))
            for node, share in zip(_NODES, _SHARES, strict=True)
        ]
        rows.append([value / sum(density) for value in density])
    return np.array(rows, dtype=np.float32)


def _weights(
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
    for back, share in _FACING:
        batter = np.clip(wickets - state.wickets + 1 - back, 0, len(_line(state)) - 1)
        people = _people(state, model, arrays, at, bowler, wickets, favour, batter)
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
) -> Table:
    """Return the multipliers of bowler and batter, shape ``(balls, wickets, 3, 11)``.

    ``batter`` is the batter in at each wicket, as an index of the line.
    """
    line = _line(state)
    balls = np.arange(state.balls, state.innings_balls)
    faced = balls[:, None] // (wickets + 2)
    bins = np.searchsorted(np.array(SET_LIMITS), faced, side="left")
    person = at.phase_of_ball[balls][:, None] * 11 + np.array([one.order - 1 for one in line])[batter]
    styles = np.array([STYLE_INDEX[one.style] for one in state.bowling])[bowler][:, None]
    left = np.array([int(one.bats == "left") for one in line])[batter]
    found = arrays.person[((person * 9 + bins) * 6 + styles) * 2 + left]
    factors = np.ones((len(balls), len(wickets), len(_NODES), CATEGORIES), dtype=np.float32)
    match_sd, innings_sd = model.tables.effect_sd
    effect = model.level + math.hypot(match_sd, innings_sd) * np.array(_NODES)
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


def _first_innings(state: ForecastState, weights: Table, reply: Table) -> Table:
    """Return chances by balls, wickets, day and runs, from the state on."""
    runs = np.arange(reply.shape[1])
    after = [np.minimum(runs + gained, runs[-1]) for gained in RUNS]
    ends = np.broadcast_to(reply, (11 - state.wickets, *reply.shape))
    return _solve(state, ends, after, lambda ball: weights[ball][:, :, None, :])


def _chase(state: ForecastState, weights: Table, cap: int) -> Table:
    """Return the same chances by runs still needed."""
    need = np.arange(cap + 1)
    after = [np.maximum(need - gained, 0) for gained in RUNS]
    ends = np.where(need == 0, 1.0, np.where(need == 1, 0.5, 0.0)).astype(np.float32)
    places = rate_places(state.innings_balls)

    def of_ball(ball: int) -> Table:
        left = state.innings_balls - state.balls - ball
        by_need: Table = weights[ball][:, :, places[left, need]]
        return by_need

    return _solve(state, np.broadcast_to(ends, (11 - state.wickets, len(_NODES), cap + 1)), after, of_ball)


def _solve(
    state: ForecastState,
    ends: NDArray[np.float32],
    after: Sequence[NDArray[np.int64]],
    weights: Callable[[int], Table],
) -> Table:
    """Solve backwards from the last ball.

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
            found += chances[..., category] * then[..., after[category]]
        again = found / (1.0 - chances[..., WIDE] - chances[..., NO_BALL])
        for category in (WIDE, NO_BALL):
            found += chances[..., category] * again[..., after[category]]
        table[ball, :-1] = found
        table[ball, limit:] = ends[limit:]
    return table


EVEN: Final = 0.5
"""Chance of either side when the tables do not apply: at a toss and in super overs."""

_PLAIN: Final = tuple(
    name for name in ForecastState._fields if name not in ("batting", "bowling", "attack", "reply")
)


class DecisionAccount:
    """The decision account of one match.

    It implements :class:`spectator.environments.cricket.match.game.Account`.

    Attributes:
        start: Chance of the home side when play began.
        now: Its current chance; its result once the match is over.
        decided: Sum of what each side's own decisions did to its own chance so far.
    """

    def __init__(self, model: BallModel, teams: Mapping[Side, Team]) -> None:
        self._model = model
        self._teams = teams
        self._table: WinTable | None = None
        self._batting: Side = "home"
        self._innings = 0
        self._opening: tuple[ForecastState, tuple[int, ...]] | None = None
        self._reply: Table | None = None
        self.start = self.now = EVEN
        self.decided: dict[Side, float] = dict.fromkeys(SIDES, 0.0)

    def match_started(self, match: Match) -> None:
        """Record that play is about to begin."""
        self._look(match)
        self.start = self.now

    def before_over(self, match: Match, bowler: int) -> None:
        """Value the bowler about to be given the over against the usual one."""
        state = forecast_state(match)
        if state is None:
            return
        usual = usual_bowler(match)
        self._use(match, with_bowler(state, bowler))
        if bowler != usual and bowler in match.eligible_bowlers():
            at_usual = self._solved(match, with_bowler(state, usual))
            gained = self._chance(match) - at_usual.chance(state.balls, state.wickets, state.runs)
            self.decided[match.fielding_side] -= gained
        self._settle(match)

    def before_batters(self, match: Match, batters: Sequence[int]) -> None:
        """Value the batters about to be sent in against the next in the order."""
        state = forecast_state(match)
        if state is None:
            return
        chosen = with_batters(state, match, batters)
        if chosen != state:
            self._use(match, chosen)
            usual = self._solved(match, state).chance(state.balls, state.wickets, state.runs)
            self.decided[match.batting_side] += self._chance(match) - usual
            self._settle(match)

    def before_ball(self, match: Match, batting: BattingIntent, bowling: BowlingIntent) -> None:
        """Value both captains' decisions for the ball about to be bowled."""
        innings = match.current
        usual_bat = BattingIntent()
        usual_bowl = BowlingIntent(field=standard_field(innings.format.outside_limit(innings.balls)))
        usual = match.situation(usual_bat, usual_bowl)
        table = self._table
        if table is None or usual is None or (batting == usual_bat and bowling == usual_bowl):
            return
        values = table.after(innings.balls, innings.wickets, innings.runs)
        default = self._worth(usual, values)
        if batting != usual_bat:
            chosen = match.situation(batting, usual_bowl)
            assert chosen is not None
            self.decided[match.batting_side] += self._worth(chosen, values) - default
        if bowling != usual_bowl:
            chosen = match.situation(usual_bat, bowling)
            assert chosen is not None
            self.decided[match.fielding_side] -= self._worth(chosen, values) - default

    def after_ball(self, match: Match) -> None:
        """Record that a ball was bowled; a table serves its innings until the next over."""
        if match.result is not None:
            winner = match.result.winner
            self.now = EVEN if winner is None else float(winner == "home")
        elif self._table is None or match.number != self._innings:
            self._look(match)
        else:
            self._settle(match)

    def dump(self) -> dict[str, Any]:
        """Return the account as plain JSON for :meth:`load`."""
        return {
            "start": self.start,
            "now": self.now,
            "decided": dict(self.decided),
            "batting": self._batting,
            "innings": self._innings,
            "table": None if self._table is None else _dumped(self._table),
            "opening": None if self._opening is None else _plain(*self._opening),
        }

    def load(self, data: Mapping[str, Any]) -> None:
        """Continue from a :meth:`dump`."""
        self.start, self.now, self.decided = data["start"], data["now"], dict(data["decided"])
        self._batting, self._innings = data["batting"], data["innings"]
        self._table = self._opening = self._reply = None
        if data["opening"] is not None:
            self._opening = self._state(data["opening"]), tuple(data["opening"]["plan"])
            self._reply = reply_to(self._opening[0], self._model, self._opening[1])
        if data["table"] is not None:
            state, plan = self._state(data["table"]), data["table"]["plan"]
            self._table = WinTable(state, self._model, self._reply, plan, data["table"].get("places"))

    def _worth(self, at: Situation, values: Sequence[float]) -> float:
        return sum(p * value for p, value in zip(self._model.weights(at), values, strict=True))

    def _look(self, match: Match) -> None:
        """Make a table for the current state, if the tables cover it."""
        state = forecast_state(match)
        if state is None:
            self._table, self.now = None, EVEN
            return
        self._table = self._solved(match, state)
        self._settle(match)

    def _use(self, match: Match, state: ForecastState) -> None:
        """Use the table of ``state``, keeping the current one if its plans are the same."""
        if self._table is None or self._innings != match.number or not _covers(self._table, state):
            self._table = self._solved(match, state)

    def _solved(self, match: Match, state: ForecastState) -> WinTable:
        self._batting, self._innings = match.batting_side, match.number
        if state.target is not None:
            self._opening = self._reply = None
        elif self._reply is None:
            plan = tuple(plan_overs(reply_state(state)))
            self._opening = state, plan
            self._reply = reply_to(state, self._model, plan)
        return WinTable(state, self._model, self._reply, places=_places(match, state))

    def _chance(self, match: Match) -> float:
        assert self._table is not None
        innings = match.current
        return self._table.chance(innings.balls, innings.wickets, innings.runs)

    def _settle(self, match: Match) -> None:
        chance = self._chance(match)
        self.now = chance if match.batting_side == "home" else 1.0 - chance

    def _state(self, plain: Mapping[str, Any]) -> ForecastState:
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in plain.items()
            if name not in ("plan", "places")
        }
        batting, bowling = self._teams[self._batting].players, self._teams[other(self._batting)].bowlers
        return ForecastState(**values, batting=batting, bowling=bowling)


def _plain(state: ForecastState, plan: Sequence[int]) -> dict[str, Any]:
    """Return a table's inputs except the players; past bowlers are in the plan."""
    return {"plan": list(plan), **{name: getattr(state, name) for name in _PLAIN}}


def _dumped(table: WinTable) -> dict[str, Any]:
    places = None if table.places is None else list(table.places)
    return {**_plain(table.state, table.plan), "places": places}


def _places(match: Match, state: ForecastState) -> tuple[int, ...]:
    """Return the places of the two at the crease; a new batter takes the next one."""
    lines = match.current.batting
    following = iter(range(len(lines) + 1, len(lines) + 3))
    return tuple(
        lines[batter].number if batter in lines else next(following)
        for batter in (state.striker, state.partner)
    )


def _covers(table: WinTable, state: ForecastState) -> bool:
    """Check whether ``table`` has the batters and remaining bowlers of ``state``."""
    old = table.state
    over = state.balls // 6
    return (
        old.wickets == state.wickets
        and old.balls <= state.balls
        and {old.striker, old.partner} == {state.striker, state.partner}
        and old.to_come == state.to_come
        and table.plan[over:] == tuple(plan_overs(state)[over:])
    )

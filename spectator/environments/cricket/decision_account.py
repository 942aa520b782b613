"""The account of decisions: what each captain's choices did to its own chance to win.

It assigns every change of the chance to win to exactly one of three parts: the captain's own decisions, the
other captain's, and the luck of the ball. They add up to the result minus the chance at the start. A decision
is compared with the usual one in the same state (real sides' intent, the standard field, the side's usual
bowler, the next batter of the order), over all outcomes of the ball. The actual outcome does not count, so
the same random numbers cannot be luckier for one captain than for another. Chances come from
:mod:`.forecast.win_table`, since the Monte Carlo forecast would be too expensive while a captain learns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.situation import Situation
from spectator.environments.cricket.forecast.state import ForecastState, plan_overs
from spectator.environments.cricket.forecast.win_table import Table, WinTable, reply_state, reply_to
from spectator.environments.cricket.laws import SIDES, Side
from spectator.environments.cricket.match.engine import BattingIntent, BowlingIntent, Match, usual_bowler
from spectator.environments.cricket.match.field import standard_field
from spectator.environments.cricket.match.forecasts import forecast_state, with_batters, with_bowler
from spectator.environments.cricket.people import Team
from spectator.environments.cricket.scorer import other

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

"""Where a match stands, as the forecast needs it, and who would bowl what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spectator.environments.cricket.ball.grounds import Boundaries
from spectator.environments.cricket.ball.matchups import EVEN, Conditions
from spectator.environments.cricket.ball.tiredness import load_by_over, tired_extras, tired_runs
from spectator.environments.cricket.forecast.arrays import Floats
from spectator.environments.cricket.forecast.bowling_plan import BowlingAttack, bowl_out
from spectator.environments.cricket.people.players import Player


class ForecastState(NamedTuple):
    """Where a match stands, as the forecast needs it; players are indices into their side's eleven.

    Args:
        innings_balls: Valid balls of an innings.
        powerplay_balls: Valid balls of its powerplay.
        balls: Valid balls bowled in the innings.
        runs: Runs scored in it.
        wickets: Wickets lost in it.
        target: Runs that win; ``None`` in a first innings.
        striker: Who faces.
        striker_balls: Balls he has faced.
        partner: The other batter in.
        partner_balls: Balls he has faced.
        to_come: Who has still to bat, in the order expected.
        batting: The batting side's eleven.
        bowling: The other side's eleven; somebody who does not bowl counts as an off-spinner.
        bowler: Who bowls the over in progress; ``None`` between overs.
        overs_left: Overs that each of the bowling side may still begin.
        last_bowler: Who bowled the over before, and may not bowl the next.
        bowler_overs: Overs that a bowler may bowl in a whole innings, for the innings to come.
        free_hit: Whether the next ball is one.
        wickets_limit: Dismissals that end an innings.
        effect_mean: What is expected of the match and innings effect beside the model's level: 0 when nothing
            is known.
        effect_sd: How uncertain that is; ``None`` takes the model's own spread.
        attack: The bowling side's bowling so far; made from ``bowling`` and ``overs_left`` when left out.
        conditions: Pitch and evening.
        second: Whether it is a second innings.
        reply: The batting side's bowling in the innings to come; made from ``batting`` when left out.
        boundaries: Boundaries of the ground; empty for the neutral one.
        fatigue: Whether bowlers tire.
    """

    innings_balls: int
    powerplay_balls: int
    balls: int
    runs: int
    wickets: int
    target: int | None
    striker: int
    striker_balls: int
    partner: int
    partner_balls: int
    to_come: tuple[int, ...]
    batting: tuple[Player, ...]
    bowling: tuple[Player, ...]
    bowler: int | None
    overs_left: tuple[int, ...]
    last_bowler: int | None = None
    bowler_overs: int = 4
    free_hit: bool = False
    wickets_limit: int = 10
    effect_mean: float = 0.0
    effect_sd: float | None = None
    attack: BowlingAttack | None = None
    reply: BowlingAttack | None = None
    conditions: Conditions = EVEN
    second: bool = False
    boundaries: Boundaries = ()
    fatigue: bool = False


def plan_overs(state: ForecastState) -> list[int]:
    """Who bowls each over of the innings: past ones filled with anybody, the rest as `choose_bowler` has it.

    Nobody bowls twice in a row, nor more than he may.
    """
    now = state.balls // 6
    attack = state.attack.copy() if state.attack is not None else _attack(state, now)
    plan = attack.starters[:now] if state.fatigue else [0] * now
    last = state.last_bowler
    if state.bowler is not None:
        plan.append(state.bowler)
        last = state.bowler
        if len(attack.starters) == now:
            attack.starters.append(state.bowler)
    return plan + bowl_out(attack, last)


def _attack(state: ForecastState, now: int) -> BowlingAttack:
    """The bowling of a state that does not tell who bowled so far: those who usually would."""
    attack = BowlingAttack.of(state.bowling, overs_of(state), state.bowler_overs)
    attack.starters = bowl_out(attack.copy(), None)[:now]
    attack.left = list(state.overs_left)
    return attack


def tired_overs(plan: Sequence[int], bowling: Sequence[Player]) -> Floats:
    """What the load of each over's bowler makes of it: log ratio of runs, and ratio of wides and no-balls.

    Args:
        plan: Who bowls each over, those bowled included.
        bowling: The bowling side's eleven.
    """
    told = list(zip(plan, load_by_over(plan), strict=True))
    runs = [tired_runs(bowling[bowler].bowls != "pace", load) for bowler, load in told]
    return np.array([runs, [tired_extras(load) for _, load in told]], dtype=np.float32)


def overs_of(state: ForecastState) -> int:
    """Overs of a whole innings."""
    return (state.innings_balls + 5) // 6


def check_state(state: ForecastState) -> None:
    """Raise where a state is none of an innings in progress.

    Raises:
        ValueError: Says which figure is wrong.
    """
    if len(state.batting) != 11 or len(state.bowling) != 11 or len(state.overs_left) != 11:
        raise ValueError("batting, bowling and overs_left must have eleven entries")
    if not 0 <= state.balls < state.innings_balls:
        raise ValueError(
            f"balls must be 0 to {state.innings_balls - 1} in an innings in progress, not {state.balls}"
        )
    if not 0 <= state.wickets < state.wickets_limit:
        raise ValueError(f"wickets must be 0 to {state.wickets_limit - 1}, not {state.wickets}")
    if state.target is not None and state.runs >= state.target:
        raise ValueError("the target is reached; the innings is over")

"""Forecasts of a match in progress, and what its balls say of the pitch.

A match and each of its innings have a hidden effect (`Effects`). Every ball tells a little of it:
boundaries where few were to be expected speak for a good day to bat on, dots and wickets against one.
The reading adds that up as the gradient and the information of the log likelihood (one Newton step from
the expected effect, which is small), with the shift of each over (`rhythm`), unknown too, integrated
out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from spectator.environments.cricket import scorer as laws
from spectator.environments.cricket.ball.outcomes import BowledBall
from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.tables import CATEGORIES, DOT, FOUR, SIX, WICKET, effect_scale
from spectator.environments.cricket.forecast.monte_carlo import decision_value, forecast, next_ball_values
from spectator.environments.cricket.forecast.state import BowlingAttack, ForecastState, spin_habit
from spectator.environments.cricket.match.engine import BattingIntent, BowlingIntent, Match, bowling_attack
from spectator.environments.cricket.match.field import standard_field

INNINGS: Final = 2
"""Innings that are read; super overs are not foretold."""


class Expected(NamedTuple):
    """What is to be expected of the effect of an innings.

    Args:
        mean: Beside the model's level, a shift of the log odds of boundaries.
        sd: Its standard deviation.
    """

    mean: float
    sd: float


@dataclass(slots=True)
class _InningsReading:
    """What the balls of one innings say.

    Args:
        gradient: Of the log likelihood by the effect, over completed overs.
        information: Its expected curvature, likewise.
        over: Over of the last ball.
        balls: Sums over its balls: gradient by effect and by the over's shift, and the three entries of their
            information (effect, both, shift).
    """

    gradient: float = 0.0
    information: float = 0.0
    over: int = 0
    balls: list[float] = field(default_factory=lambda: [0.0] * 5)

    def sums(self, shift_sd: float) -> tuple[float, float]:
        """Gradient and information by the effect, the over's shift integrated out."""
        effect, shift, of_effect, both, of_shift = self.balls
        share = both / (of_shift + shift_sd**-2)
        return self.gradient + effect - share * shift, self.information + of_effect - share * both


class PitchReading:
    """Reads the effect of a match from its balls; as fair as a viewer, it sees what came of each and not why.

    Args:
        model: The model that the match is played by.

    >>> model = BallModel.load()
    >>> reading = PitchReading(model)
    >>> Expected(0.0, math.hypot(*model.tables.effect_sd)) == reading.expected(1)
    True
    """

    def __init__(self, model: BallModel) -> None:
        self._model = model
        tables = model.tables
        self._effect = [0.0] * CATEGORIES
        self._effect[DOT], self._effect[WICKET] = -tables.dot_share, -tables.wicket_share
        self._effect[FOUR] = self._effect[SIX] = 1.0
        self._shift = self._effect.copy()
        self._shift[WICKET] = 0.0
        self._innings = [_InningsReading() for _ in range(INNINGS)]

    def saw(self, innings: int, ball: BowledBall) -> None:
        """Take note of a ball.

        Args:
            innings: Its innings, from 1; super overs say nothing.
            ball: The ball; the effect that it was bowled under is not looked at.
        """
        if innings > INNINGS:
            return
        reading, over = self._innings[innings - 1], ball.at.balls_bowled // 6
        if over != reading.over:
            sums = reading.sums(self._model.tables.rhythm_sd)
            reading.gradient, reading.information = sums
            reading.over, reading.balls = over, [0.0] * 5
        told = self._told(ball)
        reading.balls = [a + b for a, b in zip(reading.balls, told, strict=True)]

    def expected(self, innings: int) -> Expected:
        """The effect of an innings (1 or 2) by all balls seen so far."""
        tables = self._model.tables
        match_sd, innings_sd = tables.effect_sd
        spread = match_sd**2 + innings_sd**2
        gradient, information = self._innings[0].sums(tables.rhythm_sd)
        first = 1.0 / (1.0 / spread + information)
        if innings == 1:
            return Expected(gradient * first, math.sqrt(first))
        shared = match_sd**2 / spread
        mean = shared * gradient * first
        before = shared**2 * first + shared * innings_sd**2 + innings_sd**2
        gradient, information = self._innings[1].sums(tables.rhythm_sd)
        second = 1.0 / (1.0 / before + information)
        return Expected((mean / before + gradient) * second, math.sqrt(second))

    def dump(self) -> list[list[float]]:
        """All that :meth:`load` needs, plain JSON."""
        return [[one.gradient, one.information, one.over, *one.balls] for one in self._innings]

    def load(self, data: Sequence[Sequence[float]]) -> None:
        """Go on from where :meth:`dump` was called."""
        self._innings = [
            _InningsReading(gradient, information, int(over), list(balls))
            for gradient, information, over, *balls in data
        ]

    def _told(self, ball: BowledBall) -> tuple[float, ...]:
        """What one ball adds to the sums of its over."""
        at, category = ball.at, ball.category
        scale = effect_scale(at.innings_balls)
        level = self._model.level * scale
        usual = self._model.weights(replace(at, effect=0.0))
        chances = [p * math.exp(by * level) for p, by in zip(usual, self._effect, strict=True)]
        total = sum(chances)
        by_effect, by_shift = self._effect, self._shift
        mean = mean_shift = of_effect = both = of_shift = 0.0
        for p, effect, shift in zip(chances, by_effect, by_shift, strict=True):
            p /= total
            mean += p * effect
            mean_shift += p * shift
            of_effect += p * effect * effect
            both += p * effect * shift
            of_shift += p * shift * shift
        return (
            scale * (by_effect[category] - mean),
            by_shift[category] - mean_shift,
            scale * scale * (of_effect - mean * mean),
            scale * (both - mean * mean_shift),
            of_shift - mean_shift * mean_shift,
        )


def forecast_state(match: Match) -> ForecastState | None:
    """Where ``match`` stands, for the forecast; ``None`` when it is decided or in a super over.

    A vacant end is taken by the next batter in the order; the effect of match and innings counts as unknown,
    as it is to captains.
    """
    innings = match.innings[-1]
    if match.result is not None or innings.closed or match.number > 2:
        return None
    batting, bowling = match.teams[match.batting_side], match.teams[match.fielding_side]
    waiting = [player for player in range(11) if laws.may_bat(innings, player)]
    striker = innings.striker if innings.striker is not None else waiting.pop(0)
    partner = innings.non_striker if innings.non_striker is not None else waiting.pop(0)
    faced = {player: line.balls for player, line in innings.batting.items()}
    left = laws.overs_left_of_all(innings)
    left = [overs if bowls else 0 for overs, bowls in zip(left, bowling.bowls, strict=True)]
    last = innings.previous_bowlers[-1] if innings.previous_bowlers else None
    return ForecastState(
        innings_balls=innings.format.balls,
        powerplay_balls=innings.format.powerplay_balls,
        balls=innings.balls,
        runs=innings.runs,
        wickets=innings.wickets,
        target=innings.target,
        striker=striker,
        striker_balls=faced.get(striker, 0),
        partner=partner,
        partner_balls=faced.get(partner, 0),
        to_come=tuple(waiting),
        batting=batting.players,
        bowling=bowling.bowlers,
        bowler=innings.bowler,
        overs_left=tuple(left),
        last_bowler=last,
        bowler_overs=innings.format.bowler_overs,
        free_hit=innings.free_hit,
        wickets_limit=innings.limit,
        attack=replace(bowling_attack(match), left=left),
        reply=_reply(match),
        conditions=match.conditions,
        second=match.number % 2 == 0,
        boundaries=match.ground.boundaries,
        fatigue=match.fatigue,
    )


def read_state(match: Match, reading: PitchReading | None) -> ForecastState | None:
    """`forecast_state` with what the balls so far say of the day."""
    state = forecast_state(match)
    if state is None or reading is None:
        return state
    expected = reading.expected(match.number)
    return state._replace(effect_mean=expected.mean, effect_sd=expected.sd)


def with_bowler(state: ForecastState, bowler: int) -> ForecastState:
    """``state``, between overs, with this bowler given the next."""
    left = list(state.overs_left)
    left[bowler] = max(0, left[bowler] - 1)
    attack = None if state.attack is None else state.attack.copy()
    if attack is not None:
        attack.take(bowler)
    return state._replace(bowler=bowler, overs_left=tuple(left), attack=attack)


def with_batters(state: ForecastState, match: Match, batters: Sequence[int]) -> ForecastState:
    """``state`` with these batters where the next of the order are expected."""
    line = [state.striker, state.partner, *state.to_come]
    innings = match.current
    at = [place for place, one in enumerate((innings.striker, innings.non_striker)) if one is None]
    rest = [player for player in line if player not in batters]
    for place, batter in zip(at, batters, strict=False):
        rest.insert(place, batter)
    return state._replace(striker=rest[0], partner=rest[1], to_come=tuple(rest[2:]))


def _reply(match: Match) -> BowlingAttack:
    """The bowling of the side that bats now, in the innings to come."""
    team, format = match.teams[match.batting_side], match.format
    habit = spin_habit(team.name, match.number + 1)
    return BowlingAttack.of(team.players, format.overs, format.bowler_overs, format.extra_overs, habit)


def forecast_data(
    match: Match, futures: int, seed: int, reading: PitchReading | None = None
) -> dict[str, Any] | None:
    """Data of ``cricket.forecast`` but for the decisions' values; ``None`` in a super over.

    Args:
        match: The match.
        futures: How many to play.
        seed: Seed of their chance, apart from the match's own.
        reading: What the balls so far say of the day; nothing when left out.
    """
    state = read_state(match, reading)
    if state is None:
        return _decided(match)
    found = forecast(state, futures, np.random.default_rng(seed), match.model)
    return {
        **_chances(match, found.p_win, found.p_win_se, found.p_tie),
        "total": round(found.total, 1),
        "total_low": round(found.total_low),
        "total_median": round(found.total_median),
        "total_high": round(found.total_high),
        "over_runs": round(found.over_runs, 2),
        "over_wicket": round(found.over_wicket, 4),
        "futures": found.futures,
    }


def _decided(match: Match) -> dict[str, Any] | None:
    decided = match.result
    if decided is None:
        return None
    runs = match.current.runs
    won = 0.5 if decided.winner is None else float(decided.winner == match.batting_side)
    certain = {"total": float(runs), "total_low": runs, "total_median": runs, "total_high": runs}
    nothing = {"over_runs": 0.0, "over_wicket": 0.0, "futures": 0}
    return {**_chances(match, won, 0.0, float(decided.winner is None)), **certain, **nothing}


def _chances(match: Match, p_win: float, error: float, p_tie: float) -> dict[str, Any]:
    side, chance = match.batting_side, round(p_win, 4)
    return {
        "innings": match.number,
        "delivery": match.current.deliveries,
        "batting": side,
        "home": chance if side == "home" else round(1.0 - chance, 4),
        "away": chance if side == "away" else round(1.0 - chance, 4),
        "se": round(error, 4),
        "tie": round(p_tie, 4),
    }


def decision_values(
    match: Match,
    batting: BattingIntent,
    bowling: BowlingIntent,
    futures: int,
    seed: int,
    reading: PitchReading | None = None,
) -> dict[str, float]:
    """What both captains' decisions on the next ball do to their own side's chance of winning.

    Each is weighed alone against the default decision (real sides' intent, the standard field), over the
    chance of every outcome of the one ball, so that what came of it does not enter.

    Args:
        match: The match, just before the ball.
        batting: What the batting captain decided.
        bowling: What the fielding captain decided.
        futures: How many futures to play, shared among the outcomes.
        seed: Seed of their chance.
        reading: What the balls so far say of the day; nothing when left out.
    """
    innings = match.current
    usual_bat = BattingIntent()
    usual_bowl = BowlingIntent(field=standard_field(innings.format.outside_limit(innings.balls)))
    state, default = read_state(match, reading), match.situation(usual_bat, usual_bowl)
    if state is None or default is None or (batting == usual_bat and bowling == usual_bowl):
        return {"batting_value": 0.0, "bowling_value": 0.0}
    values = next_ball_values(state, max(1, futures // CATEGORIES), np.random.default_rng(seed), match.model)

    def worth(bat: BattingIntent, bowl: BowlingIntent) -> float:
        decided = match.situation(bat, bowl)
        return 0.0 if decided is None else decision_value(match.model, decided, default, values)

    return {
        "batting_value": round(worth(batting, usual_bowl), 4) + 0.0,
        "bowling_value": round(-worth(usual_bat, bowling), 4) + 0.0,
    }

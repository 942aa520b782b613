"""Forecasts of a match in progress, and what its balls reveal of the pitch.

A match and each of its innings have a hidden effect (`Effects`). Every ball is weak evidence of it:
unexpected boundaries suggest a good day to bat on, dots and wickets the opposite. The reading adds up the
gradient and the information of the log likelihood (one Newton step from the expected effect, which is small),
with the unknown shift of each over (`rhythm`) integrated out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np

from spectator.environments.cricket import scorer
from spectator.environments.cricket.ball.outcomes import BowledBall
from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.tables import CATEGORIES, DOT, FOUR, SIX, WICKET, effect_scale
from spectator.environments.cricket.forecast.monte_carlo import decision_value, forecast, next_ball_values
from spectator.environments.cricket.forecast.state import BowlingAttack, ForecastState, spin_habit
from spectator.environments.cricket.match.engine import BattingIntent, BowlingIntent, Match, bowling_attack
from spectator.environments.cricket.match.field import standard_field

INNINGS: Final = 2
"""Number of innings that are read; super overs have no forecast."""


class Expected(NamedTuple):
    """The expected effect of an innings.

    Args:
        mean: Shift of the log odds of boundaries relative to the model's level.
    """

    mean: float
    sd: float


@dataclass(slots=True)
class _InningsReading:
    """The evidence from the balls of one innings.

    Args:
        gradient: Gradient of the log likelihood by the effect, over completed overs.
        information: Its expected curvature, likewise.
        balls: Sums over the current over's balls: gradient by effect and by the over's shift, and the three
            entries of their information (effect, both, shift).
    """

    gradient: float = 0.0
    information: float = 0.0
    over: int = 0
    balls: list[float] = field(default_factory=lambda: [0.0] * 5)

    def sums(self, shift_sd: float) -> tuple[float, float]:
        """Return gradient and information by the effect, over all shifts of the over."""
        effect, shift, of_effect, both, of_shift = self.balls
        share = both / (of_shift + shift_sd**-2)
        return self.gradient + effect - share * shift, self.information + of_effect - share * both


class PitchReading:
    """Estimates a match's effect from its balls' outcomes, which any viewer sees.

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

    def observe(self, innings: int, ball: BowledBall) -> None:
        """Add the evidence of a ball.

        Args:
            innings: Its innings, from 1; super overs are ignored.
            ball: The ball; the hidden effect in its situation is not used.
        """
        if innings > INNINGS:
            return
        reading, over = self._innings[innings - 1], ball.at.balls_bowled // 6
        if over != reading.over:
            sums = reading.sums(self._model.tables.rhythm_sd)
            reading.gradient, reading.information = sums
            reading.over, reading.balls = over, [0.0] * 5
        added = self._evidence(ball)
        reading.balls = [a + b for a, b in zip(reading.balls, added, strict=True)]

    def expected(self, innings: int) -> Expected:
        """Return the expected effect of an innings (1 or 2) after all observed balls."""
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
        """Return the reading as plain JSON for :meth:`load`."""
        return [[one.gradient, one.information, one.over, *one.balls] for one in self._innings]

    def load(self, data: Sequence[Sequence[float]]) -> None:
        """Continue from a :meth:`dump`."""
        self._innings = [
            _InningsReading(gradient, information, int(over), list(balls))
            for gradient, information, over, *balls in data
        ]

    def _evidence(self, ball: BowledBall) -> tuple[float, ...]:
        """Return what one ball adds to the sums of its over."""
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
    """Return the forecast's state; ``None`` if decided or in a super over.

    The next batter in the order takes a vacant end. The effect of match and innings counts as unknown, as it
    is to captains.
    """
    innings = match.innings[-1]
    if match.result is not None or innings.closed or match.number > 2:
        return None
    batting, bowling = match.teams[match.batting_side], match.teams[match.fielding_side]
    waiting = [player for player in range(11) if scorer.may_bat(innings, player)]
    striker = innings.striker if innings.striker is not None else waiting.pop(0)
    partner = innings.non_striker if innings.non_striker is not None else waiting.pop(0)
    faced = {player: line.balls for player, line in innings.batting.items()}
    left = scorer.overs_left_of_all(innings)
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
    """Return `forecast_state` with the day's effect estimated from the balls so far."""
    state = forecast_state(match)
    if state is None or reading is None:
        return state
    expected = reading.expected(match.number)
    return state._replace(effect_mean=expected.mean, effect_sd=expected.sd)


def with_bowler(state: ForecastState, bowler: int) -> ForecastState:
    """Return ``state``, between overs, with the next over given to this bowler."""
    left = list(state.overs_left)
    left[bowler] = max(0, left[bowler] - 1)
    attack = None if state.attack is None else state.attack.copy()
    if attack is not None:
        attack.take(bowler)
    return state._replace(bowler=bowler, overs_left=tuple(left), attack=attack)


def with_batters(state: ForecastState, match: Match, batters: Sequence[int]) -> ForecastState:
    """Return ``state`` with these batters in place of the next in the order."""
    line = [state.striker, state.partner, *state.to_come]
    innings = match.current
    at = [place for place, one in enumerate((innings.striker, innings.non_striker)) if one is None]
    rest = [player for player in line if player not in batters]
    for place, batter in zip(at, batters, strict=False):
        rest.insert(place, batter)
    return state._replace(striker=rest[0], partner=rest[1], to_come=tuple(rest[2:]))


def _reply(match: Match) -> BowlingAttack:
    """Return the batting side's bowling in the next innings."""
    team, format = match.teams[match.batting_side], match.format
    habit = spin_habit(team.name, match.number + 1)
    return BowlingAttack.of(team.players, format.overs, format.bowler_overs, format.extra_overs, habit)


def forecast_data(
    match: Match, futures: int, seed: int, reading: PitchReading | None = None
) -> dict[str, Any] | None:
    """Return a ``cricket.forecast`` without decision values; ``None`` in a super over.

    Args:
        seed: Seed of their randomness, separate from the match's own.
        reading: The reading of the balls so far; without one the day counts as unknown.
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
    """Return the effect of both captains' decisions on their own win chances.

    Each decision on the next ball is compared alone with the default one (real sides' intent, the standard
    field), over the chance of every outcome of the ball, so that the actual outcome does not count.

    Args:
        match: The match, just before the ball.
        futures: Number of futures to simulate, shared among the outcomes.
        reading: The reading of the balls so far; without one the day counts as unknown.
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

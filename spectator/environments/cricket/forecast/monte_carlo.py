"""The Monte Carlo forecast: win chances, totals, and the rest of the over.

To compare calls, all use the same random numbers in each future. They then differ only by the calls and their
consequences, and the difference has a fraction of the noise of either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectator.environments.cricket.ball.grounds import Conditions, condition_runs
from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.situation import Situation
from spectator.environments.cricket.ball.tables import CATEGORIES
from spectator.environments.cricket.forecast.arrays import (
    Floats,
    InningsArrays,
    InningsTotals,
    Ints,
    model_arrays,
    skill_arrays,
)
from spectator.environments.cricket.forecast.batch_innings import play
from spectator.environments.cricket.forecast.state import (
    BowlingAttack,
    ForecastState,
    check_state,
    overs_of,
    plan_overs,
    plan_remaining_overs,
    tired_overs,
)


class Forecast(NamedTuple):
    """The summary of the futures.

    Args:
        p_win: Chance that the batting side wins; a tie counts half, since a super over decides it.
        p_tie: Chance that the scores end level.
        total: Mean total of the current innings.
        total_low: 10th percentile of the totals.
        total_high: 90th percentile of the totals.
        wickets: Mean wickets lost at the end of the innings.
        over_runs: Mean runs still to come in this over.
        over_wicket: Chance of a wicket in the rest of this over.
    """

    p_win: float
    p_win_se: float
    p_tie: float
    total: float
    total_low: float
    total_median: float
    total_high: float
    wickets: float
    over_runs: float
    over_wicket: float
    futures: int
    deliveries: int


def forecast(
    state: ForecastState, n: int, rng: np.random.Generator, model: BallModel | None = None
) -> Forecast:
    """Simulate ``n`` futures of a match in which both sides do what real sides do.

    Args:
        n: Number of futures, at least 1.
        model: The ball model; by default the shipped men's model.

    Raises:
        ValueError: ``n`` is below 1, or the match is not in progress.

    >>> from spectator.environments.cricket.people import draw_fixture
    >>> home, away = (squad.players for squad in draw_fixture(7))
    >>> chase = ForecastState(
    ...     innings_balls=120, powerplay_balls=36, balls=90, runs=110, wickets=4, target=150,
    ...     striker=4, striker_balls=12, partner=5, partner_balls=3, to_come=(6, 7, 8, 9, 10),
    ...     batting=home, bowling=away,
    ...     bowler=None, overs_left=(0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2),
    ... )
    >>> 0.1 < forecast(chase, 500, np.random.default_rng(1)).p_win < 0.9
    True
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    return Futures(state, n, rng, model).forecast()


def next_ball_values(
    state: ForecastState, n: int, rng: np.random.Generator, model: BallModel | None = None
) -> tuple[float, ...]:
    """Return the batting side's win chance after each category of the next ball.

    Combined with the probabilities of the categories under two plans (`BallModel.weights`), this compares the
    plans without the noise of simulating both: see `decision_value`.

    Args:
        n: Number of futures for each category, at least 1.
        model: The ball model; by default the shipped men's model.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    forced = np.tile(np.arange(CATEGORIES, dtype=np.uint8), n)
    futures = Futures(state, n * CATEGORIES, rng, model)
    won = futures.wins(futures.first(forced))
    return tuple(float(value) for value in won.reshape(n, CATEGORIES).mean(axis=0))


def decision_value(
    model: BallModel, decided: Situation, default: Situation, values: Sequence[float]
) -> float:
    """Return the batting side's gain in win chance by ``decided`` over ``default``."""
    chosen, usual = model.weights(decided), model.weights(default)
    return sum((a - b) * value for a, b, value in zip(chosen, usual, values, strict=True))


@cache
def _usual_model() -> BallModel:
    return BallModel.load()


class Futures:
    """The futures of one state.

    Args:
        common: See :class:`..arrays.InningsArrays`; the next innings uses other numbers.
        called: Effect of captains' calls on the current innings, see :class:`..arrays.InningsArrays`.
        sharing: See :class:`..arrays.InningsArrays`; it must divide ``n``.
    """

    def __init__(
        self,
        state: ForecastState,
        n: int,
        rng: np.random.Generator,
        model: BallModel | None,
        common: Sequence[int] | None = None,
        called: Floats | None = None,
        sharing: int = 1,
    ) -> None:
        check_state(state)
        model = _usual_model() if model is None else model
        tables = model.tables
        self.styles: Floats = np.array(model.prices(state.innings_balls).styles, dtype=np.float32)
        self.state, self.n, self.rng = state, n, rng
        self.common, self.called, self.sharing = common, called, sharing
        self.model = model_arrays(tables)
        self.skills = skill_arrays(state.batting, state.bowling)
        match_sd, innings_sd = tables.effect_sd
        spread = math.hypot(match_sd, innings_sd) if state.effect_sd is None else state.effect_sd
        drawn = state.effect_mean + spread * self._normal()
        self.effect: Floats = (model.level + drawn).astype(np.float32)
        shared = match_sd**2 / max(1e-9, match_sd**2 + innings_sd**2)
        # What the next innings shares with this one, given this one's drawn effect; it also has the level.
        rest = math.sqrt(match_sd**2 * (1.0 - shared) + innings_sd**2)
        self.next_effect: Floats = (model.level + shared * drawn + rest * self._normal()).astype(np.float32)
        self.second_deliveries = 0

    def _normal(self) -> Floats:
        """Draw one number per future for a whole match; futures that share luck share it."""
        drawn = self.rng.standard_normal(self.n // self.sharing, dtype=np.float32)
        return drawn if self.sharing == 1 else np.repeat(drawn, self.sharing)

    def forecast(self) -> Forecast:
        """Simulate the futures and summarise them."""
        ends = self.first()
        won = self.wins(ends)
        p_win = float(won.mean())
        low, median, high = (float(value) for value in np.percentile(ends.runs, (10, 50, 90)))
        at = self.state
        return Forecast(
            p_win=p_win,
            p_win_se=math.sqrt(max(p_win * (1.0 - p_win), 0.0) / self.n),
            p_tie=float((won == 0.5).mean()),
            total=float(ends.runs.mean()),
            total_low=low,
            total_median=median,
            total_high=high,
            wickets=float(ends.wickets.mean()),
            over_runs=float(ends.marked_runs.mean()) - at.runs,
            over_wicket=float((ends.marked_wickets > at.wickets).mean()),
            futures=self.n,
            deliveries=ends.deliveries + self.second_deliveries,
        )

    def first(self, forced: NDArray[np.uint8] | None = None) -> InningsTotals:
        """Simulate the current innings to its end."""
        at, n = self.state, self.n
        plan = plan_overs(at)
        innings = InningsArrays(
            innings_balls=at.innings_balls,
            powerplay_balls=at.powerplay_balls,
            wickets_limit=at.wickets_limit,
            target=None if at.target is None else np.full(n, at.target),
            balls=np.full(n, at.balls),
            runs=np.full(n, at.runs),
            wickets=np.full(n, at.wickets),
            order=np.array([at.striker, at.partner, *at.to_come]),
            striker=np.full(n, at.striker),
            partner=np.full(n, at.partner),
            faced=np.full(n, at.striker_balls),
            faced_partner=np.full(n, at.partner_balls),
            next_in=np.full(n, 2),
            today=_today(at.conditions, at.second),
            styles=self.styles,
            bowlers=11 + np.array(plan),
            boundaries=at.boundaries,
            tired=tired_overs(plan, at.bowling) if at.fatigue else None,
            effect=self.effect,
            free_hit=np.full(n, at.free_hit),
            mark=6 * (at.balls // 6 + 1),
            called=self.called,
            common=None if self.common is None else (*self.common, 1),
            sharing=self.sharing,
        )
        return play(self.model, self.skills, innings, self.rng, forced=forced)

    def wins(self, ends: InningsTotals) -> NDArray[np.float64]:
        """Return 1, 0.5 or 0 for every future: whether the batting side wins the match."""
        at = self.state
        if at.target is not None:
            return np.where(ends.runs >= at.target, 1.0, np.where(ends.runs == at.target - 1, 0.5, 0.0))
        reply = self._reply(ends.runs + 1)
        self.second_deliveries = reply.deliveries
        return np.where(reply.runs < ends.runs, 1.0, np.where(reply.runs == ends.runs, 0.5, 0.0))

    def _reply(self, target: Ints) -> InningsTotals:
        """Simulate the other side's whole innings."""
        at, n = self.state, self.n
        zeros = np.zeros(n, dtype=np.int64)
        attack = at.reply or BowlingAttack.of(at.batting, overs_of(at), at.bowler_overs)
        overs = plan_remaining_overs(attack.copy(), None)
        innings = InningsArrays(
            innings_balls=at.innings_balls,
            powerplay_balls=at.powerplay_balls,
            wickets_limit=at.wickets_limit,
            target=target,
            balls=zeros,
            runs=zeros,
            wickets=zeros,
            order=11 + np.arange(11),
            striker=np.full(n, 11),
            partner=np.full(n, 12),
            faced=zeros,
            faced_partner=zeros,
            next_in=np.full(n, 2),
            today=_today(at.conditions, True),
            styles=self.styles,
            bowlers=np.array(overs),
            boundaries=at.boundaries,
            tired=tired_overs(overs, at.batting) if at.fatigue else None,
            effect=self.next_effect,
            free_hit=np.zeros(n, dtype=np.bool_),
            common=None if self.common is None else (*self.common, 2),
            sharing=self.sharing,
        )
        return play(self.model, self.skills, innings, self.rng)


def _today(conditions: Conditions, second: bool) -> tuple[float, float]:
    pace, spin = (condition_runs(conditions, spin, second) for spin in (False, True))
    return pace, spin


Wins = NDArray[np.float64]
"""1, 0.5 or 0 for every future, shape ``(n,)``: whether the batting side wins."""


def wins(state: ForecastState, n: int, seed: int, model: BallModel, called: Floats | None = None) -> Wins:
    """Simulate ``n`` futures from ``state`` and return who wins.

    Args:
        n: Number of futures, at least 1.
        seed: Seed of their random numbers, 0 or more; use the same seed for all calls to compare.
        called: See :class:`..arrays.InningsArrays`.
    """
    futures = Futures(state, n, np.random.default_rng(seed), model, (seed,), called)
    return futures.wins(futures.first())


def next_ball_wins(state: ForecastState, rows: int, seed: int, model: BallModel) -> NDArray[np.float64]:
    """Return whether the batting side wins after each category of the next ball.

    The futures of a row have the same luck after the ball. So a row is more precise than eleven independent
    futures on the difference between categories, by which calls differ, and less precise on each category.

    Args:
        rows: Number of independent rows, at least 1.

    Returns:
        1, 0.5 or 0, shape ``(rows, 11)``.
    """
    forced = np.tile(np.arange(CATEGORIES, dtype=np.uint8), rows)
    rng = np.random.default_rng(seed)
    futures = Futures(state, len(forced), rng, model, (seed,), sharing=CATEGORIES)
    return futures.wins(futures.first(forced)).reshape(rows, CATEGORIES)

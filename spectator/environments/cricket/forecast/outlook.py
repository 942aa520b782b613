"""What average sides make of every score: runs to come, chance to win, and par.

One outlook belongs to a kind of match: profile, scoring level, overs, evening, ground and tiredness. Its
figures are what captains, viewers and graders see wherever a match has no Monte Carlo forecast (which also
knows the players). It comes from the dynamic programming of :mod:`.win_table`, for two elevens of average
players. The day is unknown, but what both innings have made so far is evidence of it. Both sides count as
equally well captained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectator.environments.cricket.ball.grounds import EVEN, Boundaries, Conditions, Evening
from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.tables import BYE, NO_BALL, RUN_OUT, WICKET, WIDE
from spectator.environments.cricket.forecast.state import BowlingAttack, ForecastState, plan_overs
from spectator.environments.cricket.forecast.win_table import (
    SHARES,
    category_chances,
    mean_runs,
    most_runs,
    next_days,
    reply_state,
    solve_chase,
    solve_first_innings,
)
from spectator.environments.cricket.laws import Format
from spectator.environments.cricket.people import BowlingStyle, Player, as_bowler

Values = NDArray[np.float64]

_BOWLERS: Final[dict[int, tuple[BowlingStyle, float]]] = {
    6: ("off", 0.56), 7: ("right_pace", 0.3), 8: ("leg", -0.56), 9: ("right_pace", -1.03),
    10: ("left_pace", -0.3), 11: ("right_pace", 1.03),
}  # fmt: skip
"""Style of the average eleven's bowlers by place in the order, and how many standard deviations each is from
the average: the better ones bowl more overs, so equal bowlers would concede too much."""
_BOWLER_SD: Final = (0.065, 0.035)
"""Spread of bowlers' runs and wickets, as log ratios (player_skill.json)."""
_LEFT_HANDED: Final = (2, 5, 8)
_KEPT: Final = (*range(6), BYE)
"""Categories of a valid ball without a wicket."""
_PERCENTILES: Final = (5, 95)
_CERTAIN: Final = 1e-9


def average_eleven() -> tuple[Player, ...]:
    """Return eleven average players, as two sides that differ only by luck would field."""
    players = []
    for place in range(1, 12):
        style, better = _BOWLERS.get(place, (None, 0.0))
        kind = None if style is None else "pace" if style.endswith("pace") else "spin"
        name, hand = f"player {place}", "left" if place in _LEFT_HANDED else "right"
        runs, wickets = (math.exp(sd * better) for sd in _BOWLER_SD)
        players.append(
            Player(
                name, name, "batter", place, hand, kind, style,  # type: ignore[arg-type]
                bowl_runs=runs, bowl_wickets=1.0 / wickets,
            )
        )  # fmt: skip
    return tuple(players)


class Par(NamedTuple):
    """Scores of average sides after an over, in runs.

    Args:
        low: 10th percentile.
        high: 90th percentile.
    """

    low: float
    median: float
    high: float


class Outlook:
    """The outlook of one kind of match; use :func:`outlook_of`, which keeps the last few.

    Args:
        boundaries: Boundaries of the ground; empty for the neutral one.
        fatigue: Whether bowlers tire.
    """

    def __init__(
        self,
        model: BallModel,
        format: Format,
        evening: Evening = "even",
        boundaries: Boundaries = (),
        fatigue: bool = False,
    ) -> None:
        self._model, self.format = model, format
        self._limit = format.wickets
        eleven = average_eleven()
        attack = BowlingAttack.of(eleven, format.overs, format.bowler_overs, format.extra_overs)
        self._start = ForecastState(
            innings_balls=format.balls, powerplay_balls=format.powerplay_balls, balls=0, runs=0, wickets=0,
            target=None, striker=0, striker_balls=0, partner=1, partner_balls=0,
            to_come=tuple(range(2, 11)), batting=eleven, bowling=tuple(map(as_bowler, eleven)), bowler=None,
            overs_left=tuple(attack.left), bowler_overs=format.bowler_overs, wickets_limit=format.wickets,
            attack=attack, reply=attack, conditions=Conditions(EVEN.pitch, evening), boundaries=boundaries,
            fatigue=fatigue,
        )  # fmt: skip
        self._chances = category_chances(self._start, model, plan_overs(self._start), None, chasing=False)
        runs = mean_runs(model.tables)
        self._to_come = _runs_to_come(self._chances.astype(np.float64), runs, self._limit)
        self._seen = _scores(self._chances.astype(np.float64), runs, self._limit)

    def runs_to_come(self, balls: int, wickets: int) -> float:
        """Return the runs that a first innings still makes after this many balls and wickets."""
        return _mixed(SHARES, self._to_come[min(balls, self.format.balls)][min(wickets, self._limit)])

    @cached_property
    def par(self) -> float:
        """Mean total of a first innings."""
        return self.runs_to_come(0, 0)

    @cached_property
    def spread(self) -> float:
        """Standard deviation of a first innings' total."""
        return self._scores_after(self.format.overs).stdev

    def total(self, balls: int, wickets: int, runs: int) -> float:
        """Return the total that a first innings is expected to make from this score."""
        balls, wickets = min(balls, self.format.balls), min(wickets, self._limit)
        return runs + _mixed(self._days(balls, wickets, runs), self._to_come[balls][wickets])

    def chance(self, balls: int, wickets: int, runs: int, target: int | None = None) -> float:
        """Return the batting side's chance to win; a tie counts half.

        Args:
            target: Runs that win; ``None`` in a first innings.
        """
        balls, wickets = min(balls, self.format.balls), min(wickets, self._limit)
        if target is None:
            days, table, place = self._days(balls, wickets, runs), self._solved[0], runs
        else:
            days, table, place = self._days_of_chase(target - 1), self._solved[1], max(0, target - runs)
        return _mixed(days, table[balls, wickets, :, min(place, table.shape[-1] - 1)].tolist())

    def par_after(self, over: int) -> Par:
        """Return the scores of first innings after this over."""
        score = self._scores_after(over)
        return Par(*(round(score.inv_cdf(share), 1) for share in (0.1, 0.5, 0.9)))

    def percentile(self, over: int, runs: int) -> int:
        """Return the percentage of first innings with at most ``runs`` after ``over``, 5 to 95."""
        low, high = _PERCENTILES
        return min(high, max(low, round(100.0 * self._scores_after(over).cdf(runs))))

    def _scores_after(self, over: int) -> NormalDist:
        shares, means, spreads = np.array(self._seen[min(6 * over, self.format.balls)]).transpose(1, 0, 2)
        shares = shares * np.array(SHARES)
        mean = float((shares * means).sum())
        square = float((shares * (means**2 + spreads**2)).sum())
        return NormalDist(mean, max(1.0, math.sqrt(max(0.0, square - mean * mean))))

    def _days(self, balls: int, wickets: int, runs: int) -> Sequence[float]:
        """Return the weights of the days that a table considers, given a first innings' score."""
        chances, means, spreads = self._seen[balls][wickets]
        return _weighed(SHARES, chances, means, spreads, runs)

    @lru_cache(maxsize=64)  # noqa: B019 - outlooks are few and kept anyway
    def _days_of_chase(self, total: int) -> Sequence[float]:
        """Return the same of a reply, given the first innings' total."""
        ends = np.array(self._seen[-1])
        chances, means, spreads = ends[:, 0], ends[:, 1], ends[:, 2]
        mean = (chances * means).sum(axis=0)
        spread = np.sqrt(np.maximum(1.0, (chances * (means**2 + spreads**2)).sum(axis=0) - mean**2))
        first = _weighed(SHARES, np.ones(3).tolist(), mean.tolist(), spread.tolist(), total)
        days = np.array(first) @ next_days(self._model).astype(np.float64)
        found: list[float] = (days / days.sum()).tolist()
        return found

    @cached_property
    def _solved(self) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
        """Chances in the first innings by runs, and in a chase by runs needed, by ball, wickets and day.

        Half precision is a thousandth of a chance, and these arrays stay.
        """
        reply, cap = reply_state(self._start), most_runs(self.format.balls)
        weights = category_chances(reply, self._model, plan_overs(reply), None, chasing=True)
        chase = solve_chase(reply, self._model, weights, cap)
        beaten = 1.0 - chase[0, 0][:, np.minimum(np.arange(cap + 1) + 1, cap)]
        after = (next_days(self._model) @ beaten).astype(np.float32)
        first = solve_first_innings(self._start, self._model, self._chances, after)
        return first.astype(np.float16), chase.astype(np.float16)


@lru_cache(maxsize=12)
def outlook_of(
    model: BallModel,
    format: Format,
    evening: Evening = "even",
    boundaries: Boundaries = (),
    fatigue: bool = False,
) -> Outlook:
    """Return an outlook; see :class:`Outlook`."""
    return Outlook(model, format, evening, boundaries, fatigue)


def _runs_to_come(chances: Values, runs: Values, limit: int) -> list[list[list[float]]]:
    """Return the runs that average sides still make, by balls, wickets and day."""
    found = np.zeros((len(chances) + 1, limit + 1, len(SHARES)))
    for ball in reversed(range(len(chances))):
        p, after = chances[ball, :limit], found[ball + 1]
        extra, out = p[..., WIDE] + p[..., NO_BALL], p[..., WICKET] + p[..., RUN_OUT]
        gained = p @ runs + out * after[1:] + (1.0 - extra - out) * after[:-1]
        found[ball, :-1] = gained / (1.0 - extra)
    plain: list[list[list[float]]] = found.tolist()
    return plain


def _scores(chances: Values, runs: Values, limit: int) -> list[list[list[list[float]]]]:
    """Return the scores of average sides, by balls, wickets and day.

    Returns:
        By balls and wickets: the chance of this many wickets, and mean and spread of the runs with them, each
        by day.
    """
    square = runs**2
    state = np.zeros((3, limit + 1, len(SHARES)))
    state[0, 0] = 1.0
    found = [state]
    for p in chances[:, :limit]:
        valid = 1.0 - p[..., WIDE] - p[..., NO_BALL]
        again = [p[..., extra] / valid for extra in (WIDE, NO_BALL)]
        more = sum(part * runs[extra] for part, extra in zip(again, (WIDE, NO_BALL), strict=True))
        more_square = sum(part * square[extra] for part, extra in zip(again, (WIDE, NO_BALL), strict=True))
        live, after = state[:, :-1], np.zeros_like(state)
        after[:, -1] = state[:, -1]
        for kinds, to in ((_KEPT, slice(0, limit)), ((WICKET, RUN_OUT), slice(1, limit + 1))):
            share = p[..., kinds].sum(axis=-1) / valid
            mean = p[..., kinds] @ runs[list(kinds)] / valid + share * more
            squares = p[..., kinds] @ square[list(kinds)] / valid + share * more_square
            after[0, to] += live[0] * share
            after[1, to] += live[1] * share + live[0] * mean
            after[2, to] += live[2] * share + 2.0 * live[1] * mean + live[0] * squares
        state = after
        found.append(state)
    whole = np.array(found)
    chance = whole[:, 0]
    mean = whole[:, 1] / np.maximum(chance, _CERTAIN)
    spread = np.sqrt(np.maximum(1.0, whole[:, 2] / np.maximum(chance, _CERTAIN) - mean**2))
    plain: list[list[list[list[float]]]] = np.stack([chance, mean, spread], axis=2).tolist()
    return plain


def _weighed(
    shares: Sequence[float],
    chances: Sequence[float],
    means: Sequence[float],
    spreads: Sequence[float],
    runs: float,
) -> Sequence[float]:
    """Return the weights of the days after the evidence of a score; ``shares`` if it fits none of them."""
    weights = [
        share * chance / spread * math.exp(-0.5 * ((runs - mean) / spread) ** 2)
        for share, chance, mean, spread in zip(shares, chances, means, spreads, strict=True)
    ]
    total = sum(weights)
    return [weight / total for weight in weights] if total > _CERTAIN else shares


def _mixed(days: Sequence[float], values: Sequence[float]) -> float:
    return sum(day * value for day, value in zip(days, values, strict=True))

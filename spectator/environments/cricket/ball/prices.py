"""What each outcome of a ball is worth at a point of an innings, by exact backward induction over the model.

A first innings is worth the runs that come of it, a chase the chance that it is won. Both are computed for
average players on an average day, over every state that a ball may find, and then averaged over the states
in which usual play finds it: so a decision that is paid for at these prices is worth nothing to who does not
look at the state, and something to who uses it where the state makes it worth more than on average.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectator.environments.cricket.ball.tables import (
    CATEGORIES,
    NO_BALL,
    RUN_OUT,
    STYLES,
    WICKET,
    WIDE,
    Tables,
    over_like,
)
from spectator.environments.cricket.ball.usual_play import OLD, UsualPlay, Values, moved_by, style_shares
from spectator.environments.cricket.laws.formats import SUPER_OVER, format_of

_STEP: Final = 0.02
"""Log ratio of runs at which the slope of a ball's value is measured."""

_RUNS: Final = (0, 1, 2, 3, 4, 6, 0, 0, 1, 2, 1)
"""Runs of each category, as whole ones: a wide brings about one and a no-ball about two, byes about one."""
_SD_PER_ROOT_BALL: Final = 2.95
"""Spread of totals by the root of their balls (innings_summary.json)."""
_MOST: Final = 480
_RUNS_A_BALL: Final = 3
"""More than so many runs a ball left are out of reach: their chance is that of the last that is not."""


class BallPrices:
    """The prices of one format; what is not asked for is not computed.

    Args:
        tables: The fitted tables.
        level: Mean of the shared effect.
        innings_balls: Valid balls of an innings.
        super_over: Whether it is a super over: two wickets, no powerplay.
    """

    def __init__(self, tables: Tables, level: float, innings_balls: int, *, super_over: bool = False) -> None:
        played = SUPER_OVER if super_over else format_of(innings_balls // 6)
        play = UsualPlay(tables, level, innings_balls, played.powerplay_balls, played.wickets)
        self._at = _Induction(play)

    @cached_property
    def _opened(self) -> _FirstInnings:
        return self._at.first()

    @property
    def first(self) -> Values:
        """Runs of a first innings, shape ``(balls, 11)`` by valid balls bowled and category."""
        return self._opened.prices

    @cached_property
    def _chased(self) -> _Chase:
        return self._at.chase(self._opened.total, self._opened.settling)

    @property
    def chase(self) -> Values:
        """Chances of winning a chase, likewise."""
        return self._chased.prices

    def here(self, balls: int, wickets: int, need: int | None) -> Values:
        """What each category is worth in one state, not on average over those of the ball; shape ``(11,)``.

        Args:
            balls: Valid balls bowled.
            wickets: Wickets lost.
            need: Runs still wanted; ``None`` in a first innings.
        """
        if need is None:
            return np.asarray(self._opened.states[balls, wickets])
        return self._at.worth(self._chased.won, self._opened.settling, balls, wickets, need)

    @cached_property
    def styles(self) -> tuple[tuple[float, ...], ...]:
        """Log ratio of runs, by over and bowling style, at which every style is worth the same on average.

        The tables know what each style conceded where real captains used it. A captain who uses one where
        they did not would get those figures for nothing; so they are centred on what the over costs whoever
        bowls it, and a style is worth more only where batter, pitch or evening suit it.
        """
        return self._at.styles(self._opened)


class _FirstInnings(NamedTuple):
    """A first innings by backward induction.

    Args:
        prices: By ball and category.
        total: Mean total.
        settling: Runs that a new batter's settling costs, by ball.
        down: How often so many wickets are lost, by ball.
        states: By ball, wickets lost and category, on average over how long the batters have been in.
    """

    prices: Values
    total: float
    settling: Values
    down: Values
    states: Values


class _Chase(NamedTuple):
    """A chase by backward induction.

    Args:
        prices: By ball and category.
        won: Chance that it is won, by ball, wickets lost and runs wanted.
    """

    prices: Values
    won: Values


class _Induction:
    """The backward induction over the innings of one format."""

    def __init__(self, play: UsualPlay) -> None:
        self.play, self.balls, self.wickets = play, play.balls, play.wickets
        self.most = min(_MOST, _RUNS_A_BALL * play.balls + 12)

    def first(self) -> _FirstInnings:
        """A first innings."""
        shares = [self.play.settling(ball) for ball in range(self.balls)]
        to_come = np.zeros((self.balls + 1, self.wickets + 1, OLD + 1))
        prices = np.empty((self.balls, self.wickets, OLD + 1, CATEGORIES))
        again = [WIDE, NO_BALL]
        older = np.minimum(np.arange(OLD + 1) + 1, OLD)
        for ball in reversed(range(self.balls)):
            after, p = to_come[ball + 1], shares[ball]
            prices[ball] = np.array(_RUNS) + after[:-1, older, None]
            for out in (WICKET, RUN_OUT):
                prices[ball, :, :, out] = after[1:, :1] + _RUNS[out]
            extra = p[..., again].sum(axis=2)
            gained = (p * prices[ball]).sum(axis=2) - extra * after[:-1, older]
            to_come[ball, :-1] = gained / (1.0 - extra)
            prices[ball][..., again] = np.array(_RUNS)[again] + to_come[ball, :-1, :, None]
        state = np.zeros((self.wickets + 1, OLD + 1))
        state[0, 0] = 1.0
        mean, new = np.empty((self.balls, CATEGORIES)), np.empty(self.balls)
        down = np.empty((self.balls, self.wickets))
        for ball in range(self.balls):
            live = state[:-1] / max(1e-12, state[:-1].sum())
            mean[ball] = (live[:, :, None] * prices[ball]).sum(axis=(0, 1))
            down[ball] = live.sum(axis=1)
            after = to_come[ball + 1]
            settled = (after[:-1] * live).sum(axis=1)
            new[ball] = (settled - after[:-1, 0] * live.sum(axis=1)).sum()
            state = _one_on(state, shares[ball], older)
        states = prices[:, :, OLD // 2].copy()
        return _FirstInnings(mean, float(to_come[0, 0, 0]), new, down, states)

    def styles(self, first: _FirstInnings) -> tuple[tuple[float, ...], ...]:
        """See :attr:`BallPrices.styles`."""
        rows = []
        for start in range(0, self.balls, 6):
            ball = min(start + 3, self.balls - 1)
            value, down = first.prices[ball], first.down[ball]
            over = over_like(self.balls, ball, ball < self.play.powerplay)
            chances = [
                (down[:, None] * self.play.shares(ball, None, style)).sum(axis=0)
                for style in range(len(STYLES))
            ]
            worth = np.array([(p * value).sum() for p in chances])
            share = np.array(style_shares()[over])
            mean = float((share * worth).sum())
            usual = (share[:, None] * np.array(chances)).sum(axis=0)
            slope = ((moved_by(usual, _STEP, self.play.tables) - usual) * value).sum() / _STEP
            rows.append(tuple(float(-(one - mean) / slope) for one in worth))
        return tuple(rows)

    def chase(self, total: float, new: Values) -> _Chase:
        """Prices of a chase of totals that spread about ``total``.

        Args:
            total: Mean of the first innings.
            new: What a new batter's settling costs, in runs, by ball.
        """
        need = np.arange(self.most + 1)
        won = np.zeros((self.balls + 1, self.wickets + 1, self.most + 1))
        won[..., 0] = 1.0
        won[-1, :, 1] = 0.5
        won[:, -1, 1] = 0.5
        for ball in reversed(range(self.balls)):
            p = self.play.by_need(ball, need)
            after = self._after(won[ball + 1], new[ball])
            sure = sum(p[category] * after[category] for category in after)
            now = won[ball]
            now[:-1, 1:] = sure[:, 1:]
            for _ in range(3):
                again = p[WIDE] * _nearer(now[:-1], _RUNS[WIDE]) + p[NO_BALL] * _nearer(
                    now[:-1], _RUNS[NO_BALL]
                )
                now[:-1, 1:] = (sure + again)[:, 1:]
        state = np.zeros((self.wickets + 1, self.most + 1))
        spread = _SD_PER_ROOT_BALL * math.sqrt(self.balls)
        state[0, 1:] = np.exp(-0.5 * ((need[1:] - 1 - total) / spread) ** 2)
        mean = np.empty((self.balls, CATEGORIES))
        for ball in range(self.balls):
            alive = state[:-1].copy()
            alive[:, 0] = 0.0
            alive /= max(1e-12, alive.sum())
            after = self._after(won[ball + 1], new[ball])
            after |= {category: _nearer(won[ball][:-1], _RUNS[category]) for category in (WIDE, NO_BALL)}
            mean[ball] = [(alive * after[category]).sum() for category in range(CATEGORIES)]
            state = self._on(state, self.play.by_need(ball, need))
        return _Chase(mean, won)

    def worth(self, won: Values, new: Values, ball: int, wickets: int, need: int) -> Values:
        """Chances of a chase after each category in one state."""
        need = min(need, self.most)
        same, lost = won[ball + 1, wickets], won[ball + 1, wickets + 1]
        lost_at = min(self.most, need + float(new[ball]))
        runs = np.arange(self.most + 1)
        worth = np.array([same[max(0, need - more)] for more in _RUNS])
        for out in (WICKET, RUN_OUT):
            worth[out] = np.interp(max(0.0, lost_at - _RUNS[out]), runs, lost)
        for again in (WIDE, NO_BALL):
            worth[again] = won[ball, wickets, max(0, need - _RUNS[again])]
        return worth

    def _after(self, won: Values, new: float) -> dict[int, Values]:
        """Chances after each category that uses up a ball, by wickets lost and runs wanted before it."""
        same, lost = won[:-1], _farther(won[1:], new)
        return {
            category: _nearer(lost if category in (WICKET, RUN_OUT) else same, _RUNS[category])
            for category in range(CATEGORIES)
            if category not in (WIDE, NO_BALL)
        }

    def _on(self, state: Values, p: Values) -> Values:
        """The distribution over wickets lost and runs wanted one valid ball later."""
        moved = np.zeros_like(state)
        live = state[:-1].copy()
        moved[:-1, 0] += live[:, 0]
        live[:, 0] = 0.0
        moved[-1] += state[-1]
        for _ in range(3):
            again = np.zeros_like(live)
            for category in range(CATEGORIES):
                part = _scored(live * p[category], _RUNS[category])
                if category in (WIDE, NO_BALL):
                    again += part
                elif category in (WICKET, RUN_OUT):
                    moved[1:] += part
                else:
                    moved[:-1] += part
            live = again
        moved[:-1] += live
        return moved


def _nearer(won: Values, runs: int) -> Values:
    """Chances after ``runs`` more: those of as many fewer wanted."""
    if not runs:
        return won
    ahead = np.empty_like(won)
    ahead[:, runs:] = won[:, :-runs]
    ahead[:, :runs] = won[:, :1]
    return ahead


def _farther(won: Values, runs: float) -> Values:
    """Chances with ``runs`` more to get, in parts of a run."""
    need = np.arange(won.shape[1], dtype=np.float64)
    return np.stack([np.interp(need + runs, need, row) for row in won])


def _scored(part: Values, runs: int) -> Values:
    """Move a distribution over the runs wanted nearer by ``runs``; what is enough stays at 0."""
    if not runs:
        return part
    moved = np.zeros_like(part)
    moved[:, :-runs] = part[:, runs:]
    moved[:, 0] += part[:, :runs].sum(axis=1)
    return moved


def _one_on(state: Values, p: Values, older: NDArray[np.int64]) -> Values:
    """The distribution over wickets lost and balls since the last one, one valid ball later."""
    moved = np.zeros_like(state)
    moved[-1] = state[-1]
    valid = 1.0 - p[..., WIDE] - p[..., NO_BALL]
    out = (p[..., WICKET] + p[..., RUN_OUT]) / valid
    moved[1:, 0] += (state[:-1] * out).sum(axis=1)
    for balls, next_balls in enumerate(older):
        moved[:-1, next_balls] += state[:-1, balls] * (1.0 - out[:, balls])
    return moved

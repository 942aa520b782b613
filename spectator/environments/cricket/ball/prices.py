"""The value of each outcome of a ball, by backward induction over usual play.

In a first innings an outcome is worth runs; in a chase, a chance of winning. Both are computed for average
players on an average day over every state in which a ball can be bowled, then averaged over the states of
usual play. So a decision charged at these prices gains nothing for a captain that ignores the state, and
something for one that takes it where it is worth more than on average.

Usual play is the frequency of each category by ball, wickets lost and required rate, for average players.
"""

from __future__ import annotations

import csv
import json
import math
from functools import cache, cached_property
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectator.environments.cricket.ball.situation import WICKET_FIT
from spectator.environments.cricket.ball.tables import (
    CATEGORIES,
    LEVER_OF,
    NO_BALL,
    PLACE_EDGES,
    RATE_PLACES,
    RUN_OUT,
    SET_LIMITS,
    STYLES,
    WICKET,
    WIDE,
    Tables,
    effect_scale,
    format_levers,
    over_like,
    phase_of,
)
from spectator.environments.cricket.laws import SUPER_OVER, format_of
from spectator.environments.cricket.people import PACE_STYLES

Values = NDArray[np.float64]

_DATA: Final = Path(__file__).parent.parent / "data"
_SETTLED: Final = (0.07, 0.12, 0.15, 0.19, 0.14, 0.10, 0.12, 0.08, 0.03)
"""Share of balls in usual play faced by a batter in each balls-faced bin of `SET_LIMITS`."""
_SPIN: Final = (0.22, 0.58, 0.22)
"""Share of spin by phase, about that of ``bowler_kind_share_by_over.csv``."""
_PACE_STYLE, _SPIN_STYLE = 0, 3
OLD: Final = 20
"""Balls after a wicket from which both batters count as settled."""


class UsualPlay:
    """The average innings of one format.

    Args:
        level: Mean of the shared effect.
    """

    def __init__(self, tables: Tables, level: float, balls: int, powerplay: int, wickets: int) -> None:
        self.tables, self.level = tables, level
        self.balls, self.powerplay, self.wickets = balls, powerplay, wickets
        self._known: dict[tuple[int, bool], Values] = {}
        self._batting: dict[tuple[int, int, int], Values] = {}

    def by_need(self, ball: int, need: NDArray[np.int64]) -> Values:
        """Return chances of the categories, shape ``(11, wickets, runs needed + 1)``."""
        return self._by_place(ball)[:, :, self._places(ball, need)]

    def _places(self, ball: int, need: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(PLACE_EDGES, 6.0 * need / (self.balls - ball), side="right")

    def _by_place(self, ball: int) -> Values:
        """Return a chase's chances by category, wickets lost and required-rate place.

        One array is kept for each over, in and out of the powerplay.
        """
        key = (ball // 6, ball < self.powerplay)
        if key not in self._known:
            rows = [self.shares(ball, place) for place in range(RATE_PLACES)]
            self._known[key] = np.ascontiguousarray(np.stack(rows, axis=1).transpose(2, 0, 1))
        return self._known[key]

    def shares(self, ball: int, place: int | None, style: int | None = None) -> Values:
        """Return chances of the categories by wickets lost, shape ``(wickets, 11)``.

        The average batter faces one bowling style or, by default, the usual mixture.
        """
        tables, powerplay = self.tables, ball < self.powerplay
        over = over_like(self.balls, ball, powerplay)
        phase = phase_of(over)
        levers = format_levers(tables, self.balls, ball, powerplay, place is not None) or (1.0,) * 7
        shift = self.level * effect_scale(self.balls)
        moved = np.ones(CATEGORIES)
        moved[[4, 5]] = np.exp(shift)
        moved[0] = np.exp(-tables.dot_share * shift)
        moved[WICKET] = np.exp(-tables.wicket_share * shift)
        factors = moved * np.array([1.0 if at is None else levers[at] for at in LEVER_OF])
        bowler = (1.0 - _SPIN[phase]) * np.mean(tables.bowler[phase][_PACE_STYLE], axis=0) + _SPIN[
            phase
        ] * np.mean(tables.bowler[phase][_SPIN_STYLE], axis=0)
        if style is not None:
            bowler = np.mean(tables.bowler[phase][style], axis=0)
        rows = []
        for wickets in range(self.wickets):
            base = tables.first[over][wickets] if place is None else tables.chase[over][wickets][place]
            batter = self._batters(phase, wickets, ball)
            weights = np.array(base) * batter * bowler * factors
            rows.append(weights / weights.sum())
        return np.array(rows)

    def settling(self, ball: int) -> Values:
        """Return chances by wickets lost and balls since the last wicket.

        The batter who came in then faces half the balls. Shape ``(wickets, OLD + 1, 11)``.
        """
        usual = self.shares(ball, None)
        tables, over = self.tables, over_like(self.balls, ball, ball < self.powerplay)
        phase = phase_of(over)
        rows = []
        for wickets in range(self.wickets):
            whole = np.array(tables.batter[phase][min(10, wickets + 1)])
            mean = self._batters(phase, wickets, ball)
            mixed = np.vstack([0.5 * mean + 0.5 * whole[_BIN_OF_AGE], mean])
            weights = usual[wickets] * mixed / mean
            rows.append(weights / weights.sum(axis=1, keepdims=True))
        return np.array(rows)

    def _batters(self, phase: int, wickets: int, ball: int) -> Values:
        """Return mean weights of the two batters in, over how long they have batted."""
        bins = max(1, len([limit for limit in SET_LIMITS if limit <= ball]))
        key = (phase, wickets, bins)
        if key not in self._batting:
            settled = np.array(_SETTLED[:bins])
            orders = (min(10, wickets), min(10, wickets + 1))
            batter = np.mean([np.array(self.tables.batter[phase][order]) for order in orders], axis=0)
            found = (settled[:, None] * batter[: len(settled)]).sum(axis=0) / settled.sum()
            self._batting[key] = np.asarray(found)
        return self._batting[key]


_BIN_OF_AGE: Final = [sum(limit < (age + 1) // 2 for limit in SET_LIMITS) for age in range(OLD)]
"""Balls-faced bin of the batter who came in, by balls since the last wicket."""


def moved_by(chances: Values, fit: float, tables: Tables) -> Values:
    """Move chances as skill would, by a log ratio of runs."""
    shift = tables.skill_gain * fit
    moved = chances.copy()
    moved[[4, 5]] *= np.exp(shift)
    moved[0] *= np.exp(-tables.dot_share * shift)
    moved[WICKET] *= np.exp(-WICKET_FIT * fit)
    return np.asarray(moved / moved.sum())


@cache
def style_shares() -> tuple[tuple[float, ...], ...]:
    """Return the share of balls of each of `STYLES`, by over of 20.

    It is the kind's share of the over times the style's share among regular bowlers of its kind.
    """
    with (_DATA / "bowler_kind_share_by_over.csv").open(encoding="utf-8", newline="") as lines:
        spin = [float(row["spin"]) for row in csv.DictReader(lines)]
    skill = json.loads((_DATA / "player_skill.json").read_text(encoding="utf-8"))
    among: dict[str, float] = skill["bowler_style_share_of_regular_bowlers"]
    pace_sum = sum(among[style] for style in PACE_STYLES)
    spin_sum = sum(among[style] for style in STYLES if style not in PACE_STYLES)
    return tuple(
        tuple(
            (1.0 - part) * among[style] / pace_sum if style in PACE_STYLES else part * among[style] / spin_sum
            for style in STYLES
        )
        for part in spin
    )


_STEP: Final = 0.02
"""Log ratio of runs at which the slope of a ball's value is measured."""

RUNS: Final = (0, 1, 2, 3, 4, 6, 0, 0, 1, 2, 1)
"""Whole runs of each category: a wide is worth about one, a no-ball about two, byes about one."""
RUNS_SD_PER_ROOT_BALL: Final = 2.95
"""Spread of a total per square root of its balls: 33 runs over 120 (innings_summary.json), 16 over 30."""
_MOST: Final = 480
_RUNS_A_BALL: Final = 3
"""Needing more than this many runs per ball left counts as needing exactly this many."""


class BallPrices:
    """The prices of one format, each computed on first use.

    Args:
        level: Mean of the shared effect.
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
        """First-innings runs by valid balls bowled and category, shape ``(balls, 11)``."""
        return self._opened.prices

    @cached_property
    def _chased(self) -> _Chase:
        return self._at.chase(self._opened.total, self._opened.settling)

    @property
    def chase(self) -> Values:
        """Chances of winning a chase, in the same shape."""
        return self._chased.prices

    def here(self, balls: int, wickets: int, need: int | None) -> Values:
        """Return the value of each category in one state, shape ``(11,)``.

        Args:
            need: Runs still needed; ``None`` in a first innings.
        """
        if need is None:
            return np.asarray(self._opened.states[balls, wickets])
        return self._at.worth(self._chased.won, self._opened.settling, balls, wickets, need)

    @cached_property
    def styles(self) -> tuple[tuple[float, ...], ...]:
        """Log ratio of runs, by over and style, that makes all styles equally good.

        The tables hold what each style conceded when real captains chose it. A captain that chooses it in
        other situations would get those figures for free. So the styles are centred on what the over costs
        under any bowler, and one is better only if batter, pitch or evening suit it.
        """
        return self._at.styles(self._opened)


class _FirstInnings(NamedTuple):
    """A first innings by backward induction.

    Args:
        prices: By ball and category.
        settling: Runs that a new batter's settling costs, by ball.
        down: Chance of each number of wickets lost, by ball.
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
        won: Chance of winning, by ball, wickets lost and runs needed.
    """

    prices: Values
    won: Values


class _Induction:
    """The backward induction over the innings of one format."""

    def __init__(self, play: UsualPlay) -> None:
        self.play, self.balls, self.wickets = play, play.balls, play.wickets
        self.most = min(_MOST, _RUNS_A_BALL * play.balls + 12)

    def first(self) -> _FirstInnings:
        """Compute a first innings."""
        shares = [self.play.settling(ball) for ball in range(self.balls)]
        to_come = np.zeros((self.balls + 1, self.wickets + 1, OLD + 1))
        prices = np.empty((self.balls, self.wickets, OLD + 1, CATEGORIES))
        again = [WIDE, NO_BALL]
        older = np.minimum(np.arange(OLD + 1) + 1, OLD)
        for ball in reversed(range(self.balls)):
            after, p = to_come[ball + 1], shares[ball]
            prices[ball] = np.array(RUNS) + after[:-1, older, None]
            for out in (WICKET, RUN_OUT):
                prices[ball, :, :, out] = after[1:, :1] + RUNS[out]
            extra = p[..., again].sum(axis=2)
            gained = (p * prices[ball]).sum(axis=2) - extra * after[:-1, older]
            to_come[ball, :-1] = gained / (1.0 - extra)
            prices[ball][..., again] = np.array(RUNS)[again] + to_come[ball, :-1, :, None]
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
        """Compute the prices of a chase of totals that spread around ``total``.

        Args:
            total: Mean total of the first innings.
            new: Runs that a new batter's settling costs, by ball.
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
                again = p[WIDE] * _nearer(now[:-1], RUNS[WIDE]) + p[NO_BALL] * _nearer(
                    now[:-1], RUNS[NO_BALL]
                )
                now[:-1, 1:] = (sure + again)[:, 1:]
        state = np.zeros((self.wickets + 1, self.most + 1))
        spread = RUNS_SD_PER_ROOT_BALL * math.sqrt(self.balls)
        state[0, 1:] = np.exp(-0.5 * ((need[1:] - 1 - total) / spread) ** 2)
        mean = np.empty((self.balls, CATEGORIES))
        for ball in range(self.balls):
            alive = state[:-1].copy()
            alive[:, 0] = 0.0
            alive /= max(1e-12, alive.sum())
            after = self._after(won[ball + 1], new[ball])
            after |= {category: _nearer(won[ball][:-1], RUNS[category]) for category in (WIDE, NO_BALL)}
            mean[ball] = [(alive * after[category]).sum() for category in range(CATEGORIES)]
            state = self._on(state, self.play.by_need(ball, need))
        return _Chase(mean, won)

    def worth(self, won: Values, new: Values, ball: int, wickets: int, need: int) -> Values:
        """Return the chances of a chase after each category in one state."""
        need = min(need, self.most)
        same, lost = won[ball + 1, wickets], won[ball + 1, wickets + 1]
        lost_at = min(self.most, need + float(new[ball]))
        runs = np.arange(self.most + 1)
        worth = np.array([same[max(0, need - more)] for more in RUNS])
        for out in (WICKET, RUN_OUT):
            worth[out] = np.interp(max(0.0, lost_at - RUNS[out]), runs, lost)
        for again in (WIDE, NO_BALL):
            worth[again] = won[ball, wickets, max(0, need - RUNS[again])]
        return worth

    def _after(self, won: Values, new: float) -> dict[int, Values]:
        """Return chances after each valid category, by wickets lost and runs needed."""
        same, lost = won[:-1], _farther(won[1:], new)
        return {
            category: _nearer(lost if category in (WICKET, RUN_OUT) else same, RUNS[category])
            for category in range(CATEGORIES)
            if category not in (WIDE, NO_BALL)
        }

    def _on(self, state: Values, p: Values) -> Values:
        """Advance the distribution over wickets lost and runs needed by one valid ball."""
        moved = np.zeros_like(state)
        live = state[:-1].copy()
        moved[:-1, 0] += live[:, 0]
        live[:, 0] = 0.0
        moved[-1] += state[-1]
        for _ in range(3):
            again = np.zeros_like(live)
            for category in range(CATEGORIES):
                part = _scored(live * p[category], RUNS[category])
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
    """Return the chances after ``runs`` more: those with that many fewer needed."""
    if not runs:
        return won
    ahead = np.empty_like(won)
    ahead[:, runs:] = won[:, :-runs]
    ahead[:, :runs] = won[:, :1]
    return ahead


def _farther(won: Values, runs: float) -> Values:
    """Return the chances with ``runs`` more needed, interpolating fractions."""
    need = np.arange(won.shape[1], dtype=np.float64)
    return np.stack([np.interp(need + runs, need, row) for row in won])


def _scored(part: Values, runs: int) -> Values:
    """Move a distribution over the runs needed down by ``runs``; it stops at 0."""
    if not runs:
        return part
    moved = np.zeros_like(part)
    moved[:, :-runs] = part[:, runs:]
    moved[:, 0] += part[:, :runs].sum(axis=1)
    return moved


def _one_on(state: Values, p: Values, older: NDArray[np.int64]) -> Values:
    """Advance wickets lost and balls since the last wicket by one valid ball."""
    moved = np.zeros_like(state)
    moved[-1] = state[-1]
    valid = 1.0 - p[..., WIDE] - p[..., NO_BALL]
    out = (p[..., WICKET] + p[..., RUN_OUT]) / valid
    moved[1:, 0] += (state[:-1] * out).sum(axis=1)
    for balls, next_balls in enumerate(older):
        moved[:-1, next_balls] += state[:-1, balls] * (1.0 - out[:, balls])
    return moved

"""Usual play: how often each category comes, by ball, wickets lost and required rate, of average players."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.cricket.ball.matchups import WICKET_FIT
from spectator.environments.cricket.ball.tables import (
    CATEGORIES,
    LEVER_OF,
    PLACE_EDGES,
    RATE_PLACES,
    SET_LIMITS,
    STYLES,
    WICKET,
    Tables,
    effect_scale,
    format_levers,
    over_like,
    phase_of,
)
from spectator.environments.cricket.people.players import PACE_STYLES

Values = NDArray[np.float64]

_DATA: Final = Path(__file__).parent.parent / "data"
_SETTLED: Final = (0.07, 0.12, 0.15, 0.19, 0.14, 0.10, 0.12, 0.08, 0.03)
"""How often a ball finds a batter who has faced as many balls as each bin of `SET_LIMITS` holds, in usual
play."""
_SPIN: Final = (0.22, 0.58, 0.22)
"""Share of spin by phase, about that of ``bowler_kind_share_by_over.csv``."""
_PACE_STYLE, _SPIN_STYLE = 0, 3
OLD: Final = 20
"""Balls after a wicket from which both batters count as settled."""


class UsualPlay:
    """The average innings of one format.

    Args:
        tables: The fitted tables.
        level: Mean of the shared effect.
        balls: Valid balls of an innings.
        powerplay: Valid balls of its powerplay.
        wickets: Dismissals that end it.
    """

    def __init__(self, tables: Tables, level: float, balls: int, powerplay: int, wickets: int) -> None:
        self.tables, self.level = tables, level
        self.balls, self.powerplay, self.wickets = balls, powerplay, wickets
        self._known: dict[tuple[int, bool], Values] = {}

    def by_need(self, ball: int, need: NDArray[np.int64]) -> Values:
        """Chances of the categories, shape ``(11, wickets, runs wanted + 1)``."""
        return self._by_place(ball)[:, :, self._places(ball, need)]

    def _places(self, ball: int, need: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(PLACE_EDGES, 6.0 * need / (self.balls - ball), side="right")

    def _by_place(self, ball: int) -> Values:
        """Chances of a chase by category, wickets lost and place on the required-rate scale: one array for
        each over, in and out of the powerplay."""
        key = (ball // 6, ball < self.powerplay)
        if key not in self._known:
            rows = [self.shares(ball, place) for place in range(RATE_PLACES)]
            self._known[key] = np.ascontiguousarray(np.stack(rows, axis=1).transpose(2, 0, 1))
        return self._known[key]

    def shares(self, ball: int, place: int | None, style: int | None = None) -> Values:
        """Chances of the categories by wickets lost, shape ``(wickets, 11)``, of the average batter in, off
        one style or the usual mixture."""
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
        """Chances by wickets lost and balls since the last one, shape ``(wickets, OLD + 1, 11)``: half the
        balls go to the batter who came in then."""
        usual = self.shares(ball, None)
        tables, over = self.tables, over_like(self.balls, ball, ball < self.powerplay)
        phase = phase_of(over)
        rows = []
        for wickets in range(self.wickets):
            whole = np.array(tables.batter[phase][min(10, wickets + 1)])
            mean = self._batters(phase, wickets, ball)
            faced = [whole[_bin((balls + 1) // 2)] for balls in range(OLD)]
            mixed = np.array([0.5 * mean + 0.5 * row for row in faced] + [mean])
            weights = usual[wickets] * mixed / mean
            rows.append(weights / weights.sum(axis=1, keepdims=True))
        return np.array(rows)

    def _batters(self, phase: int, wickets: int, ball: int) -> Values:
        """Mean weights of the two who are in, over how long they have been."""
        bins = len([limit for limit in SET_LIMITS if limit <= ball])
        settled = np.array(_SETTLED[: max(1, bins)])
        orders = (min(10, wickets), min(10, wickets + 1))
        batter = np.mean([np.array(self.tables.batter[phase][order]) for order in orders], axis=0)
        return np.asarray((settled[:, None] * batter[: len(settled)]).sum(axis=0) / settled.sum())


def _bin(faced: int) -> int:
    return sum(limit < faced for limit in SET_LIMITS)


def moved_by(chances: Values, fit: float, tables: Tables) -> Values:
    """Chances moved as skill moves them, by a log ratio of runs."""
    shift = tables.skill_gain * fit
    moved = chances.copy()
    moved[[4, 5]] *= np.exp(shift)
    moved[0] *= np.exp(-tables.dot_share * shift)
    moved[WICKET] *= np.exp(-WICKET_FIT * fit)
    return np.asarray(moved / moved.sum())


@cache
def style_shares() -> tuple[tuple[float, ...], ...]:
    """Share of balls that each of `STYLES` bowls, by over of 20: the kind's share of the over, and the
    style's among regular bowlers of its kind."""
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

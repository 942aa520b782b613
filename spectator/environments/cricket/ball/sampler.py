"""The ball sampler: one ball drawn from the fitted model, given the situation and both intents."""

from __future__ import annotations

import math
import random
from bisect import bisect
from typing import Final

from spectator.environments.cricket.ball.model_file import load_tables
from spectator.environments.cricket.ball.outcomes import OutcomeTables
from spectator.environments.cricket.ball.plan_effects import PlanEffects
from spectator.environments.cricket.ball.situation import Effects, Situation
from spectator.environments.cricket.ball.tables import (
    DOT,
    FULL_OVERS,
    INTENT_STEPS,
    SET_LIMITS,
    SIX,
    STYLE_INDEX,
    Levers,
    Tables,
    Weights,
    daring,
    effect_scale,
    format_levers,
    people_weights,
    place_of,
    rate_place,
    rhythm,
)
from spectator.environments.cricket.ball.tracking import BallTracker, BowledBall
from spectator.environments.cricket.ball.vocabulary import LINES

FULL_BALLS: Final = 6 * FULL_OVERS
NEW_BATTER_BALLS: Final = 6
"""Balls faced until a batter no longer counts as new to the close catchers."""


class BallModel:
    """The fitted model; it holds no state of a match and may serve many at once.

    Args:
        tables: The fitted tables.
        level: Mean total of a first innings of 20 overs; ``None`` leaves the tables' own.

    >>> from spectator.environments.cricket.people.squads import draw_fixture
    >>> home, away = draw_fixture(7)
    >>> first = Situation(0, 120, 0, None, home.players[0], 0, away.bowlers[-1], powerplay=True)
    >>> model = BallModel.load("men")
    >>> ball = model.bowl(first, random.Random(1))
    >>> ball.ball.runs, ball.track.length
    (4, 'full')
    """

    __slots__ = ("_details", "_formats", "_level", "_people", "_plans", "_tables", "_tracker")

    def __init__(self, tables: Tables, level: float | None = None) -> None:
        self._tables = tables
        self._level = level_shift(tables, level)
        self._formats: dict[tuple[int, int, bool, bool], Levers] = {}
        self._details = OutcomeTables(tables.details)
        self._people = people_weights(tables)
        self._plans = PlanEffects(tables)
        self._tracker = BallTracker(self._plans)

    @classmethod
    def load(cls, profile: str = "men", level: str | float = "all") -> BallModel:
        """The model of the shipped file, which is read once per process.

        Args:
            profile: ``men``, ``women`` or ``associates``.
            level: Scoring level of the era: ``all`` for the tables' own mean, a season such as ``ipl 2024``,
                or the mean total of a first innings of 20 overs as a number.

        Raises:
            ValueError: There is no such profile or level.
        """
        return cls(*_chosen(profile, level))

    @property
    def tables(self) -> Tables:
        """The fitted tables, for those who compute with many balls at once."""
        return self._tables

    @property
    def level(self) -> float:
        """Mean of the match effect: 0 at the tables' own scoring level."""
        return self._level

    def draw_effects(self, rng: random.Random) -> Effects:
        """Draw what a match and its innings share."""
        match_sd, innings_sd = self._tables.effect_sd
        return Effects(rng.gauss(self._level, match_sd), tuple(rng.gauss(0.0, innings_sd) for _ in range(4)))

    def weights(self, at: Situation) -> list[float]:
        """Probabilities of the eleven categories, lengths and lines averaged out; for tests and analysis."""
        phase, over = place_of(at.innings_balls, at.balls_bowled, at.powerplay)
        kind = 0 if at.bowler.bowls == "pace" else 1
        mean = [0.0] * 11
        shares = self._pairs(at, phase, kind)
        for pair, upper in enumerate(shares):
            share = upper - (shares[pair - 1] if pair else 0.0)
            if share > 0.0:
                part = self._weigh(at, phase, over, kind, pair)
                total = sum(part)
                mean = [m + share * p / total for m, p in zip(mean, part, strict=True)]
        return mean

    def bowl(self, at: Situation, rng: random.Random) -> BowledBall:
        """Draw the next ball."""
        draw = rng.random
        phase, over = place_of(at.innings_balls, at.balls_bowled, at.powerplay)
        kind = 0 if at.bowler.bowls == "pace" else 1
        pair = bisect(self._pairs(at, phase, kind), draw())
        weights = self._weigh(at, phase, over, kind, pair)
        left = draw() * sum(weights)
        for category, weight in enumerate(weights):  # noqa: B007 - read after the loop
            if left < weight:
                break
            left -= weight
        else:  # the sum was rounded up
            category, left, weight = DOT, 0.5, 1.0
        draws = (draw(), draw(), draw(), draw())
        if category <= SIX:
            ball = self._details.off_the_bat(category, left / weight)
        else:
            ball = self._details.other(category, phase, at, left / weight, draws[0])
        return BowledBall(ball, at, draws, (phase, kind, pair, category), self._tracker)

    def _weigh(self, at: Situation, phase: int, over: int, kind: int, pair: int) -> list[float]:
        """Unnormalised probabilities of the categories."""
        tables, striker, bowler = self._tables, at.striker, at.bowler
        base = self._base(at, over)
        hand = 2 * STYLE_INDEX[bowler.style] + (striker.bats == "left")
        who = self._people[phase][striker.order - 1][bisect(_SET_STEPS, at.striker_balls)][hand]
        effect = at.effect if at.innings_balls == FULL_BALLS else at.effect * effect_scale(at.innings_balls)
        shift = tables.skill_gain * math.log(striker.bat_runs * bowler.bowl_runs) + effect
        shift += rhythm(at.effect, at.balls_bowled // 6, tables.rhythm_sd)
        bat, extras = math.exp(shift), bowler.bowl_extras
        dot, one, two, four, six, wicket, wide = tables.pitch_effect[phase][kind][pair]
        dot *= math.exp(-tables.dot_share * shift)
        wicket *= striker.bat_out * bowler.bowl_wickets * math.exp(-tables.wicket_share * effect)
        for m in self._levers(at, phase, kind, pair):
            dot *= m[0]
            one *= m[1]
            two *= m[2]
            four *= m[3]
            six *= m[4]
            wicket *= m[5]
            wide *= m[6]
        return [
            base[0] * who[0] * dot, base[1] * who[1] * one, base[2] * who[2] * two, base[3] * who[3] * two,
            base[4] * who[4] * four * bat, base[5] * who[5] * six * bat, base[6] * who[6] * wicket,
            base[7] * who[7], base[8] * who[8] * wide * extras, base[9] * who[9] * extras, base[10] * who[10],
        ]  # fmt: skip

    def _base(self, at: Situation, over: int) -> Weights:
        """Weights by over, wickets lost and required rate."""
        tables = self._tables
        if at.free_hit:
            return tables.free_hit
        if at.runs_required is None:
            return tables.first[over][at.wickets_lost]
        balls_left = at.innings_balls - at.balls_bowled
        rate = 6.0 * at.runs_required / balls_left if balls_left > 0 else math.inf
        return tables.chase[over][at.wickets_lost][rate_place(rate)]

    def _levers(self, at: Situation, phase: int, kind: int, pair: int) -> list[Levers]:
        """What intents, plans, format and field multiply the usual weights by."""
        levers: list[Levers] = []
        intent = at.aggression
        if at.shot is not None:
            stroke = self._plans.stroke(at.shot, phase, kind)
            levers.append(stroke.levers[pair // len(LINES)])
            intent += stroke.loft
        if intent != 0.5:
            levers.append(self._tables.intent[phase][_step(intent)])
            levers.append(daring(_step(intent), at.innings_balls))
        if at.attack != 0.5:
            levers.append(self._tables.attack[_step(at.attack)])
        if at.delivery is not None:
            levers.append(self._plans.delivery(at.delivery, phase, kind).levers)
        if at.innings_balls != FULL_BALLS:
            levers.append(self._format(at))
        if at.field.fielders:
            new = at.striker_balls < NEW_BATTER_BALLS
            effect = self._plans.field(at.field, at.powerplay, phase, kind, pair % len(LINES), at.shot, new)
            levers.append(effect.levers)
        return levers

    def _format(self, at: Situation) -> Levers:
        key = (at.innings_balls, at.balls_bowled, at.powerplay, at.runs_required is not None)
        known = self._formats.get(key)
        if known is None:
            known = self._formats[key] = format_levers(self._tables, *key) or (1.0,) * 7
        return known

    def _pairs(self, at: Situation, phase: int, kind: int) -> tuple[float, ...]:
        """Running sums of the shares of the (length, line) pairs."""
        if at.delivery is None:
            return self._plans.natural[phase][kind]
        return self._plans.delivery(at.delivery, phase, kind).pairs


def _step(intent: float) -> int:
    """Step of the intent tables for an intent of 0 to 1; beyond them it is the last one."""
    return min(2 * INTENT_STEPS, max(0, int(2 * INTENT_STEPS * intent + 0.5)))


def level_shift(tables: Tables, level: float | None) -> float:
    """Effect that moves the mean first-innings total to ``level``, by the totals measured at several effects.

    Raises:
        ValueError: ``level`` is outside the totals that were measured.
    """
    if level is None:
        return 0.0
    effects: list[float] = tables.levels["effects"]
    totals: list[float] = tables.levels["totals"]
    if not totals[0] <= level <= totals[-1]:
        raise ValueError(f"level must lie between {totals[0]:.0f} and {totals[-1]:.0f} runs, not {level}")
    at = min(len(totals) - 2, max(0, bisect(totals, level) - 1))
    part = (level - totals[at]) / (totals[at + 1] - totals[at])
    return effects[at] + part * (effects[at + 1] - effects[at])


def _chosen(profile: str, level: str | float) -> tuple[Tables, float | None]:
    tables = load_tables(profile)
    if not isinstance(level, str):
        return tables, level
    if level == "all":
        return tables, None
    named: dict[str, float] = tables.levels["names"]
    if level not in named:
        raise ValueError(f"level must be a number or one of all, {', '.join(named)}; not {level!r}")
    return tables, named[level]


_SET_STEPS = tuple(limit + 0.5 for limit in SET_LIMITS)

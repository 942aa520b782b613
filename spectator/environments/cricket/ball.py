"""Owns the chance of cricket: one ball drawn from the fitted model, given situation and intents."""

from __future__ import annotations

import math
import random
from bisect import bisect
from typing import Final

from spectator.environments.cricket.ball_details import (
    CATCHING_POSITIONS,
    DEEP_POSITIONS,
    KEEPER_CATCH,
    RING_POSITIONS,
    SKIED,
    Details,
    plausible_pitch,
    stroke,
)
from spectator.environments.cricket.ball_field import OPEN_FIELD, POWERPLAY_FIELD
from spectator.environments.cricket.ball_intent import Plans
from spectator.environments.cricket.ball_plans import (
    LENGTHS,
    LINES,
    PACES,
    PLANNED_LENGTHS,
    SECTORS,
    SHOTS,
    DeliveryPlan,
    FieldShape,
)
from spectator.environments.cricket.ball_situation import Delivered, Effects, Situation
from spectator.environments.cricket.ball_tables import (
    BYE,
    FULL_OVERS,
    INTENT_STEPS,
    NO_BALL,
    RUN_OUT,
    SET_LIMITS,
    SIX,
    STYLES,
    WICKET,
    WIDE,
    Levers,
    Tables,
    cumulative,
    effect_scale,
    format_levers,
    load_tables,
    over_like,
    phase_of,
    rate_place,
    rhythm,
)
from spectator.environments.cricket.models import Ball

__all__ = [
    "LENGTHS", "LINES", "PACES", "PLANNED_LENGTHS", "SECTORS", "SHOTS", "BallModel", "Delivered",
    "DeliveryPlan", "Effects", "FieldShape", "Situation",
]  # fmt: skip

FULL_BALLS: Final = 6 * FULL_OVERS
NEW_BATTER_BALLS: Final = 6
"""Balls faced until a batter no longer counts as new to the close catchers."""

_SPEED_KMH: Final = {"pace": 135.0, "spin": 91.0}
_PACE_FACTOR: Final = {"quick": 1.03, "stock": 1.0, "slower": 0.84}


class BallModel:
    """The fitted model; it holds no state of a match and may serve many at once.

    Args:
        tables: The fitted tables.
        level: Mean total of a first innings of 20 overs; ``None`` leaves the tables' own.
    """

    __slots__ = ("_details", "_formats", "_level", "_plans", "_tables", "_zones")

    def __init__(self, tables: Tables, level: float | None = None) -> None:
        self._tables = tables
        self._level = level_shift(tables, level)
        self._formats: dict[tuple[int, int, bool, bool], Levers] = {}
        self._details = Details(tables.details)
        self._zones = tuple(
            tuple(tuple(cumulative(shares) for shares in kind) for kind in phase) for phase in tables.zones
        )
        self._plans = Plans(tables)

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
        phase, over = self._phase(at)
        kind = 1 if at.bowler.bowls != "pace" else 0
        mean = [0.0] * 11
        shares = self._pairs(at, phase, kind)
        for pair, upper in enumerate(shares):
            share = upper - (shares[pair - 1] if pair else 0.0)
            if share > 0.0:
                part = self._weigh(at, phase, over, kind, pair)
                total = sum(part)
                mean = [m + share * p / total for m, p in zip(mean, part, strict=True)]
        return mean

    def bowl(self, at: Situation, rng: random.Random) -> Delivered:
        """Draw the next ball."""
        draw = rng.random
        phase, over = self._phase(at)
        kind = 1 if at.bowler.bowls != "pace" else 0
        pair = bisect(self._pairs(at, phase, kind), draw())
        weights = self._weigh(at, phase, over, kind, pair)
        left = draw() * sum(weights)
        category = 0
        for weight in weights:
            if left < weight:
                break
            left -= weight
            category += 1
        else:
            category = 0
        u = left / weights[category] if weights[category] else 0.5
        return self._happen(at, phase, kind, pair, category, min(max(u, 0.0), 0.999999), rng)

    def _phase(self, at: Situation) -> tuple[int, int]:
        """Phase and over of the 20-over innings in which a side has as many overs left."""
        over = over_like(at.innings_balls, at.balls_bowled, at.powerplay)
        return phase_of(over), over

    def _weigh(self, at: Situation, phase: int, over: int, kind: int, pair: int) -> list[float]:
        tables, striker, bowler = self._tables, at.striker, at.bowler
        if at.free_hit:
            base = tables.free_hit
        elif at.runs_required is None:
            base = tables.first[over][at.wickets_lost]
        else:
            balls_left = at.innings_balls - at.balls_bowled
            place = rate_place(6.0 * at.runs_required / balls_left if balls_left > 0 else 36.0)
            base = tables.chase[over][at.wickets_lost][place]
        p = tables.batter[phase][striker.order - 1][bisect(_SET_STEPS, at.striker_balls)]
        q = tables.bowler[phase][STYLES.index(bowler.style or "off")][striker.bats == "left"]
        effect = at.effect if at.innings_balls == FULL_BALLS else at.effect * effect_scale(at.innings_balls)
        shift = tables.skill_gain * math.log(striker.bat_runs * bowler.bowl_runs) + effect
        shift += rhythm(at.effect, at.balls_bowled // 6, tables.rhythm_sd)
        bat = math.exp(shift)
        rest = math.exp(-tables.dot_share * shift)
        dot = rest
        one = two = 1.0
        four = six = bat
        wicket = striker.bat_out * bowler.bowl_wickets * math.exp(-tables.wicket_share * effect)
        wide = bowler.bowl_extras
        for m in self._levers(at, phase, kind, pair):
            dot *= m[0]
            one *= m[1]
            two *= m[2]
            four *= m[3]
            six *= m[4]
            wicket *= m[5]
            wide *= m[6]
        return [
            base[0] * p[0] * q[0] * dot, base[1] * p[1] * q[1] * one, base[2] * p[2] * q[2] * two,
            base[3] * p[3] * q[3] * two, base[4] * p[4] * q[4] * four, base[5] * p[5] * q[5] * six,
            base[6] * p[6] * q[6] * wicket, base[7] * p[7] * q[7], base[8] * p[8] * q[8] * wide,
            base[9] * p[9] * q[9] * bowler.bowl_extras, base[10] * p[10] * q[10],
        ]  # fmt: skip

    def _levers(self, at: Situation, phase: int, kind: int, pair: int) -> list[Levers]:
        tables = self._tables
        levers = [tables.pitch_effect[phase][kind][pair]]
        intent = at.aggression
        if at.shot is not None:
            stroke = self._plans.stroke(at.shot, phase, kind)
            levers.append(stroke.levers[pair // len(LINES)])
            intent += stroke.loft
        if intent != 0.5:
            levers.append(tables.intent[phase][_step(intent)])
        if at.attack != 0.5:
            levers.append(tables.attack[_step(at.attack)])
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

    def _happen(
        self, at: Situation, phase: int, kind: int, pair: int, category: int, u: float, rng: random.Random
    ) -> Delivered:
        draw = rng.random
        v, w = draw(), draw()
        ball = self._ball(at, phase, category, u, v)
        if category >= WICKET and (category == WIDE or ball.dismissal):
            pair = plausible_pitch(pair, ball, v)
        length, line = pair // len(LINES), pair % len(LINES)
        plan = at.delivery.pace if at.delivery is not None else None
        pace = plan or ("slower" if w < 0.12 else "stock")
        spin = kind == 1
        stock = at.bowler.speed_kmh or _SPEED_KMH["spin" if spin else "pace"]
        speed = round(stock * (_PACE_FACTOR[pace] + 0.08 * (draw() - 0.5)), 1)
        zone, shot, contact, aerial = self._direction(at, phase, kind, pair, category, ball, v, w, draw())
        fielder = self._fielder(at, ball, phase, zone, contact, v, w)
        return Delivered(
            ball, zone, LENGTHS[length], LINES[line], speed, shot, fielder, contact, aerial, pace
        )

    def _ball(self, at: Situation, phase: int, category: int, u: float, v: float) -> Ball:
        details = self._details
        if category <= SIX:
            return details.runs_off_bat(category, u)
        if category == WICKET:
            return details.dismissal(phase, at.bowler.style or "off", u)
        if category == RUN_OUT:
            return details.run_out(u, v)
        if category == WIDE:
            ball = details.wide(u, v)
            return ball._replace(dismissal=None) if at.free_hit and ball.dismissal == "stumped" else ball
        return details.noball(u, v) if category == NO_BALL else details.bye(u, v)

    def _direction(
        self,
        at: Situation,
        phase: int,
        kind: int,
        pair: int,
        category: int,
        ball: Ball,
        v: float,
        w: float,
        d: float,
    ) -> tuple[int | None, str, str, bool]:
        """Sector, stroke, contact and whether the ball flew."""
        length, line = pair // len(LINES), pair % len(LINES)
        if category == WIDE:
            went = ball.dismissal == "stumped"
            return None, "drive" if went else "none", "missed" if went else "left", False
        if category == BYE:
            return (
                (None, "flick", "missed", False)
                if ball.byes
                else (1 if d < 0.7 else 8, "glance", "padded", False)
            )
        kind_out = ball.dismissal
        if kind_out in ("bowled", "lbw", "stumped", "hit wicket"):
            return None, "drive" if length < 4 else "pull", "padded" if kind_out == "lbw" else "missed", False
        if kind_out == "caught" and w < KEEPER_CATCH[at.bowler.bowls or "spin"][phase]:
            return None, ("drive", "cut", "pull")[(length >= 3) + (length == 5)], "edged", False
        if kind_out == "caught and bowled":
            return 4 if d < 0.5 else 5, "straight drive", "mistimed", True
        if category == 0 and v < 0.35:
            left = v < 0.12 and LINES[line] != "stumps"
            return None, "none" if left else "defend", "left" if left else "missed", False
        hit = _HIT_OF_BAT[ball.bat] if category != WICKET else (5 if v < SKIED else 0)
        zones = self._zones_of(at, phase, kind, line)
        zone = bisect(zones[hit], d) + 1
        planned = SHOTS.get(at.shot) if at.shot is not None else None
        if planned is not None and w < 0.6 and kind_out is None:
            zone = planned[int(w / 0.6 * len(planned))]
        aerial = hit == 5 or kind_out in ("caught", "caught and bowled")
        if category == 0:
            shot = "defend" if v < 0.6 else stroke(zone, length, False, kind == 1)
        else:
            shot = (
                at.shot
                if planned is not None and zone in planned and at.shot
                else stroke(zone, length, aerial, kind == 1)
            )
        contact = "edged" if zone in (1, 8) and v > 0.8 else "mistimed" if kind_out or v > 0.9 else "middled"
        return zone, shot, contact, aerial

    def _zones_of(self, at: Situation, phase: int, kind: int, line: int) -> tuple[tuple[float, ...], ...]:
        if at.field.fielders:
            return self._plans.field(at.field, at.powerplay, phase, kind, line, None, False).zones
        return self._zones[phase][kind]

    def _fielder(
        self, at: Situation, ball: Ball, phase: int, zone: int | None, contact: str, v: float, w: float
    ) -> str | None:
        """Position that fielded the ball, among those where somebody stands if it can be."""
        kind = ball.dismissal
        if kind in ("bowled", "lbw", "hit wicket"):
            return None
        if kind == "caught and bowled":
            return "bowler"
        if kind == "stumped" or (kind == "caught" and w < KEEPER_CATCH[at.bowler.bowls or "spin"][phase]):
            return "keeper"
        if zone is None:
            return None if ball.boundary else "keeper"
        if ball.boundary:
            return None
        field = at.field if at.field.fielders else POWERPLAY_FIELD if at.powerplay else OPEN_FIELD
        far = v < SKIED if kind == "caught" else ball.ran >= 2 or (ball.ran == 1 and w < 0.6)
        if field.deep[zone - 1] and (far or not field.ring[zone - 1]):
            return DEEP_POSITIONS[zone - 1]
        if kind == "caught" and not far and field.catching[zone - 1]:
            return CATCHING_POSITIONS[zone - 1]
        return RING_POSITIONS[zone - 1]


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
_HIT_OF_BAT = (0, 1, 2, 3, 4, 3, 5)

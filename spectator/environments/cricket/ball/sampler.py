"""The ball model: draws balls from fitted tables by situation, plans and intents.

The levers of a plan and skill move the chances of a ball. What a plan would gain its side on average is
charged at the ball's prices; what it loses stays lost.
"""

from __future__ import annotations

import math
import random
from bisect import bisect
from collections.abc import Sequence
from typing import Final, NamedTuple

from spectator.environments.cricket.ball.grounds import (
    as_faced,
    ground_factors,
    lean,
    room_to_hit,
    stroke_reach,
)
from spectator.environments.cricket.ball.outcomes import BallTracker, BowledBall, OutcomeTables
from spectator.environments.cricket.ball.plan_effects import (
    HABIT,
    LOFT,
    PlanEffects,
    gaps,
    reference_field,
    suits_of,
)
from spectator.environments.cricket.ball.prices import BallPrices, Values
from spectator.environments.cricket.ball.situation import (
    SHOTS,
    WICKET_FIT,
    Effects,
    Situation,
    delivery_fit,
    field_fit,
    intent_fit,
    match_up,
    new_ball_favour,
    out_of_place,
    shot_fit,
    tired_extras,
    tired_runs,
)
from spectator.environments.cricket.ball.tables import (
    DOT,
    FOUR,
    FULL_OVERS,
    INTENT_STEPS,
    LEVER_OF,
    ONE,
    SET_LIMITS,
    SIX,
    STYLE_INDEX,
    WICKET,
    Levers,
    Tables,
    Weights,
    effect_scale,
    format_levers,
    load_tables,
    people_weights,
    places_of,
    rate_place,
    rhythm,
)
from spectator.environments.cricket.laws import SUPER_OVER

_LEEWAY: Final = 0.15
"""Loss of a plan, in runs a ball, that is refunded: no table tells sensible plans apart so finely."""
_MOST_MOVED: Final = 0.9
"""Largest part of a ball's boundaries, or dots, that a charge may move."""


def apply_levers(chances: list[float], levers: Sequence[float]) -> list[float]:
    """Multiply probabilities by levers and normalise them."""
    weights = [
        chance if lever is None else chance * levers[lever]
        for chance, lever in zip(chances, LEVER_OF, strict=True)
    ]
    total = sum(weights)
    return [weight / total for weight in weights]


def charge_for_gain(
    asked: list[float],
    usual: list[float],
    values: Values,
    *,
    least: float = -math.inf,
    most: float = math.inf,
) -> list[float]:
    """Cancel the gain of ``asked`` over ``usual`` by trading boundaries for dots.

    A negative gain is cancelled by trading dots for boundaries.

    Args:
        asked: Probabilities of the categories under a plan.
        values: Value of each category to the batting side.
        least: Lower bound on the batting side's gain that is charged, so that losses are not refunded.
        most: Upper bound, likewise.
    """
    gain = sum((a - b) * float(value) for a, b, value in zip(asked, usual, values, strict=True))
    gain = min(max(gain, least), most)
    hits = asked[FOUR] + asked[SIX]
    if hits <= 0.0 or gain == 0.0:
        return asked
    four = asked[FOUR] / hits
    price = float(four * values[FOUR] + (1.0 - four) * values[SIX] - values[DOT])
    if price <= 0.0:
        return asked
    moved = min(max(gain / price, -_MOST_MOVED * asked[DOT]), _MOST_MOVED * hits)
    paid = asked.copy()
    paid[DOT] += moved
    paid[FOUR] -= four * moved
    paid[SIX] -= (1.0 - four) * moved
    return paid


def fitted(chances: list[float], fit: float, tables: Tables) -> list[float]:
    """Move probabilities as skill would, by a log ratio of runs."""
    shift = tables.skill_gain * fit
    moved = chances.copy()
    moved[DOT] *= math.exp(-tables.dot_share * shift)
    moved[FOUR] *= math.exp(shift)
    moved[SIX] *= math.exp(shift)
    moved[WICKET] *= math.exp(-WICKET_FIT * fit)
    total = sum(moved)
    return [chance / total for chance in moved]


FULL_BALLS: Final = 6 * FULL_OVERS
NEW_BATTER_BALLS: Final = 6
"""Balls faced before a batter stops counting as new to the close catchers."""


class _Format(NamedTuple):
    """What a format does to each of its balls.

    Args:
        styles: By over and bowling style, see :attr:`.prices.BallPrices.styles`.
        levers: In a first innings and in a chase, out of the powerplay and in it, by valid balls bowled.
    """

    styles: tuple[tuple[float, ...], ...]
    levers: tuple[tuple[tuple[Levers, ...], ...], ...]


class BallModel:
    """The fitted model; it has no match state, so many matches can share it.

    Args:
        level: Mean total of a 20-over first innings; ``None`` keeps the tables' own.

    >>> from spectator.environments.cricket.people import draw_fixture
    >>> home, away = draw_fixture(7)
    >>> first = Situation(0, 120, 0, None, home.players[0], 0, away.bowlers[-1], powerplay=True)
    >>> model = BallModel.load("men")
    >>> ball = model.bowl(first, random.Random(1))
    >>> ball.ball.runs, ball.track.length
    (4, 'full')
    """

    __slots__ = (
        "_details",
        "_formats",
        "_level",
        "_mean_total",
        "_people",
        "_plans",
        "_prices",
        "_tables",
        "_tracker",
    )

    def __init__(self, tables: Tables, level: float | None = None) -> None:
        self._tables = tables
        self._level = level_shift(tables, level)
        self._mean_total = (
            tables.levels["totals"][tables.levels["effects"].index(0.0)] if level is None else level
        )
        self._formats: dict[tuple[int, int], _Format] = {}
        self._details = OutcomeTables(tables.details)
        self._people = people_weights(tables)
        self._plans = PlanEffects(tables)
        self._prices: dict[tuple[int, bool], BallPrices] = {}
        self._tracker = BallTracker(self._plans)

    @classmethod
    def load(cls, profile: str = "men", level: str | float = "all") -> BallModel:
        """Load the model from the shipped file, which is read once per process.

        Args:
            profile: ``men``, ``women`` or ``associates``.
            level: Scoring level of the era: ``all`` for the tables' own mean, a season such as ``ipl 2024``,
                or the mean total of a 20-over first innings as a number.

        Raises:
            ValueError: The profile or level is unknown.
        """
        return cls(*_chosen(profile, level))

    @property
    def tables(self) -> Tables:
        """The fitted tables, for code that computes many balls at once."""
        return self._tables

    @property
    def level(self) -> float:
        """Mean of the match effect: 0 at the tables' own scoring level."""
        return self._level

    @property
    def mean_total(self) -> float:
        """Mean total of a 20-over first innings, which names the scoring level."""
        return self._mean_total

    def draw_effects(self, rng: random.Random) -> Effects:
        """Draw the shared effects of a match and its innings."""
        match_sd, innings_sd = self._tables.effect_sd
        return Effects(rng.gauss(self._level, match_sd), tuple(rng.gauss(0.0, innings_sd) for _ in range(4)))

    def weights(self, at: Situation) -> list[float]:
        """Return the probabilities of the eleven categories."""
        return self._chances(at, *self._place(at))

    def values(self, at: Situation) -> Values:
        """Return the value of each category to the batting side, averaged over usual play.

        The unit is runs in a first innings and the chance of winning in a chase; see :mod:`.prices`. Shape
        ``(11,)``.
        """
        prices = self.prices(at.innings_balls, super_over=at.wickets_limit == SUPER_OVER.wickets)
        table: Values = prices.first if at.runs_required is None else prices.chase
        row: Values = table[at.balls_bowled]
        return row

    def prices(self, innings_balls: int, *, super_over: bool = False) -> BallPrices:
        """Return the prices of a format, computed once."""
        key = (innings_balls, super_over)
        known = self._prices.get(key)
        if known is None:
            known = BallPrices(self._tables, self._level, innings_balls, super_over=super_over)
            self._prices[key] = known
        return known

    def bowl(self, at: Situation, rng: random.Random) -> BowledBall:
        """Draw the next ball."""
        draw = rng.random
        phase, over, kind = self._place(at)
        where = draw()
        decided = self._decided(at)
        weights = self._chances(at, phase, over, kind) if decided else self._usual(at, phase, over, kind)
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
        plan = self._plans.delivery(at.delivery or HABIT, phase, kind)
        pair = bisect(plan.pairs[category], where)
        return BowledBall(ball, at, draws, (phase, kind, pair, category), self._tracker)

    def _place(self, at: Situation) -> tuple[int, int, int]:
        """Return the phase, the over of a 20-over innings and the kind of bowling."""
        phase, over = places_of(at.innings_balls, at.powerplay)[at.balls_bowled]
        return phase, over, 0 if at.bowler.bowls == "pace" else 1

    @staticmethod
    def _decided(at: Situation) -> bool:
        """Check whether either side asks for something other than usual play."""
        return (
            at.delivery is not None
            or at.shot is not None
            or at.aggression != 0.5
            or at.attack != 0.5
            or at.field.fielders > 0
        )

    def _usual(self, at: Situation, phase: int, over: int, kind: int) -> list[float]:
        """Return unnormalised probabilities of the categories in usual play."""
        tables, striker, bowler = self._tables, at.striker, at.bowler
        base = self._base(at, over)
        format = self._formats.get((at.innings_balls, at.wickets_limit)) or self._add_format(at)
        hand = 2 * STYLE_INDEX[bowler.style] + (striker.bats == "left")
        who = self._people[phase][striker.order - 1][bisect(_SET_STEPS, at.striker_balls)][hand]
        effect = at.effect if at.innings_balls == FULL_BALLS else at.effect * effect_scale(at.innings_balls)
        favour = match_up(striker, bowler, at.conditions, at.second)
        if at.tired:
            favour += tired_runs(kind == 1, at.tired)
        favour += format.styles[at.balls_bowled // 6][STYLE_INDEX[bowler.style]]
        if at.place and at.wickets_limit != SUPER_OVER.wickets:
            favour -= out_of_place(striker.order, at.place)
        shift = tables.skill_gain * (math.log(striker.bat_runs * bowler.bowl_runs) + favour) + effect
        shift += rhythm(at.effect, at.balls_bowled // 6, tables.rhythm_sd)
        bat, extras = math.exp(shift), bowler.bowl_extras
        dot = math.exp(-tables.dot_share * shift)
        wicket = (
            striker.bat_out * bowler.bowl_wickets
            * math.exp(-tables.wicket_share * effect - WICKET_FIT * favour)
        )  # fmt: skip
        one = two = four = six = wide = 1.0
        if at.innings_balls != FULL_BALLS:
            levers = format.levers[at.runs_required is not None][at.powerplay][at.balls_bowled]
            dot_by_format, one, two, four, six, out_by_format, wide = levers
            dot *= dot_by_format
            wicket *= out_by_format
        if at.tired:
            extras *= tired_extras(at.tired)
        weights = [
            base[0] * who[0] * dot, base[1] * who[1] * one, base[2] * who[2] * two, base[3] * who[3] * two,
            base[4] * who[4] * four * bat, base[5] * who[5] * six * bat, base[6] * who[6] * wicket,
            base[7] * who[7], base[8] * who[8] * wide * extras, base[9] * who[9] * extras, base[10] * who[10],
        ]  # fmt: skip
        if at.boundaries:
            end, left_handed = at.balls_bowled // 6 % 2, striker.bats == "left"
            factors = ground_factors(tables, at.boundaries, end, left_handed, phase, kind)
            weights = [weight * factor for weight, factor in zip(weights, factors, strict=True)]
        return weights

    def _chances(self, at: Situation, phase: int, over: int, kind: int) -> list[float]:
        """Return the probabilities of the categories under all plans and intents.

        What a side's own plans would gain it on average, at the prices of the ball (`values`), is taken back;
        what they lose it stays lost. Then their fit counts: to the batter, the field and the deliveries just
        bowled.
        """
        weights = self._usual(at, phase, over, kind)
        total = sum(weights)
        usual = [weight / total for weight in weights]
        if not self._decided(at):
            return usual
        values = self.values(at)
        asked = self._intended(at, phase, usual, values)
        leeway = _LEEWAY * float(values[ONE] - values[DOT])
        bowling = self._bowling_levers(at, phase, kind)
        if bowling:
            asked = charge_for_gain(apply_levers(asked, bowling), asked, values, most=leeway)
        if at.shot is not None:
            stroke = self._stroke_levers(at, phase, kind)
            asked = charge_for_gain(apply_levers(asked, stroke), asked, values, least=-leeway)
        fit = self._fit(at, phase, kind)
        return fitted(asked, fit, self._tables) if fit else asked

    def _intended(self, at: Situation, phase: int, usual: list[float], values: Values) -> list[float]:
        """Return the probabilities under both intents.

        Each side is charged for what its intent gains on average; an average loss is not refunded.
        """
        asked, tables = usual, self._tables
        step = _step(at.aggression + LOFT.get(at.shot or "", 0.0))
        if step != INTENT_STEPS:
            asked = charge_for_gain(apply_levers(asked, tables.intent[phase][step]), asked, values, least=0.0)
        if at.attack != 0.5:
            asked = charge_for_gain(
                apply_levers(asked, tables.attack[_step(at.attack)]), asked, values, most=0.0
            )
        return asked

    def _fit(self, at: Situation, phase: int, kind: int) -> float:
        """Return the log ratio of runs gained by plans and intents that fit.

        They can fit the players, the ground and recent deliveries.
        """
        striker, plans = at.striker, self._plans
        fit = 0.0
        aim = None
        faced = as_faced(at.boundaries, at.balls_bowled // 6 % 2, striker.bats == "left")
        leg = lean(faced)
        if at.delivery is not None:
            aim = plans.delivery(at.delivery, phase, kind).aim
            fit += delivery_fit(aim, striker, at.seen, leg)
        if at.field.fielders:
            fit += field_fit(at.field, reference_field(at.powerplay), striker, leg)
        if at.shot is not None:
            open_more = gaps(at.field, at.powerplay)
            fit += shot_fit(at.shot, striker, aim, suits_of(at.shot, kind), open_more)
            fit += stroke_reach(faced, SHOTS[at.shot])
        if at.aggression != 0.5 or at.attack != 0.5:
            favour = match_up(striker, at.bowler, at.conditions, at.second)
            favour += tired_runs(kind == 1, at.tired) + room_to_hit(at.boundaries)
            hitting = new_ball_favour(kind == 1, at.powerplay)
            fit += intent_fit(at.aggression, at.attack, favour, hitting)
        return fit

    def _add_format(self, at: Situation) -> _Format:
        """Compute, once, what the format of a ball does."""
        balls = at.innings_balls
        prices = self.prices(balls, super_over=at.wickets_limit == SUPER_OVER.wickets)
        levers = tuple(
            tuple(
                tuple(
                    format_levers(self._tables, balls, ball, powerplay, chasing) or (1.0,) * 7
                    for ball in range(balls)
                )
                for powerplay in (False, True)
            )
            for chasing in (False, True)
        )
        known = self._formats[balls, at.wickets_limit] = _Format(prices.styles, levers)
        return known

    def _base(self, at: Situation, over: int) -> Weights:
        """Return the weights by over, wickets lost and required rate."""
        tables = self._tables
        if at.free_hit:
            return tables.free_hit
        if at.runs_required is None:
            return tables.first[over][at.wickets_lost]
        balls_left = at.innings_balls - at.balls_bowled
        rate = 6.0 * at.runs_required / balls_left if balls_left > 0 else math.inf
        return tables.chase[over][at.wickets_lost][rate_place(rate)]

    def _bowling_levers(self, at: Situation, phase: int, kind: int) -> Sequence[float]:
        """Return the multipliers of the planned delivery and the field on the usual weights, if any."""
        parts: list[Levers] = []
        if at.delivery is not None:
            parts.append(self._plans.levers(at.delivery, None, phase, kind))
        if at.field.fielders:
            parts.append(self._field_levers(at, None, phase, kind))
        return [math.prod(values) for values in zip(*parts, strict=True)]

    def _stroke_levers(self, at: Situation, phase: int, kind: int) -> Sequence[float]:
        """Return the multipliers of the planned stroke, against this delivery and this field."""
        plans, habit = self._plans, at.delivery or HABIT
        levers = [
            with_stroke / without
            for with_stroke, without in zip(
                plans.levers(habit, at.shot, phase, kind), plans.levers(habit, None, phase, kind), strict=True
            )
        ]
        if not at.field.fielders:
            return levers
        sent, usual = (self._field_levers(at, shot, phase, kind) for shot in (at.shot, None))
        return [lever * a / b for lever, a, b in zip(levers, sent, usual, strict=True)]

    def _field_levers(self, at: Situation, shot: str | None, phase: int, kind: int) -> Levers:
        new = at.striker_balls < NEW_BATTER_BALLS
        return self._plans.field_levers(at.field, at.powerplay, phase, kind, at.delivery or HABIT, shot, new)


def _step(intent: float) -> int:
    """Return the step of the intent tables for an intent, clipped to 0 to 1."""
    return min(2 * INTENT_STEPS, max(0, int(2 * INTENT_STEPS * intent + 0.5)))


def level_shift(tables: Tables, level: float | None) -> float:
    """Return the effect that moves the mean first-innings total to ``level``.

    It interpolates between the totals measured at several effects.

    Raises:
        ValueError: ``level`` is outside the measured totals.
    """
    if level is None:
        return 0.0
    effects: list[float] = tables.levels["effects"]
    totals: list[float] = tables.levels["totals"]
    if not totals[0] <= level <= totals[-1]:
        raise ValueError(f"level must be between {totals[0]:.0f} and {totals[-1]:.0f} runs, not {level}")
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

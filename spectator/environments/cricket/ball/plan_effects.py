"""The effect of planned deliveries, planned strokes and fields on the outcome of a ball.

Every plan is weighed at a reference situation and paid for there: against an average batter, bowler and field
it changes what happens (wickets against runs, one sector against another) and not what it is worth. It pays
where the situation, the opponent or another plan makes its kind of change worth more than at the reference,
which is what a captain is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from spectator.environments.cricket.ball.fielding import FieldEffect, Sectors, field_effect
from spectator.environments.cricket.ball.tables import (
    LEVER_OF,
    NO_BALL,
    RUN_OUT,
    WICKET,
    WIDE,
    Levers,
    Tables,
    cumulative,
    reference_weights,
)
from spectator.environments.cricket.ball.vocabulary import (
    LENGTHS,
    LINES,
    PACES,
    SHOTS,
    DeliveryPlan,
    FieldShape,
)

NEUTRAL: Final[Levers] = (1.0,) * 7
WICKET_COST: Final = (8.5, 7.0, 3.5)
"""Runs that a wicket costs in powerplay, middle and death, about: the fall of `resources_model.json` at usual
states."""

_VALUE: Final = (0.0, 1.0, 2.0, 3.1, 4.0, 6.0, 0.0, 0.4, 2.4, 3.6, 1.25)
"""Mean runs of each category; a wide or no-ball also gives another ball."""
_EXECUTION: Final = 0.55
"""How often a bowler hits a planned length, or line, that he would not have bowled anyway."""
_YORKER_MISSED: Final = 0.12
_SENT: Final = 0.6
"""How often a planned stroke sends the ball where it is meant to go."""
_OFF_SIDE: Final = (0.8, 0.2, -0.2, -0.8)
"""Log tilt of shots towards the off side by line; the tables hold no direction by line (assumption)."""
_MEMORY: Final = 16384

LOFT: Final = {
    "defend": -0.30, "push": -0.15, "guide": -0.10, "glance": -0.10, "late cut": -0.05, "loft straight": 0.15,
    "loft cover": 0.15, "slog": 0.25, "scoop": 0.15, "reverse sweep": 0.08, "upper cut": 0.08, "hook": 0.08,
}  # fmt: skip
"""Shift of the intent, on its scale of 0 to 1: a stroke moves along the frontier like intent itself."""

_SHORT: Final = frozenset(("cut", "late cut", "pull", "hook", "upper cut"))
_FULL: Final = frozenset(("drive", "straight drive", "flick", "loft straight", "loft cover", "slog", "scoop"))
_SWEEPS: Final = frozenset(("sweep", "reverse sweep"))

_SUITS: Final[Levers] = (0.88, 1.02, 1.02, 1.14, 1.12, 0.86, 1.0)
_NEITHER: Final[Levers] = (1.0,) * 7
_JARS: Final[Levers] = (1.10, 0.97, 0.97, 0.84, 0.88, 1.22, 1.0)


class PlannedDelivery(NamedTuple):
    """A delivery plan in one phase and kind of bowling.

    Args:
        pairs: Running sums of the shares of the (length, line) pairs that come of it.
        levers: What it is paid with, the pace of the ball included.
    """

    pairs: tuple[float, ...]
    levers: Levers


class PlannedStroke(NamedTuple):
    """A planned stroke in one phase and kind of bowling.

    Args:
        loft: Shift of the intent.
        levers: By length.
    """

    loft: float
    levers: tuple[Levers, ...]


class PlanEffects:
    """The plans of one model, weighed once each.

    Args:
        tables: The fitted tables.
    """

    __slots__ = ("_deliveries", "_fields", "_strokes", "_tables", "lines", "natural")

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.natural = tuple(tuple(cumulative(shares) for shares in phase) for phase in tables.pitch_share)
        self.lines = tuple(tuple(_tilted(tables, phase, kind) for kind in range(2)) for phase in range(3))
        self._deliveries: dict[tuple[DeliveryPlan, int, int], PlannedDelivery] = {}
        self._strokes: dict[tuple[str, int, int], PlannedStroke] = {}
        self._fields: dict[tuple[FieldShape, bool, int, int, int, str | None, bool], FieldEffect] = {}

    def delivery(self, plan: DeliveryPlan, phase: int, kind: int) -> PlannedDelivery:
        """Where a plan pitches the ball, and what it is paid with."""
        key = (plan, phase, kind)
        known = self._deliveries.get(key)
        if known is None:
            known = self._deliveries[key] = self._weigh_delivery(plan, phase, kind)
        return known

    def stroke(self, shot: str, phase: int, kind: int) -> PlannedStroke:
        """What a stroke of `SHOTS` does to a ball of each length."""
        key = (shot, phase, kind)
        known = self._strokes.get(key)
        if known is None:
            known = self._strokes[key] = self._weigh_stroke(shot, phase, kind)
        return known

    def field(
        self,
        shape: FieldShape,
        powerplay: bool,
        phase: int,
        kind: int,
        line: int,
        shot: str | None,
        new_batter: bool,
    ) -> FieldEffect:
        """What a field does to a ball of this line that is hit as planned, or anyhow."""
        key = (shape, powerplay, phase, kind, line, shot, new_batter)
        known = self._fields.get(key)
        if known is None:
            if len(self._fields) >= _MEMORY:
                self._fields.clear()
            zones = self.lines[phase][kind][line]
            aimed = SHOTS.get(shot, ()) if shot is not None else ()
            if aimed:
                zones = tuple(_sent(shares, aimed) for shares in zones)
            known = self._fields[key] = field_effect(
                shape, powerplay, phase, kind, zones, new_batter=new_batter
            )
        return known

    def _weigh_delivery(self, plan: DeliveryPlan, phase: int, kind: int) -> PlannedDelivery:
        usual = self._tables.pitch_share[phase][kind]
        pairs = _executed(plan, usual)
        pace = self._tables.paces[PACES.index(plan.pace)] if plan.pace is not None else NEUTRAL
        effects = self._tables.pitch_effect[phase][kind]
        wanted = self._value(phase, kind, usual, lambda pair: effects[pair])
        paid = _solve(
            lambda x: (
                self._value(phase, kind, pairs, lambda pair: _times(effects[pair], pace, _payment(x)))
                - wanted
            )
        )
        return PlannedDelivery(cumulative(pairs), _times(pace, _payment(paid)))

    def _weigh_stroke(self, shot: str, phase: int, kind: int) -> PlannedStroke:
        usual, effects = self._tables.pitch_share[phase][kind], self._tables.pitch_effect[phase][kind]
        suits = [suitability(shot, kind, length) for length in range(len(LENGTHS))]
        lines = len(LINES)
        wanted = self._value(phase, kind, usual, lambda pair: effects[pair])
        paid = _solve(
            lambda x: (
                self._value(
                    phase, kind, usual, lambda pair: _times(effects[pair], suits[pair // lines], _payment(x))
                )
                - wanted
            )
        )
        return PlannedStroke(LOFT.get(shot, 0.0), tuple(_times(levers, _payment(paid)) for levers in suits))

    def _value(
        self, phase: int, kind: int, pairs: Sequence[float], levers_of: Callable[[int], Levers]
    ) -> float:
        """Runs less the cost of wickets, per ball, at the reference."""
        reference = reference_weights(self._tables, phase, kind)
        total = 0.0
        for pair, share in enumerate(pairs):
            levers = levers_of(pair)
            weights = [w if at is None else w * levers[at] for w, at in zip(reference, LEVER_OF, strict=True)]
            lost = WICKET_COST[phase] * (weights[WICKET] + weights[RUN_OUT])
            gained = sum(w * value for w, value in zip(weights, _VALUE, strict=True))
            # Per valid ball: wides and no-balls are bowled again.
            total += share * (gained - lost) / (sum(weights) - weights[WIDE] - weights[NO_BALL])
        return total / sum(pairs)


def _payment(x: float) -> Levers:
    """Boundaries against dots, as a batter who sees it coming makes of it."""
    return (math.exp(-0.5 * x), 1.0, 1.0, math.exp(x), math.exp(x), 1.0, 1.0)


def _times(*levers: Levers) -> Levers:
    return tuple(math.prod(values) for values in zip(*levers, strict=True))


def _solve(difference: Callable[[float], float]) -> float:
    """The root of an increasing function between -2 and 2."""
    low, high = -2.0, 2.0
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (low, middle) if difference(middle) > 0.0 else (middle, high)
    return (low + high) / 2


def _executed(plan: DeliveryPlan, natural: Sequence[float]) -> list[float]:
    """Mix the planned length and line with habit; a yorker that misses is often a full toss."""
    lines = len(LINES)
    lengths = [sum(natural[i * lines : (i + 1) * lines]) for i in range(len(LENGTHS))]
    habit = [sum(natural[i::lines]) for i in range(lines)]
    if plan.length is not None:
        lengths = _aimed(lengths, LENGTHS.index(plan.length))
        if plan.length == "yorker":
            lengths = [share * (1.0 - _YORKER_MISSED) for share in lengths]
            lengths[0] += _YORKER_MISSED
    if plan.line is not None:
        habit = _aimed(habit, LINES.index(plan.line))
    return [a * b for a in lengths for b in habit]


def _aimed(shares: Sequence[float], target: int) -> list[float]:
    total = sum(shares)
    aimed = [(1.0 - _EXECUTION) * share / total for share in shares]
    aimed[target] += _EXECUTION
    return aimed


def _tilted(tables: Tables, phase: int, kind: int) -> tuple[tuple[Sectors, ...], ...]:
    """Shares of the sectors by line and hit, which over all lines are those of the tables."""
    pairs, lines = tables.pitch_share[phase][kind], len(LINES)
    share = [sum(pairs[line::lines]) / sum(pairs) for line in range(lines)]
    off = (-0.6, -1.0, -1.0, -0.4, 0.4, 1.0, 1.0, 0.6)
    tilts = [[math.exp(_OFF_SIDE[line] * side) for side in off] for line in range(lines)]
    mean = [sum(share[line] * tilts[line][sector] for line in range(lines)) for sector in range(8)]
    return tuple(
        tuple(
            tuple(value * tilts[line][sector] / mean[sector] for sector, value in enumerate(shares))
            for shares in tables.zones[phase][kind]
        )
        for line in range(lines)
    )


def _sent(shares: Sectors, aimed: Sequence[int]) -> Sectors:
    total = sum(shares)
    return tuple(
        (1.0 - _SENT) * share / total + (_SENT / len(aimed) if sector in aimed else 0.0)
        for sector, share in enumerate(shares, 1)
    )


def suitability(shot: str, kind: int, length: int) -> Levers:
    """How a stroke of `SHOTS` suits a ball of pace (0) or spin (1) of a length (index in `LENGTHS`)."""
    if shot in _SHORT:
        return _SUITS if length >= 4 else _JARS if length <= 2 else _NEITHER
    if shot in _FULL:
        return _SUITS if length in (0, 2) else _JARS if length >= 4 else _NEITHER
    if shot in _SWEEPS:
        return _JARS if kind == 0 or length >= 4 else _SUITS if length in (2, 3) else _NEITHER
    return _NEITHER

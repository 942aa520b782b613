"""The effects of planned deliveries, strokes and fields on the outcome of a ball.

A plan changes only what happens: wickets against runs, one sector against another. A field saves fours,
gives singles and takes catches, sector by sector; where no fielder stands, balls run to the rope. The net
value of a plan is set by its caller: `BallModel.weights` takes back, at the ball's own prices, what the plan
would gain its side on average, and the match-ups add what it gains in this situation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

from spectator.environments.cricket.ball.situation import (
    LENGTHS,
    LINES,
    PACES,
    SHOTS,
    Aim,
    DeliveryPlan,
    FieldShape,
    aim_of,
)
from spectator.environments.cricket.ball.tables import (
    FOUR,
    LEVER_OF,
    ONE,
    SIX,
    TWO,
    Levers,
    Tables,
    cumulative,
)

# Reference fields by sector 1 to 8, two fielders outside the ring in a powerplay and five after it. We assume
# that the data's captains set these, since no table holds fields. Every other field is measured against them.
POWERPLAY_FIELD: Final = FieldShape(
    (0, 0, 2, 1, 1, 1, 1, 0), (0, 1, 0, 0, 0, 0, 0, 1), (0, 0, 0, 0, 0, 0, 0, 1)
)
OPEN_FIELD: Final = FieldShape((0, 0, 1, 0, 0, 1, 1, 1), (0, 1, 1, 1, 1, 1, 0, 0), (0,) * 8)

# Strengths per fielder at full cover of a sector, as logs of a multiplier. No data set them. They are chosen
# so that moving one fielder changes a sector's fours by about a third, that a catching field takes more
# wickets and costs more runs, and that no preset beats the data's own field against everything.
_DEEP_SAVES_FOUR = -0.75
_RING_SAVES_FOUR = -0.35
_RING_SAVES_ONE = -0.55
_DEEP_GIVES_ONE = 0.20
_DEEP_CATCHES = 0.35
_RING_CATCHES = 0.20
_CLOSE_CATCHES = 1.0
_RUNS_ON = 0.85
"""Share of the singles into a sector without anyone to stop them that run on to the rope."""
_DOTS_RUN_ON = 0.35
"""The same of the balls that the usual field stops, which a sector without anyone lets through."""
_NEIGHBOUR = 0.3
"""How much of a sector a fielder in the next one covers, as a fielder of its own."""
_STOPPED_PER_FOUR = ((1.0, 1.8), (0.9, 3.8), (0.4, 2.0))
"""Dots that a fielder stopped (half of all, an assumption) and singles, for each four, by phase."""
_NEW_BATTER_EDGES = 1.8
"""How much larger the close catchers' share is against a new batter."""
_FALLS_TO = (((0.36, 0.18, 0.16, 0.30), (0.40, 0.30, 0.17, 0.13), (0.34, 0.46, 0.14, 0.06)),
             ((0.45, 0.25, 0.15, 0.15), (0.42, 0.34, 0.13, 0.11), (0.36, 0.46, 0.12, 0.06)))  # fmt: skip
"""Shares of wickets without a fielder (bowled, lbw, stumped, keeper), and of those taken in the deep, in the
ring and by close catchers, by kind of bowling and phase. Only the first share is near the tables' own; the
others are assumptions."""
_EDGE_SECTORS: Final = (0.25, 0.10, 0.10, 0.05, 0.05, 0.10, 0.35, 1.0)
"""Relative number of edges that fly to each sector; third man is 1."""

Sectors = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class FieldEffect:
    """A field compared with the reference field of its phase.

    Args:
        levers: Multipliers of the seven levers.
        zones: For dot, 1, 2, 3, 4, 6: running sums of the eight sectors' shares.
    """

    levers: Levers
    zones: tuple[Sectors, ...]


def field_effect(
    shape: FieldShape,
    powerplay: bool,
    phase: int,
    kind: int,
    zones: tuple[Sectors, ...],
    *,
    new_batter: bool = False,
) -> FieldEffect:
    """Compare a field with the reference field, by where balls go.

    Args:
        shape: The field; the neutral shape changes nothing.
        powerplay: Whether the reference is the powerplay's field.
        kind: Pace (0) or spin (1).
        zones: Shares of the sectors for dot, 1, 2, 3, 4, 6.
        new_batter: Whether the batter has only just come in.
    """
    if not shape.fielders:
        return FieldEffect((1.0,) * 7, tuple(cumulative(shares) for shares in zones))
    reference = POWERPLAY_FIELD if powerplay else OPEN_FIELD
    deep = [_cover(a) - _cover(b) for a, b in zip(shape.deep, reference.deep, strict=True)]
    ring = [_cover(a) - _cover(b) for a, b in zip(shape.ring, reference.ring, strict=True)]
    close = [_cover(a) - _cover(b) for a, b in zip(shape.catching, reference.catching, strict=True)]
    bare = [max(0.0, a - b) for a, b in zip(_bare(shape), _bare(reference), strict=True)]
    dots, ones = _STOPPED_PER_FOUR[phase]
    run_on = [
        b * (_RUNS_ON * ones * one + _DOTS_RUN_ON * dots * dot) / four
        for b, dot, one, four in zip(bare, zones[0], zones[ONE], zones[FOUR], strict=True)
    ]
    dot = [1.0 - _DOTS_RUN_ON * b for b in bare]
    four = [
        math.exp(_DEEP_SAVES_FOUR * d + _RING_SAVES_FOUR * r) + more
        for d, r, more in zip(deep, ring, run_on, strict=True)
    ]
    one = [
        math.exp(_DEEP_GIVES_ONE * d + _RING_SAVES_ONE * r) * (1.0 - _RUNS_ON * b)
        for d, r, b in zip(deep, ring, bare, strict=True)
    ]
    two = [
        math.exp(-_DEEP_GIVES_ONE * d - 0.5 * _RING_SAVES_FOUR * r) for d, r in zip(deep, ring, strict=True)
    ]
    air = _mean(zones[SIX], [math.exp(_DEEP_CATCHES * d) for d in deep])
    ground = _mean(zones[FOUR], [math.exp(_RING_CATCHES * r) for r in ring])
    edge = _mean(_EDGE_SECTORS, [math.exp(_CLOSE_CATCHES * c) for c in close])
    weighted = [
        tuple(share * m for share, m in zip(shares, factors, strict=True))
        for shares, factors in zip(zones[:SIX], (dot, one, two, two, four), strict=True)
    ]
    singles, fours = _mean(zones[ONE], one), _mean(zones[FOUR], four)
    unaided, far, near, behind = _FALLS_TO[kind][phase]
    if new_batter:
        behind *= _NEW_BATTER_EDGES
    wickets = (unaided + far * air + near * ground + behind * edge) / (unaided + far + near + behind)
    levers = (_mean(zones[0], dot), singles, _mean(zones[TWO], two), fours, 1.0, wickets, 1.0)
    return FieldEffect(levers, tuple(cumulative(shares) for shares in (*weighted, zones[SIX])))


def uncovered(shape: FieldShape) -> tuple[float, ...]:
    """Return the open part of each sector, from 0 to 1."""
    return tuple(1.0 - _cover(ring + deep) for ring, deep in zip(shape.ring, shape.deep, strict=True))


def _bare(shape: FieldShape) -> tuple[float, ...]:
    """Return how far each sector is without anyone who could stop a ball there, also from its neighbours."""
    men = [ring + deep for ring, deep in zip(shape.ring, shape.deep, strict=True)]
    return tuple(1.0 - _cover(men[at] + _NEIGHBOUR * (men[at - 1] + men[(at + 1) % 8])) for at in range(8))


def _cover(fielders: float) -> float:
    """Return the part of a sector that this many fielders cover: 0, 0.7, 0.91, ..."""
    return float(1.0 - 0.3**fielders)


def _mean(shares: Sectors, values: list[float]) -> float:
    return sum(share * value for share, value in zip(shares, values, strict=True)) / sum(shares)


_EXECUTION: Final = 0.55
"""How often a bowler hits a planned length, or line, beyond those that habit would have hit."""
_YORKER_MISSED: Final = 0.12
_SENT: Final = 0.6
"""How often a planned stroke sends the ball where it was meant to go."""
_OFF_SIDE: Final = (0.8, 0.2, -0.2, -0.8)
"""Log tilt of shots towards the off side by line; the tables hold no direction by line (assumption)."""
_FINDS_GAPS: Final = 0.6
"""Log tilt of shots towards an open sector: batters look before they hit (assumption)."""
_MEMORY: Final = 16384

LOFT: Final = {
    "defend": -0.30, "push": -0.15, "guide": -0.10, "glance": -0.10, "late cut": -0.05, "loft straight": 0.15,
    "loft cover": 0.15, "slog": 0.25, "scoop": 0.15, "reverse sweep": 0.08, "upper cut": 0.08, "hook": 0.08,
}  # fmt: skip
"""Shift of the intent on its scale of 0 to 1: a stroke moves along the frontier as intent does."""

_SHORT: Final = frozenset(("cut", "late cut", "pull", "hook", "upper cut"))
_FULL: Final = frozenset(("drive", "straight drive", "flick", "loft straight", "loft cover", "slog", "scoop"))
_SWEEPS: Final = frozenset(("sweep", "reverse sweep"))
_INVENTIVE: Final = _SWEEPS | {"scoop", "upper cut", "late cut", "hook"}

_SUITS: Final[Levers] = (0.88, 1.02, 1.02, 1.14, 1.12, 0.86, 1.0)
_NEITHER: Final[Levers] = (1.0,) * 7
_JARS: Final[Levers] = (1.10, 0.97, 0.97, 0.84, 0.88, 1.22, 1.0)
_UNDOES: Final[Levers] = (1.25, 0.90, 0.90, 0.60, 0.60, 1.8, 1.0)
"""An inventive stroke to a ball that does not suit it."""


class PlannedDelivery(NamedTuple):
    """A delivery plan in one phase and kind of bowling.

    Args:
        pairs: By category, running sums of the shares of the (length, line) pairs that led to it.
        lines: Resulting shares of the lines.
        aim: How far the plan departs from habit.
    """

    pairs: tuple[tuple[float, ...], ...]
    lines: tuple[float, ...]
    aim: Aim


class PlanEffects:
    """The plan effects of one model, each computed once."""

    __slots__ = ("_deliveries", "_fields", "_means", "_mixed", "_tables", "lines")

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.lines = tuple(tuple(_tilted(tables, phase, kind) for kind in range(2)) for phase in range(3))
        self._deliveries: dict[tuple[DeliveryPlan, int, int], PlannedDelivery] = {}
        self._means: dict[tuple[DeliveryPlan, str | None, int, int], Levers] = {}
        self._fields: dict[tuple[FieldShape, bool, int, int, int, str | None, bool], FieldEffect] = {}
        self._mixed: dict[tuple[FieldShape, bool, int, int, DeliveryPlan, str | None, bool], Levers] = {}
        for phase, kind in product(range(3), range(2)):
            self.delivery(HABIT, phase, kind)

    def delivery(self, plan: DeliveryPlan, phase: int, kind: int) -> PlannedDelivery:
        """Return where a plan, or habit, pitches the ball."""
        key = (plan, phase, kind)
        known = self._deliveries.get(key)
        if known is None:
            known = self._deliveries[key] = self._planned(plan, phase, kind)
        return known

    def levers(self, plan: DeliveryPlan, shot: str | None, phase: int, kind: int) -> Levers:
        """Return the joint levers of a plan and a stroke, over all resulting balls."""
        key = (plan, shot, phase, kind)
        known = self._means.get(key)
        if known is None:
            known = self._means[key] = self._mean(plan, shot, phase, kind)
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
        """Return the effect of a field on a ball of this line, with any planned stroke."""
        key = (shape, powerplay, phase, kind, line, shot, new_batter)
        known = self._fields.get(key)
        if known is None:
            if len(self._fields) >= _MEMORY:
                self._fields.clear()
            zones = _to_gaps(self.lines[phase][kind][line], gaps(shape, powerplay))
            aimed = SHOTS.get(shot, ()) if shot is not None else ()
            if aimed:
                zones = tuple(_sent(shares, aimed) for shares in zones)
            known = self._fields[key] = field_effect(
                shape, powerplay, phase, kind, zones, new_batter=new_batter
            )
        return known

    def field_levers(
        self,
        shape: FieldShape,
        powerplay: bool,
        phase: int,
        kind: int,
        plan: DeliveryPlan,
        shot: str | None,
        new_batter: bool,
    ) -> Levers:
        """Return the levers of a field over all lines that result from a plan."""
        key = (shape, powerplay, phase, kind, plan, shot, new_batter)
        known = self._mixed.get(key)
        if known is None:
            if len(self._mixed) >= _MEMORY:
                self._mixed.clear()
            lines = self.delivery(plan, phase, kind).lines
            by_line = [
                self.field(shape, powerplay, phase, kind, line, shot, new_batter).levers
                for line in range(len(LINES))
            ]
            known = self._mixed[key] = tuple(
                sum(share * levers[at] for share, levers in zip(lines, by_line, strict=True))
                for at in range(7)
            )
        return known

    def _planned(self, plan: DeliveryPlan, phase: int, kind: int) -> PlannedDelivery:
        usual = self._tables.pitch_share[phase][kind]
        usual = tuple(share / sum(usual) for share in usual)
        pairs = _executed(plan, usual)
        effects = self._tables.pitch_effect[phase][kind]
        by_category = tuple(
            cumulative(
                [
                    share * (1.0 if at is None else levers[at])
                    for share, levers in zip(pairs, effects, strict=True)
                ]
            )
            for at in LEVER_OF
        )
        lines = tuple(sum(pairs[line :: len(LINES)]) for line in range(len(LINES)))
        return PlannedDelivery(by_category, lines, aim_of(pairs, usual))

    def _mean(self, plan: DeliveryPlan, shot: str | None, phase: int, kind: int) -> Levers:
        usual = self._tables.pitch_share[phase][kind]
        usual = tuple(share / sum(usual) for share in usual)
        effects = self._tables.pitch_effect[phase][kind]
        pace = self._tables.paces[PACES.index(plan.pace)] if plan.pace is not None else _NEITHER
        suits = [
            _NEITHER if shot is None else suitability(shot, kind, length) for length in range(len(LENGTHS))
        ]
        pairs = _executed(plan, usual)
        return tuple(
            pace[at]
            * sum(
                share * effects[pair][at] * suits[pair // len(LINES)][at] for pair, share in enumerate(pairs)
            )
            / sum(share * levers[at] for share, levers in zip(usual, effects, strict=True))
            for at in range(7)
        )


HABIT: Final = DeliveryPlan()
"""No plan: the bowler bowls by habit."""


def reference_field(powerplay: bool) -> FieldShape:
    """Return the field that real sides are assumed to set."""
    return POWERPLAY_FIELD if powerplay else OPEN_FIELD


def gaps(shape: FieldShape, powerplay: bool) -> tuple[float, ...]:
    """Return how much less of each sector a field covers than the usual one.

    The neutral shape gives zeros.
    """
    if not shape.fielders:
        return (0.0,) * 8
    return tuple(a - b for a, b in zip(uncovered(shape), uncovered(reference_field(powerplay)), strict=True))


def suits_of(shot: str, kind: int) -> tuple[float, ...]:
    """Return whether a stroke suits (1) or does not suit (-1) each length of a kind."""
    found = [suitability(shot, kind, length) for length in range(len(LENGTHS))]
    return tuple(1.0 if levers is _SUITS else 0.0 if levers is _NEITHER else -1.0 for levers in found)


def _executed(plan: DeliveryPlan, natural: Sequence[float]) -> list[float]:
    """Mix planned length and line with habit; missed yorkers are often full tosses."""
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
    """Return sector shares by line and hit; over all lines they match the tables."""
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


def _to_gaps(zones: tuple[Sectors, ...], open_more: Sequence[float]) -> tuple[Sectors, ...]:
    tilts = [math.exp(_FINDS_GAPS * more) for more in open_more]
    return tuple(tuple(share * tilt for share, tilt in zip(shares, tilts, strict=True)) for shares in zones)


def _sent(shares: Sectors, aimed: Sequence[int]) -> Sectors:
    total = sum(shares)
    return tuple(
        (1.0 - _SENT) * share / total + (_SENT / len(aimed) if sector in aimed else 0.0)
        for sector, share in enumerate(shares, 1)
    )


def suitability(shot: str, kind: int, length: int) -> Levers:
    """Return the levers of a stroke of `SHOTS` against a length.

    Args:
        kind: Pace (0) or spin (1).
        length: Index in `LENGTHS`.
    """
    jars = _UNDOES if shot in _INVENTIVE else _JARS
    if shot in _SHORT:
        return _SUITS if length >= 4 else jars if length <= 2 else _NEITHER
    if shot in _FULL:
        return _SUITS if length in (0, 2) else jars if length >= 4 else _NEITHER
    if shot in _SWEEPS:
        return jars if kind == 0 or length >= 4 else _SUITS if length in (2, 3) else _NEITHER
    return _NEITHER

"""The effect of a field setting: fours saved, singles given and catches held, sector by sector."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from spectator.environments.cricket.ball.tables import FOUR, ONE, SIX, TWO, Levers, cumulative
from spectator.environments.cricket.ball.vocabulary import FieldShape

# Reference fields by sector 1 to 8, two outside the ring in a powerplay and five after it: what the data's
# captains are taken to set, since no table holds fields. Against them every other field is weighed.
POWERPLAY_FIELD: Final = FieldShape(
    (0, 0, 2, 1, 1, 1, 1, 0), (0, 1, 0, 0, 0, 0, 0, 1), (0, 0, 0, 0, 0, 0, 0, 1)
)
OPEN_FIELD: Final = FieldShape((0, 0, 1, 0, 0, 1, 1, 1), (0, 1, 1, 1, 1, 1, 0, 0), (0,) * 8)

# Strengths, per fielder at full cover of a sector: logs of a multiplier. No data set them. They are chosen so
# that moving one fielder changes a sector's fours by about a third, that a catching field takes more wickets
# and costs more runs, and that no preset is better than the data's own field against everything.
_DEEP_SAVES_FOUR = -0.75
_RING_SAVES_FOUR = -0.35
_RING_SAVES_ONE = -0.55
_DEEP_GIVES_ONE = 0.20
_DEEP_CATCHES = 0.35
_RING_CATCHES = 0.20
_CLOSE_CATCHES = 1.0
_NEW_BATTER_EDGES = 1.8
"""How much larger the close catchers' share is while a batter is new."""
_FALLS_TO = (((0.36, 0.18, 0.16, 0.30), (0.40, 0.30, 0.17, 0.13), (0.34, 0.46, 0.14, 0.06)),
             ((0.45, 0.25, 0.15, 0.15), (0.42, 0.34, 0.13, 0.11), (0.36, 0.46, 0.12, 0.06)))  # fmt: skip
"""Shares of wickets that no fielder makes (bowled, lbw, stumped, keeper), and that fall to the deep, the ring
and close catchers, by kind of bowling and phase; only the first share is near the tables', the others are
assumptions."""
_EDGE_SECTORS: Final = (0.25, 0.10, 0.10, 0.05, 0.05, 0.10, 0.35, 1.0)
"""How many edges fly to each sector, against the third-man sector."""

Sectors = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class FieldEffect:
    """A field against the reference of its phase.

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
    """Weigh a field by where balls go.

    Args:
        shape: The field; the neutral shape changes nothing.
        powerplay: Whether the reference is the powerplay's field.
        phase: Powerplay, middle or death.
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
    four = [math.exp(_DEEP_SAVES_FOUR * d + _RING_SAVES_FOUR * r) for d, r in zip(deep, ring, strict=True)]
    one = [math.exp(_DEEP_GIVES_ONE * d + _RING_SAVES_ONE * r) for d, r in zip(deep, ring, strict=True)]
    two = [
        math.exp(-_DEEP_GIVES_ONE * d - 0.5 * _RING_SAVES_FOUR * r) for d, r in zip(deep, ring, strict=True)
    ]
    air = _mean(zones[SIX], [math.exp(_DEEP_CATCHES * d) for d in deep])
    ground = _mean(zones[FOUR], [math.exp(_RING_CATCHES * r) for r in ring])
    edge = _mean(_EDGE_SECTORS, [math.exp(_CLOSE_CATCHES * c) for c in close])
    weighted = (
        zones[0],
        tuple(share * m for share, m in zip(zones[ONE], one, strict=True)),
        tuple(share * m for share, m in zip(zones[TWO], two, strict=True)),
        tuple(share * m for share, m in zip(zones[3], two, strict=True)),
        tuple(share * m for share, m in zip(zones[FOUR], four, strict=True)),
        zones[SIX],
    )
    singles, fours = _mean(zones[ONE], one), _mean(zones[FOUR], four)
    nobody, far, near, behind = _FALLS_TO[kind][phase]
    if new_batter:
        behind *= _NEW_BATTER_EDGES
    wickets = (nobody + far * air + near * ground + behind * edge) / (nobody + far + near + behind)
    levers = (1.0, singles, _mean(zones[TWO], two), fours, 1.0, wickets, 1.0)
    return FieldEffect(levers, tuple(cumulative(shares) for shares in weighted))


def uncovered(shape: FieldShape) -> tuple[float, ...]:
    """How much of each sector a field leaves open, of 1."""
    return tuple(1.0 - _cover(ring + deep) for ring, deep in zip(shape.ring, shape.deep, strict=True))


def _cover(fielders: int) -> float:
    """How much of a sector so many fielders cover: 0, 0.7, 0.91, ... of all of it."""
    return 1.0 - 0.3**fielders


def _mean(shares: Sectors, values: list[float]) -> float:
    return sum(share * value for share, value in zip(shares, values, strict=True)) / sum(shares)

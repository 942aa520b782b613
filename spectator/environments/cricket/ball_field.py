"""Owns what a field does to a ball: saves fours, gives singles, holds catches, sector by sector."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from spectator.environments.cricket.ball_plans import FieldShape
from spectator.environments.cricket.ball_tables import FOUR, ONE, SIX, TWO, Levers, cumulative

# Reference fields by sector 1 to 8, two outside the ring in a powerplay and five after it: what the data's captains are
# taken to set, since no table holds fields. Against them every other field is weighed.
POWERPLAY_FIELD: Final = FieldShape((0, 0, 2, 1, 1, 1, 1, 0), (0, 1, 0, 0, 0, 0, 0, 1), (0, 0, 0, 0, 0, 0, 0, 1))
OPEN_FIELD: Final = FieldShape((0, 0, 1, 0, 0, 1, 1, 1), (0, 1, 1, 1, 1, 1, 0, 0), (0,) * 8)

# Strengths, per fielder at full cover of a sector: logs of a multiplier. No data set them; they were chosen so that moving
# one fielder changes a sector's fours by about a third and so that no lawful field gains against all kinds of batting.
_DEEP_SAVES_FOUR = -0.75
_RING_SAVES_FOUR = -0.30
_RING_SAVES_ONE = -0.42
_DEEP_GIVES_ONE = 0.22
_DEEP_CATCHES = 0.35
_RING_CATCHES = 0.15
_CLOSE_CATCHES = 0.55
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


def field_effect(shape: FieldShape, powerplay: bool, zones: tuple[Sectors, ...]) -> FieldEffect:
    """Weigh a field by where balls go.

    Args:
        shape: The field; the neutral shape changes nothing.
        powerplay: Whether the reference is the powerplay's field.
        zones: Shares of the sectors for dot, 1, 2, 3, 4, 6 in this phase and kind of bowling.
    """
    if not shape.fielders:
        return FieldEffect((1.0,) * 7, tuple(cumulative(shares) for shares in zones))
    reference = POWERPLAY_FIELD if powerplay else OPEN_FIELD
    deep = [_cover(a) - _cover(b) for a, b in zip(shape.deep, reference.deep, strict=True)]
    ring = [_cover(a) - _cover(b) for a, b in zip(shape.ring, reference.ring, strict=True)]
    close = [_cover(a) - _cover(b) for a, b in zip(shape.catching, reference.catching, strict=True)]
    four = [math.exp(_DEEP_SAVES_FOUR * d + _RING_SAVES_FOUR * r) for d, r in zip(deep, ring, strict=True)]
    one = [math.exp(_DEEP_GIVES_ONE * d + _RING_SAVES_ONE * r) for d, r in zip(deep, ring, strict=True)]
    two = [math.exp(-_DEEP_GIVES_ONE * d - 0.5 * _RING_SAVES_FOUR * r) for d, r in zip(deep, ring, strict=True)]
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
    levers = (
        1.0, singles, _mean(zones[TWO], two), fours, 1.0, 0.4 + 0.35 * air + 0.15 * ground + 0.10 * edge, 1.0,
    )  # fmt: skip
    return FieldEffect(levers, tuple(cumulative(shares) for shares in weighted))


def _cover(fielders: int) -> float:
    """How much of a sector so many fielders cover: 0, 0.7, 0.91, ... of all of it."""
    return 1.0 - 0.3**fielders


def _mean(shares: Sectors, values: list[float]) -> float:
    return sum(share * value for share, value in zip(shares, values, strict=True)) / sum(shares)

"""Field settings: positions, presets, restrictions, and the shape by sector.

Coordinates are in metres from the striker's middle stump at (0, 0): ``x`` to the off side, ``y`` towards the
bowler. For a left-hander the field is mirrored, so that a preset means the same positions.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from spectator.environments.cricket.ball.grounds import USUAL_BOUNDARY_M, Boundaries, rope_at
from spectator.environments.cricket.ball.situation import FieldShape
from spectator.environments.cricket.laws import LawBroken

POSITIONS: Final[Mapping[str, tuple[float, float]]] = {
    "slip": (3.0, -14.0), "second slip": (5.0, -14.0), "gully": (11.0, -9.0), "short third": (14.0, -20.0),
    "third": (33.0, -46.0), "backward point": (24.0, -6.0), "point": (26.0, 1.5),
    "deep backward point": (60.0, -8.0), "deep point": (63.0, 2.0), "cover point": (25.0, 7.0),
    "cover": (22.0, 16.0), "extra cover": (16.0, 24.0), "sweeper cover": (57.0, 32.0),
    "deep extra cover": (48.0, 48.0), "mid-off": (9.0, 34.0), "long-off": (22.0, 70.0),
    "straight hit": (0.0, 75.0), "mid-on": (-9.0, 34.0), "long-on": (-22.0, 70.0),
    "midwicket": (-23.0, 13.0), "short midwicket": (-12.0, 10.0), "deep midwicket": (-55.0, 36.0),
    "cow corner": (-42.0, 58.0), "square leg": (-24.0, 2.5), "deep square leg": (-63.0, 4.0),
    "backward square leg": (-24.0, -6.0), "deep backward square leg": (-60.0, -12.0),
    "short fine leg": (-14.0, -20.0), "fine leg": (-30.0, -48.0), "leg slip": (-4.0, -12.0),
    "short leg": (-3.0, 3.0), "silly point": (3.0, 3.0),
}  # fmt: skip
"""Standard positions for a right-hander, in metres."""

STANDARD: Final = "standard"
"""The field that real sides set in the situation; it opens up when the powerplay ends."""

PRESETS: Final[Mapping[str, tuple[str, ...]]] = {
    "attacking": ("slip", "gully", "point", "cover", "mid-off", "mid-on", "midwicket", "square leg",
        "fine leg"),
    "ring": ("short third", "backward point", "cover point", "extra cover", "mid-off", "mid-on",
        "midwicket", "square leg", "short fine leg"),
    "balanced": ("short third", "backward point", "cover", "mid-off", "midwicket", "deep square leg",
        "long-on", "sweeper cover", "long-off"),
    "defensive": ("short third", "cover", "midwicket", "deep point", "short fine leg", "long-off",
        "long-on", "deep midwicket", "sweeper cover"),
    "death": ("third", "point", "extra cover", "mid-off", "short fine leg", "long-on", "deep midwicket",
        "deep square leg", "sweeper cover"),
    "spin": ("slip", "short third", "cover", "short midwicket", "deep square leg", "long-on",
        "long-off", "deep midwicket", "sweeper cover"),
    "leg_side": ("short third", "point", "cover", "mid-off", "midwicket", "long-on", "deep midwicket",
        "deep square leg", "long-off"),
    "off_side": ("slip", "short third", "backward point", "cover", "mid-off", "midwicket", "deep point",
        "sweeper cover", "deep square leg"),
}  # fmt: skip
"""Nine positions each, without bowler and keeper; for ``standard`` see :data:`STANDARD_FIELDS`."""

PRESET_NAMES: Final = (STANDARD, *PRESETS)

STANDARD_FIELDS: Final[Mapping[int, tuple[str, ...]]] = {
    2: ("slip", "backward point", "cover", "mid-off", "mid-on",
        "midwicket", "square leg", "third", "deep square leg"),
    4: ("short third", "backward point", "cover", "mid-off", "midwicket",
        "deep square leg", "long-on", "sweeper cover", "long-off"),
    5: ("short third", "backward point", "cover", "midwicket",
        "deep square leg", "deep midwicket", "long-on", "long-off", "sweeper cover"),
}  # fmt: skip
"""Positions of ``standard``, by the maximum of fielders outside the ring."""

PITCH_M: Final = 20.12
"""Distance between the stumps, 22 yards (Law 6.1)."""
CREASE_M: Final = 1.22
"""Distance of the popping crease from the stumps (Law 7.3)."""
RING_M: Final = 27.43
"""Radius of the 30-yard semicircles around the middle stumps (T20I playing conditions 28.7)."""
BOUNDARY_M: Final = USUAL_BOUNDARY_M
"""Boundary of the neutral ground, from the centre of the pitch; the conditions allow 59.43 to 82.29 m."""
INSIDE_M: Final = 2.0
"""Distance inside the rope of a deep fielder whose position would be beyond it."""
MAX_LEG_SIDE: Final = 5
MAX_BEHIND_SQUARE_LEG: Final = 2

CLOSE_M: Final = 16.0
"""A fielder nearer than this to the striker is a close catcher."""


@dataclass(frozen=True, slots=True)
class Fielder:
    """One of the nine placed fielders.

    Args:
        x: Metres to the off side of the striker's middle stump.
        y: Metres from it towards the bowler.
    """

    name: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Field:
    """A field setting.

    Args:
        preset: Name of its preset, or ``custom``.
        fielders: The nine fielders, without bowler and keeper.
        shape: Its shape by sector, for the ball model.
        outside: Number of fielders outside the ring.
        shown: The field in events: ``{preset, fielders: [{name, x, y}]}``, in metres.
    """

    preset: str
    fielders: tuple[Fielder, ...]
    shape: FieldShape
    outside: int
    shown: Mapping[str, Any] = dataclasses.field(compare=False, repr=False)

    def copy_shown(self, faced: Boundaries = ()) -> dict[str, Any]:
        """Return a copy of `shown` that may be changed; matches share the original.

        Args:
            faced: The boundaries from the striker's view; fielders beyond the rope are moved inside it.
        """
        fielders = [dict(fielder) for fielder in self.shown["fielders"]]
        if faced:
            fielders = [
                one | dict(zip("xy", inside_the_rope(one["x"], one["y"], faced), strict=True))
                for one in fielders
            ]
        return {"preset": self.preset, "fielders": fielders}

    def nearest(self, zone: int, *, deep: bool) -> int:
        """Return the index of the fielder nearest to the middle of a sector.

        Args:
            zone: Sector 1 to 8.
            deep: Whether to prefer fielders outside the ring, or those inside it.
        """
        middle = math.radians(45.0 * zone - 22.5)
        x, y = -math.sin(middle), -math.cos(middle)
        best, best_score = 0, -math.inf
        for index, fielder in enumerate(self.fielders):
            along = (fielder.x * x + fielder.y * y) / math.hypot(fielder.x, fielder.y)
            score = along + (0.25 if is_outside(fielder.x, fielder.y) == deep else 0.0)
            if score > best_score:
                best, best_score = index, score
        return best


def zone_of(x: float, y: float) -> int:
    """Return the sector of a point seen from the striker, as in `SECTORS`.

    Sectors span 45 degrees each: 1 fine leg, 2 square leg, ... 8 third.

    >>> zone_of(*POSITIONS["cover"]), zone_of(*POSITIONS["fine leg"])
    (6, 1)
    """
    angle = math.degrees(math.atan2(-x, -y)) % 360.0
    return int(angle // 45.0) + 1


def is_outside(x: float, y: float) -> bool:
    """Check whether a point is outside the ring.

    The ring consists of semicircles around both middle stumps, joined by straight lines.
    """
    if 0.0 <= y <= PITCH_M:
        return abs(x) > RING_M
    return math.hypot(x, y if y < 0 else y - PITCH_M) > RING_M


def is_inside_ground(x: float, y: float, faced: Boundaries = ()) -> bool:
    """Check whether a point is on the field of play.

    Args:
        x: Metres to the off side of the striker's middle stump.
        y: Metres from it towards the bowler.
        faced: The boundaries from the striker's view; empty for the neutral ground.
    """
    y -= PITCH_M / 2
    return math.hypot(x, y) <= rope_at(faced, x, y)


def inside_the_rope(x: float, y: float, faced: Boundaries) -> tuple[float, float]:
    """Return a point, moved inside the rope towards the pitch if it is beyond.

    >>> inside_the_rope(63.0, 10.06, (60.0,) * 8)
    (58.0, 10.1)
    """
    middle = PITCH_M / 2
    rope, far = rope_at(faced, x, y - middle), math.hypot(x, y - middle)
    if far <= rope:
        return x, y
    part = (rope - INSIDE_M) / far
    return round(x * part, 1), round(middle + (y - middle) * part, 1)


def shape_of(fielders: Sequence[Fielder]) -> FieldShape:
    """Count ring, deep and close fielders by sector."""
    ring, deep, catching = [0] * 8, [0] * 8, [0] * 8
    for one in fielders:
        kind = deep if is_outside(one.x, one.y) else catching if math.hypot(one.x, one.y) < CLOSE_M else ring
        kind[zone_of(one.x, one.y) - 1] += 1
    return FieldShape(tuple(ring), tuple(deep), tuple(catching))


def _placed(name: str, positions: Sequence[str]) -> Field:
    fielders = tuple(Fielder(position, *POSITIONS[position]) for position in positions)
    return _set(name, fielders, shape_of(fielders))


def _set(preset: str, fielders: tuple[Fielder, ...], shape: FieldShape) -> Field:
    shown = {"preset": preset, "fielders": [{"name": one.name, "x": one.x, "y": one.y} for one in fielders]}
    return Field(preset, fielders, shape, sum(is_outside(one.x, one.y) for one in fielders), shown)


@cache
def standard_field(outside_limit: int) -> Field:
    """Return the field that real sides set under this limit outside the ring.

    Its shape is the ball model's neutral one: the tables hold no fields, so they already imply this one.
    """
    fielders = tuple(Fielder(position, *POSITIONS[position]) for position in STANDARD_FIELDS[outside_limit])
    return _set(STANDARD, fielders, FieldShape.neutral())


@cache
def preset_field(name: str, outside_limit: int) -> Field:
    """Return the preset called ``name``.

    Raises:
        KeyError: The preset is unknown.
    """
    return standard_field(outside_limit) if name == STANDARD else _placed(name, PRESETS[name])


def custom_field(fielders: Sequence[tuple[str, float, float]], faced: Boundaries = ()) -> Field:
    """Return a captain's custom field.

    Args:
        fielders: (name, x, y) of each of the nine.
        faced: The boundaries from the striker's view; empty for the neutral ground.

    Raises:
        LawBroken: There are not nine fielders, one is off the ground or on the pitch, or two share a spot.
    """
    if len(fielders) != 9:
        raise LawBroken("F4.nine_fielders", "Place exactly nine fielders, not counting bowler and keeper.")
    for name, x, y in fielders:
        if not is_inside_ground(x, y, faced):
            raise LawBroken(
                "F4.off_the_ground", f"{name} at ({x:g}, {y:g}) is beyond the boundary; move it inside."
            )
        if abs(x) <= 1.52 and 0.0 <= y <= PITCH_M:
            raise LawBroken("F8.on_the_pitch", f"{name} at ({x:g}, {y:g}) is on the pitch; move it off.")
    spots = {(round(x), round(y)) for _, x, y in fielders}
    if len(spots) != 9:
        raise LawBroken("F4.same_spot", "Two fielders cannot share a spot; move one of them.")
    placed = tuple(Fielder(name, float(x), float(y)) for name, x, y in fielders)
    return _set("custom", placed, shape_of(placed))


def check_field(field: Field, outside_limit: int) -> None:
    """Raise if ``field`` would be a no-ball.

    Args:
        outside_limit: Maximum fielders outside the ring for the next ball.

    Raises:
        LawBroken: F1, F2 or F3 forbids it.

    >>> check_field(preset_field("defensive", 5), 2)
    Traceback (most recent call last):
        ...
    spectator.environments.cricket.laws.LawBroken: F1.outside_ring: ...
    """
    outside = field.outside
    if outside > outside_limit:
        raise LawBroken(
            "F1.outside_ring",
            f"{outside} fielders are outside the ring; at most {outside_limit} are allowed for this ball.",
        )
    leg_side = sum(fielder.x < 0 for fielder in field.fielders)
    if leg_side > MAX_LEG_SIDE:
        raise LawBroken(
            "F2.leg_side", f"{leg_side} fielders are on the leg side; at most {MAX_LEG_SIDE} are allowed."
        )
    behind = sum(fielder.x < 0 and fielder.y < CREASE_M for fielder in field.fielders)
    if behind > MAX_BEHIND_SQUARE_LEG:
        raise LawBroken(
            "F3.behind_square",
            f"{behind} fielders are behind the popping crease on the leg side; at most 2 are allowed.",
        )


@cache
def legal_presets(outside_limit: int) -> tuple[str, ...]:
    """Return the names of the presets lawful under this limit outside the ring."""
    return tuple(name for name in PRESET_NAMES if preset_field(name, outside_limit).outside <= outside_limit)

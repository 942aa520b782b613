"""The ground: how far its boundary is all round, and what that does to a ball and to what is planned for it.

No table of ours knows a boundary, so every figure is an assumption, sized so that totals differ between these
grounds by about as much as they do between real ones: 11 runs (sd) of a first innings of twenty overs, once
the luck of the matches is taken out (``venue_mean_total_sd_raw`` of 14.4 and ``venue_mean_sampling_sd`` of
9.0 in variance.json). Real grounds differ by more than their size, so this is the most that size can do.

A boundary is eight distances in metres from the centre of the pitch, in the order of `SECTORS`, as a
right-hander at the first end sees them. Overs change ends, so that a short side is on the leg in one over and
on the off in the next. An empty tuple is the neutral ground, which changes nothing.
"""

from __future__ import annotations

import math
import random
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from spectator.environments.cricket.ball.tables import (
    CATEGORIES,
    FOUR,
    SIX,
    THREE,
    TWO,
    WICKET,
    Tables,
    cumulative,
)

Boundaries = tuple[float, ...]

USUAL_BOUNDARY_M: Final = 68.0
"""The boundary all round the neutral ground, which the tables stand for."""
MIN_BOUNDARY_M: Final = 59.43
MAX_BOUNDARY_M: Final = 82.29
"""What the playing conditions allow: 65 to 90 yards from the centre of the pitch."""

SIXES: Final = 0.40
"""Log ratio of sixes into a sector for each ten metres that its boundary is nearer."""
FOURS: Final = 0.10
"""The same of fours."""
TWOS: Final = -0.12
"""The same of twos and threes: there is less room to run them."""
CATCHES: Final = -0.20
"""The same of catches in the deep: what carries the rope is not caught in front of it."""
_RATES: Final = {TWO: TWOS, THREE: TWOS, FOUR: FOURS, SIX: SIXES}
IN_THE_DEEP: Final = (0.17, 0.31, 0.46)
"""Share of wickets that fall to the deep, by phase (see `fielding`)."""

LEAN: Final = 0.08
"""How much likelier runs are on the nearer side, as a log ratio between leg and off side, for each ten metres
of difference: what a batter's own liking (``bat_leg``) is measured in."""
STROKE: Final = 0.07
"""Log ratio of runs of a planned stroke for each ten metres by which its boundary is nearer than the rest."""
HITTING: Final = 0.06
"""Log ratio of runs by which hitting out pays more for each ten metres that the whole boundary is nearer."""


class Ground(NamedTuple):
    """A ground.

    Args:
        name: One of `GROUND_NAMES`.
        boundaries: Metres to the rope by sector; empty for the neutral ground.
    """

    name: str = "neutral"
    boundaries: Boundaries = ()


NEUTRAL_GROUND: Final = Ground()
_SIZES: Final[dict[str, Boundaries]] = {
    "compact": (61.0, 62.0, 62.0, 66.0, 66.0, 62.0, 62.0, 61.0),
    "vast": (73.0, 76.0, 76.0, 76.0, 76.0, 76.0, 76.0, 73.0),
    "long": (74.0, 62.0, 62.0, 78.0, 78.0, 62.0, 62.0, 74.0),
    "broad": (62.0, 76.0, 76.0, 61.0, 61.0, 76.0, 76.0, 62.0),
    "lopsided": (64.0, 60.0, 60.0, 66.0, 72.0, 78.0, 78.0, 72.0),
}
"""Invented grounds; `lopsided` has its short side to the leg of a right-hander at the first end."""
GROUNDS: Final = {"neutral": NEUTRAL_GROUND} | {name: Ground(name, sizes) for name, sizes in _SIZES.items()}
GROUND_NAMES: Final = tuple(GROUNDS)
_DRAWN: Final = {"compact": 1, "vast": 1, "long": 1, "broad": 1, "lopsided": 2}
"""How often each is drawn; half of them mirrored, so that no side, end or hand is better off."""


def draw_ground(rng: random.Random) -> Ground:
    """Draw a ground that is not the neutral one."""
    (name,) = rng.choices(list(_DRAWN), list(_DRAWN.values()))
    sizes = _SIZES[name]
    return Ground(name, sizes[::-1] if rng.random() < 0.5 else sizes)


@cache
def as_faced(boundaries: Boundaries, over: int, left_handed: bool) -> Boundaries:
    """The boundaries as a striker sees them: sector 1 is behind him on his leg side.

    Args:
        boundaries: Of the ground; empty stays empty.
        over: Over of the innings, from 0: the first is bowled to the first end.
        left_handed: Whether he bats left-handed.

    >>> lopsided = GROUNDS["lopsided"].boundaries
    >>> as_faced(lopsided, over=0, left_handed=False)[1], as_faced(lopsided, over=1, left_handed=False)[1]
    (60.0, 78.0)
    >>> as_faced(lopsided, over=0, left_handed=True)[1]
    78.0
    """
    if over % 2:
        boundaries = boundaries[4:] + boundaries[:4]
    return boundaries[::-1] if left_handed else boundaries


@lru_cache(maxsize=1024)
def ground_factors(
    tables: Tables, boundaries: Boundaries, over: int, left_handed: bool, phase: int, kind: int
) -> tuple[float, ...]:
    """What the ground multiplies the eleven categories of a ball by, from where balls are hit.

    Args:
        tables: The fitted tables.
        boundaries: Of the ground; not empty.
        over: Over of the innings, from 0; only which end matters.
        left_handed: Whether the striker bats left-handed.
        phase: Powerplay, middle or death.
        kind: Pace (0) or spin (1).
    """
    nearer = [(USUAL_BOUNDARY_M - metres) / 10.0 for metres in as_faced(boundaries, over % 2, left_handed)]
    zones = tables.zones[phase][kind]

    def mean(hit: int, rate: float) -> float:
        shares = zones[hit]
        return sum(s * math.exp(rate * near) for s, near in zip(shares, nearer, strict=True)) / sum(shares)

    factors = [1.0] * CATEGORIES
    for hit, rate in _RATES.items():
        factors[hit] = mean(hit, rate)
    factors[WICKET] = 1.0 + IN_THE_DEEP[phase] * (mean(SIX, CATCHES) - 1.0)
    return tuple(factors)


@lru_cache(maxsize=512)
def sectors_hit(faced: Boundaries, sums: Boundaries, hit: int) -> Boundaries:
    """Running sums of the sectors' shares with what the ground makes of them.

    Args:
        faced: The boundaries as the striker sees them; empty changes nothing.
        sums: Running sums of the eight shares.
        hit: Dot, 1, 2, 3, 4 or 6, as a number of 0 to 5.
    """
    rate = _RATES.get(hit, 0.0)
    if not faced or not rate:
        return sums
    shares = [high - low for low, high in pairwise((0.0, *sums))]
    return cumulative(
        [
            share * math.exp(rate * (USUAL_BOUNDARY_M - at) / 10.0)
            for share, at in zip(shares, faced, strict=True)
        ]
    )


@cache
def lean(faced: Boundaries) -> float:
    """How much the ground favours the striker's leg side, on the scale of his own liking (``bat_leg``).

    Args:
        faced: The boundaries as he sees them, see `as_faced`.
    """
    if not faced:
        return 0.0
    return LEAN * (sum(faced[5:]) - sum(faced[:3])) / 30.0


@cache
def stroke_reach(faced: Boundaries, sectors: tuple[int, ...]) -> float:
    """Log ratio of runs of a stroke to these sectors (1 to 8), by how near the rope is there."""
    if not faced:
        return 0.0
    there = sum(faced[sector - 1] for sector in sectors) / len(sectors)
    return STROKE * (sum(faced) / len(faced) - there) / 10.0


@cache
def room_to_hit(boundaries: Boundaries) -> float:
    """Log ratio of runs by which the size of the ground favours hitting out."""
    if not boundaries:
        return 0.0
    return HITTING * (USUAL_BOUNDARY_M - sum(boundaries) / len(boundaries)) / 10.0


def rope_at(faced: Boundaries, x: float, y: float) -> float:
    """Metres from the centre of the pitch to the rope in the direction of a point.

    The distances of the sectors hold in their middles; in between the rope goes evenly from one to the next.

    Args:
        faced: The boundaries as the striker sees them; empty for the neutral ground.
        x: Metres to the off side of the centre of the pitch.
        y: Metres from it towards the bowler.
    """
    if not faced:
        return USUAL_BOUNDARY_M
    place = (math.degrees(math.atan2(-x, -y)) % 360.0) / 45.0 - 0.5
    low = math.floor(place)
    part = place - low
    return (1.0 - part) * faced[low % 8] + part * faced[(low + 1) % 8]

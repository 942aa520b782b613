"""Grounds and conditions: boundary distances by direction, pitch and evening, and their effect on balls.

No table of ours knows boundaries, so every figure is an assumption. They are sized so that totals differ
between these grounds by about as much as between real ones: 11 runs (sd) of a 20-over first innings, after
removing the luck of the matches (``venue_mean_total_sd_raw`` of 14.4 and ``venue_mean_sampling_sd`` of 9.0 in
variance.json). Real grounds differ in more than size, so this is the most that size can do.

Boundaries are eight distances in metres from the centre of the pitch, in the order of `SECTORS`, from the
view of a right-hander at the first end. Overs change ends, so a short side is on the leg side in one over and
on the off side in the next. An empty tuple is the neutral ground, which changes nothing.
"""

from __future__ import annotations

import math
import random
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final, Literal, NamedTuple

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
"""Boundary in every direction of the neutral ground, which the tables represent."""
MAX_BOUNDARY_M: Final = 82.29
"""Limits of the playing conditions: 65 to 90 yards from the centre of the pitch."""

SIXES: Final = 0.40
"""Log ratio of sixes into a sector for each ten metres that its boundary is nearer."""
FOURS: Final = 0.10
"""The same for fours."""
TWOS: Final = -0.12
"""The same for twos and threes: there is less room to run them."""
CATCHES: Final = -0.20
"""The same for catches in the deep: a hit that clears the rope cannot be caught in front of it."""
_RATES: Final = {TWO: TWOS, THREE: TWOS, FOUR: FOURS, SIX: SIXES}
IN_THE_DEEP: Final = (0.17, 0.31, 0.46)
"""Share of wickets caught in the deep, by phase (see `plan_effects`)."""

LEAN: Final = 0.08
"""Log ratio of runs between leg and off side for each ten metres of difference in distance, on the scale of a
batter's own preference (``bat_leg``)."""
STROKE: Final = 0.07
"""Log ratio of runs of a planned stroke for each ten metres that its boundary is nearer than the average."""
HITTING: Final = 0.06
"""Log ratio of runs that hitting out gains for each ten metres that the average boundary is nearer."""


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
"""Invented grounds; `lopsided` has its short side on the leg side of a right-hander at the first end."""
GROUNDS: Final = {"neutral": NEUTRAL_GROUND} | {name: Ground(name, sizes) for name, sizes in _SIZES.items()}
GROUND_NAMES: Final = tuple(GROUNDS)
_DRAWN: Final = {"compact": 1, "vast": 1, "long": 1, "broad": 1, "lopsided": 2}
"""How often each is drawn; half are mirrored, so that no side, end or hand has an advantage."""


def draw_ground(rng: random.Random) -> Ground:
    """Draw a ground other than the neutral one."""
    (name,) = rng.choices(list(_DRAWN), list(_DRAWN.values()))
    sizes = _SIZES[name]
    return Ground(name, sizes[::-1] if rng.random() < 0.5 else sizes)


@cache
def as_faced(boundaries: Boundaries, over: int, left_handed: bool) -> Boundaries:
    """Return the boundaries as the striker sees them: sector 1 is fine leg.

    Args:
        boundaries: Boundaries of the ground; empty stays empty.
        over: Over of the innings, from 0; the first is bowled to the first end.

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
    """Return the ground's multipliers on the eleven categories of a ball.

    Args:
        boundaries: Boundaries of the ground; not empty.
        over: Over of the innings, from 0; only the end matters.
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
    """Adjust running sums of the sectors' shares to the ground.

    Args:
        faced: The boundaries from the striker's view; empty changes nothing.
        sums: Running sums of the eight shares.
        hit: Dot, 1, 2, 3, 4 or 6, as an index from 0 to 5.
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
    """Return the ground's bias to the striker's leg side, on ``bat_leg``'s scale.

    Args:
        faced: The boundaries from the striker's view, see `as_faced`.
    """
    if not faced:
        return 0.0
    return LEAN * (sum(faced[5:]) - sum(faced[:3])) / 30.0


@cache
def stroke_reach(faced: Boundaries, sectors: tuple[int, ...]) -> float:
    """Return a stroke's log ratio of runs by the rope's distance in its sectors.

    Args:
        faced: The boundaries from the striker's view; empty for the neutral ground.
        sectors: Sectors of the stroke, 1 to 8.
    """
    if not faced:
        return 0.0
    there = sum(faced[sector - 1] for sector in sectors) / len(sectors)
    return STROKE * (sum(faced) / len(faced) - there) / 10.0


@cache
def room_to_hit(boundaries: Boundaries) -> float:
    """Return the log ratio of runs by which the ground's size favours hitting out."""
    if not boundaries:
        return 0.0
    return HITTING * (USUAL_BOUNDARY_M - sum(boundaries) / len(boundaries)) / 10.0


def rope_at(faced: Boundaries, x: float, y: float) -> float:
    """Return the metres from the pitch's centre to the rope in a point's direction.

    A sector's distance applies at its middle; in between it is interpolated linearly.

    Args:
        faced: The boundaries from the striker's view; empty for the neutral ground.
        x: Metres from the centre of the pitch towards the off side.
        y: Metres from it towards the bowler.
    """
    if not faced:
        return USUAL_BOUNDARY_M
    place = (math.degrees(math.atan2(-x, -y)) % 360.0) / 45.0 - 0.5
    low = math.floor(place)
    part = place - low
    return (1.0 - part) * faced[low % 8] + part * faced[(low + 1) % 8]


Pitch = Literal["green", "even", "dry"]
Evening = Literal["wearing", "even", "dew"]
PITCHES: Final[tuple[Pitch, ...]] = ("green", "even", "dry")
EVENINGS: Final[tuple[Evening, ...]] = ("wearing", "even", "dew")

SPIN_SHARE: Final = 0.38
"""Share of balls bowled by spin; an advantage against spin is a disadvantage against pace by these shares."""
PITCH_RUNS: Final = 0.07
"""Log ratio of runs between pace and spin on a pitch that helps one of them."""
EVENING_RUNS: Final = 0.04
"""Log ratio of runs in a second innings with dew, or (negative) on a wearing pitch."""
EVENING_SPIN: Final = 0.05
"""How much more the evening affects spin."""


class Conditions(NamedTuple):
    """Pitch and evening of a match, known to both captains before the toss.

    Args:
        pitch: ``green`` helps pace, ``dry`` helps spin.
        evening: ``dew`` makes batting in a second innings easier, above all against spin; ``wearing`` the
            opposite.
    """

    pitch: Pitch = "even"
    evening: Evening = "even"


EVEN: Final = Conditions()


def draw_conditions(rng: random.Random) -> Conditions:
    """Draw pitch and evening: even in half of all matches, each extreme in a quarter."""
    (pitch,) = rng.choices(PITCHES, (1, 2, 1))
    (evening,) = rng.choices(EVENINGS, (1, 2, 1))
    return Conditions(pitch, evening)


KIND_OF_BOWLING: Final = {False: -SPIN_SHARE, True: 1.0 - SPIN_SHARE}
"""Weight of a spin-only effect against spin (``True``, 0.62) and pace (-0.38); 0 over all balls."""


def condition_runs(conditions: Conditions, spin: bool, second: bool) -> float:
    """Return the log ratio of runs by pitch and evening, against this kind of bowling.

    >>> round(condition_runs(Conditions("dry", "dew"), spin=True, second=False), 4)
    -0.0434
    """
    kind = KIND_OF_BOWLING[spin]
    runs = PITCH_RUNS * kind * {"green": 1.0, "even": 0.0, "dry": -1.0}[conditions.pitch]
    if second:
        way = {"wearing": -1.0, "even": 0.0, "dew": 1.0}[conditions.evening]
        runs += way * (EVENING_RUNS + EVENING_SPIN * kind)
    return runs

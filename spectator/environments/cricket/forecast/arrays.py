"""NumPy arrays for many simulated innings at once: model, skills, state of play."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.cricket.ball.grounds import Boundaries, ground_factors
from spectator.environments.cricket.ball.tables import (
    CATEGORIES,
    LEVER_OF,
    RATE_PLACES,
    STYLES,
    Tables,
    format_levers,
    over_like,
    phase_of,
    rate_place,
)
from spectator.environments.cricket.people import PACE_STYLES, Player

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MAX_REQUIRED: Final = 2000


@dataclass(frozen=True, slots=True, eq=False)
class ModelArrays:
    """The model's tables as arrays.

    Args:
        base: Weights by situation, shape ``(3601, 11)``: first innings, chases, free hit.
        person: Weights of batter and bowler together, shape ``(3564, 11)``.
        tables: The tables that it was built from, for what depends on the length of an innings.
        extras: Running sums of the chances of each number of runs, shape ``(4, runs)``: on run-outs, wides,
            no-balls and byes. What a shorter one lacks is infinite.
        run_out_striker: Chance that the striker is the one run out.
        rhythm_sd: Standard deviation of an over's own shift.
        gain: Shift of boundaries per unit log ratio of runs.
        dot_share: How far dots move against boundaries.
        wicket_share: How far wickets move under an effect.
    """

    base: Floats
    person: Floats
    tables: Tables
    extras: Floats
    run_out_striker: np.float32
    rhythm_sd: float
    gain: float
    dot_share: float
    wicket_share: float


@dataclass(frozen=True, slots=True)
class SkillArrays:
    """All players' skills; places are indices into these arrays, eleven per side.

    Args:
        bat_log: Log ratio of runs.
        bat_out: Ratio of dismissals.
        order: Place in the batting order, 0 to 10.
        left: 1 for a left-hander.
        bowl_log: Log ratio of runs conceded.
        bowl_wickets: Ratio of wickets.
        bowl_extras: Ratio of wides and no-balls.
        style: Bowling style, 0 to 5.
        bat_spin: How much more each scores off spin than off pace, as a log ratio; by default equal.
        bat_form: Form of the day as a batter, likewise.
        bowl_form: The same as a bowler.
    """

    bat_log: Floats
    bat_out: Floats
    order: Ints
    left: Ints
    bowl_log: Floats
    bowl_wickets: Floats
    bowl_extras: Floats
    style: Ints
    bat_spin: Floats | None = None
    bat_form: Floats | None = None
    bowl_form: Floats | None = None


@dataclass(slots=True)
class InningsArrays:
    """The state of an innings in every future; arrays are ``(n,)`` unless noted.

    Args:
        target: Runs that win; ``None`` in a first innings.
        order: Places of the batting side in batting order, shape ``(11,)`` or ``(11, n)``; it must include
            all batters to come.
        striker: Place of the striker.
        partner: Place of the other batter in.
        faced: Balls that the striker has faced.
        next_in: Number of players of ``order`` who have come in.
        bowlers: Place of each over's bowler, shape ``(overs,)`` or ``(overs, n)``.
        today: Log ratios of runs against pace and against spin, by pitch and evening.
        styles: Log ratios of runs by over and bowling style, see `BallPrices.styles`.
        boundaries: Boundaries of the ground; empty for the neutral one.
        tired: Log ratio of runs, and ratio of wides and no-balls, by the tiredness of each over's bowler:
            shape ``(2, overs)``.
        mark: Runs and wickets are recorded after this many valid balls, or at the end; 0 for never.
        called: Multipliers of captains' calls on the weights of the categories, by over, category and place
            of the striker: shape ``(overs, 11, 22)``; by default none.
        common: Seed of random numbers that each future takes by its own index and the ball's, so that events
            in other futures do not shift them; by default numbers are drawn in sequence.
        sharing: Number of consecutive futures that share each of these numbers, and so their luck.
    """

    innings_balls: int
    powerplay_balls: int
    wickets_limit: int
    target: Ints | None
    balls: Ints
    runs: Ints
    wickets: Ints
    order: Ints
    striker: Ints
    partner: Ints
    faced: Ints
    faced_partner: Ints
    next_in: Ints
    bowlers: Ints
    effect: Floats
    free_hit: Bools
    today: tuple[float, float] = (0.0, 0.0)
    styles: Floats | None = None
    boundaries: Boundaries = ()
    tired: Floats | None = None
    mark: int = 0
    called: Floats | None = None
    common: Sequence[int] | None = None
    sharing: int = 1


@dataclass(frozen=True, slots=True)
class InningsTotals:
    """The end of an innings in every future.

    Args:
        deliveries: Number of balls simulated in all.
    """

    runs: Ints
    wickets: Ints
    balls: Ints
    deliveries: int
    marked_runs: Ints
    marked_wickets: Ints


@dataclass(frozen=True, slots=True)
class SimulatedBalls:
    """The balls of one step, for callbacks: arrays over the futures still in progress.

    Args:
        required: Runs required before it, or a large number.
        striker: Place of the striker.
        bowler: Place of the bowler.
        valid: Whether it counted as a valid ball.
    """

    future: Ints
    base: Ints
    person: Ints
    category: NDArray[np.uint8]
    runs: Ints
    required: Ints
    balls: Ints
    wickets: Ints
    score: Ints
    striker: Ints
    bowler: Ints
    valid: Bools
    out: Bools
    chasing: bool


BallsCallback = Callable[[SimulatedBalls], None]


@lru_cache(maxsize=8)
def model_arrays(tables: Tables) -> ModelArrays:
    """Return the arrays of tables, cached for the last few."""
    return build_model_arrays(tables)


def build_model_arrays(tables: Tables) -> ModelArrays:
    """Turn the sampler's tuples into arrays."""
    first = np.array(tables.first, dtype=np.float32).reshape(-1, CATEGORIES)
    chase = np.array(tables.chase, dtype=np.float32).reshape(-1, CATEGORIES)
    base = np.concatenate([first, chase, np.array([tables.free_hit], dtype=np.float32)])
    batter = np.array(tables.batter, dtype=np.float32)
    bowler = np.array(tables.bowler, dtype=np.float32)
    person = batter[:, :, :, None, None, :] * bowler[:, None, None, :, :, :]
    return ModelArrays(
        base=base,
        person=np.ascontiguousarray(person.reshape(-1, CATEGORIES)),
        tables=tables,
        extras=_running_sums(
            [tables.details[name] for name in ("run_out_runs", "wide_runs", "noball_bat", "legbye_runs")]
        ),
        run_out_striker=np.float32(tables.details["run_out_striker"]),
        rhythm_sd=tables.rhythm_sd,
        gain=tables.skill_gain,
        dot_share=tables.dot_share,
        wicket_share=tables.wicket_share,
    )


def _running_sums(chances: Sequence[Sequence[float]]) -> Floats:
    """Return the running sum of each row; what a shorter row lacks is infinite."""
    sums = np.full((len(chances), max(map(len, chances))), np.inf, dtype=np.float32)
    for row, one in zip(sums, chances, strict=True):
        row[: len(one)] = np.cumsum(np.array(one, dtype=np.float32))
    return sums


@lru_cache(maxsize=16)
def ground_table(tables: Tables, boundaries: Boundaries) -> Floats:
    """Return a ground's multipliers by end, phase, kind and hand.

    Returns:
        Shape ``(2, 3, 2, 2, 11)``.
    """
    return np.array(
        [
            [
                [[ground_factors(tables, boundaries, end, left, phase, kind) for left in (False, True)]
                 for kind in (0, 1)]
                for phase in range(3)
            ]
            for end in (0, 1)
        ],
        dtype=np.float32,
    )  # fmt: skip


@lru_cache(maxsize=16)
def people_on(model: ModelArrays, boundaries: Boundaries) -> Floats:
    """Return joint weights of batter and bowler on a ground.

    Rows of one end come first, then rows of the other.
    """
    person = model.person.reshape(3, -1, len(STYLES), 2, CATEGORIES)
    kind = [int(style not in PACE_STYLES) for style in STYLES]
    factors = ground_table(model.tables, boundaries)[:, :, None, kind]
    return np.ascontiguousarray((person[None] * factors).reshape(-1, CATEGORIES))


@dataclass(frozen=True, slots=True)
class SituationWeights:
    """The weights of every situation of one format.

    Args:
        weights: Shape ``(rows + 1, 11)``; the last row is a free hit.
        row_of_ball: First row by valid balls bowled; wickets lost (and in a chase the place of the required
            rate) add to it.
    """

    weights: Floats
    row_of_ball: Ints
    phase_of_ball: Ints


@lru_cache(maxsize=16)
def situation_weights(
    model: ModelArrays, innings_balls: int, powerplay_balls: int, chasing: bool
) -> SituationWeights:
    """Return the weights of a format, cached for the last few.

    Each over of the format, in and out of the powerplay, is the over of 20 that it resembles times the
    format's levers.
    """
    size = 10 * (RATE_PLACES if chasing else 1)
    start = 200 if chasing else 0
    blocks: list[Floats] = []
    first_rows: dict[tuple[int, bool], int] = {}
    phases: list[int] = []
    for ball in range(innings_balls):
        key_of_ball = (ball // 6, ball < powerplay_balls)
        over = over_like(innings_balls, ball, ball < powerplay_balls)
        phases.append(phase_of(over))
        if key_of_ball not in first_rows:
            first_rows[key_of_ball] = size * len(blocks)
            levers = format_levers(model.tables, innings_balls, ball, ball < powerplay_balls, chasing)
            factors = [1.0 if levers is None or at is None else levers[at] for at in LEVER_OF]
            rows = model.base[start + over * size : start + (over + 1) * size]
            blocks.append(rows * np.array(factors, dtype=np.float32))
    return SituationWeights(
        weights=np.concatenate([*blocks, model.base[-1:]]),
        row_of_ball=np.array(
            [first_rows[ball // 6, ball < powerplay_balls] for ball in range(innings_balls)]
        ),
        phase_of_ball=np.array(phases),
    )


@cache
def rate_places(innings_balls: int) -> NDArray[np.uint8]:
    """Return required-rate places by balls left and runs required.

    Returns:
        Shape ``(balls + 1, 2001)``.
    """
    table = np.zeros((innings_balls + 1, MAX_REQUIRED + 1), dtype=np.uint8)
    for left in range(1, innings_balls + 1):
        top = min(MAX_REQUIRED, 3 * left + 6)
        table[left, :top] = [rate_place(6.0 * required / left) for required in range(top)]
        table[left, top:] = RATE_PLACES - 1
    table[0] = RATE_PLACES - 1
    return table


def skill_arrays(batting: Sequence[Player], bowling: Sequence[Player]) -> SkillArrays:
    """Return all players' skills, the batting side first."""
    players = (*batting, *bowling)
    return SkillArrays(
        bat_log=np.log(np.array([player.bat_runs for player in players], dtype=np.float32)),
        bat_out=np.array([player.bat_out for player in players], dtype=np.float32),
        order=np.array([player.order - 1 for player in players]),
        left=np.array([int(player.bats == "left") for player in players]),
        bowl_log=np.log(np.array([player.bowl_runs for player in players], dtype=np.float32)),
        bowl_wickets=np.array([player.bowl_wickets for player in players], dtype=np.float32),
        bowl_extras=np.array([player.bowl_extras for player in players], dtype=np.float32),
        style=np.array([STYLES.index(player.style or "off") for player in players]),
        bat_spin=np.array([player.bat_spin for player in players], dtype=np.float32),
        bat_form=_form([player.bat_form for player in players]),
        bowl_form=_form([player.bowl_form for player in players]),
    )


def _form(values: Sequence[float]) -> Floats | None:
    """Return all players' form; ``None`` if all are 0, which saves computing it."""
    return np.array(values, dtype=np.float32) if any(values) else None

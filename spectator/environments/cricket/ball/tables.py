"""The fitted tables of the ball model: load them and look up the place of a ball."""

from __future__ import annotations

import functools
import json
import math
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final

DOT, ONE, TWO, THREE, FOUR, SIX, WICKET, RUN_OUT, WIDE, NO_BALL, BYE = range(11)
CATEGORIES: Final = 11

Weights = tuple[float, ...]
"""Unnormalised probabilities of the eleven categories."""

Levers = tuple[float, ...]
"""Multipliers of (dot, single, two and three, four, six, wicket, wide)."""

LEVER_OF: Final = (0, 1, 2, 2, 3, 4, 5, None, 6, None, None)
"""The lever that acts on each category; run-outs, no-balls and byes have none."""

STYLES: Final = ("right_pace", "left_pace", "off", "leg", "left_orth", "left_wrist")
STYLE_INDEX: Final[Mapping[str | None, int]] = {
    None: STYLES.index("off"),
    **{style: index for index, style in enumerate(STYLES)},
}
"""Index of each style in the tables; a player without a style bowls off spin."""
SET_LIMITS: Final = (0, 2, 5, 10, 15, 20, 30, 45)
RATE_KNOTS: Final = (5.0, 7.0, 9.0, 11.4, 16.0)
"""Required runs per over that represent the five bands of the tables."""

RATE_STEPS: Final = 4
RATE_PLACES: Final = 4 * RATE_STEPS + 1
PLACE_EDGES: Final = tuple(
    low + (high - low) * (step + 0.5) / RATE_STEPS
    for low, high in pairwise(RATE_KNOTS)
    for step in range(RATE_STEPS)
)
"""Rates halfway between two places."""
INTENT_STEPS: Final = 20
FULL_OVERS: Final = 20
_FIRST_MIDDLE_OVER: Final = 6
_EFFECT_POWER: Final = 0.4
_UNIFORM_WIDTH: Final = math.sqrt(12.0)
_SCRAMBLE: Final = 1414213.5623730951
"""Large and irrational, so that neither close nor round effects give an over the same shift."""
REFERENCE_STATES: Final = ((3, 1), (10, 2), (17, 4))
"""Over and wickets lost that represent each phase."""
REFERENCE_STYLES: Final = (0, 3)
"""Style that represents pace and spin."""


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """All tables of the sampler as nested tuples, compared by identity.

    Args:
        first: First-innings weights by over (20) and wickets lost (10).
        chase: The same for a chase, also by place on the required-rate scale (17).
        batter: By phase (3), place in the order (11) and balls-faced bin (9).
        bowler: By phase, bowling style (6) and batter's hand (right, left).
        intent: Levers by phase and step of the batter's intent, from -20 to 20.
        attack: Levers by step of the bowler's attack, likewise.
        powerplay: Logs of the levers of fielding restrictions that an innings under 20 overs has when a
            longer one has none.
        short: Logs of the levers of a first innings of 5 overs; other lengths get a share in proportion to
            the overs missing from 20.
        short_chase: The same for a chase.
        long: Logs of the levers in the powerplay, the middle and the last overs of a 50-over innings.
        pitch_share: By phase and kind: shares of the 6 x 4 (length, line) pairs.
        pitch_effect: By phase, kind and pair: levers.
        zones: By phase, kind and hit (dot, 1, 2, 3, 4, 6): shares of the eight sectors.
        paces: Levers of quick, stock and slower balls.
        effect_sd: Standard deviations of the match and the innings effect.
        rhythm_sd: Standard deviation of an over's own shift, see `rhythm`.
        skill_gain: Shift of boundaries' log weight per unit log ratio of runs.
        dot_share: How far dots move against boundaries under a shift.
        wicket_share: How far wickets move under a match or innings effect.
        levels: Mean first-innings totals by name, and the effect that produces each total.
        details: How each category came about: dismissal, extras and runs.
        profile: One of `PROFILES`.
    """

    first: tuple[tuple[Weights, ...], ...]
    chase: tuple[tuple[tuple[Weights, ...], ...], ...]
    batter: tuple[tuple[tuple[Weights, ...], ...], ...]
    bowler: tuple[tuple[tuple[Weights, ...], ...], ...]
    intent: tuple[tuple[Levers, ...], ...]
    attack: tuple[Levers, ...]
    free_hit: Weights
    powerplay: Levers
    short: Levers
    short_chase: Levers
    long: tuple[Levers, ...]
    pitch_share: tuple[tuple[tuple[float, ...], ...], ...]
    pitch_effect: tuple[tuple[tuple[Levers, ...], ...], ...]
    zones: tuple[tuple[tuple[tuple[float, ...], ...], ...], ...]
    paces: tuple[Levers, ...]
    effect_sd: tuple[float, float]
    rhythm_sd: float
    skill_gain: float
    dot_share: float
    wicket_share: float
    levels: dict[str, Any]
    details: dict[str, Any]
    profile: str


def over_like(innings_balls: int, balls_bowled: int, powerplay: bool) -> int:
    """Return the over (0 to 19) of a 20-over innings that an over resembles.

    In an innings of up to 20 overs it is the over with as many overs left. A longer innings opens like a
    powerplay. After its powerplay it is in the middle overs, until as many overs are left as a 20-over
    innings has after its own powerplay.
    """
    over = FULL_OVERS - (innings_balls - balls_bowled + 5) // 6
    if innings_balls <= 6 * FULL_OVERS:
        return over
    return min(5, balls_bowled // 6) if powerplay else max(_FIRST_MIDDLE_OVER, over)


def rhythm(effect: float, over: int, sd: float) -> float:
    """Return an over's own shift of boundaries, as players find their rhythm or not.

    The shift is uniform with standard deviation ``sd`` and unrelated from over to over. It is a function of
    the match's drawn effect, so no further state needs saving. An effect of exactly 0, as in analysis, gives
    no shift.

    Args:
        effect: Shared effect of match and innings.
        over: Over of the innings, from 0.
    """
    if effect == 0.0:
        return 0.0
    spread = abs(effect) * _SCRAMBLE * (over * over + 3.7 * over + 1.3)
    return sd * _UNIFORM_WIDTH * (spread % 1.0 - 0.5)


def phase_of(over: int) -> int:
    """Return an over's phase in a 20-over innings: powerplay 0, middle 1, death 2."""
    return 0 if over < 6 else 1 if over < 15 else 2


@functools.cache
def places_of(innings_balls: int, powerplay: bool) -> tuple[tuple[int, int], ...]:
    """Return each ball's phase and its over in a 20-over innings; see `over_like`."""
    overs = (over_like(innings_balls, bowled, powerplay) for bowled in range(innings_balls))
    return tuple((phase_of(over), over) for over in overs)


@functools.cache
def effect_scale(innings_balls: int) -> float:
    """Return the factor on match and innings effects in an innings under 20 overs.

    Less of an effect averages out in a short innings. The power makes totals of 5 overs spread by 14 to 15
    runs, as the last 5 overs of real innings do.
    """
    return max(1.0, math.pow(6.0 * FULL_OVERS / innings_balls, _EFFECT_POWER))


def format_levers(
    tables: Tables, innings_balls: int, balls_bowled: int, powerplay: bool, chasing: bool
) -> Levers | None:
    """Return the levers of an innings' length; ``None`` for 20 overs.

    They come on top of `over_like`.
    """
    if innings_balls == 6 * FULL_OVERS:
        return None
    logs = [0.0] * 7
    if innings_balls < 6 * FULL_OVERS:
        short = (FULL_OVERS - innings_balls / 6) / 15
        logs = [short * value for value in (tables.short_chase if chasing else tables.short)]
        if powerplay and phase_of(over_like(innings_balls, balls_bowled, powerplay)):
            logs = [a + b for a, b in zip(logs, tables.powerplay, strict=True)]
    else:
        overs_left = (innings_balls - balls_bowled + 5) // 6
        opening, middle, death = tables.long
        part = 1.0 if powerplay else min(1.0, max(0.0, overs_left - 10) / 15)
        pairs = zip(opening if powerplay else middle, death, strict=True)
        long = min(1.0, (innings_balls / 6 - FULL_OVERS) / 20)
        logs = [long * (part * early + (1.0 - part) * late) for early, late in pairs]
    return tuple(math.exp(value) for value in logs)


def rate_place(required_rate: float) -> int:
    """Return the place (0 to 16) of a required rate in runs per over."""
    return bisect(PLACE_EDGES, required_rate)


def cumulative(shares: Sequence[float]) -> tuple[float, ...]:
    """Return running sums, scaled to end at exactly 1."""
    total = sum(shares)
    sums = [value / total for value in accumulate(shares)]
    sums[-1] = 1.0
    return tuple(sums)


def people_weights(tables: Tables) -> tuple[tuple[tuple[tuple[Weights, ...], ...], ...], ...]:
    """Combine the weights of batter and bowler.

    Returns:
        Weights by phase, place in the order, balls-faced bin, and ``2 * style + left``.
    """
    return tuple(
        tuple(
            tuple(
                tuple(
                    tuple(a * b for a, b in zip(batter, bowler, strict=True))
                    for style in tables.bowler[phase]
                    for bowler in style
                )
                for batter in place
            )
            for place in places
        )
        for phase, places in enumerate(tables.batter)
    )


def reference_weights(tables: Tables, phase: int, kind: int) -> list[float]:
    """Return the weights of a phase's usual ball to an average batter.

    Args:
        kind: Pace (0) or spin (1).
    """
    over, wickets = REFERENCE_STATES[phase]
    parts = (
        tables.first[over][wickets],
        tables.batter[phase][2][3],
        tables.bowler[phase][REFERENCE_STYLES[kind]][0],
    )
    return [a * b * c for a, b, c in zip(*parts, strict=True)]


MODEL_FILE: Final = Path(__file__).parent.parent / "data" / "ball_model.json"
PROFILES: Final = ("men", "women", "associates")
WICKET_CENTRES: Final = (0.6, 2.5, 4.5, 6.8)
"""Mean wickets lost inside each band of the tables."""


@functools.cache
def load_tables(profile: str = "men") -> Tables:
    """Read the model file, once per profile; the tables never change.

    Args:
        profile: One of `PROFILES`.

    Raises:
        ValueError: The profile is unknown.
    """
    if profile not in PROFILES:
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}; not {profile!r}")
    return tables_of(json.loads(MODEL_FILE.read_text(encoding="utf-8")), profile)


def tables_of(model: dict[str, Any], profile: str) -> Tables:
    """Build the tables of a profile from the content of a model file."""
    played = model["profiles"][profile]
    first, chase = (_shifted(model[innings], played[innings]) for innings in ("first", "chase"))
    late = model["stand"]
    tables = Tables(
        first=tuple(_wickets_of_first(over, late[0]) for over in first),
        chase=tuple(tuple(_rates(rates) for rates in _wickets_of_chase(over, late[1])) for over in chase),
        batter=_deep_exp(model["batter"]),
        bowler=_deep_exp(model["bowler"]),
        intent=tuple(
            intent_levers(direction, bend, model["intent_cost"])
            for direction, bend in zip(model["intent"], model["intent_bend"], strict=True)
        ),
        attack=intent_levers(model["attack"], model["attack_bend"], model["attack_cost"]),
        free_hit=tuple(model["free_hit"]),
        powerplay=tuple(model["powerplay"]),
        short=tuple(model["short"]),
        short_chase=tuple(model["short_chase"]),
        long=_deep_tuple(model["long"]),
        pitch_share=_pitch_shares(model),
        pitch_effect=_pitch_effects(model),
        zones=_deep_tuple(model["zones"]),
        paces=_deep_tuple(model["paces"]),
        effect_sd=tuple(played["effect_sd"]),
        rhythm_sd=model["rhythm_sd"],
        skill_gain=model["skill_gain"],
        dot_share=model["dot_share"],
        wicket_share=model["wicket_share"],
        levels=played["levels"],
        details=model["details"],
        profile=profile,
    )
    return replace(tables, pitch_effect=_neutral(tables))


def _neutral(tables: Tables) -> tuple[tuple[tuple[Levers, ...], ...], ...]:
    """Scale the pitches' levers so that unplanned bowling gives the usual outcomes."""
    return tuple(
        tuple(
            _balanced(
                reference_weights(tables, phase, kind),
                tables.pitch_share[phase][kind],
                tables.pitch_effect[phase][kind],
            )
            for kind in range(2)
        )
        for phase in range(3)
    )


def _balanced(
    reference: list[float], shares: Sequence[float], effects: Sequence[Levers]
) -> tuple[Levers, ...]:
    total = sum(reference)
    scale = [1.0] * 7
    for _ in range(4):
        mean = [0.0] * CATEGORIES
        for share, levers in zip(shares, effects, strict=True):
            weights = [
                w if at is None else w * levers[at] * scale[at]
                for w, at in zip(reference, LEVER_OF, strict=True)
            ]
            part = share / sum(weights)
            mean = [m + part * w for m, w in zip(mean, weights, strict=True)]
        for category, at in enumerate(LEVER_OF):
            if at is not None and category != THREE and mean[category] > 0.0:
                scale[at] *= reference[category] / total / mean[category] * sum(shares)
    return tuple(tuple(a * b for a, b in zip(levers, scale, strict=True)) for levers in effects)


def intent_levers(
    direction: Sequence[float], bend: Sequence[float], cost: Sequence[float]
) -> tuple[Levers, ...]:
    """Return levers along a frontier, by step.

    log = direction * s + bend * |s| + cost * s^2 for s from -1 to 1. The bend makes every departure from the
    data's own intent cost more than the frontier itself, so no departure beats it.
    """
    return tuple(
        tuple(math.exp(d * s + b * abs(s) + c * s * s) for d, b, c in zip(direction, bend, cost, strict=True))
        for s in (step / INTENT_STEPS for step in range(-INTENT_STEPS, INTENT_STEPS + 1))
    )


def _shifted(overs: Any, by_phase: list[list[float]]) -> list[Any]:
    """Add a profile's logs to every cell of the overs of each phase."""
    return [_add(over, by_phase[phase_of(number)]) for number, over in enumerate(overs)]


def _add(nested: Any, logs: list[float]) -> Any:
    if isinstance(nested[0], list):
        return [_add(part, logs) for part in nested]
    return [a + b for a, b in zip(nested, logs, strict=True)]


def _wickets_of_first(bands: list[list[float]], late: list[float]) -> tuple[Weights, ...]:
    """Interpolate log weights from the four bands of wickets lost to each of 0 to 9."""
    rows = _add_to_wickets(_interpolated(bands, WICKET_CENTRES, range(10)), late)
    return tuple(tuple(math.exp(value) for value in row) for row in rows)


def _interpolated(
    bands: list[list[float]], centres: Sequence[float], at: Sequence[float]
) -> list[list[float]]:
    rows = []
    for x in at:
        low = max(0, min(len(centres) - 2, sum(centre <= x for centre in centres) - 1))
        part = min(1.0, max(0.0, (x - centres[low]) / (centres[low + 1] - centres[low])))
        rows.append([a + part * (b - a) for a, b in zip(bands[low], bands[low + 1], strict=True)])
    return rows


def _wickets_of_chase(over: list[list[list[float]]], late: list[float]) -> list[list[list[float]]]:
    """Interpolate ``[4 bands][5 rates]`` to ``[10 wickets][5 rates]``."""
    by_rate = [
        _add_to_wickets(_interpolated([band[rate] for band in over], WICKET_CENTRES, range(10)), late)
        for rate in range(5)
    ]
    return [[by_rate[rate][wickets] for rate in range(5)] for wickets in range(10)]


def _add_to_wickets(rows: list[list[float]], logs: list[float]) -> list[list[float]]:
    """Add one log per number of wickets lost to the wicket category."""
    for row, log in zip(rows, logs, strict=True):
        row[WICKET] += log
    return rows


def _rates(bands: list[list[float]]) -> tuple[Weights, ...]:
    places = [place / RATE_STEPS for place in range(RATE_PLACES)]
    rows = _interpolated(bands, (0.0, 1.0, 2.0, 3.0, 4.0), places)
    return tuple(tuple(math.exp(value) for value in row) for row in rows)


def _deep_exp(nested: Any) -> Any:
    if isinstance(nested[0], list):
        return tuple(_deep_exp(part) for part in nested)
    return tuple(math.exp(value) for value in nested)


def _deep_tuple(nested: Any) -> Any:
    return tuple(_deep_tuple(part) for part in nested) if isinstance(nested, list) else nested


def _pitch_shares(model: dict[str, Any]) -> tuple[tuple[tuple[float, ...], ...], ...]:
    lengths, lines = model["lengths"]["share"], model["lines"]["share"]
    return tuple(
        tuple(tuple(a * b for a in lengths[phase][kind] for b in lines[kind]) for kind in range(2))
        for phase in range(3)
    )


def _pitch_effects(model: dict[str, Any]) -> tuple[tuple[tuple[Levers, ...], ...], ...]:
    lengths, lines = model["lengths"]["effect"], model["lines"]["effect"]
    return tuple(
        tuple(
            tuple(
                tuple(a * b for a, b in zip(length, line, strict=True))
                for length in lengths[phase][kind]
                for line in lines[kind]
            )
            for kind in range(2)
        )
        for phase in range(3)
    )

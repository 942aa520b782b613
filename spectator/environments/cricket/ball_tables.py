"""Owns the fitted model file, read into the tuples that the sampler multiplies."""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

MODEL_FILE: Final = Path(__file__).parent / "data" / "ball_model.json"

DOT, ONE, TWO, THREE, FOUR, SIX, WICKET, RUN_OUT, WIDE, NO_BALL, BYE = range(11)
CATEGORIES: Final = 11

Weights = tuple[float, ...]
"""Unnormalised probabilities of the eleven categories."""

Levers = tuple[float, ...]
"""Multipliers of (dot, single, two and three, four, six, wicket, wide)."""

STYLES: Final = ("right_pace", "left_pace", "off", "leg", "left_orth", "left_wrist")
SET_LIMITS: Final = (0, 2, 5, 10, 15, 20, 30, 45)
RATE_KNOTS: Final = (5.0, 7.0, 9.0, 11.4, 16.0)
"""Runs per over required that stand for the five bands of the tables."""

RATE_STEPS: Final = 4
RATE_PLACES: Final = 4 * RATE_STEPS + 1
INTENT_STEPS: Final = 20
FULL_OVERS: Final = 20


@dataclass(frozen=True, slots=True)
class Tables:
    """Everything the sampler reads, as nested tuples.

    Args:
        first: Weights by over (20) and wickets lost (10) of a first innings.
        chase: The same with the place on the required-rate scale (17).
        batter: By phase (3), order group (5) and balls-faced bin (9).
        bowler: By phase, bowling style (6) and batter's hand (right, left).
        intent: Levers by phase and step of the batter's intent, from -20 to 20.
        attack: Levers by step of the bowler's attack, likewise.
        free_hit: Weights on a free hit.
        powerplay: Levers of fielding restrictions in an innings too short to have its own powerplay data.
        pitch_share: By phase and kind: shares of the 6 x 4 (length, line) pairs.
        pitch_effect: By phase, kind and pair: levers.
        zones: By phase, kind and hit (dot, 1, 2, 3, 4, 6): shares of the eight sectors.
        paces: Levers of quick, stock and slower balls.
        effect_sd: Standard deviations of the match and the innings effect.
        details: Everything that says how a category came about.
    """

    first: tuple[tuple[Weights, ...], ...]
    chase: tuple[tuple[tuple[Weights, ...], ...], ...]
    batter: tuple[tuple[tuple[Weights, ...], ...], ...]
    bowler: tuple[tuple[tuple[Weights, ...], ...], ...]
    intent: tuple[tuple[Levers, ...], ...]
    attack: tuple[Levers, ...]
    free_hit: Weights
    powerplay: Levers
    pitch_share: tuple[tuple[tuple[float, ...], ...], ...]
    pitch_effect: tuple[tuple[tuple[Levers, ...], ...], ...]
    zones: tuple[tuple[tuple[tuple[float, ...], ...], ...], ...]
    paces: tuple[Levers, ...]
    effect_sd: tuple[float, float]
    details: dict[str, Any]


def rate_place(required_rate: float) -> int:
    """Place of a required rate (runs per over) on the scale of the chase tables, 0 to 16."""
    if required_rate <= RATE_KNOTS[0]:
        return 0
    for knot in range(4):
        low, high = RATE_KNOTS[knot], RATE_KNOTS[knot + 1]
        if required_rate < high:
            return int(RATE_STEPS * (knot + (required_rate - low) / (high - low)) + 0.5)
    return RATE_PLACES - 1


def cumulative(shares: tuple[float, ...] | list[float]) -> tuple[float, ...]:
    """Running sums scaled to end at exactly 1."""
    total = sum(shares)
    sums = [value / total for value in accumulate(shares)]
    sums[-1] = 1.0
    return tuple(sums)


@functools.cache
def load_tables() -> Tables:
    """Read the model file once; the tables never change afterwards."""
    model: dict[str, Any] = json.loads(MODEL_FILE.read_text(encoding="utf-8"))
    return Tables(
        first=_deep_exp(model["first"]),
        chase=tuple(tuple(_spread_rates(rates) for rates in over) for over in model["chase"]),
        batter=_deep_exp(model["batter"]),
        bowler=_deep_exp(model["bowler"]),
        intent=tuple(_intent_levers(row, model["intent_cost"]) for row in model["intent"]),
        attack=_attack_levers(model["attack"]),
        free_hit=tuple(model["free_hit"]),
        powerplay=tuple(model["powerplay"]),
        pitch_share=_pitch_shares(model),
        pitch_effect=_pitch_effects(model),
        zones=_deep_tuple(model["zones"]),
        paces=_deep_tuple(model["paces"]),
        effect_sd=tuple(model["effect_sd"]),
        details=model["details"],
    )


def _deep_exp(nested: Any) -> Any:
    if isinstance(nested[0], list):
        return tuple(_deep_exp(part) for part in nested)
    return tuple(math.exp(value) for value in nested)


def _deep_tuple(nested: Any) -> Any:
    return tuple(_deep_tuple(part) for part in nested) if isinstance(nested, list) else nested


def _spread_rates(bands: list[list[float]]) -> tuple[Weights, ...]:
    """Interpolate log weights from the five bands to the places of the scale."""
    spread = []
    for place in range(RATE_PLACES):
        low = min(3, place // RATE_STEPS)
        part = place / RATE_STEPS - low
        spread.append(
            tuple(math.exp(a + part * (b - a)) for a, b in zip(bands[low], bands[low + 1], strict=True))
        )
    return tuple(spread)


def _intent_levers(direction: list[float], cost: list[float]) -> tuple[Levers, ...]:
    """Levers along the frontier: linear in the log, with a cost that grows with the square of the distance."""
    return tuple(
        tuple(math.exp(d * s + c * s * s) for d, c in zip(direction, cost, strict=True))
        for s in (step / INTENT_STEPS for step in range(-INTENT_STEPS, INTENT_STEPS + 1))
    )


def _attack_levers(direction: list[float]) -> tuple[Levers, ...]:
    return _intent_levers(direction, [0.0] * len(direction))


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

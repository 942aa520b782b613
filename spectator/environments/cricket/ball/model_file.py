"""Reads the fitted model file into :class:`.tables.Tables`."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from spectator.environments.cricket.ball.tables import (
    CATEGORIES,
    INTENT_STEPS,
    LEVER_OF,
    RATE_PLACES,
    RATE_STEPS,
    THREE,
    WICKET,
    Levers,
    Tables,
    Weights,
    phase_of,
    reference_weights,
)

MODEL_FILE: Final = Path(__file__).parent.parent / "data" / "ball_model.json"
PROFILES: Final = ("men", "women", "associates")
WICKET_CENTRES: Final = (0.6, 2.5, 4.5, 6.8)
"""Mean wickets lost inside each band of the tables."""


@functools.cache
def load_tables(profile: str = "men") -> Tables:
    """Read the model file once for each profile; the tables never change afterwards.

    Args:
        profile: One of `PROFILES`.

    Raises:
        ValueError: There is no such profile.
    """
    if profile not in PROFILES:
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}; not {profile!r}")
    return tables_of(json.loads(MODEL_FILE.read_text(encoding="utf-8")), profile)


def tables_of(model: dict[str, Any], profile: str) -> Tables:
    """Read the content of a model file."""
    played = model["profiles"][profile]
    first, chase = (_shifted(model[innings], played[innings]) for innings in ("first", "chase"))
    stands = model["stand"]
    tables = Tables(
        first=tuple(_wickets_of_first(over, stands[0]) for over in first),
        chase=tuple(tuple(_rates(rates) for rates in _wickets_of_chase(over, stands[1])) for over in chase),
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
        long=tuple(model["long"]),
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
    )
    return replace(tables, pitch_effect=_neutral(tables))


def _neutral(tables: Tables) -> tuple[tuple[tuple[Levers, ...], ...], ...]:
    """Scale the levers of the pitches so that unplanned bowling has exactly the usual ball's outcomes."""
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
    """Levers along a frontier, by step: log = direction * s + bend * |s| + cost * s^2 for s from -1 to 1.

    The bend makes every departure from what the data does dearer than the data's own frontier, so that none
    beats it.
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


def _wickets_of_first(bands: list[list[float]], stands: list[float]) -> tuple[Weights, ...]:
    """Interpolate log weights from the four bands of wickets lost to each of 0 to 9."""
    rows = _late(_interpolated(bands, WICKET_CENTRES, range(10)), stands)
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


def _wickets_of_chase(over: list[list[list[float]]], stands: list[float]) -> list[list[list[float]]]:
    """Interpolate ``[4 bands][5 rates]`` to ``[10 wickets][5 rates]``."""
    by_rate = [
        _late(_interpolated([band[rate] for band in over], WICKET_CENTRES, range(10)), stands)
        for rate in range(5)
    ]
    return [[by_rate[rate][wickets] for rate in range(5)] for wickets in range(10)]


def _late(rows: list[list[float]], stands: list[float]) -> list[list[float]]:
    """Add the logs by wickets lost to the wicket category."""
    for row, stand in zip(rows, stands, strict=True):
        row[WICKET] += stand
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

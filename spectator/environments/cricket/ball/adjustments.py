"""How the chances of one ball are moved: by levers, by skill, and by what a gain is paid for with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from spectator.environments.cricket.ball.matchups import (
    WICKET_FIT,
)
from spectator.environments.cricket.ball.tables import (
    DOT,
    FOUR,
    LEVER_OF,
    SIX,
    WICKET,
    Tables,
)
from spectator.environments.cricket.ball.usual_play import Values

_MOST_MOVED: Final = 0.9
"""Largest part of the boundaries, or dots, of a ball that a payment takes."""


def levered(chances: list[float], levers: Sequence[float]) -> list[float]:
    """Probabilities multiplied by levers."""
    weights = [
        chance if lever is None else chance * levers[lever]
        for chance, lever in zip(chances, LEVER_OF, strict=True)
    ]
    total = sum(weights)
    return [weight / total for weight in weights]


def paid_for(
    asked: list[float],
    usual: list[float],
    values: Values,
    *,
    least: float = -math.inf,
    most: float = math.inf,
) -> list[float]:
    """``asked`` with what it gains on ``usual`` at these values given back: boundaries for dots, or dots for
    boundaries.

    Args:
        asked: Probabilities of the categories.
        usual: The same when nothing is asked for.
        values: What each category is worth to the batting side.
        least: Gains of the batting side below this count as this, so that they are not made up for.
        most: Gains above this likewise.
    """
    gain = sum((a - b) * float(value) for a, b, value in zip(asked, usual, values, strict=True))
    gain = min(max(gain, least), most)
    hits = asked[FOUR] + asked[SIX]
    if hits <= 0.0 or gain == 0.0:
        return asked
    four = asked[FOUR] / hits
    price = float(four * values[FOUR] + (1.0 - four) * values[SIX] - values[DOT])
    if price <= 0.0:
        return asked
    moved = min(max(gain / price, -_MOST_MOVED * asked[DOT]), _MOST_MOVED * hits)
    paid = asked.copy()
    paid[DOT] += moved
    paid[FOUR] -= four * moved
    paid[SIX] -= (1.0 - four) * moved
    return paid


def fitted(chances: list[float], fit: float, tables: Tables) -> list[float]:
    """Probabilities moved as skill moves them, by a log ratio of runs."""
    shift = tables.skill_gain * fit
    moved = chances.copy()
    moved[DOT] *= math.exp(-tables.dot_share * shift)
    moved[FOUR] *= math.exp(shift)
    moved[SIX] *= math.exp(shift)
    moved[WICKET] *= math.exp(-WICKET_FIT * fit)
    total = sum(moved)
    return [chance / total for chance in moved]

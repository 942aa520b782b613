"""Resources: runs still to come from the overs and wickets left, and the chance of a chase.

Both are the fits of ``data/resources_model.json`` and ``data/win_prob_model.json`` (men's T20, 2018-2024); a
target derived from them is a "resource target", never DLS.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any, Final

_DATA: Final = Path(__file__).parent.parent / "data"


@cache
def _model(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((_DATA / name).read_text(encoding="utf-8"))
    return loaded


def runs_to_come(balls_left: int, wickets_lost: int) -> float:
    """Runs that an average side still makes in a first innings.

    Args:
        balls_left: Valid balls left.
        wickets_lost: 0 .. 10.

    >>> round(runs_to_come(balls_left=60, wickets_lost=3))
    92
    """
    if wickets_lost >= 10 or balls_left <= 0:
        return 0.0
    model = _model("resources_model.json")
    share = model["F"][wickets_lost]
    return float(model["Z0"] * share * (1.0 - math.exp(-model["b"] * balls_left / 6.0 / share)))


def chase_chance(balls_left: int, wickets_lost: int, needed: int) -> float:
    """Chance that an average side makes ``needed`` more, by the reference logistic.

    Args:
        balls_left: Valid balls left.
        wickets_lost: 0 .. 10.
        needed: Runs still needed.

    >>> round(chase_chance(balls_left=30, wickets_lost=4, needed=45), 2)
    0.68
    """
    if needed <= 0:
        return 1.0
    if balls_left <= 0 or wickets_lost >= 10:
        return 0.0
    overs = balls_left / 6.0
    z = (runs_to_come(balls_left, wickets_lost) - needed) / math.sqrt(max(4.0, 9.0 * overs))
    h, v = (10 - wickets_lost) / 10.0, overs / 20.0
    beta = _model("win_prob_model.json")["beta"]
    terms = (1.0, z, math.copysign(z * z / 10.0, z), h, v, h * v)
    x = sum(weight * term for weight, term in zip(beta, terms, strict=True))
    return 1.0 / (1.0 + math.exp(-max(-40.0, min(40.0, x))))

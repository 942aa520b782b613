"""Owns the command that estimates the ball model from the count tables.

Run ``python -m spectator.environments.cricket.fit``; it rewrites ``data/ball_model.json``.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from spectator.environments.cricket.fitting import deliveries, dismissals, people, situations
from spectator.environments.cricket.fitting.counts import CATEGORIES, DATA, PHASES, Floats, counts_of, read_json, read_rows

INTENT_COST = [0.05, 0.0, 0.0, -0.05, -0.1, 0.25, 0.0]
ATTACK = [0.06, -0.1, -0.05, 0.1, 0.12, 0.15, 0.1]
POWERPLAY = [1.1, 0.8, 0.75, 1.35, 1.1, 1.0, 1.0]
PACES = [[1.02, 0.98, 0.98, 1.03, 1.0, 1.02, 1.0], [1.0] * 7, [0.97, 1.04, 1.03, 0.92, 0.98, 1.03, 1.0]]
EFFECT_SD = [0.08, 0.06]
TARGET = DATA / "ball_model.json"


def _rounded(values: Floats, digits: int = 4) -> Any:
    return np.round(values, digits).tolist()


def intent_direction(chase: Floats) -> Floats:
    """Log change of each category's share from a required rate of 6-8 to 13 and more, shape ``(3 phases, 11)``."""
    weight = np.zeros((20, 10))
    for row in read_rows("ball_outcomes_by_state.csv"):
        if row["innings"] == "2":
            low = ("0-1", "2-3", "4-5", "6+").index(row["wickets_lost"])
            weight[int(row["over"]), (0, 2, 4, 6)[low]] += float(row["deliveries"])
    change = chase[:, :, 4] - chase[:, :, 1]
    bounds = ((0, 6), (6, 15), (15, 20))
    return np.stack(
        [
            (change[a:b] * weight[a:b, :, None]).sum(axis=(0, 1)) / weight[a:b].sum()
            for a, b in bounds
        ]
    )


def to_levers(direction: Floats) -> Floats:
    """Collapse the categories to the levers; the change of wides is bounded, for few balls carry it."""
    levers = direction[:, [0, 1, 2, 4, 5, 6, 8]].copy()
    levers[:, 6] = np.clip(levers[:, 6], 0.0, 0.3)
    return levers


def free_hit_shares() -> Floats:
    """Shares of the categories on a free hit."""
    shares = read_json("extras.json")["free_hit"]["shares"]
    values = np.array([shares[category] for category in CATEGORIES])
    return np.asarray(values / values.sum(), dtype=np.float64)


def build() -> dict[str, Any]:
    """Estimate everything; the result is the model file's content."""
    first = situations.first_innings_surface()
    chase = situations.chase_surface()
    length_share, length_effect = deliveries.length_effects()
    line_share, line_effect = deliveries.line_effects()
    return {
        "note": "Contains information from Cricsheet (cricsheet.org), made available under the ODC Attribution License.",
        "categories": list(CATEGORIES),
        "phases": list(PHASES),
        "first": _rounded(first),
        "chase": _rounded(chase),
        "batter": _rounded(people.log_ratios(people.batter_counts())),
        "bowler": _rounded(people.log_ratios(people.bowler_counts())),
        "intent": _rounded(to_levers(intent_direction(chase))),
        "intent_cost": INTENT_COST,
        "attack": ATTACK,
        "powerplay": POWERPLAY,
        "paces": PACES,
        "effect_sd": EFFECT_SD,
        "details": dismissals.details(),
        "free_hit": _rounded(free_hit_shares()),
        "lengths": {"share": _rounded(length_share), "effect": _rounded(length_effect)},
        "lines": {"share": _rounded(line_share), "effect": _rounded(line_effect)},
        "zones": _rounded(deliveries.zone_shares()),
    }


def main() -> None:
    """Estimate the model and write its file."""
    TARGET.write_text(json.dumps(build(), separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Assemble the model file: estimates, raked parameters, and stated assumptions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spectator.environments.cricket.ball.tables import LEVER_OF
from tools.cricket_model.fitting import deliveries, dismissals
from tools.cricket_model.fitting.counts import CATEGORIES, PHASES, Floats, counts_of, read_json, read_rows
from tools.cricket_model.fitting.raking import Parameters

NOTE = (
    "Contains information from Cricsheet (cricsheet.org), made available under the ODC Attribution License."
)

# Assumptions, as logs of the levers (dot, single, two and three, four, six, wicket, wide). The tables show
# what sides did, not what else they could have done; each is chosen for the property stated below it.
INTENT_BEND = (
    (0.05, 0.0, 0.0, -0.06, -0.1, 0.2, 0.0),
    (0.07, 0.0, 0.0, -0.09, -0.14, 0.28, 0.0),
    (0.05, 0.0, 0.0, -0.06, -0.1, 0.2, 0.0),
)
"""No small departure from the data's intent beats it on average, in any format; the direction is measured."""
INTENT_COST = (0.03, 0.0, 0.0, -0.03, -0.05, 0.15, 0.0)
"""No large departure beats it either."""
ATTACK = (0.06, -0.12, -0.05, 0.10, 0.12, 0.17, 0.08)
"""Attacking bowling trades boundaries for wickets: neutral in runs over an innings, good early, costly at the
end."""
ATTACK_BEND = (0.0, 0.0, 0.0, 0.01, 0.01, -0.01, 0.0)
ATTACK_COST = (0.0, 0.0, 0.0, 0.01, 0.02, -0.02, 0.0)
PACES = ((1.02, 0.98, 0.98, 1.03, 1.0, 1.02, 1.0), (1.0,) * 7, (0.97, 1.04, 1.03, 0.92, 0.98, 1.03, 1.0))
POWERPLAY = (0.06, -0.16, -0.20, 0.22, 0.06, 0.0, 0.0)
"""Two fielders outside the ring: part of the change in the data at the end of the powerplay."""
LONG = (
    (0.62, -0.12, -0.1, -0.33, -1.3, -0.36, -0.08),
    (0.56, -0.16, -0.1, -0.16, -1.2, -0.42, -0.4),
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.15),
)
"""The powerplay, the middle and the last overs of a one-day innings. No table of ours holds longer formats,
so these are assumptions: about 5.1 runs an over in the powerplay, 5 in the middle and 7.5 in the last ten
overs, a wicket every 45, 50 and 16 balls, and 2.3 % wides."""
SHORT_DIRECTION = (-0.10, 0.0, 0.0, 0.12, 0.12, 0.0, 0.0)
"""Pattern of the runs of a 5-over innings; `calibration` finds its size."""

RHYTHM_SD = 0.22
"""Gives single overs the spread of the tables (sd 4.73)."""
DOT_SHARE = 0.5
WICKET_SHARE = 0.4
LEVEL_EFFECTS = (-0.6, -0.45, -0.3, -0.15, 0.0, 0.15, 0.3, 0.45, 0.6)


def skill_gain() -> float:
    """Return the shift of boundaries per unit log ratio of runs.

    At the mean shares, expected runs then move by the ratio.
    """
    counts = sum(
        (counts_of(row) for row in read_rows("ball_outcomes_by_phase.csv") if row["cohort"] == "all"),
        np.zeros(len(CATEGORIES)),
    )
    shares = counts / counts.sum()
    runs = np.array([0, 1, 2, 3, 4, 6, 0, 0.4, 1.15, 2.2, 1.3])
    shift = np.zeros(len(CATEGORIES))
    shift[[4, 5]] = 1.0
    shift[0] = -DOT_SHARE
    return float(1.0 / ((shares * runs * shift).sum() / (shares * runs).sum() - (shares * shift).sum()))


def free_hit_shares() -> Floats:
    """Return the shares of the categories on a free hit."""
    shares = read_json("extras.json")["free_hit"]["shares"]
    values = np.array([shares[category] for category in CATEGORIES])
    return np.asarray(values / values.sum(), dtype=np.float64)


def intent_direction(chase_shares: Floats) -> Floats:
    """Return the log change of the levers from a required rate of 6-8 to 13+.

    Shape ``(3 phases, 7)``: the real frontier. Averaged over overs and wickets lost, weighted by deliveries,
    at the same wickets lost.
    """
    weight = np.zeros((20, 4))
    for row in read_rows("ball_outcomes_by_state.csv"):
        if row["innings"] == "2":
            weight[int(row["over"]), ("0-1", "2-3", "4-5", "6+").index(row["wickets_lost"])] += float(
                row["deliveries"]
            )
    change = np.log(chase_shares[:, :, 4] / chase_shares[:, :, 1])
    bounds = ((0, 6), (6, 15), (15, 20))
    direction = np.stack(
        [(change[a:b] * weight[a:b, :, None]).sum(axis=(0, 1)) / weight[a:b].sum() for a, b in bounds]
    )
    levers = direction[:, [LEVER_OF.index(lever) for lever in range(7)]].copy()
    levers[:, 6] = np.clip(levers[:, 6], 0.0, 0.3)  # few balls at such rates
    return levers


def season_levels() -> dict[str, float]:
    """Return mean first-innings totals by cohort and year, with at least 20 matches."""
    return {
        f"{row['cohort']} {row['year']}": round(float(row["runs1"]), 1)
        for row in read_rows("season_trend.csv")
        if float(row["matches"]) >= 20
    }


def blank_content(chase_shares: Floats) -> dict[str, Any]:
    """Return the model file before any simulation; the rest is neutral or missing."""
    neutral = np.zeros((len(PHASES), len(CATEGORIES))).tolist()
    length_share, length_effect = deliveries.length_effects()
    line_share, line_effect = deliveries.line_effects()
    return {
        "note": NOTE,
        "categories": list(CATEGORIES),
        "phases": list(PHASES),
        "intent": rounded(intent_direction(chase_shares)),
        "attack": list(ATTACK),
        "attack_bend": list(ATTACK_BEND),
        "attack_cost": list(ATTACK_COST),
        "intent_bend": [list(bend) for bend in INTENT_BEND],
        "intent_cost": list(INTENT_COST),
        "paces": [list(levers) for levers in PACES],
        "powerplay": list(POWERPLAY),
        "profiles": {"men": {"first": neutral, "chase": neutral, "effect_sd": [0.0, 0.0], "levels": {}}},
        "short": [0.0] * 7,
        "short_chase": [0.0] * 7,
        "long": [list(levers) for levers in LONG],
        "dot_share": DOT_SHARE,
        "wicket_share": WICKET_SHARE,
        "rhythm_sd": RHYTHM_SD,
        "skill_gain": round(skill_gain(), 4),
        "free_hit": rounded(free_hit_shares(), 5),
        "lengths": {"share": rounded(length_share), "effect": rounded(length_effect)},
        "lines": {"share": rounded(line_share), "effect": rounded(line_effect)},
        "zones": rounded(deliveries.zone_shares()),
        "details": dismissals.details(),
    }


def parameter_content(parameters: Parameters) -> dict[str, Any]:
    """Return the raked parameters."""
    return {
        "first": rounded(parameters.first),
        "chase": rounded(parameters.chase),
        "batter": rounded(parameters.batter),
        "bowler": rounded(parameters.bowler),
        "stand": rounded(parameters.stand),
    }


def rounded(values: Floats, digits: int = 4) -> Any:
    """Return plain lists, rounded so that the file stays small."""
    return np.round(values, digits).tolist()


def shifted(parameters: Parameters, first: Floats, chase: Floats) -> Parameters:
    """Add a profile's logs by phase, shape ``(3, 11)`` each, to every over."""
    phase = np.array([0] * 6 + [1] * 9 + [2] * 5)
    return replace(
        parameters,
        first=parameters.first + first[phase][:, None, :],
        chase=parameters.chase + chase[phase][:, None, None, :],
    )

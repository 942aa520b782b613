"""Kinds of dismissal, and runs on extras and run-outs, by category."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.cricket_model.fitting.counts import PHASES, STYLES, read_json, read_rows

KINDS = ("bowled", "caught", "caught and bowled", "lbw", "stumped", "hit wicket")
_PRIOR = 40.0


def kind_shares() -> list[list[list[float]]]:
    """Return shares of the bowler's dismissals by phase and style, shrunk to their mean.

    The table counts stumpings off wides too, which `details` gives to the wides.
    """
    counts = np.zeros((3, 6, len(KINDS)))
    for row in read_rows("dismissals_by_bowler_kind.csv"):
        if row["bowler_style"] in STYLES and row["dismissal_kind"] in KINDS:
            at = (
                PHASES.index(row["phase"]),
                STYLES.index(row["bowler_style"]),
                KINDS.index(row["dismissal_kind"]),
            )
            counts[at] += float(row["n"])
    stumped = counts[..., KINDS.index("stumped")]
    stumped *= 1.0 - read_json("extras.json")["wide_wicket_kinds"]["stumped"] / stumped.sum()
    shares = np.empty_like(counts)
    for styles in (slice(0, 2), slice(2, 6)):
        mean = counts[:, styles].sum(axis=1, keepdims=True)
        mean = mean / mean.sum(axis=2, keepdims=True)
        block = counts[:, styles] + _PRIOR * mean
        shares[:, styles] = block / block.sum(axis=2, keepdims=True)
    rounded: list[list[list[float]]] = np.round(shares, 5).tolist()
    return rounded


def details() -> dict[str, Any]:
    """Return everything below the eleven categories, as shares."""
    extras, run_outs = read_json("extras.json"), read_json("run_outs.json")
    byes, legbyes = sum(extras["bye_runs"].values()), sum(extras["legbye_runs"].values())
    wides = sum(extras["wide_total_extras"].values())
    noballs = sum(extras["noball_bat_runs"].values())
    threes, fives = _threes_and_fives()
    return {
        "dismissals": kind_shares(),
        "wide_runs": [extras["wide_total_extras"][k] / wides for k in "12345"],
        "wide_stumped": extras["wide_wicket_kinds"]["stumped"] / wides,
        "wide_run_out": extras["wide_wicket_kinds"]["run out"] / wides,
        "noball_bat": [extras["noball_bat_runs"].get(k, 0) / noballs for k in "0123456"],
        "noball_byes": [extras["noball_extras"].get(k, 0) / noballs for k in "12345"],
        "noball_run_out": extras["noball_wicket_kinds"]["run out"] / noballs,
        "bye_share": byes / (byes + legbyes),
        "bye_runs": [extras["bye_runs"].get(k, 0) / byes for k in "12345"],
        "legbye_runs": [extras["legbye_runs"].get(k, 0) / legbyes for k in "12345"],
        "penalty": extras["rates_per_delivery"]["penalty"],
        "five_share": fives / (threes + fives),
        "run_out_striker": run_outs["striker_out_share"],
        "run_out_runs": [run_outs["bat_runs_on_ball"][k] / run_outs["n"] for k in "012"],
    }


def _threes_and_fives() -> tuple[float, float]:
    rows = [row for row in read_rows("ball_outcomes_by_phase.csv") if row["cohort"] == "all"]
    return sum(float(row["n_3"]) for row in rows), sum(float(row["n_5"]) for row in rows)

"""Estimate the ball model from the count tables.

``python -m tools.cricket_model.fit`` rewrites ``data/ball_model.json`` in about a minute. The same seed and
the same numpy give the same file.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.ball.tables import MODEL_FILE, tables_of
from spectator.environments.cricket.forecast.arrays import build_model_arrays
from tools.cricket_model.fitting import assembly, calibration, raking
from tools.cricket_model.fitting.counts import read_json
from tools.cricket_model.fitting.raking import Spread
from tools.cricket_model.fitting.selection import measure_selection

SEED = 20
FIRST_SPREAD = Spread(0.1, 0.1)
PROFILES = {"women": "women_wpl_2023_2026", "associates": "men_associate_t20i_2019_2023"}


def build(*, rounds: int = 12, matches: int = 6000, seed: int = SEED) -> dict[str, Any]:
    """Estimate everything; returns the content of the model file.

    Args:
        rounds: Rounds of raking, done twice: before and after the spread is solved.
        matches: Matches simulated a round; calibrations simulate twice as many.
        seed: Seed of all simulations.
    """
    rng = np.random.default_rng(seed)
    parameters, first, chase = raking.starting_point()
    content = assembly.blank_content(chase) | assembly.parameter_content(parameters)
    tables = tables_of(content, "men")
    compiled = build_model_arrays(tables)
    selection = measure_selection(BallModel(tables), matches // 8, seed)
    simulator = calibration.Simulator(compiled, selection, 2 * matches, seed)
    spread = FIRST_SPREAD
    summary = read_json("innings_summary.json")["all"]
    wanted = (summary["innings1_total"]["sd"], summary["innings2_total"]["sd"])
    for _ in range(2):
        parameters = raking.rake(
            parameters, (first, chase), compiled, spread, rng, selection, rounds=rounds, matches=matches
        )
        for _ in range(3):
            spread = calibration.next_spread(spread, simulator.both(parameters, spread), wanted)
    content |= assembly.parameter_content(parameters)
    total = _short_total()
    content["short"] = calibration.short_levers(simulator, parameters, spread, total)
    won = summary["chase_win_share"] + summary["tie_share"] / 2
    content["short_chase"] = calibration.short_chase_levers(
        simulator, parameters, spread, content["short"], won
    )
    content["profiles"] = {
        "men": _profile(simulator, parameters, spread, np.zeros((3, 11)), np.zeros((3, 11)))
    }
    content["profiles"]["men"]["levels"]["names"] = assembly.season_levels()
    for name, table in PROFILES.items():
        logs = calibration.fit_profile(replace(simulator, matches=matches), parameters, spread, table)
        content["profiles"][name] = _profile(
            simulator, assembly.shifted(parameters, *logs[:2]), logs[2], *logs[:2]
        )
    content["fit"] = {"seed": seed, "rounds": rounds, "matches": matches, "short_total": total}
    return content


def _profile(
    simulator: calibration.Simulator, parameters: raking.Parameters, spread: Spread, first: Any, chase: Any
) -> dict[str, Any]:
    totals = calibration.level_totals(simulator, parameters, spread)
    return {
        "first": assembly.rounded(first),
        "chase": assembly.rounded(chase),
        "effect_sd": [round(spread.match, 4), round(spread.innings, 4)],
        "levels": {"effects": list(assembly.LEVEL_EFFECTS), "totals": totals, "names": {}},
    }


def _short_total() -> float:
    """Return the runs of 5 overs with all wickets in hand, by the resource model."""
    model = read_json("resources_model.json")
    return float(model["Z0"] * (1.0 - np.exp(-model["b"] * calibration.SHORT_OVERS)))


def main(argv: list[str] | None = None) -> None:
    """Estimate the model and write its file."""
    parser = argparse.ArgumentParser(prog="python -m tools.cricket_model.fit", description=main.__doc__)
    parser.add_argument("--out", type=Path, default=MODEL_FILE, help="file to write")
    parser.add_argument("--seed", type=int, default=SEED)
    chosen = parser.parse_args(argv)
    content = build(seed=chosen.seed)
    chosen.out.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
    sys.stdout.write(
        f"{chosen.out}: effect sd {content['profiles']['men']['effect_sd']}, short {content['short']}\n"
    )


if __name__ == "__main__":
    main()

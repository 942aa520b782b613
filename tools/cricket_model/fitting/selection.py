"""Measure which bowlers the default captains choose when: the best when it matters.

The tables' rates by over are those of the bowlers that real captains chose for it. Default captains choose by
skill too, so the situation's own rates are estimated given that choice; otherwise it would count twice.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from spectator.environments.cricket.ball.sampler import BallModel
from spectator.environments.cricket.laws import format_of
from spectator.environments.cricket.match.engine import Match
from spectator.environments.cricket.people import draw_fixture, teams_of
from spectator.environments.cricket.simulation import play_out
from tools.cricket_model.fitting.counts import Floats


@dataclass(frozen=True, slots=True)
class BowlerSelection:
    """Choice of bowlers of the default captains by over of 20, shape ``(20,)`` each.

    Args:
        runs: Mean log ratio of runs conceded.
        wickets: Mean log ratio of wickets.
        spin: Share of overs bowled by spin.
    """

    runs: Floats
    wickets: Floats
    spin: Floats


def measure_selection(model: BallModel, matches: int, seed: int) -> BowlerSelection:
    """Simulate matches and record who bowls; the rest of the model hardly matters."""
    sums = np.zeros((3, 20))
    overs = np.zeros(20)
    for number in range(matches):
        rng = random.Random(f"selection:{seed}:{number}")
        match = Match(format_of(20), teams_of(draw_fixture(rng.getrandbits(32))), "home", model, rng)
        for played in play_out(match):
            if played.innings > 2 or played.delivery != 1:
                continue
            side = match.batting[played.innings - 1]
            bowler = match.teams["away" if side == "home" else "home"].bowlers[played.bowler]
            overs[played.over] += 1
            sums[:, played.over] += (
                np.log(bowler.bowl_runs), np.log(bowler.bowl_wickets), bowler.bowls == "spin",
            )  # fmt: skip
    mean = sums / np.maximum(overs, 1.0)
    kernel = np.array([0.25, 0.5, 0.25])
    smooth = [np.convolve(np.pad(row, 1, mode="edge"), kernel, mode="valid") for row in mean[:2]]
    return BowlerSelection(smooth[0], smooth[1], mean[2])

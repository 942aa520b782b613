"""The matches that the fit simulates: drawn squads and drawn bowling plans, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spectator.environments.cricket.ball.tables import STYLES
from spectator.environments.cricket.forecast.arrays import Ints, SkillArrays
from tools.cricket_model.fitting.counts import Floats, read_json, read_rows
from tools.cricket_model.fitting.selection import BowlerSelection

PACERS, SPINNERS = 4, 3
"""Bowlers of each kind in a simulated side; places 0 to 3 and 4 to 6 of its bowling row."""


@dataclass(frozen=True, slots=True)
class Population:
    """Matches to simulate.

    Args:
        people: Skills: row ``2 m`` is the side that bats first in match ``m``, row ``2 m + 1`` the other.
        bowlers: Indices of the bowlers, shape ``(2 innings, 20 overs, matches)``.
    """

    people: SkillArrays
    bowlers: Ints


def draw_population(
    matches: int, rng: np.random.Generator, selection: BowlerSelection | None = None
) -> Population:
    """Draw squads with the latent spread of skill, and a bowler for every over.

    Args:
        matches: Number of matches.
        rng: Source of all chance.
        selection: Choice of bowlers by over; by default spin bowls as often as in the data.
    """
    skill = read_json("player_skill.json")
    rows = 2 * matches
    groups = ["top"] * 3 + ["middle"] * 3 + ["lower"] * 2 + ["tail"] * 3
    runs_sd = np.array([skill["batters"][g]["run_rate_ratio"]["latent_sd"] for g in groups])
    out_sd = np.array([skill["batters"][g]["dismissal_ratio"]["latent_sd"] for g in groups])
    kinds = ["pace"] * PACERS + ["spin"] * SPINNERS + ["pace"] * (11 - PACERS - SPINNERS)

    def bowling_sd(name: str) -> Floats:
        return np.array([skill["bowlers"][kind][name]["latent_sd"] for kind in kinds])

    left = np.array([skill["left_handed_share_of_balls_by_position"][str(p)] for p in range(1, 12)])
    people = SkillArrays(
        bat_log=np.log(_ratios(rng, rows, runs_sd)).astype(np.float32).ravel(),
        bat_out=_ratios(rng, rows, out_sd).astype(np.float32).ravel(),
        order=np.tile(np.arange(11), rows),
        left=(rng.random((rows, 11)) < left).astype(np.int64).ravel(),
        bowl_log=np.log(_ratios(rng, rows, bowling_sd("runs_conceded_ratio"))).astype(np.float32).ravel(),
        bowl_wickets=_ratios(rng, rows, bowling_sd("wicket_ratio")).astype(np.float32).ravel(),
        bowl_extras=_ratios(rng, rows, bowling_sd("wide_noball_ratio")).astype(np.float32).ravel(),
        style=_styles(rng, rows, skill["bowler_style_share_of_regular_bowlers"]).ravel(),
    )
    return Population(people, _draw_bowlers(rng, matches, selection))


def _ratios(rng: np.random.Generator, rows: int, sd: Floats) -> Floats:
    sigma = np.sqrt(np.log1p(sd**2))
    z = np.clip(rng.standard_normal((rows, 11)), -3.0, 3.0)
    return np.asarray(np.exp(sigma * z - sigma**2 / 2), dtype=np.float64)


def _styles(rng: np.random.Generator, rows: int, shares: dict[str, float]) -> Ints:
    weight = np.array([shares[style] for style in STYLES])
    pace = rng.choice(2, size=(rows, 11), p=weight[:2] / weight[:2].sum())
    spin = 2 + rng.choice(4, size=(rows, 11), p=weight[2:] / weight[2:].sum())
    is_spin = np.zeros(11, dtype=np.bool_)
    is_spin[PACERS : PACERS + SPINNERS] = True
    return np.where(is_spin, spin, pace)


def _draw_bowlers(rng: np.random.Generator, matches: int, selection: BowlerSelection | None) -> Ints:
    """Draw a kind for every over by its share, then the bowlers of that kind in turn."""
    spin = np.array([float(row["spin"]) for row in read_rows("bowler_kind_share_by_over.csv")])
    if selection is not None:
        spin = selection.spin
    is_spin = rng.random((2, 20, matches)) < spin[None, :, None]
    turn = np.where(is_spin, np.cumsum(is_spin, axis=1), np.cumsum(~is_spin, axis=1))
    place = np.where(is_spin, PACERS + turn % SPINNERS, turn % PACERS)
    side = np.array([1, 0])[:, None, None]
    return np.asarray((2 * np.arange(matches) + side) * 11 + place, dtype=np.int64)

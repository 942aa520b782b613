"""Tiers of difficulty, defined in sigma: what half of the budget is expected to show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spectator.environments.collider.experiment.task import Difficulty


@dataclass(frozen=True, slots=True)
class Tier:
    """How hard a campaign is.

    Args:
        expected_z: Significance that half of the budget would bring in the best channel, were it spent there
            alone and the background known; a real campaign reaches about two thirds of it.
        window_sigma: Width of the search window, in resolutions of the first channel.
        channels: How many channels are on offer, at most.
        null_fraction: How often there is nothing to be found.
        scale_error: Spread of the energy scale.
        resolution_error: Spread of the logarithm of the resolution.
        curvature: Spread of the second and third coefficients of the background's shape.
        feature_chance: How often a trigger makes a false bump.
        fluctuation_chance: How often, with nothing there, the first run fluctuates up.
    """

    expected_z: float
    window_sigma: float
    channels: int
    null_fraction: float
    scale_error: float
    resolution_error: float
    curvature: tuple[float, float]
    feature_chance: float
    fluctuation_chance: float


TIERS: Final[Mapping[Difficulty, Tier]] = {
    "easy": Tier(9.0, 20.0, 2, 0.10, 0.003, 0.05, (0.0, 0.0), 0.0, 0.0),
    "medium": Tier(7.5, 40.0, 3, 0.25, 0.006, 0.10, (0.3, 0.0), 0.15, 0.1),
    "hard": Tier(6.5, 70.0, 4, 0.35, 0.010, 0.10, (0.5, 0.3), 0.3, 0.2),
    "expert": Tier(5.5, 100.0, 5, 0.50, 0.010, 0.15, (0.6, 0.5), 0.45, 0.3),
}
"""Tiers by name."""

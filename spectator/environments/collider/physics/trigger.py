"""The trigger: rates that fall steeply with the threshold, and efficiencies that turn on with the mass.

A menu has one item for each channel. An item's rate goes as (threshold)^-4, and all items share the
bandwidth of the readout; a menu that asks for more is prescaled as a whole. A pair of mass m passes with
the chance of an error function around ``TURN_ON`` x threshold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

TURN_ON: Final = 2.2
"""Mass of half efficiency, in thresholds: each of two objects carries somewhat less than half of it."""

TURN_ON_WIDTH: Final = 0.12
"""Width of the turn-on, relative to its mass."""

RATE_POWER: Final = 4.0


def rate_hz(reference_hz: float, reference_gev: float, threshold_gev: float) -> float:
    """Rate of an item at ``threshold_gev``, of which ``reference_hz`` at ``reference_gev`` is known."""
    return float(reference_hz * (threshold_gev / reference_gev) ** -RATE_POWER)


def live_fraction(rates_hz: Mapping[str, float], bandwidth_hz: float) -> float:
    """Share of the triggered events that the readout takes.

    >>> live_fraction({"diphoton": 1500.0, "dijet": 500.0}, 1000.0)
    0.5
    """
    total = sum(rates_hz.values())
    return 1.0 if total <= bandwidth_hz else bandwidth_hz / total


def efficiency(masses_gev: NDArray[np.float64], threshold_gev: float) -> NDArray[np.float64]:
    """Chance that a pair of each mass passes an item."""
    from scipy.special import ndtr

    half = TURN_ON * threshold_gev
    return np.asarray(ndtr((masses_gev - half) / (TURN_ON_WIDTH * half)), dtype=np.float64)


def suitable_threshold(lowest_gev: float) -> float:
    """Highest threshold that keeps 97.7 % of the pairs of mass ``lowest_gev``."""
    return lowest_gev / (TURN_ON * (1.0 + 2.0 * TURN_ON_WIDTH))

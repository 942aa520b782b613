"""Decay angles: how often a resonance of each spin, and the background, decays at each |cos theta*|.

Densities on [-1, 1] in the Collins-Soper frame (standard results): spin 0 is flat; spin 1 to fermions goes as
1 + c^2; gg -> G -> two photons as 1 + 6c^2 + c^4; gg -> G -> fermions as 1 - c^4. Four leptons are flat or go
as 1 + 6c^2 + c^4. Acceptance falls towards the beam as 1 - 0.75 c^4 and multiplies every density.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider.physics.channels import spins_of

Density = Callable[[NDArray[np.float64]], NDArray[np.float64]]

ANGLE_EDGES: Final = np.linspace(0.0, 1.0, 11)
"""Edges of the bins of |cos theta*|."""

_PER_BIN: Final = 8
_POINTS: Final = (np.arange(10 * _PER_BIN) + 0.5) / (10 * _PER_BIN)

_FERMIONS: Final = ("dilepton_ee", "dilepton_mumu", "bb", "dijet")


def acceptance(cosine: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of decays at ``cosine`` that the detector sees, 1 at right angles to the beam."""
    return 1.0 - 0.75 * cosine**4


def hypothesis(spin: int, channel: str) -> str:
    """Name of the decay of ``spin`` in ``channel``."""
    if spin == 0:
        return "spin0"
    if spin == 1:
        return "spin1_ll"
    return "spin2_gg_ll" if channel in _FERMIONS else "spin2_gg_diphoton"


_DENSITIES: Final[dict[str, Density]] = {
    "spin0": lambda c: np.ones_like(c),
    "spin1_ll": lambda c: 0.75 * (1.0 + c**2),
    "spin2_gg_ll": lambda c: 1.25 * (1.0 - c**4),
    "spin2_gg_diphoton": lambda c: 0.3125 * (1.0 + 6.0 * c**2 + c**4),
}


def signal_angles(spin: int, channel: str) -> NDArray[np.float64]:
    """Shares of the ten bins for a resonance of ``spin``, as accepted; they sum to 1."""
    return _binned(_DENSITIES[hypothesis(spin, channel)])


def background_angles(channel: str) -> NDArray[np.float64]:
    """Shares of the ten bins for the background: jets and photons go forward, lepton pairs as 1 + c^2."""
    if channel in ("dilepton_ee", "dilepton_mumu"):
        return _binned(lambda c: 1.0 + c**2)
    return _binned(lambda c: 1.0 / (1.15 - c**2))


def _binned(density: Density) -> NDArray[np.float64]:
    values = (density(_POINTS) * acceptance(_POINTS)).reshape(10, _PER_BIN).sum(axis=1)
    return np.asarray(values / values.sum(), dtype=np.float64)


def possible_spins(channel: str) -> tuple[int, ...]:
    """Spins that may decay to ``channel``.

    >>> possible_spins("diphoton")
    (0, 2)
    """
    return spins_of(channel)

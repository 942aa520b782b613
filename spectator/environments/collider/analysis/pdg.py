"""Masses and widths of particles: what the ``particle`` package holds of the Particle Data Group's tables.

A test compares every value with ``particle``; it is not asked at run time, since its first look-up reads a
whole table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PdgValue:
    """A particle.

    Args:
        pdgid: Its number in the Monte Carlo numbering scheme.
        mass_gev: Mass.
        mass_error_gev: Its standard error.
        width_gev: Full natural width.
    """

    pdgid: int
    mass_gev: float
    mass_error_gev: float
    width_gev: float


PDG: Final[Mapping[str, PdgValue]] = {
    "omega": PdgValue(223, 0.78266, 0.00013, 0.00868),
    "phi": PdgValue(333, 1.01946, 0.000016, 0.004249),
    "jpsi": PdgValue(443, 3.0969, 0.000006, 0.0000926),
    "psi2s": PdgValue(100443, 3.686097, 0.000011, 0.000293),
    "upsilon1s": PdgValue(553, 9.4604, 0.0001, 0.000054),
    "upsilon2s": PdgValue(100553, 10.0234, 0.0005, 0.000032),
    "upsilon3s": PdgValue(200553, 10.3551, 0.0005, 0.0000203),
    "z": PdgValue(23, 91.1879, 0.002, 2.4955),
    "higgs": PdgValue(25, 125.13, 0.11, 0.003),
}
"""By a short name. Source: Particle Data Group, as in ``particle`` 1.1."""

MUON_MASS_GEV: Final = 0.1056583755
ELECTRON_MASS_GEV: Final = 0.00051099895069
"""Source: Particle Data Group, as in ``particle`` 1.1."""

"""Masses from momenta, and histograms of masses."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from spectator.environments.collider.analysis.checks import Floats, checked_array, checked_edges, invalid

MUON_MASS_GEV: Final = 0.1056583755
"""Source: Particle Data Group, as in ``particle`` 1.1."""

LARGEST_ETA: Final = 100.0
"""Largest pseudorapidity. The LHC's beams are at 9.5; beyond 350 a square of the momentum overflows."""


def invariant_mass(pt_gev: ArrayLike, eta: ArrayLike, phi: ArrayLike, mass_gev: ArrayLike) -> Floats:
    """Return the invariant mass of each event, in GeV.

    Args:
        pt_gev: Transverse momenta, one row per particle, one column per event.
        eta: Pseudorapidities, of the same shape.
        phi: Azimuthal angles in radians, of the same shape.
        mass_gev: Masses of the particles, broadcastable to the same shape.

    Raises:
        InvalidAnalysis: The shapes differ, a number is not finite, a momentum or a mass is negative, or
            a pseudorapidity is beyond `LARGEST_ETA`.
    """
    pt, rapidity, angle, rest = (
        np.asarray(values, dtype=np.float64) for values in (pt_gev, eta, phi, mass_gev)
    )
    for name, values in (("eta", rapidity), ("phi", angle)):
        if values.shape != pt.shape:
            raise invalid(name, f"must have the shape of pt_gev, {pt.shape}, not {values.shape}")
    for name, values in (("pt_gev", pt), ("eta", rapidity), ("phi", angle), ("mass_gev", rest)):
        if not np.isfinite(values).all():
            raise invalid(name, "must hold finite numbers only")
    for name, values in (("pt_gev", pt), ("mass_gev", rest)):
        if (values < 0).any():
            raise invalid(name, "must be 0 or more")
    if (np.abs(rapidity) > LARGEST_ETA).any():
        raise invalid("eta", f"must lie between {-LARGEST_ETA:g} and {LARGEST_ETA:g}")
    x, y, z = pt * np.cos(angle), pt * np.sin(angle), pt * np.sinh(rapidity)
    energy = np.sqrt(x * x + y * y + z * z + rest**2)
    square = energy.sum(axis=0) ** 2 - x.sum(axis=0) ** 2 - y.sum(axis=0) ** 2 - z.sum(axis=0) ** 2
    return np.asarray(np.sqrt(np.maximum(square, 0.0)))


def pair_mass(
    pt1: ArrayLike,
    eta1: ArrayLike,
    phi1: ArrayLike,
    pt2: ArrayLike,
    eta2: ArrayLike,
    phi2: ArrayLike,
    mass_gev: float = MUON_MASS_GEV,
) -> Floats:
    """Return the invariant mass of pairs of equal particles, by default muons.

    Raises:
        InvalidAnalysis: As for :func:`invariant_mass`.

    >>> [round(float(mass), 3) for mass in pair_mass([45.0], [0.0], [0.0], [45.0], [0.0], [np.pi])]
    [90.0]
    """
    pairs: list[Floats] = []
    for name, first, second in (("pt2", pt1, pt2), ("eta2", eta1, eta2), ("phi2", phi1, phi2)):
        one, other = checked_array(name.replace("2", "1"), first), checked_array(name, second)
        if len(one) != len(other):
            raise invalid(name, f"must have as many events as the first, {len(one)}, not {len(other)}")
        pairs.append(np.stack([one, other]))
    return invariant_mass(pairs[0], pairs[1], pairs[2], mass_gev)


def bin_masses(masses_gev: ArrayLike, edges_gev: ArrayLike) -> Floats:
    """Return a histogram of masses; a bin holds its lower edge, and masses outside are ignored.

    Raises:
        InvalidAnalysis: A mass is not finite, or the edges do not ascend.

    >>> bin_masses([1.0, 1.5, 2.0, 2.6, 3.0, 9.0], [1.0, 2.0, 3.0]).tolist()
    [2.0, 2.0]
    """
    masses, edges = checked_array("masses_gev", masses_gev), checked_edges(edges_gev)
    inside = masses[(masses >= edges[0]) & (masses < edges[-1])]
    return np.histogram(inside, bins=edges)[0].astype(np.float64)

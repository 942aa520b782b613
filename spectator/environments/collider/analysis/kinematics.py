"""Masses of pairs and groups of particles from their momenta, and their histogram."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from spectator.environments.collider.analysis.checks import Floats, checked_array, checked_edges, refuse
from spectator.environments.collider.analysis.pdg import MUON_MASS_GEV


def invariant_mass(pt_gev: ArrayLike, eta: ArrayLike, phi: ArrayLike, mass_gev: ArrayLike) -> Floats:
    """Invariant mass of each event's particles.

    Args:
        pt_gev: Transverse momenta, one row a particle, one column an event.
        eta: Pseudorapidities, of the same shape.
        phi: Azimuthal angles in radians, of the same shape.
        mass_gev: Masses of the particles: anything that can be spread over the same shape.

    Raises:
        InvalidAnalysis: The shapes differ, or a momentum is negative or not finite.
    """
    pt, rapidity, angle = (np.asarray(values, dtype=np.float64) for values in (pt_gev, eta, phi))
    for name, values in (("eta", rapidity), ("phi", angle)):
        if values.shape != pt.shape:
            raise refuse(name, f"has the shape of pt_gev, {pt.shape}, not {values.shape}")
    for name, values in (("pt_gev", pt), ("eta", rapidity), ("phi", angle)):
        if not np.isfinite(values).all():
            raise refuse(name, "holds finite numbers only")
    if (pt < 0).any():
        raise refuse("pt_gev", "is 0 or more")
    x, y, z = pt * np.cos(angle), pt * np.sin(angle), pt * np.sinh(rapidity)
    energy = np.sqrt(x * x + y * y + z * z + np.asarray(mass_gev, dtype=np.float64) ** 2)
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
    """Invariant mass of pairs of equal particles, muons unless told otherwise.

    Raises:
        InvalidAnalysis: The shapes differ, or a momentum is negative or not finite.

    >>> [round(float(mass), 3) for mass in pair_mass([45.0], [0.0], [0.0], [45.0], [0.0], [np.pi])]
    [90.0]
    """
    pairs: list[Floats] = []
    for name, first, second in (("pt2", pt1, pt2), ("eta2", eta1, eta2), ("phi2", phi1, phi2)):
        one, other = checked_array(name.replace("2", "1"), first), checked_array(name, second)
        if len(one) != len(other):
            raise refuse(name, f"has as many events as the first, {len(one)}, not {len(other)}")
        pairs.append(np.stack([one, other]))
    return invariant_mass(pairs[0], pairs[1], pairs[2], mass_gev)


def bin_masses(masses_gev: ArrayLike, edges_gev: ArrayLike) -> Floats:
    """Histogram of masses, by boost-histogram; what lies outside is left out.

    Raises:
        InvalidAnalysis: A mass is not finite, or the edges do not ascend.

    >>> bin_masses([1.5, 2.5, 2.6, 9.0], [1.0, 2.0, 3.0]).tolist()
    [1.0, 2.0]
    """
    import boost_histogram

    masses, edges = checked_array("masses_gev", masses_gev), checked_edges(edges_gev)
    histogram = boost_histogram.Histogram(boost_histogram.axis.Variable(edges.tolist()))
    histogram.fill(masses)
    return np.asarray(histogram.view(), dtype=np.float64)

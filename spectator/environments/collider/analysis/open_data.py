"""Real collisions: CMS Open Data, masses from momenta, and known particles.

The compact extracts are shipped with the package (``data/README.md``). The masses and widths of
particles are those of the ``particle`` package, which holds the Particle Data Group's tables; a test
compares every value. The package is not used at run time, because its first look-up reads a whole table.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO, StringIO
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from spectator.environments.collider.analysis.checks import (
    Floats,
    checked_array,
    checked_choice,
    checked_edges,
    invalid,
)


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
"""Particles by short name. Source: Particle Data Group, as in ``particle`` 1.1."""

MUON_MASS_GEV: Final = 0.1056583755
ELECTRON_MASS_GEV: Final = 0.00051099895069
"""Source: Particle Data Group, as in ``particle`` 1.1."""


def invariant_mass(pt_gev: ArrayLike, eta: ArrayLike, phi: ArrayLike, mass_gev: ArrayLike) -> Floats:
    """Return the invariant mass of each event, in GeV.

    Args:
        pt_gev: Transverse momenta, one row per particle, one column per event.
        eta: Pseudorapidities, of the same shape.
        phi: Azimuthal angles in radians, of the same shape.
        mass_gev: Masses of the particles, broadcastable to the same shape.

    Raises:
        InvalidAnalysis: The shapes differ, or a momentum is negative or not finite.
    """
    pt, rapidity, angle = (np.asarray(values, dtype=np.float64) for values in (pt_gev, eta, phi))
    for name, values in (("eta", rapidity), ("phi", angle)):
        if values.shape != pt.shape:
            raise invalid(name, f"must have the shape of pt_gev, {pt.shape}, not {values.shape}")
    for name, values in (("pt_gev", pt), ("eta", rapidity), ("phi", angle)):
        if not np.isfinite(values).all():
            raise invalid(name, "must hold finite numbers only")
    if (pt < 0).any():
        raise invalid("pt_gev", "must be 0 or more")
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
    """Return the invariant mass of pairs of equal particles, by default muons.

    Raises:
        InvalidAnalysis: The shapes differ, or a momentum is negative or not finite.

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
    """Return a histogram of masses; masses outside the edges are ignored.

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


DIMUON_WINDOWS: Final = ("jpsi", "psi2s", "upsilon1s", "phi", "rho_omega", "z")
"""Mass windows with single events."""

_DATA: Final = files("spectator.environments.collider") / "data"


@dataclass(frozen=True, slots=True)
class FourLeptonTemplates:
    """Expected four-lepton events, and the observed ones in the same bins.

    Args:
        edges_gev: Bin edges, 70 to 181 GeV, every 3 GeV.
        backgrounds: Expected events by process: ``zz``, ``dy`` and ``ttbar``.
        higgs125: Expected events of a Higgs boson of 125 GeV.
        luminosity_fb: Integrated luminosity in fb^-1 by energy.
    """

    edges_gev: Floats
    backgrounds: Mapping[str, Floats]
    higgs125: Floats
    luminosity_fb: Mapping[str, float]


def dimuon_spectrum() -> tuple[Floats, Floats]:
    """Return the dimuon spectrum of 2012 (19.5 million candidates).

    Returns:
        2,001 edges from 0.2 to 200 GeV, and 2,000 counts.
    """
    loaded = _arrays("dimuon_spectrum_2012.npz")
    return loaded["edges_gev"].astype(np.float64), loaded["counts"].astype(np.float64)


def dimuon_events(window: str) -> Mapping[str, Floats]:
    """Return muon pairs of 2010 and 2011 in a mass window, of equal and opposite charge.

    Args:
        window: One of ``DIMUON_WINDOWS``.

    Returns:
        Arrays ``pt1 eta1 phi1 q1 pt2 eta2 phi2 q2 run mass``, one value per event.

    Raises:
        InvalidAnalysis: The window is unknown.
    """
    name = checked_choice("window", window, DIMUON_WINDOWS)
    prefix = f"{name}__"
    loaded = _arrays("dimuon_events.npz")
    return {key.removeprefix(prefix): _floats(loaded[key]) for key in loaded if key.startswith(prefix)}


def zmumu_events() -> Mapping[str, Floats]:
    """Return Z candidates of 2011.

    Returns:
        Arrays by column, with isolation ``iso1 iso2`` and impact parameter ``dxy1 dxy2`` in cm.
    """
    loaded = _arrays("zmumu_iso_events.npz")
    return {key: _floats(loaded[key]) for key in loaded}


def four_lepton_events() -> Mapping[str, Floats]:
    """Return the 278 four-lepton candidates of 2011 and 2012.

    Returns:
        Arrays by column: ``year``, ``pid1 pt1 eta1 phi1`` to ``4``, ``mz1``, ``mz2`` and ``m``, in GeV.
    """
    text = gzip.decompress((_DATA / "four_lepton_2011_2012.csv.gz").read_bytes()).decode()
    rows = list(csv.DictReader(StringIO(text)))
    return {
        name: np.array([float(row[name]) for row in rows])
        for name in rows[0]
        if name not in ("channel", "run", "event")
    }


def four_lepton_templates() -> FourLeptonTemplates:
    """Return the simulated expectation for the four-lepton spectrum."""
    loaded = json.loads((_DATA / "four_lepton_templates.json").read_text(encoding="utf-8"))
    return FourLeptonTemplates(
        np.array(loaded["edges_gev"]),
        {name: np.array(loaded[name]) for name in ("zz", "dy", "ttbar")},
        np.array(loaded["higgs125"]),
        loaded["lumi_fb"],
    )


@cache
def _arrays(name: str) -> Mapping[str, np.ndarray]:
    """Return the read-only arrays of a file, which is read once."""
    with np.load(BytesIO((_DATA / name).read_bytes())) as file:
        arrays = {key: file[key] for key in file.files}
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def _floats(values: np.ndarray) -> Floats:
    return values.astype(np.float64)

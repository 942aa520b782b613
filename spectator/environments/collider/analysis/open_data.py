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

from spectator.environments.collider.analysis.checks import Floats


@dataclass(frozen=True, slots=True)
class PdgValue:
    """A particle.

    Args:
        pdgid: Its number in the Monte Carlo numbering scheme.
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

_DATA: Final = files("spectator.environments.collider") / "data"


def dimuon_spectrum() -> tuple[Floats, Floats]:
    """Return the dimuon spectrum of 2012 (19.5 million candidates).

    Returns:
        2,001 edges from 0.2 to 200 GeV, and 2,000 counts.
    """
    loaded = _arrays("dimuon_spectrum_2012.npz")
    return loaded["edges_gev"].astype(np.float64), loaded["counts"].astype(np.float64)


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

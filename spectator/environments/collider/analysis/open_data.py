"""Real collisions: compact extracts of CMS Open Data, shipped with the package (``data/README.md``)."""

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

from spectator.environments.collider.analysis.checks import Floats, checked_choice

DIMUON_WINDOWS: Final = ("jpsi", "psi2s", "upsilon1s", "phi", "rho_omega", "z")
"""Stretches of mass of which single events are there."""

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
    """19.5 million dimuon candidates of 2012: 2,001 edges from 0.2 to 200 GeV, and 2,000 counts."""
    held = _arrays("dimuon_spectrum_2012.npz")
    return held["edges_gev"].astype(np.float64), held["counts"].astype(np.float64)


def dimuon_events(window: str) -> Mapping[str, Floats]:
    """Single muon pairs of 2010 and 2011 in a stretch of mass, of equal and of opposite charge.

    Args:
        window: One of ``DIMUON_WINDOWS``.

    Returns:
        Arrays ``pt1 eta1 phi1 q1 pt2 eta2 phi2 q2 run mass``, one value an event.

    Raises:
        InvalidAnalysis: There is no such window.
    """
    name = checked_choice("window", window, DIMUON_WINDOWS)
    prefix = f"{name}__"
    held = _arrays("dimuon_events.npz")
    return {key.removeprefix(prefix): _floats(held[key]) for key in held if key.startswith(prefix)}


def zmumu_events() -> Mapping[str, Floats]:
    """Z candidates of 2011 with isolation ``iso1 iso2`` and impact parameter ``dxy1 dxy2`` in cm."""
    held = _arrays("zmumu_iso_events.npz")
    return {key: _floats(held[key]) for key in held}


def four_lepton_events() -> Mapping[str, Floats]:
    """278 four-lepton candidates of 2011 and 2012.

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
    """What simulation expects in the four-lepton spectrum."""
    held = json.loads((_DATA / "four_lepton_templates.json").read_text(encoding="utf-8"))
    return FourLeptonTemplates(
        np.array(held["edges_gev"]),
        {name: np.array(held[name]) for name in ("zz", "dy", "ttbar")},
        np.array(held["higgs125"]),
        held["lumi_fb"],
    )


@cache
def _arrays(name: str) -> Mapping[str, np.ndarray]:
    """The arrays of a file, read once and not to be written to."""
    with np.load(BytesIO((_DATA / name).read_bytes())) as held:
        arrays = {key: held[key] for key in held.files}
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def _floats(values: np.ndarray) -> Floats:
    return values.astype(np.float64)

"""Check the analysis on real collisions: the shipped CMS Open Data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from spectator.environments.collider.analysis.calibration import calibrate
from spectator.environments.collider.analysis.counting import template_fit
from spectator.environments.collider.analysis.open_data import (
    PDG,
    dimuon_spectrum,
    four_lepton_events,
    four_lepton_templates,
)
from spectator.environments.collider.analysis.resonance import ResonanceFit, fit_resonance, fit_resonances
from spectator.environments.collider.analysis.resonance_search import find_resonances
from spectator.environments.collider.physics import energy_gain
from tools.collider_validation.drawing import Chart, Layer
from tools.collider_validation.rows import ValidationRow, near

EDGES, COUNTS = dimuon_spectrum()
PEAKS = (
    ("omega", (0.70, 0.86)),
    ("phi", (0.95, 1.10)),
    ("jpsi", (2.8, 3.4)),
    ("psi2s", (3.5, 3.9)),
    ("upsilon1s", (9.2, 9.75)),
    ("upsilon2s", (9.75, 10.2)),
    ("upsilon3s", (10.2, 10.7)),
    ("z", (75.0, 110.0)),
)
SMOOTH = ((20.0, 45.0), (22.0, 40.0), (25.0, 35.0), (15.0, 60.0), (10.7, 14.0), (4.2, 7.5), (110.0, 180.0))
REFERENCE = {
    "jpsi": 3.09320,
    "upsilon1s": 9.4473,
    "z": 90.895,
    "psi2s": 3.6816,
    "phi": 1.0167,
    "omega": 0.7793,
}


def peak_table() -> list[str]:
    """Fit every peak with only its window given; returns Markdown rows."""
    rows = []
    for name, window in PEAKS:
        fit = fit_resonance(EDGES, COUNTS, window)
        true = PDG[name].mass_gev
        rows.append(
            f"| {name} | {window[0]:g}-{window[1]:g} | {fit.mass_gev:.5f} +- {fit.mass_error_gev:.5f} "
            f"| {1000 * fit.width_gev:.1f} | {fit.signal:,.0f} | {fit.z_local:.0f} "
            f"| {fit.chi2:.0f}/{fit.ndf} "
            f"| {fit.model}, {fit.background} | {true:.5f} | {100 * (fit.mass_gev / true - 1):+.3f} % |"
        )
    return rows


def fits() -> Iterator[ValidationRow]:
    """Compare fitted masses with independent fits, calibrate, and search smooth stretches."""
    for name, window in PEAKS:
        if name in REFERENCE:
            fit = fit_resonance(EDGES, COUNTS, window)
            off = 100 * (fit.mass_gev / REFERENCE[name] - 1)
            within = 0.3 if name in ("phi", "omega") else 0.06
            yield near(f"{name} against an independent fit, %", "data/README.md", 0.0, off, within)
    jpsi, upsilon = calibrate("jpsi", EDGES, COUNTS), calibrate("upsilon1s", EDGES, COUNTS)
    off = 100 * (upsilon.fit.mass_gev / jpsi.scale / PDG["upsilon1s"].mass_gev - 1)
    yield near("Upsilon(1S), calibrated on J/psi, against the PDG, %", "", 0.0, off, 0.05, 4)
    flat = [window for window in SMOOTH if not find_resonances(EDGES, COUNTS, window)]
    like = [
        fit
        for fit in (fit_resonance(EDGES, COUNTS, one) for one in SMOOTH)
        if fit.background_like or fit.z_local < 3
    ]
    text = f"{len(flat)} of {len(SMOOTH)} without a resonance; {len(like)} fits recognised as background"
    yield ValidationRow(
        "trigger shoulder and smooth stretches",
        "no resonance in any",
        text,
        len(flat) == len(like) == len(SMOOTH),
    )


def whole_spectrum() -> tuple[list[ValidationRow], Chart, tuple[ResonanceFit, ...]]:
    """Search the whole spectrum."""
    found = find_resonances(EDGES, COUNTS)
    names = [name for name, _ in PEAKS]
    right = len(found) == len(names) and all(
        abs(fit.mass_gev / PDG[name].mass_gev - 1) < 0.005 for fit, name in zip(found, names, strict=True)
    )
    text = ", ".join(f"{fit.mass_gev:.4g}" for fit in found)
    row = ValidationRow(
        "resonances of the whole spectrum, GeV",
        "these eight, and none else: " + ", ".join(names),
        text,
        right,
    )
    density = COUNTS / np.diff(EDGES)
    chart = Chart(
        "19.5 million muon pairs of CMS, 2012: what the search finds",
        "mass, GeV",
        "events / GeV",
        [Layer("", list(zip(EDGES.tolist(), [*density.tolist(), density[-1]], strict=True))[40:], "steps")],
        x_log=True,
        y_log=True,
        marks=[(fit.mass_gev, f"{fit.mass_gev:.3f}") for fit in found],
    )
    return [row], chart, found


def upsilons() -> Chart:
    """Fit three peaks in one window."""
    found = fit_resonances(EDGES, COUNTS, (8.6, 11.2))
    first, last = found[0].bins
    edges, counts = EDGES[first : last + 1], COUNTS[first:last]
    centres = 0.5 * (edges[1:] + edges[:-1])
    smooth = np.array(found[0].expected) - sum(
        np.array(one.expected) - np.array(one.expected_background) for one in found
    )
    return Chart(
        "Upsilon(1S), (2S) and (3S), fitted together in 8.6-11.2 GeV",
        "mass, GeV",
        "events a bin",
        [
            Layer("data", list(zip(centres.tolist(), counts.tolist(), strict=True)), "points", "#333"),
            Layer("fit", list(zip(centres.tolist(), found[0].expected, strict=True)), colour="#c8501e"),
            Layer("background", list(zip(centres.tolist(), smooth.tolist(), strict=True)), dash="4 4"),
        ],
        marks=[(one.mass_gev, f"{one.mass_gev:.4f}") for one in found],
    )


def four_leptons() -> tuple[list[ValidationRow], Chart]:
    """Fit the Higgs boson in four leptons."""
    expected = four_lepton_templates()
    masses = four_lepton_events()["m"]
    seen = np.histogram(masses, expected.edges_gev)[0].astype(np.float64)
    background = np.sum(list(expected.backgrounds.values()), axis=0)
    above = expected.edges_gev[:-1] >= 100
    fit = template_fit(seen[above], expected.higgs125[above], background[above], 0.10)
    fine = np.linspace(105, 150, 46)
    peak = fit_resonance(fine, np.histogram(masses, fine)[0], resolution_gev=2.0, background="exponential")
    rows = [
        near(
            "four leptons, templates, 10 % scale: Z observed", "data/README.md", 3.08, fit.z_observed, 0.05, 2
        ),
        near("four leptons: Z expected", "data/README.md", 3.32, fit.z_expected, 0.05, 2),
        near("four leptons: mu", "data/README.md", 0.90, fit.mu, 0.03, 2),
        near("four leptons: mass, GeV", "data/README.md: 124.6 +- 1.3", 124.6, peak.mass_gev, 0.3, 1),
        near("four leptons: error of the mass, GeV", "", 1.3, peak.mass_error_gev, 0.4, 1),
    ]
    edges = expected.edges_gev.tolist()
    centres = (0.5 * (expected.edges_gev[1:] + expected.edges_gev[:-1])).tolist()
    stacked = (background + expected.higgs125).tolist()
    chart = Chart(
        "Four leptons, CMS 2011 and 2012: data and expectation",
        "mass of four leptons, GeV",
        "events / 3 GeV",
        [
            Layer(
                "with Higgs boson, 125 GeV", list(zip(edges, [*stacked, 0.0], strict=True)), "area", "#c8501e"
            ),
            Layer(
                "background", list(zip(edges, [*background.tolist(), 0.0], strict=True)), "area", "#1b6ca8"
            ),
            Layer(
                "data",
                list(zip(centres, seen.tolist(), strict=True)),
                "points",
                "#222",
                np.sqrt(seen).tolist(),
            ),
        ],
    )
    return rows, chart


def scaling() -> Iterator[ValidationRow]:
    """Compare ratios of cross sections between beam energies with published ones."""
    asked: tuple[tuple[str, Literal["gg", "qq"], float, float], ...] = (
        ("Higgs boson, gluons, 125 GeV", "gg", 125.0, 2.27),
        ("Z, quarks, 91 GeV", "qq", 91.19, 1.75),
        ("750 GeV, gluons", "gg", 750.0, 4.65),
    )
    for name, initial, mass, target in asked:
        ratio = energy_gain(initial, mass, 13.0) / energy_gain(initial, mass, 8.0)
        yield near(
            f"sigma(13 TeV) / sigma(8 TeV): {name}", "YR4, arXiv:1512.04933", target, ratio, 0.02 * target, 2
        )

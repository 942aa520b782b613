"""Check the statistics on toys: significances, look-elsewhere effect, pulls and limits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spectator.environments.collider.analysis.checks import Floats
from spectator.environments.collider.analysis.counting import (
    counting_significance,
    discovery_significance,
    expected_significance,
)
from spectator.environments.collider.analysis.mass_scan import global_significance
from spectator.environments.collider.analysis.resonance import fit_resonance
from spectator.environments.collider.analysis.shapes import gauss_bins, p_of_z, z_of_p
from spectator.environments.collider.analysis.significance import profile_significance
from tools.collider_validation.drawing import Chart, Layer
from tools.collider_validation.rows import ValidationRow, near

EXACT = {100: 4.97, 50: 4.93, 20: 4.91, 10: 4.81, 5: 4.96, 1: 4.73, 0.5: 4.75}


@dataclass(frozen=True, slots=True)
class Setting:
    """A toy spectrum: a Gauss peak on an exponential."""

    name: str
    z: float
    sigma: float = 1.6
    events_a_gev: float = 1000.0
    mass: float = 125.0
    resolution_gev: float | None = None
    bins: int = 50

    @property
    def edges(self) -> Floats:
        """Bin edges, 105 to 145 GeV."""
        return np.linspace(105.0, 145.0, self.bins + 1)

    @property
    def background(self) -> Floats:
        """Expected background of each bin."""
        centres = 0.5 * (self.edges[1:] + self.edges[:-1])
        return self.events_a_gev * np.exp(-(centres - 105.0) / 30.0) * 40.0 / self.bins

    @property
    def signal(self) -> float:
        """Events that stand out by ``z`` where the background is known."""
        share = gauss_bins(self.edges, self.mass, self.sigma)
        return float(self.z / np.sqrt(np.sum(share * share / self.background)))

    def draw(self, seed: int) -> Floats:
        """Draw one spectrum."""
        expected = self.background + self.signal * gauss_bins(self.edges, self.mass, self.sigma)
        return np.random.default_rng(seed).poisson(expected).astype(np.float64)


SETTINGS = (
    Setting("Z = 8, width constrained to 10 %", 8.0, resolution_gev=1.6),
    Setting("Z = 8, width free", 8.0),
    Setting("Z = 5, width free", 5.0),
    Setting("Z = 30, width free", 30.0),
    Setting("wide peak (4 GeV), Z = 20", 20.0, sigma=4.0),
    Setting("3 events a GeV, Z = 12", 12.0, events_a_gev=3.0),
    Setting("1 event a GeV, Z = 6", 6.0, events_a_gev=1.0),
    Setting("a million events a GeV, Z = 200", 200.0, events_a_gev=1e6),
    Setting("one sigma from the edge of the window, Z = 12", 12.0, mass=106.6),
)


def counting() -> Iterator[ValidationRow]:
    """Check the counting formulas."""
    for error, target in ((0, 4.652), (5, 4.099), (10, 3.173), (20, 1.968)):
        z = float(discovery_significance(50, 100, error))
        yield near(f"Z_A of 50 over 100 +- {error}", "Cowan", target, z, 0.001)
    from scipy.optimize import brentq
    from scipy.special import pdtrik

    for background, target in EXACT.items():
        signal = brentq(lambda s, b=background: float(discovery_significance(s, b)) - 5, 0.01, 500)
        median = math.ceil(float(pdtrik(0.5, signal + background)))
        z = counting_significance(median, background)
        yield near(f"exact median Z where Z_A = 5, b = {background:g}", "Poisson sums", target, z, 0.02, 2)


def photons() -> ValidationRow:
    """Check the expected significance of the two-photon channel of 2012."""
    edges = np.linspace(100, 160, 121)
    centres = 0.5 * (edges[1:] + edges[:-1])
    smooth = np.exp(-centres / 33.0) / np.exp(-centres / 33.0).sum()
    squares = [
        expected_significance(signal * gauss_bins(edges, 126.5, 1.63), total * smooth) ** 2
        for signal, total in ((79.6, 23_788), (110.5, 35_251))
    ]
    return near("ATLAS 2012 two photons, expected Z", "published 2.5", 2.5, math.sqrt(sum(squares)), 0.1, 2)


def q0_tail(toys: int) -> tuple[list[ValidationRow], Chart]:
    """Check the distribution of q0 without a signal."""
    setting = Setting("null", 0.0, bins=40)
    z = np.array(
        [
            profile_significance(
                setting.edges, setting.draw(seed), 125.0, 1.6, background="exponential"
            ).z_local
            for seed in range(toys)
        ]
    )
    rows = []
    for level in (1.0, 1.5, 2.0, 2.5, 3.0):
        chance, seen = p_of_z(level), float((z > level).mean())
        error = 3.0 * math.sqrt(chance / toys)
        text = f"{chance:.5f} +- {error:.5f} (1 - Phi)"
        rows.append(
            ValidationRow(
                f"P(q0 > {level:g}^2) without signal, {toys} toys",
                text,
                f"{seen:.5f}",
                abs(seen - chance) <= error,
            )
        )
    levels = np.linspace(0.0, 3.4, 35)
    chart = Chart(
        "Significance of background alone",
        "z",
        "share of toys above z",
        [
            Layer("1 - Phi(z)", [(float(level), p_of_z(float(level))) for level in levels]),
            Layer(
                f"{toys} toys",
                [(float(level), max(float((z > level).mean()), 1e-6)) for level in levels],
                "points",
                "#c8501e",
                [math.sqrt(p_of_z(float(level)) / toys) for level in levels],
            ),
        ],
        y_log=True,
        y_range=(2e-4, 1.0),
    )
    return rows, chart


def look_elsewhere(toys: int) -> tuple[list[ValidationRow], Chart]:
    """Check the global significance over 110-150 GeV with a resolution of 1.6 GeV."""
    edges = np.linspace(100.0, 160.0, 121)
    smooth = 1500.0 * np.exp(-(edges[:-1] - 99.75) / 33.0)

    def found(z: float, number: int = 400) -> tuple[float, float]:
        one = global_significance(edges, smooth, z, 1.6, window_gev=(110, 150), toys=number)
        return one.z_global, one.p_toys

    rows = [
        near(
            "local 4.1 -> global, 110-150 GeV, sigma 1.6",
            "CMS-PAS-HIG-12-015: 3.2",
            3.20,
            found(4.1)[0],
            0.05,
        )
    ]
    for local, target in ((3.0, 1.79), (3.5, 2.45), (4.0, 3.06), (4.5, 3.65)):
        rows.append(near(f"local {local:g} -> global", "400,000 toys, notes", target, found(local)[0], 0.05))
    direct = found(3.0, toys)[1]
    rows.append(near(f"local 3 -> global, by {toys} toys directly", "", 1.79, z_of_p(direct), 0.06))
    line = [(float(z), found(float(z))[0]) for z in np.linspace(2, 5, 16)]
    dots = [(float(z), z_of_p(found(float(z), toys)[1])) for z in (2.0, 2.5, 3.0, 3.5)]
    chart = Chart(
        "Look-elsewhere effect, 110-150 GeV, resolution 1.6 GeV",
        "local significance",
        "global significance",
        [
            Layer("no correction", [(2.0, 2.0), (5.0, 5.0)], colour="#999", dash="4 4"),
            Layer("Gross and Vitells, 400 toys", line),
            Layer(f"{toys} toys directly", dots, "points", "#c8501e"),
        ],
    )
    return rows, chart


def pulls(setting: Setting, seeds: int) -> tuple[Floats, int]:
    """Return pulls of the mass, and the number of fits that did not converge."""
    known = setting.resolution_gev
    error = None if known is None else 0.1 * known
    values, failed = [], 0
    for seed in range(50_000, 50_000 + seeds):
        fit = fit_resonance(
            setting.edges, setting.draw(seed), resolution_gev=known, resolution_error_gev=error
        )
        failed += not fit.converged
        values.append((fit.mass_gev - setting.mass) / fit.mass_error_gev)
    return np.array(values), failed


def all_pulls(seeds: int) -> tuple[list[ValidationRow], Chart]:
    """Check pulls of the fitted mass in all settings; the first one is plotted."""
    rows, drawn = [], np.zeros(0)
    for number, setting in enumerate(SETTINGS):
        count = 1000 if number < 2 else seeds
        values, failed = pulls(setting, count)
        drawn = values if number == 0 else drawn
        mean, width = float(values.mean()), float(values.std())
        inside = float((np.abs(values) < 1).mean())
        text = f"mean {mean:+.3f}, width {width:.3f}, {inside:.1%} within one error, {failed} not converged"
        strict = 0.1 if number < 2 else 0.3
        ok = abs(mean) <= strict and abs(width - 1) <= strict and failed == 0
        rows.append(
            ValidationRow(
                f"pull of the mass, {count} seeds: {setting.name}",
                f"mean 0, width 1, each +- {strict:g}",
                text,
                ok,
            )
        )
    edges = np.linspace(-4, 4, 33)
    counts, _ = np.histogram(drawn, edges)
    curve = np.linspace(-4, 4, 81)
    normal = np.exp(-0.5 * curve**2) / math.sqrt(2 * math.pi) * len(drawn) * 0.25
    chart = Chart(
        "Pull of the fitted mass, 1,000 seeds at Z = 8",
        "(fitted - true) / error",
        "seeds",
        [
            Layer("fits", [*zip(edges[:-1].tolist(), counts.tolist(), strict=True), (4.0, 0.0)], "steps"),
            Layer(
                "normal distribution",
                list(zip(curve.tolist(), normal.tolist(), strict=True)),
                colour="#c8501e",
            ),
        ],
    )
    return rows, chart

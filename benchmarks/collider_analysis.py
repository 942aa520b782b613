"""The figures of the collider analysis: a scan, a mass fit, a global significance, and the same by its peers.

``python -m benchmarks.collider_analysis`` prints them; CPU time of one thread. Each call is measured in
rounds, its median beside the best, and next to it what iminuit or pyhf takes for the same question.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any, Final

import numpy as np

from benchmarks.figures import HEADER, Figure, ms
from spectator.environments.collider.analysis import (
    fit_resonance,
    global_significance,
    open_data,
    profile_significance,
    scan,
    upper_limit,
)
from spectator.environments.collider.analysis.backgrounds import (
    design,
    log_likelihood_gap,
    poisson_regression,
)
from spectator.environments.collider.analysis.scores import gauss_templates, score_test, score_z
from spectator.environments.collider.analysis.shapes import gauss_bins
from spectator.environments.collider.claims.records import FrozenChannel, Unblinded
from spectator.environments.collider.claims.workspace import pyhf_significance, workspace

ROUNDS: Final = 9
EDGES: Final = np.linspace(105.0, 145.0, 51)
SMOOTH: Final = 800.0 * np.exp(-(EDGES[:-1] - 104.6) / 30.0)
SPECTRA: Final = [
    np.random.default_rng(seed).poisson(SMOOTH + 1200 * gauss_bins(EDGES, 125.0, 1.6)).astype(float)
    for seed in range(20)
]


def timed(call: Callable[[Any], object]) -> tuple[float, float]:
    """Median and best CPU seconds of one call, over all spectra, in rounds."""
    call(SPECTRA[0])
    rounds = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        for counts in SPECTRA:
            call(counts)
        rounds.append((time.thread_time() - began) / len(SPECTRA))
    return median(rounds), min(rounds)


def told(found: tuple[float, float]) -> str:
    """Median and best, for the table."""
    return f"median {ms(found[0])}, best {ms(found[1])}"


def iminuit_fit(counts: Any) -> object:
    """MIGRAD and HESSE on the likelihood of a mass fit, from the true values."""
    from iminuit import Minuit

    columns, widths = design("exponential", EDGES), np.diff(EDGES)

    def cost(signal: float, mass: float, ratio: float, first: float, second: float) -> float:
        expected = widths * np.exp(columns @ np.array([first, second]))
        expected += signal * gauss_bins(EDGES, mass, mass * np.exp(ratio))
        constraint = 0.5 * ((ratio - np.log(1.6 / 125)) / 0.1) ** 2
        return log_likelihood_gap(counts, np.maximum(expected, 1e-9)) + float(constraint)

    minuit = Minuit(cost, 1200.0, 125.0, float(np.log(1.6 / 125)), float(np.log(counts.mean() / 0.8)), 0.0)
    minuit.errordef = Minuit.LIKELIHOOD
    minuit.migrad()
    minuit.hesse()
    return minuit.valid


def bare_scan(counts: Any) -> object:
    """Background and score of 100 masses, without the checks and the account of the result."""
    columns = design("quadratic", EDGES)
    smooth = poisson_regression(columns, counts, np.diff(EDGES)).expected
    masses = np.linspace(108.0, 142.0, 100)
    return score_z(
        score_test(gauss_templates(EDGES, masses, np.full(100, 1.6)), smooth, columns), counts, smooth
    )


def pyhf_test(counts: Any) -> object:
    """Discovery test by pyhf, its workspace built each time."""
    frozen = FrozenChannel(
        channel="one",
        cuts={},
        window_gev=(110, 140),
        fit_window_gev=(105, 145),
        relative_resolution=0.0128,
        background="exponential",
    )
    opened = Unblinded(
        selection_id="s",
        channel="one",
        datasets=["r"],
        luminosity_fb=1.0,
        edges_gev=EDGES.tolist(),
        counts=counts.astype(int).tolist(),
    )
    return pyhf_significance(workspace(frozen, opened, 125.0, 1.6))


def full_scan(counts: Any) -> object:
    """A scan of 100 masses as anybody asks for it."""
    return scan(EDGES, counts, 1.6, masses_gev=np.linspace(108, 142, 100), background="quadratic")


def fits() -> list[Figure]:
    """Mass fits and discovery tests beside their peers."""
    fit = timed(lambda counts: fit_resonance(EDGES, counts, resolution_gev=1.6, resolution_error_gev=0.16))
    peer = timed(iminuit_fit)
    test = timed(lambda counts: profile_significance(EDGES, counts, 125.0, 1.6, background="exponential"))
    other = timed(pyhf_test)
    jpsi = timed(lambda _: fit_resonance(*open_data.dimuon_spectrum(), (3.5, 3.9)))
    return [
        Figure(
            "mass fit, 50 bins, 5 parameters, from its own start",
            told(fit),
            "<= 2 ms",
            f"iminuit {told(peer)}",
        ),
        Figure("the same, over iminuit from the true values", f"{fit[0] / peer[0]:.2f}", "<= 1.5", ""),
        Figure("discovery test q0, 50 bins", told(test), "<= 1 ms", f"pyhf {told(other)}"),
        Figure("psi(2S) of the shipped spectrum, model chosen", told(jpsi), "<= 50 ms", ""),
    ]


def scans() -> list[Figure]:
    """Scans, global significances and limits."""
    bare, whole = timed(bare_scan), timed(full_scan)
    elsewhere = timed(
        lambda counts: global_significance(
            EDGES, counts, 4.0, 1.6, window_gev=(110, 140), background="exponential", toys=200
        )
    )
    limit = timed(lambda counts: upper_limit(EDGES, counts, 115.0, 1.6, background="exponential"))
    return [
        Figure("scan of 100 masses: background and scores", told(bare), "about 0.2 ms", ""),
        Figure(
            "scan of 100 masses: `scan`, background test too",
            told(whole),
            "<= 1 ms",
            f"{whole[0] / bare[0]:.1f} x",
        ),
        Figure("global significance, 200 toys", told(elsewhere), "<= 4 ms", ""),
        Figure("CLs limit with its bands", told(limit), "<= 50 ms", ""),
    ]


def imports() -> Figure:
    """Cold imports, each in a process of its own: what the analysis adds to numpy and pydantic."""

    def cold(modules: str) -> float:
        code = (
            f"import time; began = time.process_time(); import {modules}; print(time.process_time() - began)"
        )
        runs = [
            subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            for _ in range(5)
        ]
        return min(float(run.stdout) for run in runs)

    whole, floor = cold("spectator.environments.collider.analysis"), cold("numpy, pydantic")
    return Figure(
        "cold import of the analysis, CPU, best of 5",
        ms(whole),
        "< 500 ms",
        f"numpy and pydantic {ms(floor)}",
    )


def main() -> None:
    """Print the table."""
    print(HEADER)
    for figure in [*fits(), *scans(), imports()]:
        print(figure.row(), flush=True)


if __name__ == "__main__":
    main()

"""Check how often CLs limits and unified intervals cover the true signal."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from spectator.environments.collider.analysis.likelihood import peak_search
from spectator.environments.collider.analysis.significance import (
    ALPHA,
    SignalTest,
    counting_interval,
    counting_limit,
)
from tools.collider_validation.rows import ValidationRow
from tools.collider_validation.statistics import Setting

SIGNALS = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0)
"""True signals, in standard deviations of the background."""

SPECTRA = {3300: 1000.0, 100: 30.0, 10: 3.0}
"""Events within two standard deviations of the peak, and events a GeV of the setting for it."""

COUNTS = (0.5, 3.0, 10.0, 100.0)
"""Expected backgrounds of the counting experiments."""

FIRST_SEED = 80_000


def spectra(events_a_gev: float, toys: int) -> dict[str, list[float]]:
    """Return the coverage at each signal, by method, of peaks on a fitted background."""
    shares: dict[str, list[float]] = {"CLs limit": [], "unified interval": []}
    for number, z in enumerate(SIGNALS):
        setting = Setting("limit", z, bins=30, events_a_gev=events_a_gev)
        covered = np.zeros(2)
        for seed in range(FIRST_SEED + number * toys, FIRST_SEED + (number + 1) * toys):
            search = peak_search(setting.edges, setting.draw(seed), 125.0, 1.6, background="exponential")
            test = SignalTest(search.problem, search.null.expected, search.null.beta)
            covered += np.array(test.p_values(setting.signal)) >= ALPHA
        for method, share in zip(shares, covered / toys, strict=True):
            shares[method].append(float(share))
    return shares


@lru_cache(maxsize=4096)
def _ends(observed: int, background: float) -> tuple[float, float, float]:
    return counting_limit(observed, background), *counting_interval(observed, background)


def counted(background: float) -> dict[str, list[float]]:
    """Return the same of counts above a known background, summed over all counts: no toys."""
    from scipy.stats import poisson

    shares: dict[str, list[float]] = {"CLs limit": [], "unified interval": []}
    for z in SIGNALS:
        signal = z * background**0.5
        first, last = poisson.ppf((1e-7, 1 - 1e-7), signal + background)
        seen = np.arange(int(first), int(last) + 1)
        limit, low, high = np.array([_ends(int(number), background) for number in seen]).T
        chance = poisson.pmf(seen, signal + background)
        shares["CLs limit"].append(float(chance[limit >= signal].sum()))
        shares["unified interval"].append(float(chance[(low <= signal) & (signal <= high)].sum()))
    return shares


def coverage(toys: int) -> tuple[list[ValidationRow], list[str]]:
    """Return the checks, and the table of the coverage as a function of the true signal."""
    lines = ["| experiment | method | " + " | ".join(f"{z:g} sigma" for z in SIGNALS) + " |"]
    lines.append("|---|---|" + "---|" * len(SIGNALS))
    rows = []
    for under, events_a_gev in SPECTRA.items():
        name = f"peak on {under:,} events, {toys:,} toys each"
        for method, shares in spectra(events_a_gev, toys).items():
            lines.append(_line(name, method, shares))
            rows.append(_check(name, method, shares, exact=method != "CLs limit"))
    for background in COUNTS:
        name = f"counting above {background:g}, exactly"
        for method, shares in counted(background).items():
            lines.append(_line(name, method, shares))
            rows.append(_check(name, method, shares, exact=False, least=1.0 - ALPHA))
    return rows, lines


def _line(name: str, method: str, shares: list[float]) -> str:
    return f"| {name} | {method} | " + " | ".join(f"{100.0 * share:.1f} %" for share in shares) + " |"


def _check(name: str, method: str, shares: list[float], *, exact: bool, least: float = 0.94) -> ValidationRow:
    inside: NDArray[np.bool_] = np.array(shares) >= least - 1e-4
    if exact:
        inside &= np.array(shares) <= 0.96
    return ValidationRow(
        f"coverage at 0 to {SIGNALS[-1]:g} sigma: {method}, {name}",
        "0.95 +- 0.01" if exact else f"at least {least:g}",
        f"{min(shares):.3f} to {max(shares):.3f}",
        bool(inside.all()),
    )

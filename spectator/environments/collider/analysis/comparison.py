"""Spurious signal: how far a yield depends on the choice of the background."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from numpy.typing import ArrayLike

from spectator.environments.collider.analysis.checks import (
    invalid,
)
from spectator.environments.collider.analysis.likelihood import peak_search

ALTERNATIVES: Final = ("exponential", "power_law", "quadratic", "cubic")
"""Background families tried for a spurious signal."""


@dataclass(frozen=True, slots=True)
class SpuriousSignal:
    """Spurious signal: what the choice of the background's family adds to the yield.

    Args:
        signal: Largest difference in yield, in events, between the nominal family and one that fits.
        relative_to_error: The same over the statistical error of the yield.
        by_background: Yield by family, of those that fit.
    """

    signal: float
    relative_to_error: float
    by_background: Mapping[str, float]


MIN_YIELD_ERROR: Final = 1e-6
"""Least standard error of a yield, in events; below it there is nothing to measure."""


def spurious_signal(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    mass_gev: float,
    resolution_gev: float,
    *,
    background: str = "exponential",
) -> SpuriousSignal:
    """Measure how far the yield moves with another background that also fits.

    Args:
        edges_gev: Bin edges.
        counts: Events.
        mass_gev: Where the peak is.
        resolution_gev: Its Gaussian width.
        background: The nominal family. One of ``ALTERNATIVES`` that fits worse, by more than four in twice
            the log-likelihood, is ignored.

    Raises:
        InvalidAnalysis: An argument breaks its rule, or no event is expected under the peak.
    """
    yields: dict[str, float] = {}
    nominal_nll, error = math.inf, math.inf
    for name in dict.fromkeys((background, *ALTERNATIVES)):
        search = peak_search(
            edges_gev,
            counts,
            mass_gev,
            resolution_gev,
            background=name,
        )
        fit = search.problem.fit(start=search.null.beta)
        if name == background:
            nominal_nll, error = fit.nll, search.problem.error(fit)
            if not error > MIN_YIELD_ERROR:
                raise invalid(
                    "counts", "must hold events under the peak: without them its yield has no error"
                )
        elif fit.nll > nominal_nll + 2.0:
            continue
        yields[name] = float(fit.theta[0])
    most = max(abs(value - yields[background]) for value in yields.values())
    return SpuriousSignal(most, most / error, yields)

"""Scan a window for peaks, and correct for the look-elsewhere effect.

The local significance at every mass comes from one background fit. The global one comes from the
upcrossings of background-only scans: E. Gross and O. Vitells, "Trial factors for the look elsewhere
effect in high energy physics", EPJC 70 (2010) 525, arXiv:1005.1891: ``p_global <= p_local + <N(u)>
exp(-(Z^2 - u^2) / 2)``, where ``<N(u)>`` is the mean number of times that the significance of a
background-only scan rises through a low level u.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from spectator.environments.collider.analysis.checks import (
    Floats,
    Window,
    checked_array,
    checked_choice,
    checked_number,
    checked_spectrum,
    checked_window,
    invalid,
)
from spectator.environments.collider.analysis.shapes import (
    BACKGROUNDS,
    background_alone,
    choose_background,
    design,
    fit_beside,
    gauss_templates,
    p_of_z,
    score_test,
    score_z,
    z_of_p,
)

STEP: Final = 0.25
"""Distance of two masses of a scan, in units of the resolution."""

MAX_MASSES: Final = 20_000

Resolution: TypeAlias = float | Callable[[Floats], Floats]
"""Gaussian width in GeV: a number, or a function of the masses."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Local significances.

    Args:
        z: Signed significance by the score test; use :func:`profile_significance` if it is large.
        best_mass_gev: Mass of the largest ``z``.
        best_z: That ``z``.
        background_p_value: p-value of the background fit, without the four resolutions around the best
            mass. If it is small, the background does not fit and ``z`` means little.
        expected: Events of the fitted background, by bin.
    """

    masses_gev: tuple[float, ...]
    z: tuple[float, ...]
    signal: tuple[float, ...]
    best_mass_gev: float
    best_z: float
    background: str
    background_p_value: float
    expected: tuple[float, ...]


def scan(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    resolution_gev: Resolution,
    *,
    window_gev: Window | None = None,
    masses_gev: ArrayLike | None = None,
    background: str = "auto",
) -> Scan:
    """Try a peak of known width at every mass.

    Args:
        resolution_gev: Gaussian width: a number, or a function of mass.
        window_gev: Where peaks are tried; by default everywhere.
        masses_gev: The masses; by default a quarter of a resolution apart.
        background: One of ``BACKGROUNDS``, or ``auto``.

    >>> edges = np.linspace(100.0, 160.0, 61)
    >>> counts = np.full(60, 100.0)
    >>> counts[24:27] += 40
    >>> found = scan(edges, counts, 1.5)
    >>> round(found.best_mass_gev), found.best_z > 5
    (126, True)
    """
    edges, seen = checked_spectrum(edges_gev, counts)
    checked_choice("background", background, ("auto", *BACKGROUNDS))
    checked_window(edges, None, field="edges_gev", bins=4)
    masses, sigmas = scan_grid(edges, resolution_gev, window_gev, masses_gev)
    name = choose_background(edges, seen) if background == "auto" else background
    columns = design(name, edges)
    smooth = background_alone(name, edges, seen).expected
    test = score_test(gauss_templates(edges, masses, sigmas), smooth, columns)
    z = score_z(test, seen, smooth)
    top = int(np.argmax(z))
    return Scan(
        tuple(masses.tolist()),
        tuple(z.tolist()),
        tuple((z * test.errors).tolist()),
        float(masses[top]),
        float(z[top]),
        name,
        _shape_p_value(edges, seen, columns, float(masses[top]), float(sigmas[top])),
        tuple(smooth.tolist()),
    )


def _shape_p_value(edges: Floats, counts: Floats, columns: Floats, mass: float, sigma: float) -> float:
    away = np.abs(0.5 * (edges[1:] + edges[:-1]) - mass) > 4.0 * sigma
    found = fit_beside(columns, counts, np.diff(edges), away)
    return found[1] if found else 1.0


def scan_grid(
    edges: Floats, resolution_gev: Resolution, window_gev: Window | None, masses_gev: ArrayLike | None
) -> tuple[Floats, Floats]:
    """Return the masses to try, and the width at each.

    Raises:
        InvalidAnalysis: The window, the masses or the widths are invalid.
    """
    if masses_gev is not None:
        masses = checked_array("masses_gev", masses_gev)
        if not len(masses) or masses.min() < edges[0] or masses.max() > edges[-1]:
            raise invalid("masses_gev", f"must be within the data, {edges[0]:g} to {edges[-1]:g} GeV")
        return masses, _sigmas(resolution_gev, masses)
    inside = checked_window(edges, window_gev, bins=1)
    low, high = float(edges[inside.start]), float(edges[inside.stop])
    if window_gev is not None:
        low, high = max(low, float(np.asarray(window_gev)[0])), min(high, float(np.asarray(window_gev)[1]))
    return _even_grid(low, high, resolution_gev)


def _even_grid(low: float, high: float, resolution: Resolution) -> tuple[Floats, Floats]:
    """Return masses a quarter of the local resolution apart, both ends included."""
    coarse = np.linspace(low, high, 257)
    rate = 1.0 / (STEP * _sigmas(resolution, coarse))
    passed = np.concatenate([[0.0], np.cumsum(0.5 * (rate[1:] + rate[:-1]) * np.diff(coarse))])
    count = int(np.ceil(passed[-1])) + 1
    if count > MAX_MASSES:
        raise invalid("resolution_gev", f"must give at most {MAX_MASSES} masses, not {count}")
    masses = np.interp(np.linspace(0.0, passed[-1], max(count, 2)), passed, coarse)
    return masses, _sigmas(resolution, masses)


def _sigmas(resolution: Resolution, masses: Floats) -> Floats:
    if not callable(resolution):
        return np.full(len(masses), checked_number("resolution_gev", resolution, above=0.0))
    sigmas = checked_array("resolution_gev", resolution(masses))
    if (sigmas <= 0).any():
        raise invalid("resolution_gev", "must be above 0")
    return sigmas


LEVEL: Final = 0.0
"""Significance u at which upcrossings are counted: low, so that toys have many of them."""

MAX_TOYS: Final = 1_000_000
_BATCH: Final = 2_000

MAX_EXPECTED: Final = 1e18
"""Limit on the expected events of a bin for toys; a count of 64 bits holds nine times as many."""


@dataclass(frozen=True, slots=True)
class GlobalSignificance:
    """A local significance corrected for a search over a window.

    Args:
        z_global: After the look-elsewhere effect, not below 0.
        p_global: Bound on the chance that the background alone reaches ``z_local`` somewhere, at most 1.
        upcrossings: Mean number of upcrossings of the level 0.
        p_toys: Share of toys that reach ``z_local`` somewhere; useful if well above 1 / toys.
    """

    z_local: float
    p_local: float
    z_global: float
    p_global: float
    upcrossings: float
    p_toys: float


def dataset_digest(edges_gev: ArrayLike, counts: ArrayLike) -> str:
    """Return the SHA-256 digest of a spectrum, 64 hexadecimal digits.

    Edges and counts are hashed as little-endian doubles.
    """
    edges, seen = checked_spectrum(edges_gev, counts)
    return hashlib.sha256(edges.astype("<f8").tobytes() + seen.astype("<f8").tobytes()).hexdigest()


def dataset_generator(edges_gev: ArrayLike, counts: ArrayLike, purpose: str) -> np.random.Generator:
    """Return a random generator seeded by a spectrum and a purpose.

    The same spectrum and purpose always give the same numbers.
    """
    key = hashlib.sha256(f"{purpose}:{dataset_digest(edges_gev, counts)}".encode()).digest()
    return np.random.default_rng(np.random.SeedSequence(list(np.frombuffer(key, dtype="<u4"))))


def global_significance(
    edges_gev: ArrayLike,
    counts: ArrayLike,
    z_local: float,
    resolution_gev: Resolution,
    *,
    window_gev: Window | None = None,
    background: str = "auto",
    toys: int = 400,
) -> GlobalSignificance:
    """Correct a local significance for the search over a whole window.

    Toy spectra are drawn from the fitted background with :func:`dataset_generator` of the spectrum, and
    scanned as the data were.

    Args:
        counts: Events; only the background fitted to them is used.
        z_local: The largest local significance of the search.
        resolution_gev: Gaussian width, as for :func:`scan`.
        window_gev: The whole range that was searched; by default everywhere.
        background: One of ``BACKGROUNDS``, or ``auto``.
        toys: Number of toys, 50 .. 1,000,000.
    """
    edges, seen = checked_spectrum(edges_gev, counts)
    checked_choice("background", background, ("auto", *BACKGROUNDS))
    z = checked_number("z_local", z_local)
    number = int(checked_number("toys", toys, least=50, most=MAX_TOYS))
    rng = dataset_generator(edges, seen, "look-elsewhere")
    checked_window(edges, None, field="edges_gev", bins=4)
    name = choose_background(edges, seen) if background == "auto" else background
    columns = design(name, edges)
    smooth = background_alone(name, edges, seen).expected
    if not smooth.max() < MAX_EXPECTED:
        raise invalid("counts", f"must stay below {MAX_EXPECTED:g} in a bin, so that toys can be drawn")
    masses, sigmas = scan_grid(edges, resolution_gev, window_gev, None)
    crossings, reached = _toys(edges, smooth, columns, (masses, sigmas), z, number, rng)
    mean, p_local = float(crossings.mean()), p_of_z(z)
    p_global = min(p_local + mean * math.exp(-0.5 * (max(z, 0.0) ** 2 - LEVEL**2)), 1.0)
    return GlobalSignificance(z, p_local, max(z_of_p(p_global), 0.0), p_global, mean, float(reached.mean()))


def _toys(
    edges: Floats,
    smooth: Floats,
    columns: Floats,
    grid: tuple[Floats, Floats],
    z: float,
    toys: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Return the upcrossings of each toy, and whether it reaches ``z``."""
    test = score_test(gauss_templates(edges, *grid), smooth, columns)
    crossings, reached = [], []
    for first in range(0, toys, _BATCH):
        drawn = rng.poisson(smooth[:, None], (len(smooth), min(_BATCH, toys - first)))
        lines = score_z(test, drawn.astype(np.float64), smooth)
        above = lines > LEVEL
        crossings.append((above[1:] & ~above[:-1]).sum(axis=0))
        reached.append(lines.max(axis=0) >= z)
    return np.concatenate(crossings).astype(np.float64), np.concatenate(reached).astype(np.float64)

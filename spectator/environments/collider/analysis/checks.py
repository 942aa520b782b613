"""Check arguments of the analysis: spectra, windows and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spectator.errors import FieldError, InvalidRequest

Floats: TypeAlias = NDArray[np.float64]
"""An array of double precision numbers."""

Window: TypeAlias = tuple[float, float] | Sequence[float]
"""Lower and upper mass in GeV."""

MAX_MASS_GEV: Final = 14_000.0
"""Design energy of the LHC, 14 TeV (CERN-2004-003): no pair of its products can be heavier."""

MIN_BINS: Final = 3
"""The least bins that a straight background and a yield need."""


class InvalidAnalysis(InvalidRequest, ValueError):
    """An argument of an analysis function is invalid; names each field and its rule."""


def invalid(field: str, rule: str) -> InvalidAnalysis:
    """Return the error for one invalid field."""
    return InvalidAnalysis([FieldError(field, rule)])


def checked_array(name: str, values: ArrayLike) -> Floats:
    """Return ``values`` as a flat array of finite numbers.

    Raises:
        InvalidAnalysis: It holds something else, is not flat, or holds NaN or an infinity.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise invalid(name, "must hold numbers only") from error
    if array.ndim != 1:
        raise invalid(name, f"must have one dimension, not {array.ndim}")
    if not np.isfinite(array).all():
        raise invalid(name, "must hold finite numbers only")
    return array


def checked_spectrum(edges_gev: ArrayLike, counts: ArrayLike) -> tuple[Floats, Floats]:
    """Check a histogram of masses: n + 1 ascending edges in GeV, n counts >= 0.

    Raises:
        InvalidAnalysis: Edges or counts are invalid.
    """
    edges, seen = checked_edges(edges_gev), checked_array("counts", counts)
    if len(edges) != len(seen) + 1:
        raise invalid("edges_gev", f"must have one value more than counts: {len(seen) + 1}, not {len(edges)}")
    if len(seen) and seen.min() < 0:
        raise invalid("counts", f"must be zero or more, not {seen.min():g}")
    if not seen.any():
        raise invalid("counts", "must hold at least one event; the spectrum is empty")
    return edges, seen


def checked_edges(edges_gev: ArrayLike) -> Floats:
    """Check bin edges: ascending, in GeV.

    Raises:
        InvalidAnalysis: They do not ascend, are negative, or are beyond any mass in GeV.
    """
    edges = checked_array("edges_gev", edges_gev)
    if len(edges) < 2:
        raise invalid("edges_gev", "must have at least two values")
    if not (np.diff(edges) > 0).all():
        raise invalid("edges_gev", "must ascend strictly")
    if edges[0] < 0:
        raise invalid("edges_gev", f"must be masses of 0 GeV or more, not {edges[0]:g}")
    if edges[-1] > MAX_MASS_GEV:
        raise invalid(
            "edges_gev",
            f"must be in GeV and at most {MAX_MASS_GEV:g}; {edges[-1]:g} looks like MeV: divide by 1000",
        )
    return edges


def checked_window(
    edges: Floats, window_gev: Window | None, *, field: str = "window_gev", bins: int = MIN_BINS
) -> slice:
    """Return the bins whose centres are in a window.

    Args:
        edges: Bin edges, as returned by :func:`checked_edges`.
        window_gev: Lower and upper mass; ``None`` for all bins.
        field: Name of the window in errors.
        bins: Least number of bins in the window.

    Raises:
        InvalidAnalysis: The window is not an ascending pair, is outside the data, or holds too few bins.
    """
    if window_gev is None:
        chosen = slice(0, len(edges) - 1)
    else:
        low, high = _pair(field, window_gev)
        _inside(edges, low, high, field)
        centres = 0.5 * (edges[1:] + edges[:-1])
        chosen = slice(int(np.searchsorted(centres, low)), int(np.searchsorted(centres, high, side="right")))
    if chosen.stop - chosen.start < bins:
        raise invalid(field, f"must hold at least {bins} bins, not {max(chosen.stop - chosen.start, 0)}")
    return chosen


def _pair(field: str, window: Window) -> tuple[float, float]:
    pair = checked_array(field, window)
    if len(pair) != 2:
        raise invalid(field, f"must be a pair of masses, not {len(pair)} values")
    if not pair[0] < pair[1]:
        raise invalid(field, f"must ascend, not go from {pair[0]:g} to {pair[1]:g}")
    return float(pair[0]), float(pair[1])


def _inside(edges: Floats, low: float, high: float, field: str) -> None:
    widths = np.diff(edges)
    if low >= edges[0] - widths[0] and high <= edges[-1] + widths[-1]:
        return
    rule = f"must be within the data, {edges[0]:g} to {edges[-1]:g} GeV, not {low:g} to {high:g}"
    if edges[0] <= low / 1000 and high / 1000 <= edges[-1] and low >= edges[-1]:
        rule += "; that looks like MeV: divide by 1000"
    raise invalid(field, rule)


def checked_number(
    name: str, value: Any, *, above: float = -math.inf, least: float = -math.inf, most: float = math.inf
) -> float:
    """Return ``value`` as a finite number above ``above`` and in [``least``, ``most``].

    Raises:
        InvalidAnalysis: It is not a number, not finite, or out of range.
    """
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise invalid(name, f"must be a number, not {value!r}") from error
    if not math.isfinite(number):
        raise invalid(name, "must be finite")
    if number <= above:
        raise invalid(name, f"must be above {above:g}, not {number:g}")
    if not least <= number <= most:
        bound = f"at least {least:g}" if number < least else f"at most {most:g}"
        raise invalid(name, f"must be {bound}, not {number:g}")
    return number


def checked_mass(name: str, value: Any, edges: Floats) -> float:
    """Return a mass in GeV that is within the data.

    Raises:
        InvalidAnalysis: It is not a positive number, or is outside the data.
    """
    mass = checked_number(name, value, above=0.0)
    if not edges[0] <= mass <= edges[-1]:
        rule = f"must be within the data, {edges[0]:g} to {edges[-1]:g} GeV, not {mass:g}"
        if edges[0] <= mass / 1000 <= edges[-1]:
            rule += "; that looks like MeV: divide by 1000"
        raise invalid(name, rule)
    return mass


def checked_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``choices``.

    Raises:
        InvalidAnalysis: It is not.
    """
    if value not in choices:
        raise invalid(name, f"must be one of {', '.join(choices)}, not {value!r}")
    return str(value)

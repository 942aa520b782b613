"""Checks of the arguments of the analysis: spectra, windows and numbers, refused by field and rule."""

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
"""A straight background and a yield need at least so many."""


class InvalidAnalysis(InvalidRequest, ValueError):
    """What was handed to an analysis function is wrong; every wrong field is named with its rule."""


def refuse(field: str, rule: str) -> InvalidAnalysis:
    """The error for one wrong field."""
    return InvalidAnalysis([FieldError(field, rule)])


def checked_array(name: str, values: ArrayLike) -> Floats:
    """``values`` as a flat array of finite numbers.

    Raises:
        InvalidAnalysis: It holds something else, is not flat, or holds NaN or an infinity.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise refuse(name, "holds something that is not a number") from error
    if array.ndim != 1:
        raise refuse(name, f"has one dimension, not {array.ndim}")
    if not np.isfinite(array).all():
        raise refuse(name, "holds finite numbers only")
    return array


def checked_spectrum(edges_gev: ArrayLike, counts: ArrayLike) -> tuple[Floats, Floats]:
    """A histogram of masses: n + 1 ascending edges in GeV, n counts of zero or more.

    Raises:
        InvalidAnalysis: One of the two breaks its rule.
    """
    edges, seen = checked_edges(edges_gev), checked_array("counts", counts)
    if len(edges) != len(seen) + 1:
        raise refuse("edges_gev", f"has one value more than counts: {len(seen) + 1}, not {len(edges)}")
    if len(seen) and seen.min() < 0:
        raise refuse("counts", f"are zero or more, not {seen.min():g}")
    if not seen.any():
        raise refuse("counts", "hold at least one event; the spectrum is empty")
    return edges, seen


def checked_edges(edges_gev: ArrayLike) -> Floats:
    """Ascending bin edges in GeV.

    Raises:
        InvalidAnalysis: They do not ascend, are negative, or are beyond any mass in GeV.
    """
    edges = checked_array("edges_gev", edges_gev)
    if len(edges) < 2:
        raise refuse("edges_gev", "has at least two values")
    if not (np.diff(edges) > 0).all():
        raise refuse("edges_gev", "ascend strictly")
    if edges[0] < 0:
        raise refuse("edges_gev", f"are masses of 0 GeV or more, not {edges[0]:g}")
    if edges[-1] > MAX_MASS_GEV:
        raise refuse(
            "edges_gev",
            f"are in GeV and at most {MAX_MASS_GEV:g}; {edges[-1]:g} looks like MeV: divide by 1000",
        )
    return edges


def checked_window(
    edges: Floats, window_gev: Window | None, *, field: str = "window_gev", bins: int = MIN_BINS
) -> slice:
    """The bins that lie in a window; a bin belongs to it when its centre does.

    Args:
        edges: As checked.
        window_gev: Lower and upper mass; ``None`` for all bins.
        field: Name of the window in errors.
        bins: The fewest that must lie in it.

    Raises:
        InvalidAnalysis: It is no pair, does not ascend, lies outside the data, or holds too few bins.
    """
    if window_gev is None:
        chosen = slice(0, len(edges) - 1)
    else:
        low, high = _pair(field, window_gev)
        _inside(edges, low, high, field)
        centres = 0.5 * (edges[1:] + edges[:-1])
        chosen = slice(int(np.searchsorted(centres, low)), int(np.searchsorted(centres, high, side="right")))
    if chosen.stop - chosen.start < bins:
        raise refuse(field, f"holds at least {bins} bins, not {max(chosen.stop - chosen.start, 0)}")
    return chosen


def _pair(field: str, window: Window) -> tuple[float, float]:
    pair = checked_array(field, window)
    if len(pair) != 2:
        raise refuse(field, f"is a pair of masses, not {len(pair)} values")
    if not pair[0] < pair[1]:
        raise refuse(field, f"ascends, unlike {pair[0]:g} to {pair[1]:g}")
    return float(pair[0]), float(pair[1])


def _inside(edges: Floats, low: float, high: float, field: str) -> None:
    widths = np.diff(edges)
    if low >= edges[0] - widths[0] and high <= edges[-1] + widths[-1]:
        return
    rule = f"lies within the data, {edges[0]:g} to {edges[-1]:g} GeV, unlike {low:g} to {high:g}"
    if edges[0] <= low / 1000 and high / 1000 <= edges[-1] and low >= edges[-1]:
        rule += "; that looks like MeV: divide by 1000"
    raise refuse(field, rule)


def checked_number(
    name: str, value: Any, *, above: float = -math.inf, least: float = -math.inf, most: float = math.inf
) -> float:
    """``value`` as a finite number in (``above``, ...), [``least``, ``most``].

    Raises:
        InvalidAnalysis: It is no number, not finite, or out of range.
    """
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise refuse(name, f"is a number, not {value!r}") from error
    if not math.isfinite(number):
        raise refuse(name, "is finite")
    if number <= above:
        raise refuse(name, f"is above {above:g}, not {number:g}")
    if not least <= number <= most:
        bound = f"at least {least:g}" if number < least else f"at most {most:g}"
        raise refuse(name, f"is {bound}, not {number:g}")
    return number


def checked_mass(name: str, value: Any, edges: Floats) -> float:
    """A mass in GeV that lies within the data.

    Raises:
        InvalidAnalysis: It is no positive number, or lies outside.
    """
    mass = checked_number(name, value, above=0.0)
    if not edges[0] <= mass <= edges[-1]:
        rule = f"lies within the data, {edges[0]:g} to {edges[-1]:g} GeV, unlike {mass:g}"
        if edges[0] <= mass / 1000 <= edges[-1]:
            rule += "; that looks like MeV: divide by 1000"
        raise refuse(name, rule)
    return mass


def checked_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """``value``, which is one of ``choices``.

    Raises:
        InvalidAnalysis: It is none of them.
    """
    if value not in choices:
        raise refuse(name, f"is one of {', '.join(choices)}, not {value!r}")
    return str(value)

"""The smooth surface of ball outcomes over the situation: over, wickets lost and required rate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spectator.environments.cricket.ball.tables import RATE_PLACES, RATE_STEPS, WICKET_CENTRES
from tools.cricket_model.fitting.counts import (
    RATE_BANDS,
    WICKET_BANDS,
    Floats,
    counts_of,
    phase_of,
    read_rows,
)
from tools.cricket_model.fitting.regression import fit_shares

OVERS = 20
WICKETS = 10
_PRIOR_SD = {"over": 0.7, "main": 0.5, "phase": 0.3, "slope": 0.25, "cross": 0.2}
_ROUGHNESS_SD = 0.08
"""Prior standard deviation of the second difference of neighbouring over effects inside a phase."""


def _features(over: int, wickets: int, rate: int | None) -> list[tuple[str, str, float]]:
    """Return the active features of a cell as (prior, name, value).

    ``rate`` is ``None`` in a first innings.
    """
    phase = phase_of(over)
    slope = (over - 10) / 10
    active = [("free", "one", 1.0), ("over", f"o{over}", 1.0)]
    active += [
        ("main", f"w{wickets}", 1.0),
        ("phase", f"w{wickets}p{phase}", 1.0),
        ("slope", f"w{wickets}s", slope),
    ]
    if rate is not None:
        active += [
            ("main", f"r{rate}", 1.0),
            ("phase", f"r{rate}p{phase}", 1.0),
            ("slope", f"r{rate}s", slope),
        ]
        active += [("cross", f"w{wickets}r{rate}", 1.0)]
        if over == OVERS - 1:
            active += [("phase", f"r{rate}last", 1.0)]
    return active


def _penalty(names: list[str], priors: list[str]) -> Floats:
    precision = np.diag([1e-6 if prior == "free" else _PRIOR_SD[prior] ** -2 for prior in priors])
    for first, last in ((0, 5), (6, 14), (15, 19)):
        for over in range(first, last - 1):
            at = [names.index(f"o{over + k}") for k in range(3) if f"o{over + k}" in names]
            if len(at) == 3:
                bend = np.zeros(len(names))
                bend[at] = (1.0, -2.0, 1.0)
                precision += np.outer(bend, bend) * _ROUGHNESS_SD**-2
    return np.asarray(precision, dtype=np.float64)


def fit_surface(chase: bool, counts: Floats | None = None) -> Callable[[int, int, int | None], Floats]:
    """Fit one innings' surface.

    Args:
        chase: Whether it is the second innings'.
        counts: Counts of the table's cells in order, shape ``(cells, 11)``; by default the table's own.

    Returns:
        A function from over, wickets band and rate band (``None`` in a first innings) to log shares.
    """
    rows = [row for row in read_rows("ball_outcomes_by_state.csv") if (row["innings"] == "2") == chase]
    cells = [_features(*cell_of(row)) for row in rows]
    names: dict[str, str] = {}
    for cell in cells:
        names.update({name: prior for prior, name, _ in cell})
    index = {name: i for i, name in enumerate(names)}

    def vector(cell: list[tuple[str, str, float]]) -> Floats:
        x = np.zeros(len(index))
        for _, name, value in cell:
            if name in index:
                x[index[name]] = value
        return x

    design = np.stack([vector(cell) for cell in cells])
    if counts is None:
        counts = np.stack([counts_of(row) for row in rows])
    b = fit_shares(design, counts, _penalty(list(names), list(names.values())))

    def log_shares(over: int, wickets: int, rate: int | None) -> Floats:
        raw = vector(_features(over, wickets, rate)) @ b
        return np.asarray(raw - np.log(np.exp(raw).sum()), dtype=np.float64)

    return log_shares


def cell_of(row: dict[str, str]) -> tuple[int, int, int | None]:
    """Return over, wickets band and rate band of a row of the table."""
    rate = RATE_BANDS.index(row["required_rate"]) if row["innings"] == "2" else None
    return int(row["over"]), WICKET_BANDS.index(row["wickets_lost"]), rate


def first_innings_bands() -> Floats:
    """Return log shares of a first innings, shape ``(20 overs, 4 wickets bands, 11)``."""
    at = fit_surface(chase=False)
    return np.stack([[at(over, band, None) for band in range(4)] for over in range(OVERS)])


def chase_bands() -> Floats:
    """Return log shares of a chase, ``(20 overs, 4 wickets bands, 5 rate bands, 11)``."""
    at = fit_surface(chase=True)
    return np.stack(
        [[[at(over, band, rate) for rate in range(5)] for band in range(4)] for over in range(OVERS)]
    )


def spread_wickets(bands: Floats) -> Floats:
    """Interpolate axis 1 from the four bands of wickets lost to each of 0..9."""
    place = np.interp(np.arange(WICKETS), WICKET_CENTRES, np.arange(4.0))
    low = np.minimum(2, place.astype(np.int64))
    part = (place - low).reshape((-1,) + (1,) * (bands.ndim - 2))
    return np.asarray(bands[:, low] + part * (bands[:, low + 1] - bands[:, low]), dtype=np.float64)


def spread_rates(bands: Floats) -> Floats:
    """Interpolate axis 2 from the five bands of required rate to the places of the scale."""
    place = np.arange(RATE_PLACES) / RATE_STEPS
    low = np.minimum(3, place.astype(np.int64))
    part = (place - low)[:, None]
    return np.asarray(bands[:, :, low] + part * (bands[:, :, low + 1] - bands[:, :, low]), dtype=np.float64)

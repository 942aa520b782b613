"""Penalised Poisson regression of category counts."""

from __future__ import annotations

import numpy as np

from tools.cricket_model.fitting.counts import Floats

_STEPS = 60
_TOLERANCE = 1e-9


def fit_log_rates(design: Floats, counts: Floats, exposure: Floats, penalty: Floats) -> Floats:
    """Fit ``E[counts] = exposure * exp(design @ b)`` with a Gaussian prior on ``b``, by Newton's method.

    Args:
        design: Shape ``(cells, features)``.
        counts: Shape ``(cells,)``.
        exposure: Shape ``(cells,)``, positive: deliveries of each cell.
        penalty: Shape ``(features, features)``: prior precision matrix.

    Returns:
        Coefficients, shape ``(features,)``.
    """
    b = np.zeros(design.shape[1])
    b[0] = np.log(max(counts.sum(), 0.5) / exposure.sum())
    for _ in range(_STEPS):
        mean = exposure * np.exp(np.clip(design @ b, -16.0, 0.5))
        gradient = design.T @ (counts - mean) - penalty @ b
        curvature = (design * mean[:, None]).T @ design + penalty
        step = np.linalg.solve(curvature, gradient)
        step *= min(1.0, 2.0 / max(1e-12, float(np.abs(step).max())))
        b += step
        if np.abs(step).max() < _TOLERANCE:
            break
    return b


def fit_shares(design: Floats, counts: Floats, penalty: Floats) -> Floats:
    """Fit every category; returns coefficients of log shares, shape ``(features, categories)``."""
    exposure = counts.sum(axis=1)
    return np.stack(
        [fit_log_rates(design, counts[:, c], exposure, penalty) for c in range(counts.shape[1])], axis=1
    )

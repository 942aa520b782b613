"""A claim as a pyhf workspace, and its significance by pyhf: a second program on the same data.

The background is free in shape without any penalty: the fitted one times each member of the Bernstein basis,
which add up to one, is a sample of its own with a free factor. At factors of 1 that is the fitted background.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from spectator.environments.collider.analysis.backgrounds import ORDERS, fit_background
from spectator.environments.collider.analysis.shapes import gauss_bins
from spectator.environments.collider.claims.records import FrozenChannel, Unblinded

LARGEST_FACTOR: Final = 50.0
"""Upper bound of every factor in the fit."""

_SMALLEST: Final = 1e-6
_OTHERS: Final = {"power_law": 1, "dijet": 3}


def workspace(frozen: FrozenChannel, opened: Unblinded, mass_gev: float, sigma_gev: float) -> dict[str, Any]:
    """The pyhf workspace of one channel; its parameter of interest ``mu`` counts signal events.

    Raises:
        InvalidAnalysis: The spectrum breaks its rule.
    """
    edges, counts = np.array(opened.edges_gev), np.array(opened.counts, dtype=np.float64)
    smooth = np.array(fit_background(edges, counts, background=frozen.background).expected)
    scale = max(math.sqrt(counts.sum()), 1.0)
    signal = np.maximum(scale * gauss_bins(edges, mass_gev, sigma_gev), 0.0)
    samples = [_sample("signal", signal, "mu")]
    order = ORDERS.get(frozen.background) or _OTHERS[frozen.background]
    for number, basis in enumerate(_bernstein(len(counts), order)):
        samples.append(_sample(f"background_{number}", np.maximum(smooth * basis, _SMALLEST), f"b{number}"))
    factors = [modifier["name"] for sample in samples for modifier in sample["modifiers"]]
    parameters = [
        {"name": name, "bounds": [[0.0, LARGEST_FACTOR]], "inits": [0.0 if name == "mu" else 1.0]}
        for name in factors
    ]
    return {
        "channels": [{"name": frozen.channel, "samples": samples}],
        "observations": [{"name": frozen.channel, "data": counts.tolist()}],
        "measurements": [{"name": "search", "config": {"poi": "mu", "parameters": parameters}}],
        "version": "1.0.0",
    }


def _sample(name: str, data: Any, factor: str) -> dict[str, Any]:
    values = [float(f"{value:.9g}") for value in data]
    return {
        "name": name,
        "data": values,
        "modifiers": [{"name": factor, "type": "normfactor", "data": None}],
    }


def _bernstein(bins: int, order: int) -> list[Any]:
    x = (np.arange(bins) + 0.5) / bins
    return [math.comb(order, k) * x**k * (1 - x) ** (order - k) for k in range(order + 1)]


def pyhf_significance(spec: Mapping[str, Any]) -> float:
    """sqrt(q0) of a workspace, by pyhf."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pyhf

        held = pyhf.Workspace(dict(spec), validate=False)
        model = held.model(validate=False)
        data = held.data(model)
        config = model.config
        settings = (config.suggested_init(), config.suggested_bounds(), config.suggested_fixed())
        q0 = pyhf.infer.test_statistics.q0(0.0, data, model, *settings)
    return math.sqrt(max(float(q0), 0.0))

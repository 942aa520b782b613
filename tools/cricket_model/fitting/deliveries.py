"""Lengths, lines and directions of the model: assumed shares, with effects that average to one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tools.cricket_model.fitting import directions
from tools.cricket_model.fitting.counts import PHASES, Floats

KINDS = ("pace", "spin")


def length_effects() -> tuple[Floats, Floats]:
    """Return shares and multipliers of the lengths.

    Shapes ``(3 phases, 2 kinds, 6)`` and ``(3, 2, 6, 7)``.
    """
    share = np.array(
        [[_shares(directions.LENGTH_PERCENT[kind][phase]) for kind in KINDS] for phase in range(len(PHASES))]
    )
    return share, _averaging_to_one(share, np.array([directions.LENGTH_EFFECT[kind] for kind in KINDS]))


def line_effects() -> tuple[Floats, Floats]:
    """Return shares and multipliers of the lines.

    Shapes ``(2 kinds, 4)`` and ``(2, 4, 7)``.
    """
    share = np.array([_shares(directions.LINE_PERCENT[kind]) for kind in KINDS])
    return share, _averaging_to_one(share, np.array(directions.LINE_EFFECT))


def zone_shares() -> Floats:
    """Return the direction of each kind of hit: dot, 1, 2, 3, 4, 6.

    Shape ``(3 phases, 2 kinds, 6 hits, 8 sectors)``.
    """
    kinds = [[_shares(hit) for hit in directions.DIRECTION_PERCENT[kind]] for kind in KINDS]
    return np.array([kinds] * len(PHASES))


def _shares(percent: Sequence[float]) -> Floats:
    return np.array(percent, dtype=np.float64) / 100.0


def _averaging_to_one(share: Floats, effect: Floats) -> Floats:
    """Divide ``effect``, shape ``(..., n, 7)``, by its mean over ``share``, ``(..., n)``."""
    mean = (share[..., None] * effect).sum(axis=-2, keepdims=True)
    return np.asarray(effect / mean, dtype=np.float64)

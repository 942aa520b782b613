"""Owns the effects of who bats and who bowls: order, getting set, bowling style and hand."""

from __future__ import annotations

import numpy as np

from spectator.environments.cricket.fitting.counts import (
    CATEGORIES,
    HANDS,
    ORDER_GROUPS,
    PHASES,
    SET_BINS,
    STYLES,
    Floats,
    counts_of,
    read_rows,
)

_PRIOR_BALLS = 150.0


def batter_counts() -> Floats:
    """Counts, shape ``(3 phases, 5 order groups, 9 balls-faced bins, 11)``."""
    counts = np.zeros((3, 5, 9, len(CATEGORIES)))
    for row in read_rows("ball_outcomes_by_batter_state.csv"):
        at = (PHASES.index(row["phase"]), ORDER_GROUPS.index(row["position"]), SET_BINS.index(row["balls_faced_before"]))
        counts[at] += counts_of(row)
    return counts


def bowler_counts() -> Floats:
    """Counts, shape ``(3 phases, 6 styles, 2 hands of the batter, 11)``."""
    counts = np.zeros((3, 6, 2, len(CATEGORIES)))
    for row in read_rows("ball_outcomes_by_bowler_kind.csv"):
        if row["bowler_style"] in STYLES:
            at = (PHASES.index(row["phase"]), STYLES.index(row["bowler_style"]), HANDS.index(row["batter_hand"]))
            counts[at] += counts_of(row)
    return counts


def log_ratios(counts: Floats) -> Floats:
    """Shrunken log ratios of every cell's shares to its phase's, same shape as ``counts``."""
    flat = counts.reshape(len(PHASES), -1, counts.shape[-1])
    mean = flat.sum(axis=1, keepdims=True) / flat.sum(axis=(1, 2), keepdims=True)
    n = flat.sum(axis=2, keepdims=True)
    shares = (flat + _PRIOR_BALLS * mean) / (n + _PRIOR_BALLS)
    return np.asarray(np.log(shares / mean).reshape(counts.shape), dtype=np.float64)

"""Effects of batter and bowler: batting order, getting set, bowling style and hand."""

from __future__ import annotations

import numpy as np

from tools.cricket_model.fitting.counts import (
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

GROUP_OF_ORDER = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4])
"""Order group of each place in the order."""


def batter_counts() -> Floats:
    """Return counts, shape ``(3 phases, 5 order groups, 9 balls-faced bins, 11)``."""
    counts = np.zeros((3, 5, 9, len(CATEGORIES)))
    for row in read_rows("ball_outcomes_by_batter_state.csv"):
        at = (
            PHASES.index(row["phase"]),
            ORDER_GROUPS.index(row["position"]),
            SET_BINS.index(row["balls_faced_before"]),
        )
        counts[at] += counts_of(row)
    return counts


def bowler_counts() -> Floats:
    """Return counts, shape ``(3 phases, 6 styles, 2 hands of the batter, 11)``."""
    counts = np.zeros((3, 6, 2, len(CATEGORIES)))
    for row in read_rows("ball_outcomes_by_bowler_kind.csv"):
        if row["bowler_style"] in STYLES:
            at = (
                PHASES.index(row["phase"]),
                STYLES.index(row["bowler_style"]),
                HANDS.index(row["batter_hand"]),
            )
            counts[at] += counts_of(row)
    return counts


def order_counts() -> Floats:
    """Return counts, shape ``(3 phases, 11 places in the order, 11)``."""
    counts = np.zeros((3, 11, len(CATEGORIES)))
    for row in read_rows("ball_outcomes_by_position.csv"):
        counts[PHASES.index(row["phase"]), int(row["position"]) - 1] += counts_of(row)
    return counts


def broken_stands() -> Floats:
    """Return the share of stands ended by a wicket, by wickets lost at their start.

    Shape ``(2 innings, 10)``.
    """
    shares = np.ones((2, 10))
    for row in read_rows("partnerships.csv"):
        shares[int(row["innings"]) - 1, int(row["for_wicket"]) - 1] = float(row["broken_share"])
    return shares

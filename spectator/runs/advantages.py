"""Advantages within a group of episodes of one task, as group-relative methods (GRPO) train on them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

EPSILON: Final = 1e-4
"""What keeps the advantages of a group of nearly equal rewards finite; that of TRL."""


def normalised(rewards: Sequence[float]) -> list[float]:
    """Advantages within a group: ``(reward - mean) / (sample standard deviation + 1e-4)``.

    >>> [round(one, 3) for one in normalised([0.0, 1.0, 1.0])]
    [-1.155, 0.577, 0.577]
    >>> normalised([0.5])
    [0.0]
    """
    if len(rewards) < 2:
        return [0.0] * len(rewards)
    mean, spread = statistics.fmean(rewards), statistics.stdev(rewards)
    return [(reward - mean) / (spread + EPSILON) for reward in rewards]

"""Length of the common beginning of two sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def common_length(left: Sequence[Any], right: Sequence[Any]) -> int:
    """How many items two sequences of one type (two texts, two lists) have in common at their beginning.

    Compares slices, so that long sequences cost little; ``O(n)`` where one begins with the other.

    Example:
        >>> common_length("over 3, ball 2", "over 3, ball 4")
        13
    """
    length = min(len(left), len(right))
    if left[:length] == right[:length]:
        return length
    low, high = 0, length
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low

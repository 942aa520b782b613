"""Par scores: percentiles of the total after each over of real innings.

The table is ``data/cumulative_by_over.csv``: complete men's T20 matches of 20 overs, 2018-2024, first
and second innings apart, those that had play in the over. It says nothing of shorter or longer matches.
"""

from __future__ import annotations

import csv
import functools
from bisect import bisect_left
from pathlib import Path
from typing import Final, NamedTuple

TABLE: Final = Path(__file__).parent.parent / "data" / "cumulative_by_over.csv"
OVERS: Final = 20
"""The only length of a match that the table knows."""

_LEVELS: Final = (5, 10, 25, 50, 75, 90, 95)


class Par(NamedTuple):
    """What real innings had after an over, in runs.

    Args:
        low: A tenth had no more.
        median: Half had no more.
        high: Nine tenths had no more.
    """

    low: float
    median: float
    high: float


@functools.cache
def _table() -> dict[tuple[int, int], tuple[float, ...]]:
    with TABLE.open(encoding="utf-8", newline="") as lines:
        return {
            (int(row["innings"]), int(row["after_over"])): tuple(
                float(row[f"score_p{level}"]) for level in _LEVELS
            )
            for row in csv.DictReader(lines)
            if row["cohort"] == "all"
        }


def par(innings: int, over: int) -> Par | None:
    """Par after so many overs of a 20-over innings; ``None`` beyond the table, as in a super over."""
    scores = _table().get((innings, over))
    if scores is None:
        return None
    return Par(scores[_LEVELS.index(10)], scores[_LEVELS.index(50)], scores[_LEVELS.index(90)])


def percentile(innings: int, over: int, runs: int) -> int | None:
    """Percent of real innings with no more than ``runs`` after ``over`` overs; ``None`` beyond the table.

    Linear between the table's percentiles, and 5 and 95 at its ends: the table knows nothing further out.

    >>> percentile(innings=1, over=10, runs=85)
    68
    """
    scores = _table().get((innings, over))
    if scores is None:
        return None
    above = bisect_left(scores, runs)
    if above == 0:
        return _LEVELS[0]
    if above == len(scores):
        return _LEVELS[-1]
    low, high = scores[above - 1], scores[above]
    return round(_LEVELS[above - 1] + (_LEVELS[above] - _LEVELS[above - 1]) * (runs - low) / (high - low))

"""Figures: medians, percentiles, and rows of a Markdown table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which ``share`` of ``values`` are, by nearest rank.

    Args:
        values: At least one.
        share: 0 .. 1.
    """
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table.

    Args:
        name: What was measured.
        value: The figure, with its unit.
        target: The target, or ``-``.
        limit: The machine's own time for the unavoidable part, in the same run.
    """

    name: str
    value: str
    target: str
    limit: str

    def row(self) -> str:
        """Return the figure as a row of a Markdown table."""
        return f"| {self.name} | {self.value} | {self.target} | {self.limit} |"


HEADER = "| figure | measured | target | the machine's own limit, same run |\n|---|---|---|---|"


def ms(seconds: float) -> str:
    """Format seconds as milliseconds."""
    return f"{1000 * seconds:.2f} ms"


def spread(values: Sequence[float]) -> str:
    """Format the median, with the least and the greatest value."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"

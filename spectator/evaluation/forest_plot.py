"""A forest plot as SVG: estimates on their intervals, one line each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from spectator.evaluation.results import Estimate

TOP: Final = 34


BOTTOM: Final = 44


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a plot has what, in its own units.

    Args:
        left: Room before the axis.
        right: Room behind it.
        row: Height of a line.
        above: Height of label and figures above the middle of their line; 0 places them beside the bar.
        longest: Characters of a label that fit.
    """

    width: int
    left: int
    right: int
    row: int
    above: int
    longest: int


WIDE: Final = Layout(width=680, left=236, right=150, row=26, above=0, longest=34)


NARROW: Final = Layout(width=400, left=24, right=24, row=46, above=8, longest=30)
"""For phones: label and figures are above the bar, which takes the whole width."""

STYLE: Final = """<style>
.plot { font: 13px system-ui, sans-serif; fill: #1a211b; background: #fbf9f2 }
.plot .ground { fill: #fbf9f2 } .plot .title { font-weight: 600; font-size: 15px }
.plot .quiet { fill: #586259; font-size: 12px }
.plot .grid { stroke: #ddd7c6 } .plot .even { stroke: #586259; stroke-dasharray: 3 3 }
.plot .bar { stroke: #1a6b3d; stroke-width: 3; stroke-linecap: round } .plot .dot { fill: #1a6b3d }
@media screen and (prefers-color-scheme: dark) {
  .plot { fill: #f3efe4; background: #131b15 } .plot .ground { fill: #131b15 }
  .plot .quiet { fill: #979b89 } .plot .grid { stroke: #263228 } .plot .even { stroke: #979b89 }
  .plot .bar { stroke: #63b87e } .plot .dot { fill: #63b87e }
}
</style>"""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a plot.

    Args:
        estimate: The figure and its interval.
    """

    label: str
    estimate: Estimate


def forest(
    title: str,
    axis: str,
    rows: Sequence[Row],
    *,
    even: float | None = None,
    scale: float = 1.0,
    digits: int = 1,
    layout: Layout = WIDE,
) -> str:
    """Estimates as dots on their 95 % intervals, one line each, the figures beside them.

    Args:
        title: What is shown.
        axis: What the axis counts.
        rows: At least one, from the top.
        even: Value without a difference; a dashed line.
        scale: What figures are multiplied by, such as 100 for percent.
        digits: Decimal places.
        layout: For a wide screen, or for a narrow one.
    """
    width, left = layout.width, layout.left
    shown = [row.estimate for row in rows]
    reach = [] if even is None else [even]
    ticks = round_ticks(
        scale * min([one.low for one in shown] + reach), scale * max([one.high for one in shown] + reach)
    )
    bottom = TOP + layout.row * len(rows)

    def across(value: float) -> float:
        return left + (value - ticks[0]) / (ticks[-1] - ticks[0]) * (width - left - layout.right)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + BOTTOM}" class="plot" '
        f'role="img" aria-label="{escape(title)}">{STYLE}',
        f'<rect class="ground" width="{width}" height="{bottom + BOTTOM}" rx="8"/>',
        f'<text x="14" y="21" class="title">{escape(title)}</text>',
        *_axis(axis, [(tick, across(tick)) for tick in ticks], bottom),
    ]
    if even is not None:
        parts.append(f'<path class="even" d="M{across(scale * even):.1f} {TOP}V{bottom}"/>')
    for at, row in enumerate(rows):
        value, low, high = (scale * end for end in (row.estimate.value, row.estimate.low, row.estimate.high))
        shown_ends = [f"{round(end, digits) + 0.0:.{digits}f}" for end in (value, low, high)]
        figures = f"{shown_ends[0]} ({shown_ends[1]}, {shown_ends[2]})"
        middle = TOP + layout.row * (at + 0.5)
        words, y = middle + 4 - layout.above, middle + layout.above
        label = row.label if len(row.label) <= layout.longest else f"{row.label[: layout.longest - 1]}…"
        parts += [
            f'<text x="14" y="{words:.1f}">{escape(label)}</text>',
            f'<path class="bar" d="M{across(low):.1f} {y:.1f}H{across(high):.1f}"/>',
            f'<circle class="dot" cx="{across(value):.1f}" cy="{y:.1f}" r="4.5"/>',
            f'<text x="{width - 12}" y="{words:.1f}" text-anchor="end" class="quiet">{figures}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axis(label: str, ticks: Sequence[tuple[float, float]], bottom: float) -> Iterator[str]:
    for tick, x in ticks:
        yield f'<path class="grid" d="M{x:.1f} {TOP}V{bottom}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle" class="quiet">{tick:g}</text>'
    middle = (ticks[0][1] + ticks[-1][1]) / 2
    yield (
        f'<text x="{middle:.0f}" y="{bottom + 36}" text-anchor="middle" class="quiet">{escape(label)}</text>'
    )


def round_ticks(low: float, high: float) -> list[float]:
    """Three to seven round numbers from at or below ``low`` to at or above ``high``."""
    if not high > low:
        low, high = low - 0.5, high + 0.5
    unit = 10.0 ** math.floor(math.log10((high - low) / 5))
    step = next(unit * factor for factor in (1, 2, 5, 10) if (high - low) / (unit * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * at, 10) for at in range(first, max(last, first + 1) + 1)]

"""Draw plots as SVG: steps, lines, points with errors and labelled marks, linear or logarithmic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 66, 18, 46, 48
PLOT_RIGHT, PLOT_BOTTOM = WIDTH - RIGHT, HEIGHT - BOTTOM

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of a chart.

    Args:
        label: Its name in the legend; empty for none.
        points: x and y; for ``steps`` the left edge of each bin and its height, closed by the last edge.
        kind: ``steps``, ``line``, ``points`` or ``area``.
        colour: CSS colour.
        errors: Standard error of each y, for ``points``.
        dash: SVG dash pattern.
    """

    label: str
    points: Sequence[Point]
    kind: str = "line"
    colour: str = "#1b6ca8"
    errors: Sequence[float] = ()
    dash: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """Axes and layers.

    Args:
        title: Heading, also for screen readers.
        x_label: Name and unit of x.
        y_label: Name and unit of y.
        layers: Layers from back to front.
        x_log: Whether x is logarithmic.
        y_log: Whether y is logarithmic.
        y_range: Lowest and highest y; by default from the layers.
        marks: Labelled vertical lines.
    """

    title: str
    x_label: str
    y_label: str
    layers: Sequence[Layer]
    x_log: bool = False
    y_log: bool = False
    y_range: tuple[float, float] | None = None
    marks: Sequence[tuple[float, str]] = field(default=())


def draw(chart: Chart) -> str:
    """Return the chart as an SVG document."""
    xs = [x for layer in chart.layers for x, _ in layer.points]
    ys = [y for layer in chart.layers for _, y in layer.points if y > 0 or not chart.y_log]
    low, high = chart.y_range or (min(ys) if chart.y_log else min(0.0, *ys), max(ys))
    across = _scale(min(xs), max(xs), LEFT, PLOT_RIGHT, chart.x_log)
    up = _scale(low, high, PLOT_BOTTOM, TOP, chart.y_log)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12"><title>{escape(chart.title)}</title>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="18" font-size="14" font-weight="600" fill="#222">{escape(chart.title)}</text>',
        *_x_axis(chart, min(xs), max(xs), across),
        *_y_axis(chart, low, high, up),
        *_marks(chart, across),
    ]
    for layer in chart.layers:
        parts += _layer(layer, across, up, (low, high))
    parts += _legend([layer for layer in chart.layers if layer.label])
    return "\n".join([*parts, "</svg>"]) + "\n"


def _scale(low: float, high: float, start: float, end: float, log: bool) -> Callable[[float], float]:
    warp = math.log10 if log else float
    first, last = warp(low), warp(high)
    return lambda value: start + (warp(value) - first) / ((last - first) or 1.0) * (end - start)


def _ticks(low: float, high: float, log: bool) -> list[float]:
    if log:
        decades = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
        return [10.0**decade for decade in decades]
    unit = 10.0 ** math.floor(math.log10((high - low) / 5))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if (high - low) / (unit * factor) <= 7)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def _x_axis(chart: Chart, low: float, high: float, across: Callable[[float], float]) -> list[str]:
    parts = [f'<path d="M{LEFT} {PLOT_BOTTOM}H{PLOT_RIGHT}" stroke="#888"/>']
    for value in _ticks(low, high, chart.x_log):
        x = across(value)
        parts.append(f'<path d="M{x:.1f} {PLOT_BOTTOM}v5" stroke="#888"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{PLOT_BOTTOM + 18}" text-anchor="middle" fill="#444">{value:g}</text>'
        )
    middle = (LEFT + PLOT_RIGHT) / 2
    label = escape(chart.x_label)
    return [
        *parts,
        f'<text x="{middle:.0f}" y="{HEIGHT - 8}" text-anchor="middle" fill="#444">{label}</text>',
    ]


def _y_axis(chart: Chart, low: float, high: float, up: Callable[[float], float]) -> list[str]:
    parts = []
    for value in _ticks(low, high, chart.y_log):
        y = up(value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{PLOT_RIGHT}" stroke="#e6e6e6"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#444">{value:g}</text>')
    return [*parts, f'<text x="8" y="{TOP - 10}" fill="#444">{escape(chart.y_label)}</text>']


def _marks(chart: Chart, across: Callable[[float], float]) -> list[str]:
    parts = []
    for value, label in chart.marks:
        x = across(value)
        parts.append(f'<path d="M{x:.1f} {TOP}V{PLOT_BOTTOM}" stroke="#b0b0b0" stroke-dasharray="3 3"/>')
        parts.append(
            f'<text transform="translate({x - 3:.1f} {TOP + 4}) rotate(-90)" text-anchor="end" '
            f'font-size="11" fill="#555">{escape(label)}</text>'
        )
    return parts


def _layer(
    layer: Layer, across: Callable[[float], float], up: Callable[[float], float], limits: Point
) -> list[str]:
    low, high = limits
    placed = [(across(x), up(min(max(y, low), high))) for x, y in layer.points]
    if layer.kind == "points":
        return _dots(layer, placed, up, limits)
    if layer.kind in ("steps", "area"):
        placed = [corner for (x, y), (after, _) in pairwise(placed) for corner in ((x, y), (after, y))]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    if layer.kind == "area":
        ends = f"{placed[-1][0]:.1f},{PLOT_BOTTOM} {placed[0][0]:.1f},{PLOT_BOTTOM}"
        return [f'<polygon points="{path} {ends}" fill="{layer.colour}" fill-opacity="0.35"/>']
    dash = f' stroke-dasharray="{layer.dash}"' if layer.dash else ""
    return [f'<polyline points="{path}" fill="none" stroke="{layer.colour}" stroke-width="1.6"{dash}/>']


def _dots(layer: Layer, placed: Sequence[Point], up: Callable[[float], float], limits: Point) -> list[str]:
    low, high = limits
    parts = []
    for number, (x, y) in enumerate(placed):
        if layer.errors:
            value, error = layer.points[number][1], layer.errors[number]
            ends = [up(min(max(end, low), high)) for end in (value - error, value + error)]
            parts.append(f'<path d="M{x:.1f} {ends[0]:.1f}V{ends[1]:.1f}" stroke="{layer.colour}"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2" fill="{layer.colour}"/>')
    return parts


def _legend(layers: Sequence[Layer]) -> list[str]:
    parts = []
    for number, layer in enumerate(layers):
        x = LEFT + 120 + number * (PLOT_RIGHT - LEFT - 120) / max(len(layers), 1)
        parts.append(f'<path d="M{x:.0f} 34h18" stroke="{layer.colour}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 24:.0f}" y="38" font-size="11" fill="#222">{escape(layer.label)}</text>')
    return parts

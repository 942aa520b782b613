"""Line plots as SVG text, for the published comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 44, 48
COLOURS = {"real": "#1b6ca8", "simulated": "#c8501e"}


@dataclass(frozen=True, slots=True)
class Series:
    """One line.

    Args:
        label: What it shows.
        points: x and y.
        kind: A key of `COLOURS`.
        dash: SVG dash pattern; empty for a full line.
    """

    label: str
    points: Sequence[tuple[float, float]]
    kind: str
    dash: str = ""


def plot(title: str, x_label: str, y_label: str, series: Sequence[Series]) -> str:
    """Draw lines with points, axes from round numbers to round numbers, and a legend."""
    xs = [x for one in series for x, _ in one.points]
    ys = [y for one in series for _, y in one.points]
    x_ticks, y_ticks = _ticks(min(xs), max(xs)), _ticks(min(0.0, *ys), max(ys))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        up = (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12"><title>{escape(title)}</title>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="18" font-size="14" font-weight="600" fill="#222">{escape(title)}</text>',
    ]
    for value in x_ticks:
        x, y = place(value, y_ticks[0])
        parts.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle" fill="#444">{value:g}</text>')
    for value in y_ticks:
        x, y = place(x_ticks[0], value)
        parts.append(f'<path d="M{x:.1f} {y:.1f}H{WIDTH - RIGHT}" stroke="#e3e3e3"/>')
        parts.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end" fill="#444">{value:g}</text>')
    middle = f'x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle"'
    parts.append(f'<text {middle} fill="#444">{escape(x_label)}</text>')
    parts.append(f'<text x="12" y="{TOP - 8}" fill="#444">{escape(y_label)}</text>')
    for at, one in enumerate(series):
        parts += _line(one, [place(x, y) for x, y in one.points])
        parts += _legend(one, at, len(series))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(one: Series, points: Sequence[tuple[float, float]]) -> list[str]:
    colour = COLOURS[one.kind]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = f' stroke-dasharray="{one.dash}"' if one.dash else ""
    lines = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>']
    if len(points) <= 40:
        lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points]
    return lines


def _legend(one: Series, at: int, count: int) -> list[str]:
    x = LEFT + at * (WIDTH - LEFT - RIGHT) / count
    dash = f' stroke-dasharray="{one.dash}"' if one.dash else ""
    return [
        f'<path d="M{x:.0f} 32h18" stroke="{COLOURS[one.kind]}" stroke-width="2"{dash}/>',
        f'<text x="{x + 22:.0f}" y="36" font-size="11" fill="#222">{escape(one.label)}</text>',
    ]


def _ticks(low: float, high: float) -> list[float]:
    """Return about six round numbers from below ``low`` to above ``high``."""
    span = max(high - low, 1e-9)
    unit = 10.0 ** math.floor(math.log10(span / 5))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if span / (unit * factor) <= 6)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * at, 10) for at in range(first, last + 1)]

"""Run all checks: ``python -m tools.collider_validation`` writes docs/reports/collider-physics.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.collider_skill import section_of, with_section
from tools.collider_validation import collisions, limits, statistics
from tools.collider_validation.drawing import Chart, draw
from tools.collider_validation.rows import ValidationRow

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "reports" / "collider-physics.md"
TEXT = Path(__file__).with_name("page.md")
PLOTS = ROOT / "docs" / "reports" / "collider-physics"
IN_CAMPAIGNS = "Limits in campaigns"
"""Heading of the section that :mod:`tools.collider_limits` writes; this tool keeps it."""
HEAD = "| check | target | measured | met |\n|---|---|---|---|\n"


def main() -> None:
    """Measure everything, write the page and the plots, and fail if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--toys", type=int, default=4000, help="toys of the distribution of q0")
    parser.add_argument("--scans", type=int, default=40_000, help="toys of the look-elsewhere effect")
    parser.add_argument(
        "--seeds", type=int, default=400, help="seeds of the pulls beside the first two thousand"
    )
    parser.add_argument("--limits", type=int, default=5000, help="toys of each coverage of limits")
    chosen = parser.parse_args()
    q0, q0_chart = statistics.q0_tail(chosen.toys)
    elsewhere, elsewhere_chart = statistics.look_elsewhere(chosen.scans)
    pulls, pulls_chart = statistics.all_pulls(chosen.seeds)
    covered, coverage = limits.coverage(chosen.limits)
    whole, whole_chart, _ = collisions.whole_spectrum()
    leptons, leptons_chart = collisions.four_leptons()
    tables = {
        "counting": [*statistics.counting(), statistics.photons()],
        "toys": [*q0, *elsewhere, *pulls],
        "limits": covered,
        "data": [*whole, *collisions.fits(), *leptons],
        "physics": list(collisions.scaling()),
    }
    charts = {
        "spectrum": whole_chart,
        "upsilon": collisions.upsilons(),
        "four-leptons": leptons_chart,
        "pulls": pulls_chart,
        "q0": q0_chart,
        "look-elsewhere": elsewhere_chart,
    }
    write(tables, charts, {"peaks": collisions.peak_table(), "coverage": coverage})
    missed = [row.check for rows in tables.values() for row in rows if not row.ok]
    if missed:
        sys.exit("not met: " + "; ".join(missed))


def write(
    tables: dict[str, list[ValidationRow]], charts: dict[str, Chart], plain: Mapping[str, Sequence[str]]
) -> None:
    """Write the page with its tables, and the plots."""
    text = TEXT.read_text(encoding="utf-8")
    for name, rows in tables.items():
        text = text.replace(f"{{{name}}}", HEAD + "\n".join(row.markdown() for row in rows))
    rows = [row for kept in tables.values() for row in kept]
    text = text.replace("{met}", f"{sum(row.ok for row in rows)} of {len(rows)}")
    for name, lines in plain.items():
        text = text.replace(f"{{{name}}}", "\n".join(lines))
    if words := section_of(PAGE.read_text(encoding="utf-8"), IN_CAMPAIGNS):
        text = with_section(text, IN_CAMPAIGNS, words)
    PAGE.write_text(text, encoding="utf-8")
    PLOTS.mkdir(exist_ok=True)
    for name, chart in charts.items():
        (PLOTS / f"{name}.svg").write_text(draw(chart), encoding="utf-8")


if __name__ == "__main__":
    main()

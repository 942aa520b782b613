"""The published page says what the analysis gives today."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from spectator.environments.collider.analysis import open_data
from spectator.environments.collider.analysis.resonance import fit_resonance
from tools.collider_validation.drawing import Chart, Layer, draw

DOCS = Path(__file__).resolve().parents[4] / "docs" / "reports"
PAGE = (DOCS / "collider-physics.md").read_text(encoding="utf-8")


def test_every_target_is_met_and_every_plot_is_there() -> None:
    met, total = re.findall(r"\*\*(\d+) of (\d+) targets are met", PAGE)[0]
    assert met == total
    assert "**no**" not in PAGE
    plots = re.findall(r"\]\((collider-physics/[^)]+)\)", PAGE)
    assert len(plots) == 6
    for plot in plots:
        assert ElementTree.fromstring((DOCS / plot).read_text(encoding="utf-8")).tag.endswith("svg")


@pytest.mark.parametrize(("peak", "window"), [("psi2s", (3.5, 3.9)), ("upsilon2s", (9.75, 10.2))])
def test_the_table_of_peaks_is_what_the_fit_gives(peak: str, window: tuple[float, float]) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {peak} | {window[0]:g}-"))
    stated = float(row.split("|")[3].split("+-")[0])
    assert stated == pytest.approx(fit_resonance(*open_data.dimuon_spectrum(), window).mass_gev, abs=2e-5)


def test_a_chart_is_drawn_on_either_kind_of_axis() -> None:
    points = [(1.0, 2.0), (10.0, 200.0), (100.0, 30.0)]
    layers = [
        Layer(kind, points, kind, errors=[1.0, 5.0, 2.0]) for kind in ("steps", "line", "points", "area")
    ]
    for log in (False, True):
        chart = Chart("a < b", "x", "y", layers, x_log=log, y_log=log, marks=[(10.0, "here")])
        root = ElementTree.fromstring(draw(chart))
        assert "a < b" in "".join(root.itertext())

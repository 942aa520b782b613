"""The report of the shipped captain is what its card says."""

from __future__ import annotations

import json

from spectator.environments.cricket.trained.captain import CARD, FOLDER
from tools.captain_report import NAME, REPORTS, chart_of, page_of


def test_the_report_is_that_of_the_shipped_weights() -> None:
    card = json.loads((FOLDER / CARD).read_text(encoding="utf-8"))
    again = "out of date: run `python -m tools.captain_report` and commit what it writes"
    assert (REPORTS / f"{NAME}.md").read_text(encoding="utf-8") == page_of(card), again
    assert (REPORTS / f"{NAME}.svg").read_text(encoding="utf-8") == chart_of(card["curve"]), again


def test_a_captain_without_self_play_has_no_curve() -> None:
    card = json.loads((FOLDER / CARD).read_text(encoding="utf-8"))
    assert "## Self-play" not in page_of(card | {"curve": []})

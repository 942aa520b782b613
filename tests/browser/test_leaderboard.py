"""The leaderboard in a real browser: readable by everybody, without a script, at every width."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from spectator.evaluation.bundles.board import keep_verified
from spectator.evaluation.report import plots_of, report_page
from tests.browser.conftest import PHONE, WIDE, Opener, violations
from tests.evaluation.test_report import COMMAND, results, schedule_of
from tests.evaluation.verified import a_verified_result
from tests.serving import Serving

pytestmark = pytest.mark.browser


def data_of(app: Serving) -> Path:
    """The data folder of a server."""
    served: Any = app.server.config.app
    folder: Path = served.state.services.settings.data_dir
    return folder


@pytest.fixture
def board(quiet_app: Serving) -> str:
    """The address of a leaderboard on which two captains stand."""
    quiet_app.finish(
        quiet_app.start(max_overs=1, seed=2, captain_preset="tactician", opponent_choice="anchor")
    )
    keep_verified(data_of(quiet_app), a_verified_result())
    deadline = time.monotonic() + 30
    while quiet_app.client.get("/api/leaderboard").json()["episodes"] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return f"{quiet_app.base_url}/leaderboard"


def test_axe_finds_nothing_in_either_look_and_nothing_sticks_out(board: str, open_page: Opener) -> None:
    for look, size in (("dark", WIDE), ("light", PHONE)):
        page = open_page(board, viewport=size, color_scheme=look)
        page.get_by_text("What the measures mean").click()
        expect(page.get_by_role("article", name="Verified result abababababab")).to_contain_text("verified")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_report_of_an_evaluation_is_clean_and_names_who_won_each_match(
    tmp_path: Path, open_page: Opener
) -> None:
    found = results(schedule_of("anchor", "heuristic", "tactician"), "tactician", every=5)
    report = tmp_path / "report.html"
    report.write_text(report_page(found, COMMAND, plots_of(found)), encoding="utf-8")
    for look, size in (("dark", WIDE), ("light", PHONE)):
        page = open_page(report.as_uri(), viewport=size, color_scheme=look)
        page.get_by_text("Tactician in the first seat against Anchor").click()
        row = page.locator("details[open] tbody tr").first
        expect(row).to_contain_text("Tactician won")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        drawn = page.locator("figure svg:visible")
        expect(drawn).to_have_count(len(plots_of(found)))
        heights = drawn.locator("text").evaluate_all(
            "(all) => all.map((one) => one.getBoundingClientRect().height)"
        )
        assert min(heights) > 11
        assert page.evaluate(
            '[...document.querySelectorAll("figure")].every((one) => one.scrollWidth <= one.clientWidth)'
        )


def test_it_is_read_narrowed_and_left_for_a_replay_without_a_script(board: str, open_page: Opener) -> None:
    page = open_page(board, java_script_enabled=False)
    expect(page.get_by_role("heading", name="Tactician")).to_be_visible()
    assert "tactician" not in " ".join(page.locator(".board__name").all_inner_texts()), "a label, not an id"
    page.get_by_label("Against").select_option(label="Anchor")
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(f"{board}?environment=&pack=&opponent=anchor")
    expect(page.get_by_role("heading", name="Tactician")).to_be_visible()
    expect(page.get_by_role("heading", name="Anchor")).to_have_count(0)
    page.get_by_role("link", name="Newest replay").click()
    assert "/replay/ep-" in page.url


def test_the_lobby_leads_there(board: str, open_page: Opener) -> None:
    page = open_page(board.removesuffix("leaderboard"))
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Leaderboard").click()
    expect(page.get_by_role("heading", name="Leaderboard", level=1)).to_be_visible()

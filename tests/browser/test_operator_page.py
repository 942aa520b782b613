"""The operator's page: locked without the token, true with it, and its buttons do what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PHONE, Opener
from tests.serving import Serving, serve, test_settings

TOKEN = "a-token-of-the-operator"


@pytest.fixture
def operated(tmp_path: Path) -> Iterator[Serving]:
    """A server with a token, on which one episode ended and one runs."""
    with serve(test_settings(tmp_path, operator_token=TOKEN, max_episodes=2)) as serving:
        yield serving


def test_the_operator_pauses_stops_and_deletes(operated: Serving, open_page: Opener, tmp_path: Path) -> None:
    ended = operated.start(options={"turns": 2})
    operated.finish(ended)
    operated.start(pace="broadcast", options={"turns": 1000})
    page = open_page(f"{operated.base_url}/operator", viewport=PHONE, forgive=("401",))
    expect(page.locator("#parts")).to_be_hidden()
    expect(page.locator("#say")).to_contain_text("This page is for the operator. Enter the token")
    page.fill("#token", TOKEN)
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#episodes li")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    expect(page.locator("#trouble")).to_be_hidden()
    moved = (tmp_path / "journal.db").rename(tmp_path / "away")
    expect(page.locator("#troubles")).to_contain_text("moved or removed")
    expect(page.locator("#state")).to_have_text("Trouble")
    moved.rename(tmp_path / "journal.db")
    expect(page.locator("#trouble")).to_be_hidden()
    page.get_by_role("button", name="Pause starts").click()
    expect(page.locator("#starts")).to_contain_text("Paused since")
    assert operated.client.post("/custom/start_episode", json={}).status_code == 503
    stop = page.locator("#episodes button")
    stop.click()
    expect(stop).to_have_text("Click again to confirm")
    stop.click()
    expect(page.locator("#episodes li")).to_have_count(0)
    page.fill("#episode", ended)
    page.get_by_role("button", name="Delete it").click()
    expect(page.locator("#deleted")).to_contain_text(ended)
    assert operated.client.get(f"/api/episodes/{ended}").status_code == 404

"""The operator's controls work from the page, and only for the operator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Opener
from tests.serving import Serving, serve, test_settings

pytestmark = pytest.mark.browser

TOKEN = "correct-horse-battery"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Serving]:
    """A server with a token."""
    settings = test_settings(tmp_path, environment="cricket", operator_token=TOKEN)
    with serve(settings) as app:
        yield app


def test_the_token_is_asked_for_refused_and_kept_for_the_tab(guarded: Serving, open_page: Opener) -> None:
    """Pause asks for it, a wrong one is told, a right one pauses for everybody, then nothing asks again."""
    episode_id = guarded.start(pace="broadcast", max_overs=1)
    url = f"{guarded.base_url}/watch/{episode_id}"
    viewer = open_page(url, reduced_motion="reduce")
    page = open_page(url, forgive=("401",))
    expect(page.locator("#state")).to_have_text("Live")
    page.get_by_role("button", name="Control this episode").click()
    page.get_by_role("button", name="Pause the match").click()
    token = page.locator("dialog").get_by_label("Operator token")
    token.fill("wrong-horse-battery")
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("dialog[open] .dialog__say")).to_contain_text("not the operator")
    token.fill(TOKEN)
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#state")).to_have_text("Paused")
    expect(viewer.locator("#state")).to_have_text("Paused")
    expect(token).to_be_hidden()
    page.get_by_role("button", name="Resume the match").click()
    expect(viewer.locator("#state")).to_have_text("Live")
    page.get_by_role("button", name="Fast", exact=True).click()
    expect(viewer.locator("#notice")).to_have_text("The operator set the pace: fast.")
    page.get_by_role("button", name="As fast as possible").click()
    expect(viewer.locator("#state")).to_have_text("Finished")
    expect(page.locator("dialog[open]")).to_contain_text("The match has ended")
    assert TOKEN not in page.content()
    assert page.evaluate("localStorage.length + document.cookie.length") == 0


def test_stopping_asks_twice_and_is_seen_by_everybody(quiet_app: Serving, open_page: Opener) -> None:
    """One click does not end somebody's match; two do, and every viewer is told."""
    episode_id = quiet_app.start(pace="broadcast", max_overs=5)
    url = f"{quiet_app.base_url}/watch/{episode_id}"
    viewer, page = open_page(url), open_page(url)
    expect(page.locator("#state")).to_have_text("Live")
    page.get_by_role("button", name="Control this episode").click()
    page.get_by_role("button", name="Stop the match").click()
    expect(viewer.locator("#state")).to_have_text("Live")
    page.get_by_role("button", name="Really stop it?").click()
    expect(page.locator("#state")).to_have_text("Stopped")
    expect(viewer.locator("#state")).to_have_text("Stopped")

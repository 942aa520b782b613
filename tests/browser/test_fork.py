"""A viewer can play on from any moment with other captains."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PHONE, Opener
from tests.serving import Serving

pytestmark = pytest.mark.browser

FORK = "Play on from here with another captain"


def test_a_moment_of_a_replay_is_played_on_by_another(quiet_app: Serving, open_page: Opener) -> None:
    """The dialog says from where; the fork says from what, there and in the past that it retells."""
    parent = quiet_app.start(max_overs=1, seed=4)
    quiet_app.finish(parent)
    page = open_page(f"{quiet_app.base_url}/watch/{parent}?seq=40")
    page.get_by_role("button", name=FORK).click()
    dialog = page.locator("dialog[open]")
    expect(dialog.locator(".fork__where")).to_contain_text("innings 1")
    dialog.get_by_label("Captain", exact=True).select_option("aggressive")
    expect(dialog.get_by_label("Opponent")).to_contain_text("Old Pro, as before")
    dialog.get_by_role("button", name="Play on from here").click()
    page.wait_for_url(lambda url: "/watch/ep-" in url and parent not in url)
    origin = page.locator("#parent")
    expect(origin).to_contain_text(f"forked from {parent[-6:]} at turn")
    expect(page.locator("#state")).to_have_text("Live")
    page.keyboard.press("Home")
    expect(page.locator("#notice")).to_contain_text("Copied from the match that this one was forked from")
    origin.click()
    page.wait_for_url(f"**/watch/{parent}?seq=*")


def test_an_end_is_played_on_from_just_before_it_and_a_wrong_seed_is_named(
    quiet_app: Serving, open_page: Opener
) -> None:
    parent = quiet_app.start(environment="counting", options={"turns": 5})
    quiet_app.finish(parent)
    page = open_page(f"{quiet_app.base_url}/watch/{parent}", viewport=PHONE, forgive=("422",))
    expect(page.locator("#state")).to_have_text("Finished")
    page.get_by_role("button", name="More tools").click()
    page.get_by_role("button", name=FORK).click()
    expect(page.locator("dialog[open] .fork__where")).to_contain_text("from just before its end: 4 of 5")
    page.get_by_label("Seed of the captains").fill("-3")
    page.locator("dialog[open]").get_by_role("button", name="Play on from here").click()
    expect(page.locator("dialog[open]").get_by_role("alert")).to_contain_text("seed")
    assert quiet_app.client.get("/custom/status").json()["running"] == []
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]

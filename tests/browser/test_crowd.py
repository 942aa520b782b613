"""Calling along on a phone and on a wide screen: a tap, the result after the ball, the card to share."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PHONE, WIDE, Opener, violations
from tests.serving import Serving

pytestmark = pytest.mark.browser


def test_a_viewer_calls_along_and_shares_the_result(quiet_app: Serving, open_page: Opener) -> None:
    """At 390 px by touch; beside it a wide page on which nothing is tapped, in the other theme."""
    episode_id = quiet_app.start(pace="broadcast", max_overs=2, seed=7)
    address = f"{quiet_app.base_url}/watch/{episode_id}"
    wide = open_page(address, viewport=WIDE, color_scheme="light")
    page = open_page(address, viewport=PHONE, has_touch=True)
    cards = page.locator(".crowd__card")
    expect(cards).to_have_count(3)
    for card in cards.all():
        box = card.bounding_box()
        assert box is not None
        assert box["height"] >= 44
    assert not violations(page)
    cards.nth(1).tap()
    expect(page.locator(".crowd__count")).to_have_text("1 called")
    expect(wide.locator(".crowd__count")).to_have_text("1 called")
    expect(page.locator(".crowd__said")).to_contain_text("Lost: you")
    expect(wide.locator(".crowd__said")).to_contain_text("Lost: captain")
    expect(wide.locator(".crowd__said")).to_contain_text("100 % called it")
    assert not violations(wide)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    shifts = [one.evaluate("window.shifts") for one in (page, wide)]
    assert max(shifts) < 0.02, shifts
    for one in (page, wide):  # captions stand above the cards, or beside them
        one.locator("#sound").click()
        one.get_by_role("dialog").get_by_role("button", name="Close").click()
        expect(one.locator("#caption")).not_to_be_empty()
        caption, dock = (one.locator(part).bounding_box() for part in ("#caption", "#crowd"))
        assert caption and dock
        assert caption["y"] + caption["height"] <= dock["y"] or caption["x"] >= dock["x"] + dock["width"]
    page.locator(".crowd__toggle").tap()
    expect(cards.first).to_be_hidden()
    page.locator(".crowd__toggle").tap()
    with page.expect_popup() as opened:
        page.get_by_role("link", name="My card").tap()
    shared = opened.value
    expect(shared.locator("h1")).to_contain_text("Viewer ")
    assert shared.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 1200
    assert not violations(shared)
    wide.evaluate("id => sessionStorage.setItem('spectator.seat', id)", episode_id)
    expect(wide.locator("#crowd")).to_have_count(0)  # who takes a seat is not asked
    quiet_app.client.post("/custom/stop_episode", json={"episode_id": episode_id})
    expect(page.locator("#crowd")).to_have_count(0)

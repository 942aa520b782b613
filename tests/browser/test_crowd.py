"""Calling along on a phone and on a wide screen: a tap, the result after the ball, the card to share."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from spectator import catalog
from tests.browser.conftest import PHONE, WIDE, Opener, leave, violations
from tests.serving import Serving

pytestmark = pytest.mark.browser

CALL_UNTIL_THE_END = """() => {
  document.querySelector(".crowd__card:not([aria-disabled])")?.click();
  return document.querySelector(".ending");
}"""
"""Calls the first card of every question."""


def test_a_viewer_calls_along_and_shares_the_result(quiet_app: Serving, open_page: Opener) -> None:
    """At 390 px by touch; beside it a wide page on which nothing is tapped, in the other theme."""
    episode_id = quiet_app.start(pace="broadcast", seed=7, options={"max_overs": 2, "forecast_futures": 20})
    address = f"{quiet_app.base_url}/watch/{episode_id}"
    wide = open_page(address, viewport=WIDE, color_scheme="light")
    page = open_page(address, viewport=PHONE, has_touch=True)
    cards = page.locator(".crowd__card")
    expect(cards).to_have_count(3)
    for card in cards.all():
        box = card.bounding_box()
        assert box is not None
        assert box["height"] >= 44
    strip, field = (page.locator(part).bounding_box() for part in ("#crowd", ".ground svg"))
    assert strip and field and strip["height"] <= 72
    assert field["y"] + field["height"] <= strip["y"] + 8, "the field is in sight above the cards"
    assert not violations(page, "#crowd")
    cards.nth(1).tap()
    expect(page.locator(".crowd__count")).to_have_text("1 called")
    expect(wide.locator(".crowd__count")).to_have_text("1 called")
    expect(page.locator(".crowd__said")).to_contain_text("Lost: you")
    expect(wide.locator(".crowd__said")).to_contain_text("Lost: captain")
    expect(wide.locator(".crowd__said")).to_contain_text("100 % called it")
    assert not violations(wide, "#crowd")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    quiet_app.client.post("/custom/pause", json={"episode_id": episode_id})
    for one in (page, wide):  # a pause lies over the page, and moves nothing of it
        expect(one.locator("#notice")).to_have_text("Paused by the operator.")
    quiet_app.client.post("/custom/resume", json={"episode_id": episode_id})
    expect(page.locator("#notice")).to_be_hidden()
    shifts = [one.evaluate("window.shifts") for one in (page, wide)]
    assert max(shifts) < 0.02, shifts
    for one in (page, wide):  # captions stand above the cards, or beside them
        one.locator("#sound").click()
        one.get_by_role("dialog").get_by_role("button", name="Close").click()
        expect(one.locator("#caption")).not_to_be_empty()
        caption, dock = (one.locator(part).bounding_box() for part in ("#caption", "#crowd"))
        assert caption and dock
        assert caption["y"] + caption["height"] <= dock["y"] or caption["x"] >= dock["x"] + dock["width"]
    page.locator(".crowd__more summary").tap()
    page.locator(".crowd__toggle").tap()
    expect(cards.first).to_be_hidden()
    page.locator(".crowd__toggle").tap()
    page.locator(".crowd__more summary").tap()
    with page.expect_popup() as opened:
        page.get_by_role("link", name="My card").tap()
    shared = opened.value
    expect(shared.locator("h1")).to_contain_text("Viewer ")
    assert shared.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 1200
    assert not violations(shared)
    leave(shared)
    wide.evaluate("id => sessionStorage.setItem('spectator.seat', id)", episode_id)
    expect(wide.locator("#crowd")).to_have_count(0)  # who takes a seat is not asked
    quiet_app.client.post("/custom/stop_episode", json={"episode_id": episode_id})
    expect(page.locator("#crowd")).to_have_count(0)


def test_the_result_of_the_last_call_comes_with_the_ending(
    quiet_app: Serving, open_page: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Played on from before its last three balls; a viewer called, another one only saw that one did."""
    parent = quiet_app.start(max_overs=1, seed=1)
    quiet_app.finish(parent)
    monkeypatch.setitem(catalog.load_world("cricket").beats, "cricket.ball_bowled", 1.2)  # short balls
    events = quiet_app.events(parent)
    balls = [one["seq"] for one in events if one["type"] == "cricket.ball_bowled"]
    step = next(one["seq"] for one in events if one["type"] == "step.taken" and one["seq"] > balls[-4])
    answer = quiet_app.client.post(
        "/custom/fork", json={"episode_id": parent, "seq": step, "pace": "broadcast"}
    )
    assert answer.status_code == 202, answer.text
    match = {"episode_id": answer.json()["episode_id"]}
    quiet_app.client.post("/custom/pause", json=match)
    address = f"{quiet_app.base_url}/watch/{match['episode_id']}"
    page, other = (open_page(address, viewport=PHONE) for _ in range(2))
    for one in (page, other):
        expect(one.locator("#state")).to_have_text("Paused")
    quiet_app.client.post("/custom/resume", json=match)
    page.wait_for_function(CALL_UNTIL_THE_END, polling=100)
    expect(page.locator(".ending__crowd")).to_contain_text("The last call. Lost: you ")
    expect(other.locator(".ending__crowd")).to_contain_text("The last call. Best of the last three: ")
    expect(page.locator("#crowd")).to_have_count(0)
    assert not violations(page, ".ending")

"""Two episodes can be looked at side by side, in step."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import PHONE, Opener
from tests.serving import Serving

pytestmark = pytest.mark.browser


def played(app: Serving, captain: str, seed: int = 4, **options: int) -> str:
    episode_id = app.start(seed=seed, captain_preset=captain, options={"max_overs": 1, **options})
    app.finish(episode_id)
    return episode_id


def test_two_are_picked_in_the_lobby_and_shown_in_step(quiet_app: Serving, open_page: Opener) -> None:
    """The seed narrows the list; the scrub bar moves both; where they part is told and gone to."""
    first_id, _ = (played(quiet_app, captain, forecast_futures=20) for captain in ("aggressive", "anchor"))
    page = open_page(f"{quiet_app.base_url}/")
    page.get_by_role("button", name="seed 4").first.click()
    expect(page.locator(".game")).to_have_count(2)
    assert "seed=4" in page.url
    for box in page.locator(".game__pick").all():
        box.check()
    expect(page.locator(".picked")).to_contain_text("The same seed, 4")
    page.get_by_role("link", name="Compare the two").click()
    first, second = page.locator(".side").first, page.locator(".side").last
    expect(first).to_contain_text("Anchor")
    expect(second).to_contain_text("Gambler")
    expect(page.locator("#part")).to_contain_text("First different decision")
    expect(page.locator("#part")).to_contain_text("runs first differ at innings")
    expect(page.locator("#part")).to_contain_text("“Hits from the first ball")
    expect(page.locator("#part")).to_contain_text("batting careful in the powerplay (0.4)")
    sides = quiet_app.client.get(f"/api/episodes/{first_id}/glance").json()["sides"]
    for side, captain in ((first, "Anchor"), (second, "Gambler")):
        for place, name in enumerate((captain, "Old Pro")):
            seat = side.locator(".tile__who").nth(place)
            expect(seat.locator("bdi")).to_have_text(sides[place])
            expect(seat.locator("small")).to_have_text(name)
            expect(seat.locator(".emblem")).to_be_visible()
    page.locator("#scrub").focus()
    page.keyboard.press("End")
    expect(first.locator(".side__headline")).to_contain_text("won")
    expect(second.locator(".side__headline")).to_contain_text("won")
    expect(first.locator(".tile__seats b")).to_have_text([re.compile("^(100|50|0) %$")] * 2)
    page.keyboard.press("Home")
    expect(first.locator(".side__value")).to_have_text("0 runs")
    page.get_by_role("button", name="One step forward").click()
    expect(page.locator("#where")).to_contain_text("0.1")
    expect(first.locator(".side__at")).to_have_text(second.locator(".side__at").inner_text())
    expect(page.locator(".difference__picture")).to_be_visible()


def test_the_same_match_does_not_part_and_a_phone_shows_both(quiet_app: Serving, open_page: Opener) -> None:
    one, two = played(quiet_app, "heuristic"), played(quiet_app, "heuristic")
    page = open_page(f"{quiet_app.base_url}/compare?a={one}&b={two}", viewport=PHONE)
    expect(page.locator("#part")).to_contain_text("identical from the first step to the last")
    expect(page.locator(".side")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_on_a_phone_the_picture_and_the_scrub_bar_are_large_enough(
    quiet_app: Serving, open_page: Opener
) -> None:
    """Drawn narrower, not smaller; seeds that differ are not told by what both began with."""
    one, two = played(quiet_app, "heuristic", 4), played(quiet_app, "heuristic", 5)
    page = open_page(f"{quiet_app.base_url}/compare?a={one}&b={two}", viewport=PHONE)
    picture = page.locator(".difference__picture")
    expect(picture).to_be_visible()
    sizes = [picture.bounding_box(), page.locator("#scrub").bounding_box()]
    assert sizes[0] and sizes[0]["height"] > 180
    assert sizes[1] and sizes[1]["width"] > 300
    expect(page.locator("#part")).not_to_contain_text("match arranged")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.wait_for_function("() => document.querySelector('.difference__picture').clientHeight < 400")


def test_figures_that_never_differ_are_said_to_be_the_same(quiet_app: Serving, open_page: Opener) -> None:
    one, two = played(quiet_app, "heuristic"), played(quiet_app, "heuristic")

    def with_another_plan(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(
            response=answer, body=answer.text().replace('"tool":"set_match_plan"', '"tool":"another_plan"', 1)
        )

    page = open_page(f"{quiet_app.base_url}/")
    page.route(f"**/api/episodes/{two}/events*", with_another_plan)
    page.goto(f"{quiet_app.base_url}/compare?a={one}&b={two}")
    expect(page.locator("#part")).to_contain_text("Their runs never differ")


def test_one_alone_is_offered_others_on_its_seed(quiet_app: Serving, open_page: Opener) -> None:
    one = played(quiet_app, "anchor", seed=8181)
    page = open_page(f"{quiet_app.base_url}/compare?a={one}")
    expect(page.locator("#say")).to_contain_text("No other episode has seed 8181")
    expect(page.get_by_role("heading", name="On other seeds")).to_be_visible()
    played(quiet_app, "aggressive", seed=8181)
    page.reload()
    page.get_by_role("link", name="Gambler against Old Pro").first.click()
    expect(page.locator(".side")).to_have_count(2)


def test_what_cannot_be_compared_says_why(quiet_app: Serving, open_page: Opener) -> None:
    one = played(quiet_app, "anchor")
    other = quiet_app.start(environment="counting", options={"turns": 2})
    quiet_app.finish(other)
    page = open_page(f"{quiet_app.base_url}/compare?a={one}&b={other}", forgive=("404",))
    expect(page.locator("#say")).to_contain_text("Only episodes of the same world can be compared")
    expect(page.locator(".offers h2")).to_have_text(
        ["Compare Anchor against Old Pro with", "Compare Careful counter with"]
    )
    page.goto(f"{quiet_app.base_url}/compare?a={one}&b=ep-nowhere")
    expect(page.locator("#say")).to_contain_text("This server has no episode ep-nowhere")
    page.goto(f"{quiet_app.base_url}/compare")
    expect(page.locator("#say")).to_contain_text("Pick two past episodes")
    expect(page.get_by_role("heading", name="Two episodes, side by side")).to_be_in_viewport()

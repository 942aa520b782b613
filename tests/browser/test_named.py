"""What a page calls things: a match by its overs, a ball by its place and outcome, an innings by its name."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import House, Opener
from tests.serving import Serving

pytestmark = pytest.mark.browser

BALL = re.compile(r"^Over \d+, ball [1-6]: (no run|1 run|[2-6] runs|[a-z0-9][a-z0-9 -]+)$")


def test_a_match_is_called_by_its_overs(house: House, open_page: Opener) -> None:
    """In the crumbs, on the lobby's tile and in the list of what was played, on the strip, in a link."""
    page = open_page(f"{house.serving.base_url}/watch/{house.live}")
    expect(page.locator(".bar__crumbs")).to_contain_text("50-over cricket")
    expect(page.locator("meta[property='og:title']")).to_have_attribute(
        "content", re.compile("· 50-over cricket$")
    )
    page.goto(f"{house.serving.base_url}/watch/{house.cricket}")
    expect(page.locator(".bar__crumbs")).to_contain_text("5-over cricket")
    page.get_by_role("button", name="About this episode").click()
    expect(page.get_by_role("dialog")).to_contain_text("5-over cricket")
    expect(page.locator("dialog .facts")).to_have_css("display", "grid")
    page.goto(f"{house.serving.base_url}/")
    expect(page.locator(".tile__meta").first).to_contain_text("50-over cricket")
    expect(page.locator(".game__who", has_text="5-over cricket")).to_have_count(1)
    page.goto(f"{house.serving.base_url}/embed/{house.live}")
    expect(page.locator("#title")).to_have_text("50-over cricket")
    seen = house.serving.client.get(f"/api/episodes/{house.live}/glance").json()
    for place, (side, captain) in enumerate(zip(seen["sides"], seen["seats"], strict=True)):
        seat = page.locator("#seats > span").nth(place)
        expect(seat.locator("bdi")).to_have_text(f"{side} {captain}")
        expect(seat.locator(".emblem")).to_be_visible()
    expect(page.locator("#seats .share").first).to_have_text(re.compile(r"^\d+ %$"))
    expect(page.locator("#course")).to_be_visible()  # a frame as large as a window has the course of chances
    for width in (390, 300):  # whole on a phone too, names of models included
        page.set_viewport_size({"width": width, "height": 132})
        assert page.evaluate(CUT) == []
        page.evaluate(LONG)
        assert page.evaluate(CUT) == []


LONG = """document.querySelectorAll("#seats bdi").forEach(
  (one) => { one.lastChild.data = " claude-sonnet-4.5-20250929 thinking"; })"""
"""Both captains are models with long names."""

CUT = """() => ["#seats bdi", "#headline", "#strip"].flatMap((part) => [...document.querySelectorAll(part)])
  .filter((one) => one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1)
  .map((one) => one.textContent)"""
"""What of the strip is not seen whole."""


def test_a_ball_of_the_over_is_named_by_over_ball_and_outcome(house: House, open_page: Opener) -> None:
    """Its link says what a scorer would write; a wide is bowled again under the same number."""
    balls = [one for one in house.serving.events(house.cricket) if one["type"] == "cricket.ball_bowled"]
    place = next(place for place, ball in enumerate(balls) if ball["data"]["mark"] == "wd")
    page = open_page(f"{house.serving.base_url}/watch/{house.cricket}?seq={balls[place]['seq']}")
    links = page.locator("a.over__ball")
    expect(links.last).to_have_accessible_name(re.compile(r"^Over \d+, ball \d: wide$"))
    where = str(links.last.get_attribute("aria-label")).removesuffix("wide")
    page.goto(f"{page.url.partition('?')[0]}?seq={balls[place + 1]['seq']}")
    expect(links.last).to_have_accessible_name(re.compile(f"^{where}(?!wide)"))
    for name in links.evaluate_all("(all) => all.map((one) => one.ariaLabel)"):
        assert BALL.match(name), name


def test_a_super_over_is_no_second_innings(quiet_app: Serving, open_page: Opener) -> None:
    """Not in the story of the chances, and not in words."""
    tied = quiet_app.start(seed=7, options={"max_overs": 5, "forecast_futures": 200})
    assert "super over" in quiet_app.finish(tied)["result"]
    page = open_page(f"{quiet_app.base_url}/watch/{tied}")
    expect(page.locator(".chances__value").first).to_have_text(re.compile("^(0|100)$"))
    page.locator(".chances-story summary").click()
    every = page.locator(".chances__every li")
    expect(every.filter(has_text=re.compile(r"^super over 0\.\d"))).not_to_have_count(0)
    page.goto(f"{page.url}?text=1")
    headings = page.locator("#plain h2")
    expect(headings.filter(has_text=re.compile(r", super over: \d+ for \d in [01]\.\d$"))).to_have_count(2)
    expect(headings.filter(has_text=re.compile("3rd|4th"))).to_have_count(0)


def test_no_call_of_the_innings_before_stands_under_a_new_role(house: House, open_page: Opener) -> None:
    """Between innings neither captain has decided yet; then each shows what it does now."""
    events = house.serving.events(house.cricket)
    _, begun, *_ = (one["seq"] for one in events if one["type"] == "cricket.innings_started")
    page = open_page(f"{house.serving.base_url}/watch/{house.cricket}?seq={begun}")
    seats = page.locator(".mind__seat")
    for role in ("batting", "bowling"):
        seat = seats.filter(has_text=f"· {role}")
        expect(seat).to_contain_text("Has not decided yet.")
        expect(seat.locator(".call")).to_have_text("no call yet")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".ball__detail")).to_contain_text(re.compile(r"^0\.\d · "))
    expect(seats.filter(has_text="· batting").locator(".call code")).to_have_text("play delivery")
    expect(seats.filter(has_text="· bowling").locator(".call code")).to_have_text("bowl delivery")


def test_a_score_and_a_tile_are_read_as_people_say_them(house: House, open_page: Opener) -> None:
    """As "31 for 3", not as its figures and a stroke; no bar as a fraction; each captain under a heading."""
    page = open_page(f"{house.serving.base_url}/watch/{house.cricket}")
    score = page.locator(".score__runs")
    expect(score).to_have_accessible_name(re.compile(r"^\d+ for \d+$"))
    assert (score.get_attribute("aria-label") or "").replace(" for ", "/") == score.inner_text()
    expect(page.locator("#mind").get_by_role("heading", level=3)).to_have_count(2)
    page.goto(f"{house.serving.base_url}/")
    tile = page.get_by_role("link", name=re.compile("^Live 50-over cricket"))
    expect(tile).to_be_visible()
    assert not re.search(r"\b0\.\d{2,}", str(tile.aria_snapshot()))

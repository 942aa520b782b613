"""A wicket and a six own the screen for a second; one episode alone owns the wall."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, WIDE, Opener, leave
from tests.serving import Serving

pytestmark = pytest.mark.browser

WITNESS = """
window.large = [];
const look = (it) => {
  const { left, top, right, bottom } = it.getBoundingClientRect();
  const word = it.firstElementChild.getBoundingClientRect();
  const { clientWidth } = document.documentElement;
  const covers = left <= 0 && top <= 0 && right >= clientWidth && bottom >= innerHeight
    && word.left >= 0 && word.right <= innerWidth && word.height > innerHeight / 12;
  const [words, { pointerEvents }] = [it.innerText, getComputedStyle(it)];
  return { kind: it.dataset.kind, covers, words, pointerEvents, hidden: it.getAttribute("aria-hidden") };
};
addEventListener("DOMContentLoaded", () => new MutationObserver((changes) => changes.forEach((change) => {
  for (const one of change.addedNodes)
    if (one.className === "large") requestAnimationFrame(() => window.large.push(look(one)));
})).observe(document.body, { childList: true }));
"""
"""Remembers how all that was told large looked, however soon it goes."""


PLACE = "parseInt(/(\\d+) \\//.exec(document.querySelector('.player__where').textContent)?.[1])"
"""Where on the scrub bar a page stands."""

STEADY = """
const real = performance.now.bind(performance);
let [shown, last] = [real(), real()];
performance.now = () => {
  const now = real();
  [shown, last] = [shown + Math.min(now - last, 100), now];
  return shown;
};
"""
"""A page on a busy machine does not see that it stood still: balls come no further apart for it."""


@pytest.fixture(scope="module")
def match(app: Serving) -> tuple[str, list[dict[str, Any]]]:
    """A match that is over, and its balls in order."""
    episode_id = app.start(max_overs=5, seed=7)
    app.finish(episode_id)
    return episode_id, [event for event in app.events(episode_id) if event["type"] == "cricket.ball_bowled"]


def before(balls: list[dict[str, Any]], kind: str) -> int:
    """Number of the ball before the first of a kind that is neither the first of all nor of its innings."""
    return next(
        int(last["seq"])
        for last, ball in pairwise(balls)
        if ball["data"]["kind"] == kind and ball["data"]["innings"] == last["data"]["innings"]
    )


def stand_at(page: Page, address: str) -> None:
    """Stand still at a place in the past of a record that is read."""
    page.goto(address)
    expect(page.locator("#state")).to_have_text("Replay")
    expect(page.locator(".player__where")).to_contain_text(" / ")


def play(page: Page) -> None:
    """Play on from there, at a speed at which a ball still takes over three seconds."""
    page.get_by_label("Replay speed").select_option("2")
    page.get_by_role("button", name="Play", exact=True).click()


@pytest.mark.parametrize(("kind", "word"), [("wicket", "OUT"), ("six", "SIX")])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_big_ball_owns_the_screen_for_a_second(
    app: Serving,
    match: tuple[str, list[dict[str, Any]]],
    open_page: Opener,
    size: dict[str, int],
    kind: str,
    word: str,
) -> None:
    """All of it, with the word and who; nothing is in the way of a click, and then it is gone."""
    episode_id, balls = match
    page = open_page("", viewport=size)
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    page.add_init_script(WITNESS)
    address = f"{app.base_url}/watch/{episode_id}?seq={before(balls, kind)}"
    stand_at(page, address)
    assert not any("/large" in url for url in fetched), "fetched before it was needed"
    play(page)
    page.wait_for_function("() => window.large.length > 0", polling=50, timeout=20_000)
    expect(page.locator(f".large[data-kind={kind}]")).to_have_count(0)
    told = page.evaluate("window.large")[0]
    assert word in told.pop("words")
    assert told == {"kind": kind, "covers": True, "pointerEvents": "none", "hidden": "true"}
    assert page.evaluate("window.shiftAtOnce") < 0.02


def test_it_does_not_with_reduced_motion_nor_where_balls_come_fast(
    app: Serving, match: tuple[str, list[dict[str, Any]]], open_page: Opener
) -> None:
    episode_id, balls = match
    address = f"{app.base_url}/watch/{episode_id}?seq={before(balls, 'wicket')}"
    page = open_page("", reduced_motion="reduce")
    page.add_init_script(WITNESS)
    stand_at(page, address)
    where = page.locator(".player__where").inner_text()
    play(page)
    expect(page.locator(".player__where")).not_to_have_text(where)
    expect(page.locator(".ball__mark--wicket")).to_be_visible()
    assert page.evaluate("window.large") == []
    leave(page)
    page = open_page("")
    page.add_init_script(WITNESS + STEADY)
    # The first ball after a rest is slow, and is a small one; big ones follow, and a small one.
    begins, last = next(
        (some[0]["seq"], some[-1]["seq"])
        for some in (balls[place : place + 8] for place in range(len(balls)))
        if {"wicket", "six"} <= {ball["data"]["kind"] for ball in some[2:-1]}
        and {some[1]["data"]["kind"], some[-1]["data"]["kind"]} <= {"dot", "run"}
    )
    stand_at(page, f"{app.base_url}/watch/{episode_id}?seq={last}")
    ends = page.evaluate(PLACE)
    page.goto(f"{app.base_url}/replay/{episode_id}?seq={begins}")
    page.get_by_label("Replay speed").select_option("8")
    page.get_by_role("button", name="Play", exact=True).click()
    page.wait_for_function(f"(ends) => {PLACE} >= ends", arg=ends, polling=100, timeout=150_000)
    assert page.evaluate("window.large") == []


def test_one_episode_fills_the_wall(quiet_app: Serving, open_page: Opener) -> None:
    """Its tile is as wide as the page and reaches to the window's end, at every width; nothing scrolls."""
    quiet_app.start(pace="broadcast", seed=8, options={"max_overs": 50, "forecast_futures": 50})
    page = open_page(f"{quiet_app.base_url}/wall")
    tile = page.locator("#tiles .tile")
    expect(tile.locator(".tile__seats[data-told=true]")).to_be_visible(timeout=60_000)
    for width in (390, 820, 1440, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        box = tile.bounding_box()
        assert box
        assert box["width"] > 0.84 * width
        assert box["y"] + box["height"] > 800
        assert page.evaluate("document.documentElement.scrollHeight") <= 900
        size = tile.locator(".tile__headline").evaluate("(it) => parseFloat(getComputedStyle(it).fontSize)")
        assert size >= 35

"""Whatever names a moment leads to it; the end says what happened; a phone shows one view at a time."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.conftest import PHONE, Opener, press_on_layout
from tests.serving import Serving

pytestmark = pytest.mark.browser

BRACKETS = (
    (("]", "Digit9", "AltGr"), ("[", "Digit8", "AltGr")),  # German
    (("]", "Digit6", "Alt"), ("[", "Digit5", "Alt")),  # German, Mac
    (("]", "Minus", "AltGr"), ("[", "Digit5", "AltGr")),  # French
    (("]", "Minus", "Alt", "Shift"), ("[", "Digit5", "Alt", "Shift")),  # French, Mac
    (("\u044a", "BracketRight"), ("\u0445", "BracketLeft")),  # Russian
)
"""The keys of the next and the last big moment, with what is held for them, by layout."""

LIVE = (("\u0434", "KeyL"), ("\u03bb", "KeyL"), ("l", "KeyP"))
"""The key L on a Russian, a Greek and a Dvorak keyboard."""


def open_finished(app: Serving, open_page: Opener, **options: Any) -> Page:
    """A finished match of two overs, with win chances, as a page."""
    episode_id = app.start(seed=8, options={"max_overs": 2, "forecast_futures": 40})
    app.finish(episode_id)
    page = open_page(f"{app.base_url}/watch/{episode_id}", **options)
    expect(page.locator("#state")).to_have_text("Finished")
    return page


def test_an_interval_tells_what_the_innings_came_to(quiet_app: Serving, open_page: Opener) -> None:
    """In the place of its last ball, with the best of both sides, until the next innings has a ball."""
    page = open_finished(quiet_app, open_page)
    address = page.url.partition("?")[0]
    events = quiet_app.events(address.rsplit("/", 1)[-1])
    over = next(event for event in events if event["type"] == "cricket.innings_ended")
    begun = [event["seq"] for event in events if event["type"] == "cricket.over_started"]
    page.goto(f"{address}?seq={min(seq for seq in begun if seq > over['seq'])}")
    team, score = over["data"]["team"], over["data"]["score"]
    told = f"{team} {score['runs']} for {score['wickets']} in {score['overs']} overs"
    expect(page.locator(".ball__line")).to_have_text(told)
    expect(page.locator(".ball__detail")).to_contain_text(f"need {score['runs'] + 1} off 12")
    sides = page.locator(".ball__side")
    expect(sides.first).to_contain_text(re.compile(r"bowled.*\w+ \d for \d"))
    expect(sides.last).to_contain_text(re.compile(rf"{team} played.*\w+ \d+ off \d"))
    expect(page.locator(".ball__mark")).to_have_text(str(score["runs"]))
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".ball__detail")).to_have_text(re.compile(r"^0\.\d · "))


def test_whatever_names_a_moment_goes_there_and_keeps_the_keys(quiet_app: Serving, open_page: Opener) -> None:
    """Commentary, balls of an over, bars, wickets, swings; then the arrow moves on from there."""
    page = open_finished(quiet_app, open_page)
    shown, state = page.locator(".ball__detail"), page.locator("#state")
    line = page.locator(".feed__line", has=page.locator(".feed__at", has_text="1.3")).last
    line.locator(".feed__text").click()
    expect(shown).to_have_text(re.compile(r"^1\.3 "))
    expect(state).to_have_text("Replay")
    page.locator("a.over__ball").first.click()
    expect(shown).to_have_text(re.compile(r"^1\.1 "))
    page.keyboard.press("ArrowRight")
    expect(shown).not_to_have_text(re.compile(r"^1\.1 "))
    page.keyboard.press("l")
    page.locator(".chart__bars--then rect").first.click()
    expect(page.locator(".badge").first).to_have_text("1st innings")
    expect(shown).to_have_text(re.compile(r"^0\.6 "))
    page.keyboard.press("l")
    page.locator(".cards__fall a").first.click()
    expect(page.locator(".ball__mark--wicket")).to_be_visible()


def test_the_moment_where_one_stands_can_be_kept_as_a_clip(quiet_app: Serving, open_page: Opener) -> None:
    """By its key and by its button; what cannot be drawn is said where it was asked for."""
    page = open_finished(quiet_app, open_page, forgive=("503",))
    page.locator(".cards__fall a").first.click()
    expect(page.locator(".ball__mark--wicket")).to_be_visible()
    with page.expect_download(timeout=60_000) as kept:
        page.keyboard.press("v")
    assert kept.value.suggested_filename.endswith(".webp")
    assert kept.value.path().read_bytes()[8:12] == b"WEBP"
    page.route(
        "**/clip/**", lambda route: route.fulfill(status=503, json={"detail": "it is too much at once"})
    )
    button = page.locator("#clip")
    expect(button).to_be_enabled()
    page.keyboard.press("v")
    expect(page.get_by_role("status").filter(has_text="No clip")).to_have_text(
        "No clip: it is too much at once"
    )


def test_a_click_on_the_timeline_leaves_the_keys_to_the_page(quiet_app: Serving, open_page: Opener) -> None:
    """The bar has the focus then; the keys are still heard, on every layout, by what is printed on them."""
    page = open_finished(quiet_app, open_page)
    page.get_by_role("slider").click(position={"x": 24, "y": 20})  # before the first mark, however wide it is
    expect(page.locator("#state")).to_have_text("Replay")
    where = page.locator(".player__where").inner_text()
    page.keyboard.press("]")
    expect(page.locator(".player__where")).not_to_have_text(where)
    for pair in BRACKETS:
        for key, code, *held in pair:
            where = page.locator(".player__where").inner_text()
            press_on_layout(page, key, code, *held)
            expect(page.locator(".player__where")).not_to_have_text(where)
    for key, code, *held in (("l", "KeyL", "Control"), ("\u20ac", "KeyL", "AltGr"), ("q", "KeyA")):
        press_on_layout(page, key, code, *held)
    expect(page.get_by_role("dialog")).to_have_count(0)
    press_on_layout(page, "a", "KeyQ")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#state")).to_have_text("Replay")
    for key, code in LIVE:
        press_on_layout(page, key, code)
        expect(page.locator("#state")).to_have_text("Finished")
        page.keyboard.press("Home")
        expect(page.locator("#state")).to_have_text("Replay")


def test_the_end_says_what_turned_it_and_what_next(quiet_app: Serving, open_page: Opener) -> None:
    """The result, the reward by its parts, moments that lead there; a rematch begins with a click."""
    page = open_finished(quiet_app, open_page)
    ending = page.locator(".ending")
    expect(ending.locator(".ending__result")).to_have_text(
        page.locator(".score__equation").inner_text().replace("\n", " ")
    )
    expect(ending).to_contain_text(re.compile(r"Reward of .+: \d\.\d\d \(result"))
    ending.locator(".ending__turn").first.click()
    expect(page.locator("#state")).to_have_text("Replay")
    expect(ending).to_have_count(0)
    page.keyboard.press("l")
    before = page.url
    ending.get_by_role("button", name="Rematch").click()
    page.wait_for_url(lambda url: url != before and "/watch/ep-" in url)
    again = quiet_app.client.get(f"/api/episodes/{page.url.rsplit('/', 1)[1]}").json()
    assert (again["environment"], again["captain"]) == ("cricket", "heuristic")


def test_the_form_leaves_alone_what_nobody_changed(quiet_app: Serving, open_page: Opener) -> None:
    """A match that is watched has its win chances, unless somebody says otherwise."""
    page = open_page(f"{quiet_app.base_url}/")
    page.get_by_label("max overs").fill("1")
    with page.expect_request("**/custom/start_episode") as asked:
        page.get_by_role("button", name="Start the match").click()
    assert json.loads(asked.value.post_data or "")["options"] == {"max_overs": 1}
    page.wait_for_url("**/watch/ep-*")
    expect(page.locator(".chances")).to_be_visible()


def test_a_phone_shows_one_view_at_a_time(quiet_app: Serving, open_page: Opener) -> None:
    """Play, minds, commentary or cards; the score stays; speed and big moments are within reach."""
    page = open_finished(quiet_app, open_page, viewport=PHONE, has_touch=True)
    parts = {"live": "#lead", "mind": "#mind", "commentary": "#feed", "board": ".cards"}
    for view in parts:
        page.locator(f"[data-shows={view}]").tap()
        for name, part in parts.items():
            seen = name == view or (view, name) == ("live", "mind")
            expect(page.locator(part)).to_be_visible(visible=seen)
        expect(page.locator(".score")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    expect(page.get_by_label("Replay speed")).to_be_visible()
    page.get_by_role("button", name="Previous big moment").tap()
    expect(page.locator("#state")).to_have_text("Replay")


def test_the_first_fold_holds_field_score_and_win_line(quiet_app: Serving, open_page: Opener) -> None:
    """At 1440 by 900 nothing of them lies under the player bar; nor does either mind."""
    page = open_finished(quiet_app, open_page)
    bar = page.locator("#player").bounding_box()
    assert bar
    for part in (".score", ".ground", ".ball", ".chances__line", "#mind"):
        box = page.locator(part).bounding_box()
        assert box and box["y"] >= 0 and box["y"] + box["height"] <= bar["y"], part


def test_a_lost_connection_can_be_tried_now(quiet_app: Serving, open_page: Opener) -> None:
    """While nothing arrives, Live is not lit and a button tries at once; then all is as it was."""
    opened: list[WebSocketRoute] = []
    shut = [False]

    def door(route: WebSocketRoute) -> None:
        opened.append(route)
        if shut[0]:
            route.close(code=1006)
        else:
            route.connect_to_server()

    episode_id = quiet_app.start(pace="broadcast", max_overs=2, seed=6)
    page = open_page("", forgive=("Failed to load resource", "ERR_FAILED"))
    page.add_init_script("Math.random = () => 0.999")  # the longest waits
    page.route_web_socket("**/live/**", door)
    page.goto(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator("#state")).to_have_text("Live")
    expect(page.locator(".player__live--on")).to_have_count(1)
    expect(page.locator("#retry")).to_be_hidden()
    shut[0] = True
    page.route("**/live/*/events*", lambda route: route.abort())
    page.route("**/api/episodes/*/events*", lambda route: route.abort())
    opened[0].close(code=1012)
    expect(page.locator("#retry")).to_be_visible()
    expect(page.locator(".player__live--on")).to_have_count(0)
    expect(page.locator("#state")).to_have_text(re.compile(r"^Reconnecting in ([89]|1\d) s"), timeout=90_000)
    shut[0] = False
    page.unroute("**/live/*/events*")
    page.locator("#retry").click(force=True)
    expect(page.locator("#state")).to_have_text(re.compile("^Live"))
    expect(page.locator("#retry")).to_be_hidden()

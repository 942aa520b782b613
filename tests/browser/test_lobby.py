"""The lobby tells what is on, what was played, and what is wrong with a request."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from spectator.catalog import load_world
from tests.browser.conftest import PHONE, WIDE, Opener, violations
from tests.serving import Serving, serve, test_settings

pytestmark = pytest.mark.browser


def suggested_labels() -> list[str]:
    """Who would play if one pressed the button."""
    world = load_world("cricket")
    captain, opponent = world.pairings()[0]
    assert opponent is not None
    return [world.captains[captain].label, world.opponents[opponent].label]


def test_an_empty_house_says_what_to_do(tmp_path: Path, open_page: Opener) -> None:
    """Nothing on, nothing played: both say so, and who would play if one pressed the button."""
    with serve(test_settings(tmp_path, environment="cricket")) as app:
        page = open_page(app.base_url)
        expect(page.locator("#on")).to_contain_text("Nothing is live. Start a match")
        for label in suggested_labels():
            expect(page.locator("#large .lobby__next")).to_contain_text(label)
        expect(page.locator("#played")).to_contain_text("Nothing has been played yet")
        expect(page.get_by_role("button", name="Start the match")).to_be_enabled()
        expect(page.locator("#state")).to_have_text("Ready")


def test_a_first_visit_shows_two_different_minds(tmp_path: Path, open_page: Opener) -> None:
    """With nobody playing and nothing set: one click from the lobby, both captains give their reasons."""
    with serve(test_settings(tmp_path, environment="cricket", exhibition=True)) as app:
        page = open_page(app.base_url)
        page.get_by_role("link", name="Watch the featured episode").click()
        page.wait_for_url("**/watch/ep-*")
        minds = page.locator(".mind__seat")
        expect(minds).to_have_count(2)
        for mind in (minds.first, minds.last):
            expect(mind.locator(".mind__thought:not(.mind__stream)").first).to_have_text(
                re.compile(r"\w+ \w+")
            )
        first, last = (mind.locator(".mind__by").inner_text() for mind in (minds.first, minds.last))
        assert first != last
        page.close()


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("button", ["Start a match", "Beat the captain"])
def test_one_click_in_the_first_fold_starts_a_match(
    quiet_app: Serving, open_page: Opener, size: dict[str, int], button: str
) -> None:
    """Between two different captains, or with the visitor in a seat against the model trained here."""
    page = open_page(f"{quiet_app.base_url}/", viewport=size)
    start = page.get_by_role("button", name=button)
    box = start.bounding_box()
    assert box and box["y"] + box["height"] < size["height"] / 2
    start.click()
    page.wait_for_url("**/watch/ep-*")
    (running,) = quiet_app.client.get("/custom/status").json()["running"]
    captain, opponent = load_world("cricket").pairings()[0]
    assert captain == "trained" != opponent
    chosen = ("human", captain) if button.startswith("Beat") else (captain, opponent)
    assert (running["captain_preset"], running["opponent_choice"]) == chosen
    if button.startswith("Beat"):
        expect(page.locator(".seat__do, #seat form, .seat")).not_to_have_count(0)


def test_a_refused_start_is_explained_beside_its_button(quiet_app: Serving, open_page: Opener) -> None:
    for _ in range(2):
        quiet_app.start(pace="broadcast", max_overs=5, captain_preset="anchor")
    page = open_page(f"{quiet_app.base_url}/", forgive=("409",))
    page.get_by_role("button", name="Start a match").click()
    told = page.locator("#go").get_by_role("alert")
    expect(told).to_contain_text("A match is already running")
    expect(told.get_by_role("link", name="Watch Anchor play")).to_have_count(2)
    expect(page.get_by_role("button", name="Start a match")).to_be_enabled()


def test_without_a_script_it_says_what_is_on_and_what_was_played(
    quiet_app: Serving, open_page: Opener
) -> None:
    """By the captains' names, never by those of their presets, and with who won."""
    match = {"captain_preset": "match_ups", "opponent_choice": "spin_first", "max_overs": 1}
    played = quiet_app.finish(quiet_app.start(**match))
    running = quiet_app.start(pace="broadcast", **match)
    page = open_page(f"{quiet_app.base_url}/", java_script_enabled=False)
    expect(page.locator("#state")).to_have_text("On air")
    expect(page.locator(f"#on a[href$='watch/{running}']")).to_be_visible()
    row = page.locator(".played__line", has_text=played["result"]).first
    met = re.compile("Matchmaker (beat|lost to|tied with) Spin Doctor")
    expect(row).to_contain_text(met)
    sides = quiet_app.client.get(f"/api/episodes/{running}/glance").json()["sides"]
    live = f"Matchmaker ({sides[0]}) against Spin Doctor ({sides[1]})"
    expect(page.locator("#on p", has_text=live)).to_be_visible()
    expect(page.get_by_role("button", name="Start a match")).to_be_hidden()
    with_script = open_page(f"{quiet_app.base_url}/")
    who = with_script.locator(".game__who").first
    expect(who).to_contain_text(re.compile("Matchmaker (beat|lost to|tied with) SD Spin Doctor"))
    expect(who.locator(".emblem")).to_have_text(["M", "SD"])


def test_the_form_begins_with_two_different_captains(quiet_app: Serving, open_page: Opener) -> None:
    page = open_page(f"{quiet_app.base_url}/")
    captain, opponent = load_world("cricket").pairings()[0]
    expect(page.get_by_label("Captain", exact=True)).to_have_value(captain)
    expect(page.get_by_label("Opponent", exact=True)).to_have_value(opponent or "")


def test_wrong_fields_are_named_and_nothing_starts(quiet_app: Serving, open_page: Opener) -> None:
    """Every wrong field is listed with its rule and marked, the first focused; a good value clears it."""
    page = open_page(f"{quiet_app.base_url}/", forgive=("422",))
    overs, seed = page.get_by_label("max overs"), page.get_by_label("Seed")
    overs.fill("99")
    seed.fill("-4")
    page.get_by_role("button", name="Start the match").click()
    told = page.get_by_role("alert")
    expect(told).to_contain_text("max_overs")
    expect(told).to_contain_text("seed")
    expect(overs).to_have_attribute("aria-invalid", "true")
    expect(seed).to_have_attribute("aria-invalid", "true")
    assert page.evaluate("document.activeElement.getAttribute('aria-invalid')") == "true"
    assert quiet_app.client.get("/custom/status").json()["running"] == []
    overs.fill("1")
    expect(told).to_be_hidden()
    expect(overs).not_to_have_attribute("aria-invalid", "true")


def test_a_blank_is_as_wide_as_what_it_shows(quiet_app: Serving, open_page: Opener) -> None:
    """By its own means: browsers without ``field-sizing`` would make it as wide as its longest choice."""
    page = open_page(f"{quiet_app.base_url}/")
    sentence = page.locator(".start__sentence")
    expect(sentence).to_contain_text("pace, from the pack")
    expect(page.locator(".start__kept").last).to_have_text(".")
    captain = page.get_by_label("Captain", exact=True)
    expect(captain).to_have_css("field-sizing", "fixed")
    narrow = captain.bounding_box()
    page.evaluate("document.querySelector('#captain_preset').options[0].text += ' of many words'")
    captain.select_option(index=0)
    wide = captain.bounding_box()
    assert narrow and wide and narrow["width"] < wide["width"] < 3 * narrow["width"]
    overs = page.get_by_label("max overs")
    before = overs.bounding_box()
    overs.fill("200")
    after = overs.bounding_box()
    assert before and after and before["width"] < after["width"] < 80


def test_a_busy_house_shows_the_way_to_what_is_on(quiet_app: Serving, open_page: Opener) -> None:
    """409 names the running ones with links that work."""
    running = [quiet_app.start(pace="broadcast", max_overs=5) for _ in range(2)]
    page = open_page(f"{quiet_app.base_url}/", forgive=("409",))
    expect(page.locator(".tile")).to_have_count(2)
    page.get_by_role("button", name="Start the match").click()
    told = page.get_by_role("alert")
    expect(told).to_contain_text("A match is already running")
    expect(told.get_by_role("link")).to_have_count(2)
    wait = told.get_by_role("button", name="when a slot is free")
    wait.click()
    expect(told).to_contain_text("You are next of 1 in the queue.")
    told.get_by_role("button", name="Stop waiting").click()
    expect(wait).to_be_visible()
    expect(told).not_to_contain_text("in the queue")
    wait.click()
    expect(told).to_contain_text("You are next")
    quiet_app.client.post("/custom/stop_episode", json={"episode_id": running[0]})
    page.wait_for_url("**/watch/ep-*")
    expect(page.locator("#state")).to_have_text("Live")


def test_what_is_on_is_told_live(quiet_app: Serving, open_page: Opener) -> None:
    """What is shown large follows the score to the result, which is among what was played then."""
    episode_id = quiet_app.start(pace="broadcast", max_overs=1, seed=4)
    page = open_page(f"{quiet_app.base_url}/")
    headline = page.locator("#large .tile__headline:visible")
    expect(headline).to_contain_text("/")
    first = headline.inner_text()
    expect(headline).not_to_have_text(first)
    quiet_app.client.post("/custom/pace", json={"episode_id": episode_id, "pace": "max"})
    result = quiet_app.finish(episode_id)["result"]
    expect(page.locator(".game__result").first).to_have_text(result)
    expect(page.locator("#large .tile__headline:visible")).to_have_text(result)
    page.locator(".game").get_by_role("link", name=result).first.click()
    page.wait_for_url(f"**/watch/{episode_id}")
    expect(page.locator("#state")).to_have_text("Finished")


def test_the_header_changes_with_the_tiles_not_with_the_next_question(
    quiet_app: Serving, open_page: Opener
) -> None:
    """No page says "On air" above "Nothing is live": the header follows with every later status withheld."""
    page = open_page(f"{quiet_app.base_url}/")
    expect(page.locator("#state")).to_have_text("Ready")
    page.route("**/custom/status", lambda route: None)
    episode_id = quiet_app.start(pace="broadcast", max_overs=1)
    expect(page.locator("#state")).to_have_text("On air")
    expect(page.locator("#state")).to_have_attribute("data-tone", "live")
    quiet_app.client.post("/custom/stop_episode", json={"episode_id": episode_id})
    expect(page.locator("#state")).to_have_text("Ready")
    expect(page.locator("#large .tile:visible")).to_contain_text("Stopped")


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_one_match_is_shown_large_in_the_first_fold(
    tmp_path: Path, open_page: Opener, size: dict[str, int]
) -> None:
    """With its field, its chances and its newest line; a click goes there; the others stand as rows."""
    with serve(test_settings(tmp_path, environment="cricket", max_episodes=6)) as app:
        for seed in range(6):
            app.start(pace="broadcast", seed=seed, options={"max_overs": 20, "forecast_futures": 20})
        page = open_page(f"{app.base_url}/", viewport=size)
        tile = page.locator("#large .tile")
        expect(tile.locator(".tile__picture circle[r='2.8']")).to_have_count(11, timeout=60_000)
        expect(tile.locator(".chance-line")).to_be_visible(timeout=60_000)
        expect(tile.locator(".tile__line")).not_to_be_empty()
        box = tile.bounding_box()
        assert box and box["y"] + box["height"] <= size["height"] and box["height"] > size["height"] / 3
        expect(page.locator("#on .tile--row")).to_have_count(3)
        expect(page.get_by_role("link", name="See all 6 on the wall")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
        assert page.evaluate("window.shiftAtOnce") < 0.02
        assert violations(page) == []
        tile.click()
        page.wait_for_url("**/watch/ep-*")
        page.close()


MOVES = """window.moved = 0; const animate = Element.prototype.animate;
Element.prototype.animate = function (...given) {
  window.moved += this.closest(".tile__picture") ? 1 : 0;
  return animate.apply(this, given);
};"""
"""Counts what moves within pictures."""


def test_balls_travel_in_the_large_picture_unless_motion_is_to_be_reduced(
    quiet_app: Serving, open_page: Opener
) -> None:
    quiet_app.start(pace="fast", seed=8, options={"max_overs": 20, "forecast_futures": 0})
    moved = {}
    for motion in ("no-preference", "reduce"):
        page = open_page("", reduced_motion=motion)
        page.add_init_script(MOVES)
        page.goto(f"{quiet_app.base_url}/")
        headline = page.locator("#large .tile__headline:visible")
        expect(page.locator("#large .tile__picture .ground__ball")).to_have_count(1)
        for _ in range(3):
            expect(headline).not_to_have_text(headline.inner_text())
        if motion == "no-preference":
            page.wait_for_function("window.moved > 0", polling=50)
        moved[motion] = page.evaluate("window.moved")
        page.close()
    assert moved["reduce"] == 0 < moved["no-preference"]


def test_where_nothing_is_on_the_last_match_is_shown_and_can_be_replayed(
    tmp_path: Path, open_page: Opener
) -> None:
    """With its result and how the chances went; one that was stopped does not take its place."""
    with serve(test_settings(tmp_path, environment="cricket")) as app:
        episode_id = app.start(pace="max", seed=4, options={"max_overs": 1, "forecast_futures": 20})
        result = app.finish(episode_id)["result"]
        app.client.post("/custom/stop_episode", json={"episode_id": app.start(pace="broadcast", max_overs=5)})
        page = open_page(f"{app.base_url}/")
        tile = page.locator("#large .tile:visible")
        expect(tile.locator(".tile__headline")).to_have_text(result)
        expect(tile.locator(".tile__picture circle[r='2.8']")).to_have_count(11)
        expect(tile.locator(".chance-line")).to_be_visible()
        again = page.get_by_role("link", name="Replay the last one")
        expect(again).to_have_attribute("href", re.compile(f"/replay/{episode_id}$"))
        tile.click()
        page.wait_for_url(f"**/replay/{episode_id}")
        page.close()


def test_what_was_played_is_searched_and_turned_over(tmp_path: Path, open_page: Opener) -> None:
    """More than a page of them: older ones on request, and a search through all that is shown."""
    with serve(test_settings(tmp_path)) as app:
        for seed in range(27):
            app.finish(app.start(seed=1_000 + seed, captain_preset="random" if seed == 26 else "heuristic"))
        page = open_page(app.base_url)
        rows = page.locator(".game")
        expect(rows).to_have_count(25)
        page.get_by_role("button", name="Older").click()
        expect(rows).to_have_count(27)
        expect(page.get_by_role("button", name="Older")).to_be_hidden()
        page.get_by_label("Search past episodes").fill("random counter")
        expect(rows).to_have_count(1)
        page.get_by_label("Search past episodes").fill("1003")
        expect(rows).to_have_count(1)
        page.get_by_label("Search past episodes").fill("no such thing")
        expect(rows).to_have_count(0)
        expect(page.locator("#played")).to_contain_text("No past episode matches")


def test_another_world_brings_its_own_choices(quiet_app: Serving, open_page: Opener) -> None:
    """The sentence is made anew from the catalogue, without naming any world in the page."""
    page = open_page(f"{quiet_app.base_url}/")
    page.get_by_label("World", exact=True).select_option("counting")
    expect(page.get_by_label("Opponent")).to_have_count(0)
    page.get_by_label("turns", exact=True).fill("3")
    page.get_by_label("Pace").select_option("max")
    page.get_by_role("button", name="Start the match").click()
    page.wait_for_url("**/watch/ep-*")
    expect(page.locator("#state")).to_have_text("Finished")
    expect(page.locator(".count")).to_contain_text("3 of 3 said")


def test_a_server_that_went_away_is_told_and_found_again(quiet_app: Serving, open_page: Opener) -> None:
    """Without a server the page says so in words; when it is back, everything is."""
    page = open_page("", forgive=("ERR_FAILED",))
    page.route("**/custom/**", lambda route: route.abort())
    page.route("**/api/**", lambda route: route.abort())
    page.goto(f"{quiet_app.base_url}/")
    expect(page.locator("#state")).to_have_text("Offline")
    expect(page.locator("#start")).to_contain_text("The server cannot be reached")
    page.unroute_all()
    expect(page.locator("#state")).to_have_text("Ready")
    expect(page.get_by_role("button", name="Start the match")).to_be_visible()
    expect(page.locator("#played")).not_to_contain_text("could not be read")

"""The wall shows all that runs, live, over one socket, however many there are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import COLOURS, PHONE, RULES, Opener, leave, violations
from tests.serving import Serving, serve, test_settings, until

pytestmark = pytest.mark.browser

MANY = 80


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server on which many counts run."""
    settings = test_settings(tmp_path_factory.mktemp("data"), max_episodes=MANY + 1)
    with serve(settings) as running:
        for seed in range(MANY):
            running.start(pace="broadcast", seed=seed, options={"turns": 100_000})
        yield running


def test_all_tiles_are_live_over_one_socket(crowded: Serving, open_page: Opener) -> None:
    page = open_page("")
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    page.goto(f"{crowded.base_url}/wall")
    tiles = page.locator("#tiles .tile")
    expect(tiles).to_have_count(MANY)
    expect(page.locator("#count")).to_contain_text(f"{MANY} episodes live")
    headline = tiles.first.locator(".tile__headline")
    before = headline.inner_text()
    expect(headline).not_to_have_text(before)
    expect(page.locator("#tv .tile")).to_have_count(1)
    assert len(sockets) == 1
    assert page.evaluate("window.shiftAtOnce") < 0.02


def test_what_is_chosen_stays_in_the_address(crowded: Serving, open_page: Opener) -> None:
    page = open_page(f"{crowded.base_url}/wall", viewport=PHONE)
    page.get_by_label("Search live episodes").fill("nobody at all")
    expect(page.locator("#empty")).to_contain_text("No live episode matches")
    page.get_by_label("Search live episodes").fill("seed 77")
    expect(page.locator("#tiles .tile")).to_have_count(1)
    page.reload()
    expect(page.get_by_label("Search live episodes")).to_have_value("seed 77")
    tile = page.locator("#tiles .tile")
    expect(tile).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    tile.click()
    page.wait_for_url("**/watch/ep-*")
    expect(page.locator("#state")).to_have_text("Live")


def test_a_director_says_what_it_shows_large_and_can_be_overruled(
    crowded: Serving, open_page: Opener
) -> None:
    """Its reason is told; one can be stayed with or none be large, and the address keeps it."""
    page = open_page(f"{crowded.base_url}/wall")
    tv = page.locator("#tv")
    expect(tv).to_contain_text("Featured because it ")
    stay = page.get_by_role("button", name="Stay with this one")
    stay.focus()
    page.keyboard.press("Enter")
    expect(stay).to_have_attribute("aria-pressed", "true")
    expect(tv).to_contain_text("Featured because you chose it")
    watched = tv.locator(".tile").get_attribute("href")
    assert watched is not None
    assert f"large={watched.rsplit('/', 1)[1]}" in page.url
    page.reload()
    expect(tv).to_contain_text("Featured because you chose it")
    expect(tv.locator(".tile")).to_have_attribute("href", watched)
    page.get_by_label("Featured episode").select_option("none featured")
    expect(tv).to_be_hidden()
    page.reload()
    expect(page.locator("#tiles .tile").first).to_be_visible()
    expect(tv).to_be_hidden()
    assert violations(page) == []


def test_an_end_is_seen_and_an_empty_wall_says_what_to_do(quiet_app: Serving, open_page: Opener) -> None:
    page = open_page(f"{quiet_app.base_url}/wall")
    expect(page.locator("#empty")).to_contain_text("Nothing is live. Start one in the lobby")
    episode_id = quiet_app.start(pace="broadcast", max_overs=1)
    tile = page.locator("#tiles .tile")
    expect(tile).to_contain_text("Live")
    quiet_app.client.post("/custom/stop_episode", json={"episode_id": episode_id})
    expect(tile).to_contain_text("Stopped")


def test_without_sockets_it_polls_and_says_so(quiet_app: Serving, open_page: Opener) -> None:
    quiet_app.start(pace="broadcast", max_overs=1)
    page = open_page("", forgive=("WebSocket",))
    page.route_web_socket("**/live/wall", lambda socket: socket.close(code=1011))
    page.goto(f"{quiet_app.base_url}/wall")
    expect(page.locator("#tiles .tile").filter(has_text="Live")).to_have_count(1)
    expect(page.locator("#state")).to_have_text("Polling")


def test_a_tile_tells_whose_chance_is_what(quiet_app: Serving, open_page: Opener) -> None:
    """Both captains stand at the ends of the bar, with figures that make a hundred."""
    quiet_app.start(pace="broadcast", seed=8, options={"max_overs": 2, "forecast_futures": 50})
    page = open_page(f"{quiet_app.base_url}/wall")
    tile = page.locator("#tiles .tile").filter(has_text=re.compile(r"seed 8(?!\d)"))
    seats = tile.locator(".tile__seats[data-told=true]")
    expect(seats.locator("b").filter(has_text="%")).to_have_count(2, timeout=60_000)
    shares = seats.evaluate("(it) => [...it.querySelectorAll('b')].map((one) => parseInt(one.textContent))")
    assert sum(shares) == 100
    line = tile.locator(".chance-line")
    expect(line).to_be_visible()
    expect(line).to_have_attribute("aria-hidden", "true")
    expect(line.locator(".chance-line__line")).to_have_attribute("d", re.compile("L"))


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_match_is_drawn_as_it_stands_and_the_ball_as_it_went(
    quiet_app: Serving, open_page: Opener, theme: str
) -> None:
    """Field, newest ball and course of the chances; hidden from readers, without a hole or a move."""
    episode_id = quiet_app.start(pace="fast", seed=8, options={"max_overs": 20, "forecast_futures": 20})
    page = open_page(f"{quiet_app.base_url}/wall", color_scheme=theme)
    tile = page.locator(f"#tiles .tile[href$={episode_id}]")
    picture = tile.locator(".tile__picture")
    expect(picture.locator("circle[r='2.8']")).to_have_count(11)
    expect(picture).to_have_attribute("aria-hidden", "true")
    box = tile.bounding_box()
    expect(picture.locator("text")).to_have_text(re.compile("^[46W]$"), timeout=60_000)
    assert box and tile.bounding_box() == box, "steady whatever happens"
    assert page.evaluate("window.shiftAtOnce") < 0.02
    assert violations(page, rules=COLOURS if theme == "light" else RULES) == []
    leave(page)


def test_a_campaign_of_the_collider_is_drawn_from_its_budget_to_its_peak(
    tmp_path: Path, open_page: Opener
) -> None:
    """Rings of what is left, then the spectrum, and the significance once the tile tells of it."""
    with serve(test_settings(tmp_path, environment="collider")) as app:
        episode_id = app.start(pace="broadcast", seed=3)
        page = open_page(f"{app.base_url}/wall")
        tile = page.locator("#tiles .tile")
        expect(tile.locator(".tile__picture circle")).to_have_count(6)
        app.client.post("/custom/pace", json={"episode_id": episode_id, "pace": "fast"})
        expect(tile.locator(".tile__picture text")).to_have_text("5.2σ", timeout=60_000)
        expect(tile.locator(".tile__bar")).to_be_visible()
        expect(tile.locator(".chance-line")).to_be_hidden()
        assert page.evaluate("window.shiftAtOnce") < 0.02
        page.close()


def test_without_a_script_it_shows_what_is_live_and_follows_it(quiet_app: Serving, open_page: Opener) -> None:
    match = quiet_app.start(pace="broadcast", seed=8, options={"max_overs": 20, "forecast_futures": 20})
    counting = quiet_app.start(environment="counting", pace="broadcast")
    shown = until("a chance", lambda: quiet_app.client.get("/live/wall").json()["tiles"][match].get("sides"))
    page = open_page(f"{quiet_app.base_url}/wall", java_script_enabled=False)
    tile = page.locator(f".tile[href$={match}]")
    expect(tile.locator(".tile__who bdi")).to_have_text(shown)
    expect(tile.locator(".tile__who .emblem")).to_have_count(2)
    expect(page.locator(f".tile[href$={counting}] .tile__seats")).to_have_text("Careful counter")
    for unread in ("Connecting", "Loading episodes"):
        expect(page.get_by_text(unread)).to_be_hidden()
    assert 'http-equiv="refresh"' in quiet_app.client.get("/wall").text


DRAWN = """(tile) => {
  window.drawn = [];
  new MutationObserver(() => {
    const sign = tile.querySelector(".tile__picture text")?.textContent ?? "";
    window.drawn.push([sign, tile.querySelector(".tile__headline").textContent]);
  }).observe(tile.querySelector(".tile__picture"), { childList: true, subtree: true });
}"""
"""Keeps what each ball was drawn as, and the score that stood beside it in the same moment."""


def test_a_ball_is_not_drawn_before_the_score_tells_of_it(quiet_app: Serving, open_page: Opener) -> None:
    """With a four or a six the runs have gone up by as many, with a wicket the wickets."""
    episode_id = quiet_app.start(pace="fast", seed=8, options={"max_overs": 20, "forecast_futures": 0})
    page = open_page(f"{quiet_app.base_url}/wall")
    tile = page.locator(f"#tiles .tile[href$={episode_id}]")
    expect(tile.locator(".tile__picture svg")).to_be_visible()
    tile.evaluate(DRAWN)
    page.wait_for_function(
        "() => new Set(drawn.slice(1).map(([sign]) => sign)).size > 2", polling=50, timeout=60_000
    )
    scores = [(sign, re.search(r"(\d+)/(\d+)", told)) for sign, told in page.evaluate("window.drawn")]
    for (_, before), (sign, after) in pairwise(scores):
        assert before and after
        runs, wickets = (int(after[place]) - int(before[place]) for place in (1, 2))
        assert wickets > 0 if sign == "W" else runs >= int(sign or 0), (sign, before[0], after[0])


def test_only_pictures_in_view_are_drawn(tmp_path: Path, open_page: Opener) -> None:
    """Thirty matches on a phone: those below are drawn when they are scrolled to, as they stand then."""
    with serve(test_settings(tmp_path, environment="cricket", max_episodes=30)) as app:
        for seed in range(30):
            app.start(pace="broadcast", seed=seed, options={"max_overs": 20, "forecast_futures": 0})
        page = open_page(f"{app.base_url}/wall?large=none", viewport=PHONE)
        pictures = page.locator("#tiles .tile__picture")
        expect(pictures).to_have_count(30)
        expect(pictures.first.locator("circle[r='2.8']")).to_have_count(11, timeout=60_000)
        expect(pictures.last.locator("svg")).to_have_count(1)
        expect(pictures.last.locator("circle[r='2.8']")).to_have_count(0)
        pictures.last.scroll_into_view_if_needed()
        expect(pictures.last.locator("circle[r='2.8']")).to_have_count(11)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_a_picture_that_fails_leaves_the_tile_as_it_was(quiet_app: Serving, open_page: Opener) -> None:
    episode_id = quiet_app.start(pace="broadcast", seed=8, options={"max_overs": 5})
    page = open_page("", forgive=("picture of cricket failed", "Failed to load resource"))
    page.route("**/panels/cricket/tile.js", lambda route: route.abort())
    page.goto(f"{quiet_app.base_url}/wall")
    tile = page.locator(f"#tiles .tile[href$={episode_id}]")
    expect(tile.locator(".tile__picture")).to_be_hidden()
    expect(tile.locator(".tile__headline")).to_contain_text("/")

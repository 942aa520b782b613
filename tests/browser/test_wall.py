"""The wall shows all that runs, live, over one socket, however many there are."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import PHONE, Opener
from tests.serving import Serving, serve, test_settings

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
    expect(page.locator("#count")).to_contain_text(f"{MANY} episodes on")
    headline = tiles.first.locator(".tile__headline")
    before = headline.inner_text()
    expect(headline).not_to_have_text(before)
    expect(page.locator("#tv .tile")).to_have_count(1)
    assert len(sockets) == 1
    assert page.evaluate("window.shiftAtOnce") < 0.02


def test_what_is_chosen_stays_in_the_address(crowded: Serving, open_page: Opener) -> None:
    page = open_page(f"{crowded.base_url}/wall", viewport=PHONE)
    page.get_by_label("Search what is on").fill("nobody at all")
    expect(page.locator("#empty")).to_contain_text("Nothing that is on matches")
    page.get_by_label("Search what is on").fill("seed 77")
    expect(page.locator("#tiles .tile")).to_have_count(1)
    page.reload()
    expect(page.get_by_label("Search what is on")).to_have_value("seed 77")
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
    expect(tv).to_contain_text("Large because it ")
    stay = page.get_by_role("button", name="Stay with this one")
    stay.focus()
    page.keyboard.press("Enter")
    expect(stay).to_have_attribute("aria-pressed", "true")
    expect(tv).to_contain_text("Large because you chose it")
    watched = tv.locator(".tile").get_attribute("href")
    assert watched is not None
    assert f"large={watched.rsplit('/', 1)[1]}" in page.url
    page.reload()
    expect(tv).to_contain_text("Large because you chose it")
    expect(tv.locator(".tile")).to_have_attribute("href", watched)
    page.get_by_label("What is shown large").select_option("nothing large")
    expect(tv).to_be_hidden()
    page.reload()
    expect(page.locator("#tiles .tile").first).to_be_visible()
    expect(tv).to_be_hidden()
    results = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag22aa", "best-practice"]})
    assert results.violations_count == 0, results.generate_report()


def test_an_end_is_seen_and_an_empty_wall_says_what_to_do(quiet_app: Serving, open_page: Opener) -> None:
    page = open_page(f"{quiet_app.base_url}/wall")
    expect(page.locator("#empty")).to_contain_text("Nothing is on. Start one in the lobby")
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
    expect(seats.locator("b")).to_have_count(2, timeout=60_000)
    shares = seats.evaluate("(it) => [...it.querySelectorAll('b')].map((one) => parseInt(one.textContent))")
    assert sum(shares) == 100
    expect(tile.locator(".tile__chance")).to_be_visible()

"""The wall shows all that runs, live, over one socket, however many there are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
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
    assert page.evaluate("window.shifts") < 0.05


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

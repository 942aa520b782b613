"""A match can be started, watched, joined, left and found again in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.conftest import Opener, board, leave
from tests.serving import Serving, free_port, serve_process, until

pytestmark = pytest.mark.browser


def ended(page: Page, state: str | re.Pattern[str] = "Finished") -> None:
    """Wait until the page shows the end and has read what it missed: only then it counts its places."""
    expect(page.locator("#state")).to_have_text(state, timeout=60_000)
    expect(page.locator(".player__where")).to_contain_text(re.compile(r"\d+ / \d+"))
    expect(page.locator("#feed .ending")).to_be_attached()


def test_a_match_is_started_by_clicking_and_watched_to_its_end(quiet_app: Serving, open_page: Opener) -> None:
    """From the lobby to the result, with every ball seen on the way."""
    page = open_page(f"{quiet_app.base_url}/")
    page.get_by_label("max overs").fill("1")
    page.get_by_label("Pace").select_option("fast")
    page.get_by_label("Seed").fill("11")
    page.get_by_role("button", name="Start the match").click()
    page.wait_for_url("**/watch/ep-*")
    expect(page.locator("#state")).to_have_text("Live")
    expect(page.locator(".ball__mark:not(.ball__mark--none)")).to_be_visible()
    expect(page.locator("#mind code").first).not_to_be_empty()
    ended(page)
    episode_id = page.url.rsplit("/", 1)[1]
    result = quiet_app.client.get(f"/api/episodes/{episode_id}").json()["result"]
    expect(page.locator(".score__equation")).to_have_text(result)
    assert page.title().startswith(result)
    assert page.locator("#feed li").count() >= 12


def test_everybody_sees_the_same_whenever_they_came(quiet_app: Serving, open_page: Opener) -> None:
    """One from the beginning, one in the middle, one after the end: at the end all boards are equal."""
    episode_id = quiet_app.start(pace="broadcast", max_overs=1, seed=5)
    url = f"{quiet_app.base_url}/watch/{episode_id}"
    early = open_page(url)
    expect(early.locator("#feed li").nth(1)).to_be_visible()
    late = open_page(url)
    expect(late.locator("#viewers")).to_have_text("2 watching")
    expect(late.locator("#feed li").nth(1)).to_be_visible()
    quiet_app.client.post("/custom/pace", json={"episode_id": episode_id, "pace": "fast"})
    ended(early)
    ended(late)
    after = open_page(url)
    ended(after)
    assert board(early) == board(late) == board(after)


def test_who_comes_late_is_told_how_many_swings_there_were(quiet_app: Serving, open_page: Opener) -> None:
    """The count is of the whole match, not of what this page saw; opening the list has the rest explained."""
    episode_id = quiet_app.start(pace="fast", max_overs=2, seed=5)
    url = f"{quiet_app.base_url}/watch/{episode_id}"
    early = open_page(url, reduced_motion="reduce")
    expect(early.locator(".chances-story summary")).to_be_visible(timeout=30_000)
    leave(early)
    quiet_app.client.post("/custom/pace", json={"episode_id": episode_id, "pace": "broadcast"})
    late = open_page(url)
    swings = late.locator(".chances-story summary")
    expect(swings).to_have_text(re.compile(r"^\d+ swings of five points .*; \d explained$"))
    swings.click()
    expect(swings).to_have_text(re.compile(r"^All \d+ swings of five points"))
    words, listed = late.evaluate(
        """() => [document.querySelector(".chances-story summary").innerText,
            document.querySelectorAll(".chances__every li").length]"""
    )
    assert words.startswith(f"All {listed} swings")


def test_a_page_survives_the_servers_death_and_the_record_survives_both(
    tmp_path: Path, open_page: Opener
) -> None:
    """Killed mid-match and started again: the page says so and comes back by itself; the match replays."""
    port = free_port()
    variables = {"SPECTATOR_ENVIRONMENT": "cricket"}
    over = re.compile("Interrupted|Finished")
    with serve_process(tmp_path, port=port, variables=variables) as server:
        match = {"pace": "fast", "options": {"max_overs": 1, "forecast_futures": 20}}
        answer = httpx.post(f"{server.base_url}/custom/start_episode", json=match, timeout=20)
        page = open_page("", forgive=("ERR_CONNECTION", "WebSocket connection"), reduced_motion="reduce")
        page.goto(f"{server.base_url}/watch/{answer.json()['episode_id']}")
        expect(page.locator("#feed li").nth(3)).to_be_visible()
        server.kill()
        expect(page.locator("#state")).to_contain_text("Reconnecting")
        lines = page.locator("#feed li").count()
    with serve_process(tmp_path, port=port, variables=variables) as server:
        ended(page, over)
        assert page.locator("#feed li").count() >= lines
        shown = board(page)
        page.reload()
        ended(page, over)
        assert board(page) == shown
        page.get_by_role("link", name="Lobby").click()
        page.get_by_role("link", name="Replay").first.click()
        page.wait_for_url("**/replay/ep-*")
        expect(page.locator("#state")).to_have_text("Replay")
        page.keyboard.press("End")
        ended(page, over)
        assert board(page) == shown


def test_a_lost_frame_is_noticed_and_fetched_again(quiet_app: Serving, open_page: Opener) -> None:
    """A hole in the numbers makes the page resync; at the end nothing is missing."""
    opened: list[str] = []

    def lossy(route: WebSocketRoute) -> None:
        opened.append(route.url)
        server = route.connect_to_server()
        heard = 0

        def pass_on(message: str | bytes) -> None:
            nonlocal heard
            heard += '"frame":"event"' in str(message)[:20]
            if not (len(opened) == 1 and heard == 9):
                route.send(message)

        server.on_message(pass_on)

    episode_id = quiet_app.start(pace="fast", max_overs=1, seed=5)
    url = f"{quiet_app.base_url}/watch/{episode_id}"
    page = open_page("")
    page.route_web_socket("**/live/**", lossy)
    page.goto(url)
    ended(page)
    assert len(opened) >= 2
    assert "seq=" in opened[1]
    clean = open_page(url)
    ended(clean)
    assert board(page) == board(clean)


def test_where_no_socket_opens_the_page_takes_a_stream(quiet_app: Serving, open_page: Opener) -> None:
    """A proxy that breaks sockets costs nothing: the same frames come otherwise, and the page says so."""
    episode_id = quiet_app.start(pace="broadcast", max_overs=1, seed=6)
    page = open_page("")
    page.route_web_socket("**/live/**", lambda route: route.close(code=1011, reason="no sockets here"))
    page.goto(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator("#state")).to_have_text("Live, streaming")
    quiet_app.client.post("/custom/pace", json={"episode_id": episode_id, "pace": "max"})
    ended(page)
    assert page.locator("#feed li").count() >= 12


def test_a_page_that_a_restart_sent_to_the_stream_comes_back_to_the_socket(
    quiet_app: Serving, open_page: Opener
) -> None:
    """What a server's absence looks like from a browser: the socket ends, two more are not answered."""
    opened: list[WebSocketRoute] = []

    def away_for_two(route: WebSocketRoute) -> None:
        opened.append(route)
        if len(opened) in (2, 3):
            route.close(code=1006)
        else:
            route.connect_to_server()

    episode_id = quiet_app.start(pace="broadcast", max_overs=2, seed=6)
    page = open_page("", reduced_motion="reduce")
    page.route_web_socket("**/live/**", away_for_two)
    page.goto(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator("#state")).to_have_text("Live")
    opened[0].close(code=1012)
    expect(page.locator("#state")).to_have_text("Live, streaming")
    expect(page.locator("#state")).to_have_text("Live", timeout=40_000)
    assert len(opened) == 4
    quiet_app.client.post("/custom/pace", json={"episode_id": episode_id, "pace": "max"})
    ended(page)
    clean = open_page(f"{quiet_app.base_url}/watch/{episode_id}")
    ended(clean)
    assert board(page) == board(clean)


def test_where_no_stream_opens_either_the_page_polls(quiet_app: Serving, open_page: Opener) -> None:
    """A proxy that breaks streams too costs freshness, not the match."""
    episode_id = quiet_app.start(pace="fast", max_overs=1, seed=6)
    page = open_page("", forgive=("Failed to load resource", "ERR_FAILED"))
    page.route_web_socket("**/live/**", lambda route: route.close(code=1011, reason="no sockets here"))
    page.route("**/live/*/events*", lambda route: route.abort())
    page.goto(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator("#feed li").first).to_be_visible()
    ended(page)
    assert page.locator("#feed li").count() >= 12


def test_a_link_leads_to_the_very_event_and_back_to_live(quiet_app: Serving, open_page: Opener) -> None:
    """?seq= in a live match stands still there, says how far behind it is, and LIVE goes on."""
    episode_id = quiet_app.start(pace="fast", max_overs=2, seed=8)
    watching = open_page(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(watching.locator("#feed li").nth(3)).to_be_visible()
    leave(watching)
    page = open_page(f"{quiet_app.base_url}/?ep={episode_id}&seq=6")
    expect(page.locator("#state")).to_have_text("Behind live")
    assert page.url.endswith(f"/watch/{episode_id}?seq=6")
    expect(page.locator("#mind")).to_contain_text("call toss")
    live = page.get_by_role("button", name="Go live")
    expect(live).to_contain_text("Live +")
    live.click()
    expect(page.locator("#state")).to_have_text("Live")
    expect(page.locator("#feed li").nth(3)).to_be_visible()


def test_a_finished_match_is_stepped_scrubbed_and_played(quiet_app: Serving, open_page: Opener) -> None:
    """Keys, bar and buttons all move one player, and going back shows what was seen then."""
    episode_id = quiet_app.start(max_overs=2, seed=8)
    quiet_app.finish(episode_id)
    page = open_page(f"{quiet_app.base_url}/watch/{episode_id}")
    ended(page)
    final = board(page)
    where = page.locator(".player__where")
    page.keyboard.press("Home")
    expect(page.locator("#lead")).to_contain_text("No ball has been bowled yet")
    for step in range(1, 9):
        page.keyboard.press("ArrowRight")
        expect(where).to_contain_text(f"{step} /")
    expect(page.locator(".ball__detail")).to_have_text(re.compile(r"^\d\.\d · "))
    eighth = board(page)
    page.keyboard.press("ArrowRight")
    expect(where).to_contain_text("9 /")
    page.keyboard.press("ArrowLeft")
    expect(where).to_contain_text("8 /")
    assert board(page) == eighth
    page.keyboard.press("]")
    expect(where).not_to_contain_text("8 /")
    scrub = page.get_by_role("slider")
    scrub.fill(str(int(scrub.get_attribute("max") or "0") // 2))
    expect(page.locator("#state")).to_have_text("Replay")
    page.get_by_label("Replay speed").select_option("8")
    page.get_by_role("button", name="Play", exact=True).click()
    ended(page)
    until("the last ball has landed", lambda: board(page) == final)


def test_what_was_shared_opens_at_the_same_place(quiet_app: Serving, open_page: Opener) -> None:
    """The copied link shows another viewer the same board."""
    episode_id = quiet_app.start(max_overs=1, seed=8)
    quiet_app.finish(episode_id)
    page = open_page(f"{quiet_app.base_url}/watch/{episode_id}")
    ended(page)
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    page.get_by_role("button", name="Copy a link").click()
    expect(page.locator(".toast")).to_have_text(re.compile("Link copied|The address bar now holds the link"))
    page.wait_for_url("**seq=*")
    other = open_page(page.url)
    expect(other.locator("#state")).to_have_text("Replay")
    assert board(other) == board(page)


TITLED = """() => {
  window.ahead = [];
  window.titles = 0;
  const shown = () => document.querySelector(".score__runs").textContent;
  new MutationObserver(() => {
    const [score] = document.title.match(/\\d+\\/\\d+/) ?? [];
    window.titles += 1;
    if (score && score !== shown()) window.ahead.push([document.title, shown()]);
  }).observe(document.querySelector("title"), { childList: true });
}"""
"""Keeps the titles of the tab whose score was not on the page yet."""


def test_the_tabs_title_tells_a_ball_once_it_has_landed(quiet_app: Serving, open_page: Opener) -> None:
    episode_id = quiet_app.start(pace="broadcast", seed=8, options={"max_overs": 20, "forecast_futures": 0})
    page = open_page(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator(".score__runs")).to_contain_text("/")
    page.evaluate(TITLED)
    page.wait_for_function("() => window.titles > 1", polling=50, timeout=60_000)
    assert page.evaluate("window.ahead") == []


def test_a_hidden_tab_catches_up_at_once(quiet_app: Serving, open_page: Opener) -> None:
    """What came while nobody looked is there with the first frame after coming back."""
    episode_id = quiet_app.start(pace="fast", max_overs=1, seed=9)
    page = open_page(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator("#feed li").nth(1)).to_be_visible()
    page.evaluate(
        """() => {
            Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
            window.requestAnimationFrame = (draw) => { window.waiting = draw; return 1; };
        }"""
    )
    quiet_app.finish(episode_id)
    page.evaluate(
        """() => {
            delete document.hidden;
            window.requestAnimationFrame = (draw) => setTimeout(draw, 0);
            const draw = window.waiting;
            document.dispatchEvent(new Event("visibilitychange"));
            draw?.(0);
        }"""
    )
    ended(page)
    fresh = open_page(page.url)
    ended(fresh)
    assert board(page) == board(fresh)


def test_an_unknown_episode_is_a_friendly_page(app: Serving, open_page: Opener) -> None:
    """404, in words, with the way back."""
    page = open_page("", forgive=("404",))
    answer = page.goto(f"{app.base_url}/watch/ep-nowhere")
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("heading", name="Episode not found")).to_be_visible()
    page.get_by_role("link", name="Back to the lobby").click()
    expect(page.get_by_role("heading", name="Watch agents play.")).to_be_visible()

"""A phone whose server was killed counts to the next try, can try at once, and comes back."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PHONE, Opener
from tests.browser.test_quality import faults_at_rest
from tests.serving import free_port, serve_process

pytestmark = pytest.mark.browser

COUNTS_DOWN = """() => {
  const counted = window.told.map((words) => Number(/in (\\d+) s/.exec(words)?.[1] ?? NaN));
  return counted.some((seconds, place) => seconds === counted[place - 1] - 1);
}"""
LISTEN = """
window.told = [];
addEventListener("DOMContentLoaded", () => {
  const state = document.getElementById("state");
  const every = { subtree: true, childList: true, characterData: true };
  new MutationObserver(() => window.told.push(state.textContent)).observe(state, every);
});
"""
LINES = """(button) => {
  const words = document.createRange();
  words.selectNodeContents(button);
  return new Set([...words.getClientRects()].map((one) => Math.round(one.top))).size;
}"""
FORGIVEN = ("ERR_CONNECTION", "WebSocket connection", "ERR_EMPTY", "ERR_INCOMPLETE", "ERR_FAILED")


def test_a_killed_server_is_waited_for_and_found_again(tmp_path: Path, open_page: Opener) -> None:
    """The seconds count, Live is not lit, viewers are not counted; the button tries at once, and finds it."""
    port = free_port()
    variables = {"SPECTATOR_ENVIRONMENT": "cricket"}
    with serve_process(tmp_path, port=port, variables=variables) as server:
        match = {"pace": "broadcast", "options": {"max_overs": 5, "forecast_futures": 20}}
        answer = httpx.post(f"{server.base_url}/custom/start_episode", json=match, timeout=20)
        page = open_page("", viewport=PHONE, has_touch=True, forgive=FORGIVEN)
        page.add_init_script(LISTEN)
        page.goto(f"{server.base_url}/watch/{answer.json()['episode_id']}")
        expect(page.locator("#state")).to_have_text("Live")
        expect(page.locator(".player__live--on")).to_have_count(1)
        expect(page.locator("#viewers")).to_have_text("1 watching")
        server.kill()
    state, again = page.locator("#state"), page.get_by_role("button", name="Try now")
    expect(state).to_have_text(re.compile(r"^Reconnecting in \d+ s$"))
    expect(again).to_be_visible()
    expect(page.locator(".player__live--on")).to_have_count(0)
    expect(page.locator("#viewers")).to_have_text("")
    expect(page.locator(".score")).to_be_visible()
    page.wait_for_function(COUNTS_DOWN, polling=100, timeout=60_000)
    expect(again).to_be_visible()
    for width in (320, 430, 480, 660, 770, 820, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert faults_at_rest(page) == [], width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert again.evaluate(LINES) == 1, width
    page.evaluate("window.told = []")
    again.click(force=True)
    page.wait_for_function("() => window.told.includes('Reconnecting')", polling=50, timeout=5_000)
    with serve_process(tmp_path, port=port, variables=variables):
        page.locator("#retry").dispatch_event("click")  # hidden, and harmless, if the page was faster
        expect(state).to_have_text(re.compile("^(Live|Interrupted|Finished)$"), timeout=30_000)
        expect(again).to_be_hidden()
        expect(page.locator(".score")).to_be_visible()

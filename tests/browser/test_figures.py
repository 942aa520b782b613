"""The figures of the pages in a real browser: bytes, paint, shift, memory, work, time to pixels.

Limits on wall time are generous, since other work shares the machine; work is limited by the time that the
page's own thread computed, which others do not change. ``pytest -s`` prints what was measured.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.browser.conftest import PHONE, WIDE, Opener
from tests.serving import Serving

pytestmark = pytest.mark.browser

SIZES = {"wide": WIDE, "phone": PHONE}

TIME_TO_PIXELS = """
window.shownAfter = [];
const { set } = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
let came = 0;
Object.defineProperty(WebSocket.prototype, "onmessage", { set(listen) {
  set.call(this, (message) => {
    if (String(message.data).includes('"type":"cricket.ball_bowled"')) came = performance.now();
    return listen(message);
  });
} });
addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
  if (!came) return;
  const since = came;
  came = 0;
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => window.shownAfter.push(performance.now() - since);
  requestAnimationFrame(() => port2.postMessage(null));
}).observe(document.getElementById("lead"), { subtree: true, childList: true, characterData: true }));
"""
"""Milliseconds from a ball's frame to the frame after the one that drew it."""

FAR_AWAY = """
const { set } = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
Object.defineProperty(WebSocket.prototype, "onmessage", { set(listen) {
  set.call(this, (message) => setTimeout(() => listen(message), 3_000));
} });
const { now } = Date;
Date.now = () => now() - 3_600_000;
"""
"""A link of three seconds and a clock that is an hour late."""


def test_a_page_is_light_and_only_ours(quiet_app: Serving, open_page: Opener) -> None:
    """On the wire under 60 kB in at most 12 requests, a replay of 20 overs under 200 kB; all of it ours."""
    episode_id = quiet_app.start(max_overs=20, seed=7)
    live = quiet_app.start(pace="broadcast", max_overs=1, seed=7)
    quiet_app.finish(episode_id)
    for path, most in (("/", 60_000), (f"/watch/{live}", 60_000), (f"/replay/{episode_id}", 200_000)):
        page = open_page("")
        sizes: dict[str, int] = {}

        def weigh(request: Request, sizes: dict[str, int] = sizes) -> None:
            found = request.sizes()
            sizes[request.url] = found["responseBodySize"] + found["responseHeadersSize"]

        page.on("requestfinished", weigh)
        page.goto(f"{quiet_app.base_url}{path}")
        page.wait_for_load_state("networkidle")
        print(f"{path[:7]}: {sum(sizes.values()) / 1000:.1f} kB in {len(sizes)} requests")
        assert all(url.startswith(quiet_app.base_url) for url in sizes)
        assert 5 <= len(sizes) <= 12, sizes
        assert sum(sizes.values()) < most, sizes


@pytest.mark.parametrize("size", SIZES)
def test_a_live_match_stands_still_but_for_its_figures(
    quiet_app: Serving, open_page: Opener, size: str
) -> None:
    """Soon painted; layout shift under 0.02 while a whole match goes by; a ball is soon seen.

    Lines that come in at the head of the commentary move those below; that is a feed, and not counted.
    """
    episode_id = quiet_app.start(pace="fast", max_overs=2, seed=7)
    page = open_page("", viewport=SIZES[size])
    page.add_init_script(TIME_TO_PIXELS)
    page.goto(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator("#state")).to_have_text("Finished", timeout=60_000)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    shifts = page.evaluate("window.shifts")
    shown = page.evaluate("window.shownAfter")
    print(
        f"{size}: first contentful paint {paint:.0f} ms, layout shift {shifts:.4f}, "
        f"ball to pixels {statistics.median(shown):.0f} ms in the median of {len(shown)}"
    )
    assert paint < 5_000
    assert shifts < 0.02
    assert len(shown) >= 6
    assert statistics.median(shown) < 500


def test_a_long_match_at_full_speed_stays_small(
    quiet_app: Serving, open_page: Opener, browser: Browser
) -> None:
    """20 overs at full speed: heap under 30 MB, under 3,000 nodes, no task over 100 ms of computing."""
    episode_id = quiet_app.start(pace="broadcast", max_overs=20, seed=7)
    page = open_page("")
    browser.start_tracing(page=page, categories=["toplevel"])
    page.goto(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator("#state")).to_have_text("Live")
    quiet_app.client.post("/custom/pace", json={"episode_id": episode_id, "pace": "max"})
    expect(page.locator("#state")).to_have_text("Finished", timeout=180_000)
    computed = sorted(task_times(json.loads(browser.stop_tracing())["traceEvents"]))
    figures = metrics(page)
    waited = max(page.evaluate("window.longTasks"), default=0)
    nodes = page.evaluate("document.querySelectorAll('*').length")
    print(
        f"heap {figures['JSHeapUsedSize'] / 1e6:.1f} MB, {nodes} elements, longest of {len(computed)} tasks "
        f"{computed[-1]:.0f} ms of computing ({waited:.0f} ms by the clock)"
    )
    assert figures["JSHeapUsedSize"] < 30e6
    assert nodes < 3_000
    assert computed[-1] < 100


def test_five_hundred_events_are_caught_up_with_at_once(quiet_app: Serving, open_page: Opener) -> None:
    """From a stand more than 500 events back to the newest; 300 ms on a machine of its own."""
    episode_id = quiet_app.start(max_overs=8, seed=7)
    entry = quiet_app.finish(episode_id)
    page = open_page(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator("#state")).to_have_text("Finished")
    page.keyboard.press("Home")
    expect(page.locator("#state")).to_have_text("Replay")
    took: float = page.evaluate(
        """() => new Promise((resolve) => {
            const began = performance.now();
            document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true }));
            requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - began)));
        })"""
    )
    expect(page.locator("#state")).to_have_text("Finished")
    assert entry["head_seq"] > 500
    print(f"{entry['head_seq']} events back to the newest in {took:.0f} ms")
    assert took < 1_500


def test_far_away_and_with_a_wrong_clock_it_is_the_same_match(quiet_app: Serving, open_page: Opener) -> None:
    """Three seconds of latency and a clock an hour late change when things are seen, not what."""
    episode_id = quiet_app.start(pace="fast", max_overs=1, seed=5)
    page = open_page("")
    page.add_init_script(FAR_AWAY)
    page.goto(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator("#state")).to_have_text("Finished", timeout=60_000)
    result = quiet_app.client.get(f"/api/episodes/{episode_id}").json()["result"]
    expect(page.locator(".score__equation")).to_have_text(result)


def test_fifty_overs_fit(quiet_app: Serving, open_page: Opener) -> None:
    """The longest match there is: no wider than a phone, few nodes, and back to its beginning."""
    episode_id = quiet_app.start(max_overs=50, seed=7)
    quiet_app.finish(episode_id)
    page = open_page(f"{quiet_app.base_url}/watch/{episode_id}", viewport=PHONE, has_touch=True)
    expect(page.locator("#state")).to_have_text("Finished", timeout=60_000)
    nodes = page.evaluate("document.querySelectorAll('*').length")
    print(f"50 overs: {nodes} elements")
    assert nodes < 3_500
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.keyboard.press("Home")
    expect(page.locator("#lead")).to_contain_text("No ball has been bowled yet")


def task_times(events: list[dict[str, Any]]) -> Iterator[float]:
    """Milliseconds that the page's main thread computed in each task of a trace."""
    main = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    return (
        event["tdur"] / 1000
        for event in events
        if event["name"].endswith("RunTask") and "tdur" in event and (event["pid"], event["tid"]) in main
    )


def metrics(page: Page) -> dict[str, Any]:
    """What the browser itself counts, after a collection of garbage."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    return {entry["name"]: entry["value"] for entry in session.send("Performance.getMetrics")["metrics"]}

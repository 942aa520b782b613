"""The figures of the pages in a real browser: bytes, shift, memory; ``pytest -s`` prints them.

Paint, work and time to pixels: ``python -m benchmarks watch_page``.
"""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, Request, expect

from tests.browser.conftest import PHONE, WIDE, Opener
from tests.serving import Serving

pytestmark = pytest.mark.browser

SIZES = {"wide": WIDE, "phone": PHONE}

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
    quiet_app.finish(episode_id)
    live = quiet_app.start(pace="broadcast", max_overs=1, seed=7)
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
    """Layout shift under 0.02 while a whole match goes by.

    Lines that come in at the head of the commentary move those below; that is a feed, and not counted.
    """
    episode_id = quiet_app.start(pace="fast", max_overs=2, seed=7)
    page = open_page("", viewport=SIZES[size])
    page.goto(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator("#state")).to_have_text("Finished", timeout=60_000)
    shifts = page.evaluate("window.shifts")
    print(f"{size}: layout shift {shifts:.4f}")
    assert page.locator("#feed li").count() >= 12
    assert shifts < 0.02, "\n".join(page.evaluate("window.shiftedBy"))


def test_a_long_match_at_full_speed_stays_small(quiet_app: Serving, open_page: Opener) -> None:
    """20 overs at full speed: heap under 30 MB, under 3,000 nodes."""
    options = {"max_overs": 20, "forecast_futures": 20}
    episode_id = quiet_app.start(pace="broadcast", seed=7, options=options)
    page = open_page(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator("#state")).to_have_text("Live")
    quiet_app.client.post("/custom/pace", json={"episode_id": episode_id, "pace": "max"})
    expect(page.locator("#state")).to_have_text("Finished", timeout=180_000)
    figures = metrics(page)
    nodes = page.evaluate("document.querySelectorAll('*').length")
    print(f"heap {figures['JSHeapUsedSize'] / 1e6:.1f} MB, {nodes} elements")
    assert figures["JSHeapUsedSize"] < 30e6
    assert nodes < 3_000


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


def metrics(page: Page) -> dict[str, Any]:
    """What the browser itself counts, after a collection of garbage."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    return {entry["name"]: entry["value"] for entry in session.send("Performance.getMetrics")["metrics"]}

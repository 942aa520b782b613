"""The measurement of the watch page in Chromium: first paint, ball to pixels, longest task, catching up."""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx
from playwright.sync_api import Browser, expect, sync_playwright

from benchmarks.figures import Figure
from tests.serving import serve_process

PATIENCE_MS: Final = 180_000
TIME_TO_PIXELS: Final = """
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

CATCH_UP: Final = """() => new Promise((resolve) => {
  const began = performance.now();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true }));
  requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - began)));
})"""


def measure() -> Iterator[Figure]:
    """A match of two overs at the fast pace, one of twenty at full speed, and the way back to its end."""
    names = ("chromium-headless-shell", "chromium")
    chromium = next(filter(None, map(shutil.which, names)), None)
    if chromium is None:
        sys.exit("benchmarks: no Chromium here; install it with: apt-get install chromium-headless-shell")
    settings = {"SPECTATOR_ENVIRONMENT": "cricket", "PYTHONWARNINGS": "default"}
    with (
        TemporaryDirectory() as data,
        serve_process(Path(data), variables=settings) as server,
        httpx.Client(base_url=server.base_url, timeout=120) as client,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield from _live(browser, client)
        yield from _long(browser, client)
        browser.close()


def _start(client: httpx.Client, **body: Any) -> str:
    answer = client.post("/custom/start_episode", json={"seed": 7, **body}).raise_for_status()
    return str(answer.json()["episode_id"])


def _live(browser: Browser, client: httpx.Client) -> Iterator[Figure]:
    page = browser.new_page()
    page.add_init_script(TIME_TO_PIXELS)
    page.goto(f"{client.base_url}/watch/{_start(client, pace='fast', max_overs=2)}")
    expect(page.locator("#state")).to_have_text("Finished", timeout=PATIENCE_MS)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    shown = page.evaluate("window.shownAfter")
    yield Figure("watch page: first contentful paint", f"{paint:.0f} ms", "5,000 ms", "-")
    median = f"{statistics.median(shown):.0f} ms in the median of {len(shown)}"
    yield Figure("watch page: ball to pixels", median, "500 ms", "-")


def _long(browser: Browser, client: httpx.Client) -> Iterator[Figure]:
    episode_id = _start(client, pace="broadcast", max_overs=20)
    page = browser.new_page()
    browser.start_tracing(page=page, categories=["toplevel"])
    page.goto(f"{client.base_url}/watch/{episode_id}")
    state = page.locator("#state")
    expect(state).to_have_text("Live")
    client.post("/custom/pace", json={"episode_id": episode_id, "pace": "max"}).raise_for_status()
    expect(state).to_have_text("Finished", timeout=PATIENCE_MS)
    longest = max(_task_times(json.loads(browser.stop_tracing())["traceEvents"]))
    yield Figure("watch page: longest task, 20 overs at full speed", f"{longest:.0f} ms", "100 ms", "-")
    page.keyboard.press("Home")
    expect(state).to_have_text("Replay")
    took = page.evaluate(CATCH_UP)
    yield Figure("watch page: from the first event to the newest", f"{took:.0f} ms", "300 ms", "-")


def _task_times(events: list[dict[str, Any]]) -> Iterator[float]:
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

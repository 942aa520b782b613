"""The measurement of a slow line: how long a viewer in Chromium waits for the first score of a match."""

from __future__ import annotations

import shutil
import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx
from playwright.sync_api import Browser, sync_playwright

from benchmarks.figures import Figure
from benchmarks.slow_line import LineRates, slow_line
from tests.serving import serve_process

TRIES: Final = 5
LINE: Final = LineRates(round_trip_s=0.15, bytes_per_s=1.6e6 / 8)
WITNESS: Final = """
const seen = (element) => element?.textContent.trim() && getComputedStyle(element).visibility === "visible";
window.waited = new Promise((done) => {
  let stands = 0;
  requestAnimationFrame(function look() {
    const painted = performance.getEntriesByName("first-contentful-paint").length > 0;
    const drawn = seen(document.querySelector(".score"));
    if (!stands && painted && (drawn || seen(document.getElementById("first")))) stands = performance.now();
    if (drawn) requestAnimationFrame(() => done([stands, performance.now()]));
    else requestAnimationFrame(look);
  });
});
"""
"""When how it stands can first be read, and when the panel has drawn the score; both after a paint."""

Waits = tuple[float, float]


def measure() -> list[Figure]:
    """A 20-over match that is played, and one that is over, with and without the slow line in turn."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("benchmarks: no Chromium here; install it with: apt-get install chromium")
    settings = {"SPECTATOR_MAX_EPISODES": "2", "PYTHONWARNINGS": "default"}
    with TemporaryDirectory() as data, serve_process(Path(data), variables=settings) as server:
        with httpx.Client(base_url=server.base_url, timeout=120) as client:
            ids = {}
            for what, pace in (("over", "max"), ("live", "broadcast")):
                body = {"environment": "cricket", "pace": pace, "max_overs": 20, "seed": 7}
                ids[what] = client.post("/custom/start_episode", json=body).json()["episode_id"]
            while client.get(f"/api/episodes/{ids['over']}").json()["ended_at"] is None:
                pass
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            port = int(server.base_url.rpartition(":")[2])
            with slow_line(port, LINE) as far:
                figures = [
                    figure
                    for what, path in ((what, f"/watch/{ids[what]}") for what in ("live", "over"))
                    for figure in _figure(browser, what, f"{server.base_url}{path}", f"{far}{path}")
                ]
            browser.close()
    return figures


def _figure(browser: Browser, what: str, fast: str, slow: str) -> list[Figure]:
    waits: dict[str, list[Waits]] = {fast: [], slow: []}
    _wait(browser, fast)  # the server packs each file once
    for _ in range(TRIES):
        for address, found in waits.items():
            found.append(_wait(browser, address))
    line = f"over {1000 * LINE.round_trip_s:.0f} ms and {8 * LINE.bytes_per_s / 1e6:g} Mb/s"
    figures = []
    for shown, place, limit in (("how it stands", 0, "<= 1500 ms"), ("the whole board", 1, "-")):
        over_line = [wait[place] for wait in waits[slow]]
        here = statistics.median(wait[place] for wait in waits[fast])
        measured = f"{statistics.median(over_line):.0f} ms, the worst of {TRIES} {max(over_line):.0f} ms"
        figures.append(
            Figure(f"{shown}, of a match that is {what}, {line}", measured, limit, f"{here:.0f} ms")
        )
    return figures


def _wait(browser: Browser, address: str) -> Waits:
    """Milliseconds from the navigation to the two, in a browser that has nothing of the page yet."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.add_init_script(WITNESS)
    page.goto(address, wait_until="commit")
    stands, drawn = page.evaluate("window.waited")
    context.close()
    return stands, drawn

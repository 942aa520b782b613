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
from tests.serving import serve_process

TRIES: Final = 7
LATENCY_MS: Final = 150
BITS_PER_S: Final = 1.6e6
WITNESS: Final = """
new MutationObserver((_, observer) => {
  if (!document.querySelector(".score")?.textContent.trim()) return;
  window.scored = performance.now();
  observer.disconnect();
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


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
            figures = [
                _figure(browser, what, f"{server.base_url}/watch/{ids[what]}") for what in ("live", "over")
            ]
            browser.close()
    return figures


def _figure(browser: Browser, what: str, address: str) -> Figure:
    waits: dict[bool, list[float]] = {True: [], False: []}
    _wait(browser, address, slow=False)  # the server packs each file once
    for _ in range(TRIES):
        for slow, found in waits.items():
            found.append(_wait(browser, address, slow=slow))
    slow_ms, fast_ms = (statistics.median(waits[slow]) for slow in (True, False))
    worst = max(waits[True])
    line = f"{LATENCY_MS} ms and {BITS_PER_S / 1e6:g} Mb/s"
    measured = f"{slow_ms:.0f} ms, the worst of {TRIES} {worst:.0f} ms"
    return Figure(
        f"first score of a match that is {what}, {line}", measured, "<= 1500 ms", f"{fast_ms:.0f} ms"
    )


def _wait(browser: Browser, address: str, *, slow: bool) -> float:
    """Milliseconds from the navigation to the first score, in a browser that has nothing of the page yet."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.add_init_script(WITNESS)
    if slow:
        line = {
            "offline": False,
            "latency": LATENCY_MS,
            "downloadThroughput": BITS_PER_S / 8,
            "uploadThroughput": BITS_PER_S / 8,
        }
        context.new_cdp_session(page).send("Network.emulateNetworkConditions", line)
    page.goto(address)
    page.wait_for_function("window.scored")
    waited: float = page.evaluate("window.scored")
    context.close()
    return waited

"""The measurement of the wall: many running episodes in one Chromium, over one socket."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx
from playwright.sync_api import Page, sync_playwright

from benchmarks.figures import Figure
from tests.serving import ServerProcess, serve_process

EPISODES: Final = 500
SECONDS: Final = 10.0
WITNESS: Final = """
window.tasks = []; window.frames_ = [];
new PerformanceObserver((list) => list.getEntries().forEach((entry) => tasks.push(entry.duration)))
  .observe({ type: "longtask", buffered: true });
let last = performance.now();
(function next() {
  const now = performance.now();
  frames_.push(now - last);
  last = now;
  requestAnimationFrame(next);
})();
"""


def measure() -> list[Figure]:
    """Five hundred counts at broadcast pace, a change of each every two seconds, on one page."""
    settings = {"SPECTATOR_MAX_EPISODES": str(EPISODES), "PYTHONWARNINGS": "default"}
    settings |= {"SPECTATOR_STARTS_PER_MINUTE": "0", "SPECTATOR_STARTS_PER_HOUR": "0"}
    with TemporaryDirectory() as data, serve_process(Path(data), variables=settings) as server:
        with httpx.Client(base_url=server.base_url, timeout=60) as client:
            for seed in range(EPISODES):
                body = {"pace": "broadcast", "seed": seed, "options": {"turns": 100_000}}
                client.post("/custom/start_episode", json=body).raise_for_status()
        without = _cores(server, lambda: time.sleep(SECONDS))
        return _watched(server, without)


def _watched(server: ServerProcess, without: float) -> list[Figure]:
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("benchmarks: no Chromium here; install it with: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.add_init_script(WITNESS)
        sizes: list[int] = []
        page.on(
            "websocket", lambda socket: socket.on("framereceived", lambda frame: sizes.append(len(frame)))
        )
        page.goto(f"{server.base_url}/wall")
        page.locator("#tiles .tile").nth(EPISODES - 1).wait_for(state="attached", timeout=60_000)
        page.wait_for_timeout(3_000)
        page.evaluate("tasks.length = 0; frames_.length = 0")
        before = len(sizes)
        with_one = _cores(server, lambda: page.wait_for_timeout(SECONDS * 1000))
        figures = _figures(page, sizes[before:], with_one, without)
        browser.close()
    return figures


def _figures(page: Page, sizes: list[int], with_one: float, without: float) -> list[Figure]:
    frames = sorted(page.evaluate("frames_"))
    tasks = page.evaluate("tasks")
    cores = f"{with_one:.2f} cores, {without:.2f} without a viewer"
    rate = f"{len(sizes) / SECONDS:.1f} frames/s, {sum(sizes) / SECONDS / 1000:.0f} kB/s"
    drawn = f"{len(frames) / SECONDS:.0f} frames/s, p99 {frames[int(len(frames) * 0.99)]:.0f} ms"
    longest = f"{len(tasks)} in {SECONDS:.0f} s, the longest {max(tasks, default=0):.0f} ms"
    return [
        Figure(f"wall of {EPISODES}: server", cores, "-", "-"),
        Figure(f"wall of {EPISODES}: one socket", rate, "<= 4 frames/s", "-"),
        Figure(f"wall of {EPISODES}: drawn", drawn, "-", "60 frames/s"),
        Figure(f"wall of {EPISODES}: tasks over 50 ms", longest, "<= 100 ms", "-"),
    ]


def _cores(server: ServerProcess, during: object) -> float:
    before, began = _cpu_s(server), time.monotonic()
    assert callable(during)
    during()
    return (_cpu_s(server) - before) / (time.monotonic() - began)


def _cpu_s(server: ServerProcess) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().split()
    return sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")

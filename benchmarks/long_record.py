"""The measurement of a page on a record of 337,002 events: until it is open, goes back, and has jumped."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.figures import Figure
from spectator.episodes.record.past_states import SPACING
from spectator.episodes.record.state_file import FILE
from tests.episodes.long_record import EPISODE, long_journal
from tests.serving import ServerProcess, serve_process

TURNS: Final = 168_500
JUMPS: Final = (0.3, 0.9, 0.1, 0.5, 0.95)
PATIENCE_MS: Final = 120_000
PLACED: Final = """
([least, most]) => {
  const told = document.querySelector(".player__where")?.textContent ?? "";
  const at = Number(told.split("·").at(-1).split("/")[0]);
  return told.includes("/") && at >= least && at <= most;
}
"""
MOVE: Final = """
(at) => {
  const bar = document.querySelector(".player__scrub");
  bar.value = String(at);
  bar.dispatchEvent(new Event("input", { bubbles: true }));
}
"""


def measure() -> list[Figure]:
    """A record that nobody has opened, then a server that was just started, and a second page on it.

    Before that the same of a server that had the time to go through the record by itself.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("benchmarks: no Chromium here; install it with: apt-get install chromium")
    with TemporaryDirectory() as data:
        events = asyncio.run(long_journal(Path(data), TURNS))
        with TemporaryDirectory() as same:
            shutil.copytree(data, same, dirs_exist_ok=True)
            return _measured(chromium, Path(data), Path(same), events)


def _measured(chromium: str, data: Path, same: Path, events: int) -> list[Figure]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with serve_process(same) as server:
            took = _gone_through(same, events)
            beforehand = _visited(browser, server, events)
        with serve_process(data) as server:
            never = _visited(browser, server, events)
        with serve_process(data) as server:
            first, again = _visited(browser, server, events), _visited(browser, server, events)
        browser.close()
    return [
        Figure(
            f"{events:,} events: {name}",
            f"{first[name]:.2f} s, again {again[name]:.2f} s",
            "<= 2 s" if name == "open" else "-",
            f"{beforehand[name]:.2f} s where nobody had opened the record before; {never[name]:.2f} s"
            f" at once after the start of a server that never saw it, which goes through it in {took:.1f} s",
        )
        for name in first
    ]


def _gone_through(data: Path, events: int) -> float:
    """Seconds until the server has kept states of all of the record by itself."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_MS / 1000:
        with closing(sqlite3.connect(data / FILE)) as file:
            known = file.execute("SELECT count(*) FROM sqlite_master WHERE name = 'states'").fetchone()[0]
            last = file.execute("SELECT max(seq) FROM states").fetchone()[0] if known else None
        if (last or 0) >= events - 2 * SPACING:
            return time.monotonic() - began
        time.sleep(0.1)
    sys.exit("benchmarks: the server did not go through the record by itself")


def _visited(browser: Browser, server: ServerProcess, events: int) -> dict[str, float]:
    page = browser.new_page(bypass_csp=True)
    page.set_default_timeout(PATIENCE_MS)
    took = {"open": _until(page, lambda: page.goto(f"{server.base_url}/watch/{EPISODE}"), events, events)}
    took["first step back"] = _until(page, lambda: page.keyboard.press("ArrowLeft"), events - 10, events - 1)
    for share in JUMPS:
        at = int(events * share)
        took[f"jump to {share:.0%}"] = _until(page, lambda at=at: page.evaluate(MOVE, at), at, at + 10)
    page.close()
    return took


def _until(page: Page, act: object, least: int, most: int) -> float:
    """Seconds from ``act`` until the page stands at an event from ``least`` to ``most``."""
    assert callable(act)
    began = time.monotonic()
    act()
    page.wait_for_function(PLACED, arg=[least, most])
    return time.monotonic() - began

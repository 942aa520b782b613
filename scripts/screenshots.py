"""Owns the making of full-page pictures of every page, in both looks, on a phone, a desk and a wall.

Usage: ``python scripts/screenshots.py OUT_DIR [URL]``; without URL it starts a server of its own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
SIZES = {"wide": (1440, 900), "phone": (390, 844), "vast": (2560, 1440)}
LOOKS = ("dark", "light")
SEED = 7
"""A match with a tie and a super over, so that the pages show the long case."""


def main() -> None:
    """Take them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder for the pictures")
    parser.add_argument("url", nargs="?", help="a running server; left out to start one")
    parser.add_argument("--only", default="", help="only pages whose name holds this")
    parser.add_argument("--readme", action="store_true", help="only docs/images/cockpit.png, for the README")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with serving(given.url) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        if given.readme:
            take_readme(browser, url, ROOT / "docs" / "images" / "cockpit.png")
        else:
            take_all(browser, url, given.out, given.only)
        browser.close()


def take_all(browser: Browser, url: str, out: Path, only: str) -> None:
    """Every page, in every look and size."""
    client = httpx.Client(base_url=url, timeout=30)
    pages: dict[str, str] = {}

    def shoot(name: str, path: str) -> None:
        pages[name] = path
        if only in name:
            for look in LOOKS:
                for size in SIZES:
                    take(browser, f"{url}{path}", look, size, out / f"{name}-{size}-{look}.png")

    if not client.get("/api/episodes").json()["episodes"]:
        shoot("lobby-empty", "/")
    ended = start(client, pace="max", seed=SEED)
    start(client, pace="max", seed=21, captain_preset="aggressive")
    counted = start(
        client, environment="counting", pace="max", captain_preset="random", options={"turns": 40}
    )
    start(client, pace="max", seed=3, captain_preset="anchor", max_overs=20)
    live = start(client, wait=False, pace="fast", seed=SEED)
    until(client, live, turns=110)
    client.post("/custom/pace", json={"episode_id": live, "pace": "broadcast"})
    shoot("live", f"/watch/{live}")
    shoot("lobby", "/")
    client.post("/custom/stop_episode", json={"episode_id": live})
    shoot("ended", f"/watch/{ended}")
    shoot("replay", f"/replay/{ended}?seq=300")
    shoot("start", f"/watch/{ended}?seq=6")
    shoot("text", f"/watch/{ended}?text=1")
    shoot("counting", f"/watch/{counted}")
    shoot("missing", "/watch/ep-nowhere")


def take(browser: Browser, url: str, look: str, size: str, path: Path, *, full: bool = True) -> None:
    """One picture; the page's errors are printed."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=look,
        has_touch=size == "phone",  # type: ignore[arg-type]
        device_scale_factor=2 if size == "phone" else 1,
    )
    page = context.new_page()
    watch_errors(page)
    page.goto(url)
    page.wait_for_timeout(1200)
    if full:
        page.evaluate("document.getElementById('player')?.style.setProperty('position', 'static')")
    page.screenshot(path=path, full_page=full)
    context.close()


def take_readme(browser: Browser, url: str, path: Path) -> None:
    """A live match in its second innings, wide and dark, just after a six."""
    client = httpx.Client(base_url=url, timeout=30)
    live = start(client, wait=False, pace="fast", seed=73, captain_preset="tactician")
    until(client, live, turns=128)
    client.post("/custom/pace", json={"episode_id": live, "pace": "broadcast"})
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = SIZES["wide"]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="dark")
    page = context.new_page()
    page.goto(f"{url}/watch/{live}")
    page.get_by_role("slider").hover()
    page.locator(".ball__mark--six.ball__mark--land").wait_for(timeout=60_000)
    page.wait_for_timeout(1_000)
    page.screenshot(path=path)
    context.close()
    client.post("/custom/stop_episode", json={"episode_id": live})


def watch_errors(page: Page) -> None:
    """Print what the page complains about."""
    page.on(
        "console", lambda message: message.type == "error" and print(page.url, message.text, file=sys.stderr)
    )
    page.on("pageerror", lambda error: print(page.url, error, file=sys.stderr))


def start(client: httpx.Client, *, wait: bool = True, **body: Any) -> str:
    """Start an episode and, unless told otherwise, wait for its end."""
    answer = client.post("/custom/start_episode", json=body)
    answer.raise_for_status()
    episode_id = str(answer.json()["episode_id"])
    while wait and client.get(f"/api/episodes/{episode_id}").json()["ended_at"] is None:
        time.sleep(0.05)
    return episode_id


def until(client: httpx.Client, episode_id: str, *, turns: int) -> None:
    """Wait until an episode has come so far."""
    while any(
        one["turn"] < turns
        for one in client.get("/custom/status").json()["running"]
        if one["episode_id"] == episode_id
    ):
        time.sleep(0.1)


def chromium() -> str:
    """The browser to drive."""
    found = shutil.which("chromium") or shutil.which("chromium-headless-shell")
    if found is None:
        sys.exit("no Chromium here; install it with: apt-get install chromium")
    return found


@contextmanager
def serving(url: str | None) -> Iterator[str]:
    """The given server, or one of our own."""
    if url is not None:
        yield url.rstrip("/")
        return
    with tempfile.TemporaryDirectory() as data:
        settings = {"DATA_DIR": data, "MAX_EPISODES": "2", "LOG_LEVEL": "error"}
        process = subprocess.Popen(
            [sys.executable, "-m", "server.app", "--port", "0"],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **{f"SPECTATOR_{name}": value for name, value in settings.items()}},
        )
        assert process.stderr is not None
        try:
            yield process.stderr.readline().split(" at ")[1].strip()
        finally:
            process.terminate()
            process.wait(20)


if __name__ == "__main__":
    main()

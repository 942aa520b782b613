"""Take full-page screenshots of every page, dark and light, on a phone, a desktop and a wall screen.

Usage: ``python scripts/screenshots.py OUT_DIR [URL]``; without URL it starts its own server.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
from PIL import Image
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
SIZES = {"wide": (1440, 900), "phone": (390, 844), "vast": (2560, 1440)}
Look = Literal["dark", "light"]
LOOKS: tuple[Look, ...] = ("dark", "light")
MOVING_STEPS = 6
"""Steps in the animated picture."""
MOVING_WIDTH, FRAME_MS = 1000, 167
"""Width of the animation in pixels, and its shortest frame in milliseconds."""

WITH_FORECAST = {"forecast_futures": 200}
"""Options of a match that shows its forecast."""

SEED = 7
"""A match with a tie and a super over, so that the pages show the long case."""


def main() -> None:
    """Take all screenshots, or those of the README."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder for the pictures")
    parser.add_argument("url", nargs="?", help="a running server; by default a new one is started")
    parser.add_argument("--only", default="", help="only pages whose name contains this")
    parser.add_argument(
        "--readme", action="store_true", help="only the pictures of the README, docs/images/cockpit.*"
    )
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with serving(given.url) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        if given.readme:
            take_readme(browser, url, ROOT / "docs" / "images" / "cockpit.png")
            take_moving(browser, url, ROOT / "docs" / "images" / "cockpit.webp")
        else:
            take_all(browser, url, given.out, given.only)
        browser.close()


def take_all(browser: Browser, url: str, out: Path, only: str) -> None:
    """Take every page in every look and size."""
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
    other = start(client, pace="max", seed=SEED, captain_preset="aggressive")
    counted = start(
        client, environment="counting", pace="max", captain_preset="random", options={"turns": 40}
    )
    start(client, pace="max", seed=3, captain_preset="anchor", max_overs=20)
    live = start(client, wait=False, pace="fast", seed=SEED)
    until(client, live, turns=110)
    client.post("/custom/pace", json={"episode_id": live, "pace": "broadcast"})
    fork = client.post(
        "/custom/fork", json={"episode_id": ended, "seq": last_of_turn(client, ended, 90)}
    ).json()
    shoot("live", f"/watch/{live}")
    shoot("lobby", "/")
    shoot("wall", "/wall")
    shoot("fork", f"/watch/{fork['episode_id']}")
    client.post("/custom/stop_episode", json={"episode_id": fork["episode_id"]})
    client.post("/custom/stop_episode", json={"episode_id": live})
    shoot("ended", f"/watch/{ended}")
    shoot("replay", f"/replay/{ended}?seq=300")
    shoot("start", f"/watch/{ended}?seq=6")
    shoot("text", f"/watch/{ended}?text=1")
    shoot("counting", f"/watch/{counted}")
    shoot("compare", f"/compare?a={ended}&b={other}")
    shoot("compare-one", f"/compare?a={counted}")
    shoot("leaderboard", "/leaderboard")
    shoot("wall-empty", "/wall?text=nobody")
    shoot("missing", "/watch/ep-nowhere")


def take(browser: Browser, url: str, look: Look, size: str, path: Path, *, full: bool = True) -> None:
    """Take one screenshot; the page's errors are printed."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=look,
        has_touch=size == "phone",
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
    """Take the README's picture: a second innings, just after a six."""
    client = httpx.Client(base_url=url, timeout=30)
    live = start(client, wait=False, pace="fast", seed=73, captain_preset="tactician", options=WITH_FORECAST)
    until(client, live, turns=128)
    client.post("/custom/pace", json={"episode_id": live, "pace": "broadcast"})
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = SIZES["wide"]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="dark")
    page = context.new_page()
    page.goto(f"{url}/watch/{live}")
    page.get_by_role("slider").hover()
    page.locator(".ball__mark--six.ball__mark--land").wait_for(timeout=60_000)
    page.wait_for_timeout(1_500)
    page.locator(".large").wait_for(state="detached")
    page.screenshot(path=path)
    context.close()
    client.post("/custom/stop_episode", json={"episode_id": live})


def take_moving(browser: Browser, url: str, path: Path) -> None:
    """Take the README's animated picture: the liveliest steps of a match."""
    client = httpx.Client(base_url=url, timeout=60)
    ended = start(client, pace="max", seed=73, captain_preset="tactician", options=WITH_FORECAST)
    width, height = SIZES["wide"]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="dark")
    page = context.new_page()
    page.goto(f"{url}/watch/{ended}?seq={liveliest(events_of(client, ended), MOVING_STEPS)}")
    page.get_by_role("slider").first.hover()
    page.wait_for_timeout(1_500)
    pictures: list[Image.Image] = []
    durations: list[int] = []

    def shoot(times: int) -> None:
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        smaller = MOVING_WIDTH, round(height * MOVING_WIDTH / width)
        pictures.append(picture.resize(smaller, Image.Resampling.LANCZOS))
        durations.append(times * FRAME_MS)

    for _ in range(MOVING_STEPS):
        shoot(2)
        page.keyboard.press("ArrowRight")
        for _ in range(2):
            shoot(2)
        page.wait_for_timeout(600)
        shoot(4)
    shoot(6)
    first, *rest = pictures
    first.save(path, save_all=True, append_images=rest, duration=durations, loop=0, quality=32, method=6)
    context.close()
    print(f"{path}: {path.stat().st_size / 1e6:.2f} MB", file=sys.stderr)


def liveliest(events: list[dict[str, Any]], steps: int) -> int:
    """Return the sequence number at which the ``steps`` most important steps begin."""
    ends: list[int] = []
    weight: dict[int, int] = {}
    for event in events:
        if "step" in event["patch"].get("world", {}).get("glance", {}):
            ends.append(event["seq"])
        if event["type"] == "narration.line" and ends and event["data"]["priority"] <= 1:
            weight[len(ends)] = weight.get(len(ends), 0) + (3 if event["data"]["priority"] == 0 else 2)
    worth = [
        sum(weight.get(step, 0) for step in range(begin + 2, begin + steps)) for begin in range(len(ends))
    ]
    return ends[max(0, worth.index(max(worth)))]


def events_of(client: httpx.Client, episode_id: str) -> list[dict[str, Any]]:
    """Return the recorded events of an episode."""
    return [json.loads(line) for line in client.get(f"/api/episodes/{episode_id}/events").text.splitlines()]


def last_of_turn(client: httpx.Client, episode_id: str, turn: int) -> int:
    """Return the sequence number of the last event of a turn."""
    return max(int(event["seq"]) for event in events_of(client, episode_id) if event["turn"] == turn)


def watch_errors(page: Page) -> None:
    """Print the errors of a page."""

    def show(message: ConsoleMessage) -> None:
        if message.type == "error":
            print(page.url, message.text, file=sys.stderr)

    page.on("console", show)
    page.on("pageerror", lambda error: print(page.url, error, file=sys.stderr))


def start(client: httpx.Client, *, wait: bool = True, **body: Any) -> str:
    """Start an episode and, if ``wait``, wait for its end."""
    answer = client.post("/custom/start_episode", json=body)
    answer.raise_for_status()
    episode_id = str(answer.json()["episode_id"])
    while wait and client.get(f"/api/episodes/{episode_id}").json()["ended_at"] is None:
        time.sleep(0.05)
    return episode_id


def until(client: httpx.Client, episode_id: str, *, turns: int) -> None:
    """Wait until an episode has reached ``turns``."""
    while any(
        one["turn"] < turns
        for one in client.get("/custom/status").json()["running"]
        if one["episode_id"] == episode_id
    ):
        time.sleep(0.1)


def chromium() -> str:
    """Return the path of Chromium."""
    found = shutil.which("chromium") or shutil.which("chromium-headless-shell")
    if found is None:
        sys.exit("Chromium is not installed; run: apt-get install chromium")
    return found


def wait_until_healthy(url: str) -> None:
    """Wait until the server answers; at most a minute."""
    for _ in range(600):
        try:
            httpx.get(f"{url}/health", timeout=5).raise_for_status()
            return
        except httpx.TransportError:
            time.sleep(0.1)
    sys.exit("the server did not answer within a minute; run it by hand to see why")


@contextmanager
def serving(url: str | None) -> Iterator[str]:
    """Yield the URL of the given server, or of a new one."""
    if url is not None:
        yield url.rstrip("/")
        return
    with tempfile.TemporaryDirectory() as data:
        settings = {"DATA_DIR": data, "MAX_EPISODES": "3", "LOG_LEVEL": "error"}
        process = subprocess.Popen(
            [sys.executable, "-m", "server.app", "--port", "0"],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **{f"SPECTATOR_{name}": value for name, value in settings.items()}},
        )
        assert process.stderr is not None
        try:
            address = next(line for line in process.stderr if " at http" in line).split(" at ")[1].strip()
            wait_until_healthy(address)
            yield address
        finally:
            process.terminate()
            process.wait(20)


if __name__ == "__main__":
    main()

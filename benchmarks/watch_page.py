"""Measure the watch page in Chromium: paint, ball to pixels, longest task, and the page over a slow line.

``python -m benchmarks watch_page`` and ``python -m benchmarks first_score``. The second forwards TCP over a
simulated line, late and a little at a time.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx
from playwright.sync_api import Browser, expect, sync_playwright

from benchmarks.figures import Figure
from tests.serving import serve_process

PIECE: Final = 1460
"""Bytes forwarded at once: one packet."""


@dataclass(frozen=True, slots=True)
class LineRates:
    """Latency and bandwidth of a line.

    Args:
        round_trip_s: Seconds to the server and back; a connection takes one before its first byte.
        bytes_per_s: Bandwidth of all connections together, in each direction.
    """

    round_trip_s: float
    bytes_per_s: float


class Direction:
    """One direction of a line, which all connections share: pieces leave one after another."""

    def __init__(self, line: LineRates) -> None:
        self._line = line
        self._free_at = 0.0

    def arrival(self, size: int, now: float) -> float:
        """Return when a piece of ``size`` bytes that is sent now arrives."""
        self._free_at = max(now, self._free_at) + size / self._line.bytes_per_s
        return self._free_at + self._line.round_trip_s / 2


class SlowLine:
    """Forwards connections to a server over a slow line, without TCP's slow start and lost packets.

    Args:
        port: Port of the server on this machine.
        line: What the line is like.
    """

    def __init__(self, port: int, line: LineRates) -> None:
        self._port = port
        self._line = line
        self._up, self._down = Direction(line), Direction(line)

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until both ends have closed."""
        await asyncio.sleep(self._line.round_trip_s)  # the handshake
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await asyncio.gather(self._pump(reader, back, self._up), self._pump(there, writer, self._down))
        except asyncio.CancelledError:
            writer.close()  # the line is closed

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: Direction) -> None:
        loop = asyncio.get_running_loop()
        in_transit: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due, piece = await in_transit.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not piece:
                    return sink.close()
                sink.write(piece)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(deliver())
            while piece := await _read(source):
                await in_transit.put((way.arrival(len(piece), loop.time()), piece))
            await in_transit.put((way.arrival(0, loop.time()), b""))


async def _read(source: asyncio.StreamReader) -> bytes:
    try:
        return await source.read(PIECE)
    except ConnectionError:
        return b""


@contextmanager
def slow_line(port: int, line: LineRates) -> Iterator[str]:
    """Run a :class:`SlowLine` in a thread; yields the server's address over it."""
    opened: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        done = asyncio.Event()
        listening = await asyncio.start_server(SlowLine(port, line).forward, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        opened.set_result((address, asyncio.get_running_loop(), done))
        await done.wait()
        listening.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    address, loop, done = opened.result()
    try:
        yield address
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()


TRIES: Final = 5
LINE: Final = LineRates(round_trip_s=0.15, bytes_per_s=1.6e6 / 8)
WITNESS: Final = """
const seen = (element) => element?.textContent.trim() && getComputedStyle(element).visibility === "visible";
window.waited = new Promise((done) => {
  let read = 0;
  requestAnimationFrame(function look() {
    const painted = performance.getEntriesByName("first-contentful-paint").length > 0;
    const drawn = seen(document.querySelector(".score"));
    if (!read && painted && (drawn || seen(document.getElementById("first")))) read = performance.now();
    if (drawn) requestAnimationFrame(() => done([read, performance.now()]));
    else requestAnimationFrame(look);
  });
});
"""
"""When the score can first be read, and when the panel has drawn it; both after a paint."""

Waits = tuple[float, float]


def first_score() -> list[Figure]:
    """Measure a live and a finished 20-over match, with and without the slow line."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("benchmarks: Chromium is not installed; run: apt-get install chromium")
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
    for shown, place, limit in (("the score", 0, "<= 1500 ms"), ("the whole board", 1, "-")):
        over_line = [wait[place] for wait in waits[slow]]
        here = statistics.median(wait[place] for wait in waits[fast])
        measured = f"{statistics.median(over_line):.0f} ms, the worst of {TRIES} {max(over_line):.0f} ms"
        figures.append(
            Figure(f"{shown}, of a match that is {what}, {line}", measured, limit, f"{here:.0f} ms")
        )
    return figures


def _wait(browser: Browser, address: str) -> Waits:
    """Measure both waits in a browser with an empty cache, in milliseconds."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.add_init_script(WITNESS)
    page.goto(address, wait_until="commit")
    readable, drawn = page.evaluate("window.waited")
    context.close()
    return readable, drawn


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
    """Measure a live match of two overs, one of twenty at full speed, and its replay."""
    names = ("chromium-headless-shell", "chromium")
    chromium = next(filter(None, map(shutil.which, names)), None)
    if chromium is None:
        sys.exit("benchmarks: Chromium is not installed; run: apt-get install chromium-headless-shell")
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
    """Return the milliseconds of each task of the page's main thread in a trace."""
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

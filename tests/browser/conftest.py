"""The browser, the pages that tests open in it, and the servers that they look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Error,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from spectator import catalog
from tests.following.gated_run import gated_run
from tests.serving import Serving, serve, test_settings

WIDE: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
COLOURS = ["color-contrast", "link-in-text-block"]
"""Those rules of axe that a theme can break; they take two thirds of the time."""

WITNESS = """
window.witnessed = [];
addEventListener("securitypolicyviolation", (event) =>
  window.witnessed.push(`${event.violatedDirective} ${event.blockedURI}`));
const observe = (type, note) => new PerformanceObserver((list) => list.getEntries().forEach(note))
  .observe({ type, buffered: true });
window.shifts = 0;
window.shiftedBy = [];
window.shiftAtOnce = 0;
let [began, last, sum] = [0, 0, 0];
// Lines that come in at the head of the feed or a story move those below. What else moves in such a frame
// is weighed alone, as the browser weighs a frame: the area that it leaves and takes, and its longest way,
// as shares of the window's. What leaves the window or comes into it does so at its lower edge.
const area = ({ width, height }) => width * height;
const apart = (from, to) => Math.max(Math.abs(from.x - to.x), Math.abs(from.y - to.y));
const both = (from, to) => Math.max(0, Math.min(from.right, to.right) - Math.max(from.left, to.left))
  * Math.max(0, Math.min(from.bottom, to.bottom) - Math.max(from.top, to.top));
const way = (from, to) =>
  area(from) && area(to) ? apart(from, to) : innerHeight - (area(to) ? to : from).y;
const withoutFeed = ({ value, sources }) => {
  const lists = [...document.querySelectorAll("#feed, .story")];
  const holds = (node) => node instanceof Node && lists.some((one) => one.contains(node));
  const others = sources.filter(({ node }) => !holds(node));
  if (others.length === sources.length) return value;
  const moves = others.map(({ previousRect, currentRect }) => [previousRect, currentRect]);
  const touched = moves.reduce((sum, [from, to]) => sum + area(from) + area(to) - both(from, to), 0);
  const longest = Math.max(0, ...moves.map(([from, to]) => way(from, to)));
  return Math.min(value, touched / (innerWidth * innerHeight) * longest / Math.max(innerWidth, innerHeight));
};
observe("layout-shift", (entry) => {
  if (entry.hadRecentInput) return;
  const value = withoutFeed(entry);
  window.shifts += value;
  const named = ({ node }) =>
    node instanceof Element ? `${node.tagName}#${node.id}.${node.className}` : `${node}`;
  const words = [entry.startTime, entry.value, value, ...entry.sources.map(named)].join(" ");
  if (value > 0.001) window.shiftedBy.push(words);
  if (entry.startTime - last > 1_000 || entry.startTime - began > 5_000) [began, sum] = [entry.startTime, 0];
  [last, sum] = [entry.startTime, sum + value];
  window.shiftAtOnce = Math.max(window.shiftAtOnce, sum);
});
window.longTasks = [];
observe("longtask", (entry) => window.longTasks.push(entry.duration));
"""

JUST_READ = "--js-flags=--no-opt --no-maglev"
"""Scripts of pages that live for seconds are not made faster: that costs more than it saves."""

expect.set_options(timeout=20_000)

T = TypeVar("T")
Opener = Callable[..., Page]


@pytest.fixture(scope="package")
def launch(chromium: str) -> Iterator[Callable[..., Browser]]:
    """Starts a Chromium; the event loop for all of them must be gone before tests elsewhere run theirs."""
    with sync_playwright() as playwright:

        def start(*arguments: str) -> Browser:
            args = ["--no-sandbox", "--disable-dev-shm-usage", JUST_READ, *arguments]
            return playwright.chromium.launch(executable_path=chromium, args=args)

        yield start


@pytest.fixture(scope="package")
def browser(launch: Callable[..., Browser]) -> Iterator[Browser]:
    """One Chromium for the tests of this folder."""
    with launch() as browser:
        yield browser


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Opener]:
    """Opens pages, each in a context of its own; at the end none may have complained about anything.

    ``forgive`` names parts of complaints that a test brings about on purpose.
    """
    contexts: list[BrowserContext] = []
    complaints: list[str] = []
    pages: list[Page] = []

    def open_one(url: str, *, forgive: tuple[str, ...] = (), **options: Any) -> Page:
        context = browser.new_context(**{"viewport": WIDE, "color_scheme": "dark", **options})
        context.add_init_script(WITNESS)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)

        def hear(message: ConsoleMessage) -> None:
            if message.type == "error" and not any(part in message.text for part in forgive):
                complaints.append(message.text)

        def fail(error: Error) -> None:
            complaints.append(str(error))

        def refuse(dialog: Dialog) -> None:
            complaints.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.on("console", hear)
        page.on("pageerror", fail)
        page.on("dialog", refuse)
        pages.append(page)
        if url:
            page.goto(url)
        return page

    yield open_one
    for page in pages:
        if not page.is_closed() and page.url.startswith("http"):
            complaints += page.evaluate("window.witnessed ?? []")
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="module", autouse=True)
def rough_forecasts() -> Iterator[None]:
    """Matches that are watched have forecasts of fewer futures: they took a third of a page's server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(catalog.load_world("cricket").watched_options, "forecast_futures", 100)
        yield


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with cricket on and two slots."""
    settings = test_settings(tmp_path_factory.mktemp("data"), environment="cricket", max_episodes=2)
    with serve(settings) as running:
        yield running


@dataclass(frozen=True)
class House:
    """A server with something of everything: what is over, what goes on, and a run."""

    serving: Serving
    cricket: str
    collider: str
    live: str


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A match and a campaign that are over, a match of fifty overs that goes on, and a run that is over."""
    root: Path = tmp_path_factory.mktemp("runs")
    settings = test_settings(
        tmp_path_factory.mktemp("data"), environment="cricket", max_episodes=3, runs_dir=root
    )
    with serve(settings) as serving, gated_run(root / "live") as gate:
        gate.set()
        cricket = serving.start(max_overs=5, seed=7)
        collider = serving.start(environment="collider", seed=3)
        serving.finish(cricket)
        serving.finish(collider)
        live = serving.start(pace="broadcast", max_overs=50, seed=9)
        yield House(serving, cricket, collider, live)


@pytest.fixture
def quiet_app(app: Serving) -> Iterator[Serving]:
    """The same, on which nothing runs, and nothing is left running."""
    stop_all(app)
    yield app
    stop_all(app)


@pytest.fixture
def strange_worlds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The worlds of ``tests.browser.worlds`` are in the catalogue."""
    for name in ("hostile", "broken"):
        monkeypatch.setitem(catalog.BUILT_IN, name, f"tests.browser.worlds:{name.upper()}")
    yield
    catalog.load_world.cache_clear()


@pytest.fixture
def strange_app(tmp_path: Path, strange_worlds: None) -> Iterator[Serving]:
    """A server that has them."""
    with serve(test_settings(tmp_path, max_episodes=2)) as running:
        yield running


def leave(*pages: Page) -> None:
    """Close pages that were looked at, which would go on moving; they may have complained of nothing."""
    for page in pages:
        assert page.evaluate("window.witnessed ?? []") == []
        page.close()


def aside(work: Callable[..., T], *given: Any, **named: Any) -> T:
    """Do what runs an event loop, in a thread: this one has the browser's."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work, *given, **named).result()


def stop_all(app: Serving) -> None:
    """End whatever runs."""
    for episode in app.client.get("/custom/status").json()["running"]:
        app.client.post("/custom/stop_episode", json={"episode_id": episode["episode_id"]})


HELD = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}
ALTGR = """([key, code]) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {
  key, code, ctrlKey: true, altKey: true, modifierAltGraph: true, bubbles: true, cancelable: true }))"""


def press_on_layout(page: Page, key: str, code: str, *held: str) -> None:
    """Press the key at ``code`` on a keyboard whose layout has ``key`` there.

    ``AltGr`` is as Windows reports it; Chromium's protocol cannot send it, so that event is a script's.
    """
    if held == ("AltGr",):
        page.evaluate(ALTGR, [key, code])
        return
    session = page.context.new_cdp_session(page)
    sent = {"key": key, "code": code, "modifiers": sum(HELD[one] for one in held)}
    session.send("Input.dispatchKeyEvent", {"type": "keyDown", **sent})
    session.send("Input.dispatchKeyEvent", {"type": "keyUp", **sent})
    session.detach()


def violations(
    page: Page, within: str | None = None, *, rules: list[str] = RULES, but: list[str] | None = None
) -> list[str]:
    """What axe finds wrong with a page as it is, each with the first element concerned.

    Everything that passes is left out of the answer, which took most of the time.

    Args:
        page: The page.
        within: The part that is new where the rest of the page is examined elsewhere; a second of time.
        rules: Those looked at, by tag or by name.
        but: Those that are left out, by name.
    """
    off = {name: {"enabled": False} for name in but or []}
    options = {"runOnly": rules, "rules": off, "resultTypes": ["violations"]}
    found = Axe().run(page, within, options)
    return [f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found.response["violations"]]


def board(page: Page) -> dict[str, str]:
    """All that a watch page shows of an episode, as text, once it is drawn, out of sight or not."""
    shown = _board(page)
    for _ in range(40):
        page.wait_for_timeout(150)
        before, shown = shown, _board(page)
        if shown == before:
            break
    return shown


def _board(page: Page) -> dict[str, str]:
    shown: dict[str, str] = page.evaluate(
        """() => Object.fromEntries(["banner", "lead", "mind", "feed", "body"].map(
            (id) => [id, document.getElementById(id).innerText]))"""
    )
    return shown

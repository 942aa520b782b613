"""Checks that the pages can be used by everybody, at every width."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import COLOURS, PHONE, WIDE, Opener, leave, violations
from tests.serving import Serving

pytestmark = pytest.mark.browser

SIZES = {"wide": WIDE, "phone": PHONE}
WIDTHS = (320, 390, 640, 768, 1024, 1440, 2560, 3840)


def ready(page: Page, path: str) -> None:
    """Wait until a page shows what it has to show."""
    if path == "/":
        expect(page.get_by_role("button", name="Start the match")).to_be_visible()
        expect(page.locator(".game").first).to_be_visible()
    else:
        expect(page.locator("#mind code").first).not_to_be_empty()
        expect(page.locator("#state")).not_to_have_text("Connecting")
    expect(page.locator(".waiting, .stage--waiting")).to_have_count(0)
    drawn(page)


def drawn(page: Page) -> None:
    """Wait until what has changed is on the screen."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


@pytest.fixture(scope="module")
def paths(app: Serving) -> dict[str, str]:
    """The pages, with one match under way, one ended, and one shown from the past."""
    ended = app.start(max_overs=2, seed=7)
    app.finish(ended)
    live = app.start(pace="broadcast", max_overs=50, seed=7)
    return {
        "lobby": "/",
        "live": f"/watch/{live}",
        "ended": f"/watch/{ended}",
        "replay": f"/replay/{ended}?seq=60",
    }


@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_nothing_by_day(app: Serving, paths: dict[str, str], open_page: Opener, size: str) -> None:
    """No colour violates WCAG 2.2 AA; test_accessibility.py has the dark look, and what is alike in both."""
    page = open_page(
        "",
        viewport=SIZES[size],
        color_scheme="light",
        has_touch=size == "phone",
        reduced_motion="reduce",  # what fades in has not its colour yet
    )
    for name, path in paths.items():
        page.goto(f"{app.base_url}{path}")
        ready(page, path)
        assert violations(page, rules=COLOURS) == [], name


def test_axe_finds_nothing_in_what_opens(app: Serving, paths: dict[str, str], open_page: Opener) -> None:
    """Dialogs and refusals included."""
    live = paths["live"]
    page = open_page(f"{app.base_url}{live}")
    ready(page, live)
    for button in ("Control this episode", "Keyboard and help", "About this episode"):
        page.get_by_role("button", name=button).click()
        expect(page.get_by_role("dialog")).to_be_visible()  # fetched when first opened
        assert violations(page, "dialog[open]") == []
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_be_hidden()
    lobby = open_page(f"{app.base_url}/", forgive=("422",))
    ready(lobby, "/")
    lobby.get_by_label("max overs").fill("99")
    lobby.get_by_role("button", name="Start the match").click()
    expect(lobby.get_by_role("alert")).to_be_visible()
    lobby.get_by_text("More choices").click()
    assert violations(lobby, "#start") == []


def test_nothing_is_wider_than_the_window(app: Serving, paths: dict[str, str], open_page: Opener) -> None:
    """No sideways scrolling from 320 px (400 % zoom on a small screen) to 4K."""
    page = open_page("")
    for name, path in paths.items():
        page.goto(f"{app.base_url}{path}")
        ready(page, path)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            drawn(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} at {width} px"


def test_what_is_touched_is_large_enough(app: Serving, paths: dict[str, str], open_page: Opener) -> None:
    """44 px on a phone for every button, field and choice; links in running text aside."""
    page = open_page("", viewport=PHONE, has_touch=True, is_mobile=True)
    for name, path in paths.items():
        page.goto(f"{app.base_url}{path}")
        ready(page, path)
        small: list[str] = page.evaluate(
            """() => [...document.querySelectorAll("button, select, input, summary, a.button, a.bar__brand")]
                .filter((one) => one.checkVisibility({ visibilityProperty: true }))
                .map((one) => [one.getBoundingClientRect(), one.id || one.className || one.textContent])
                .filter(([box]) => box.height < 43.5)
                .map(([box, label]) => `${label} ${box.width}x${box.height}`)"""
        )
        assert small == [], name


def test_it_can_be_used_without_a_pointer(app: Serving, paths: dict[str, str], open_page: Opener) -> None:
    """Skip link first, focus always seen, help by key, Escape closes, the look by key and kept."""
    path = paths["live"]
    page = open_page(f"{app.base_url}{path}")
    ready(page, path)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    for _ in range(8):
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("one step back or forward")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_nothing_moves_for_those_who_asked_for_stillness(
    app: Serving, paths: dict[str, str], open_page: Opener
) -> None:
    """prefers-reduced-motion stops every animation, also while balls fall."""
    episode_id = app.start(pace="fast", max_overs=2, seed=7)
    page = open_page(f"{app.base_url}/watch/{episode_id}", reduced_motion="reduce")
    expect(page.locator("#feed li").nth(6)).to_be_visible()
    for _ in range(10):
        assert page.evaluate("document.getAnimations().length") == 0
        page.wait_for_timeout(50)
    app.client.post("/custom/stop_episode", json={"episode_id": episode_id}).raise_for_status()


UNREADABLE = """() => {
  const box = (one) => one.getBoundingClientRect();
  const seen = (one) => one.checkVisibility({ visibilityProperty: true }) && box(one).width > 0;
  const said = (one) => `${one.id || one.getAttribute("class")}: ${one.textContent.slice(0, 30)}`;
  const size = (one) => parseFloat(getComputedStyle(one).fontSize);
  const faults = [];
  for (const text of document.querySelectorAll("svg text")) {
    const pixels = size(text) * (text.getScreenCTM()?.a ?? 1);
    if (seen(text) && text.textContent && pixels < 10.95) faults.push(`${pixels} px, ${said(text)}`);
  }
  for (const card of document.querySelectorAll(".card"))
    for (const one of card.querySelectorAll(":scope > *, :scope > * > *"))
      if (seen(one) && box(one).right > box(card).right + 1) faults.push(`out of its card, ${said(one)}`);
  const inBar = ".bar__brand, .bar__crumbs > *, .pulse, .bar__retry, .bar__figure, .tool";
  const bar = [...document.querySelectorAll(inBar)].filter(seen).map((one) => [one, box(one)]);
  for (const [place, [one, a]] of bar.entries()) for (const [other, b] of bar.slice(place + 1)) {
    const beside = a.right <= b.left + 1 || b.right <= a.left + 1;
    const below = a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
    if (!beside && !below) faults.push(`${said(one)} over ${said(other)}`);
  }
  const score = document.querySelector(".score__runs");
  if (score && box(score).height > 1.5 * size(score)) faults.push("the score is on two lines");
  return faults;
}"""
"""Chart labels under 11 px, what sticks out of its card, what overlaps in the header, a score that wraps."""


def faults_at_rest(page: Page) -> list[str]:
    """What is unreadable once the sizes of words have followed those of their drawings."""
    faults: list[str] = []
    for _ in range(40):
        faults = page.evaluate(UNREADABLE)
        if not faults:
            break
        page.wait_for_timeout(100)
    return faults


def test_labels_are_readable_and_nothing_runs_into_anything(
    app: Serving, paths: dict[str, str], open_page: Opener
) -> None:
    """From a phone to a wide screen, live with three figures of runs, at the end, and compared."""
    ended, live = app.start(max_overs=20, seed=7), paths["live"].rpartition("/")[2]
    app.finish(ended)
    pages = {
        "live": paths["live"],
        "high score": f"/watch/{ended}",
        "compared": f"/compare?a={ended}&b={live}",
    }
    for name, path in pages.items():
        page = open_page(f"{app.base_url}{path}")
        if name == "compared":
            expect(page.locator(".difference__picture")).to_be_visible()
        else:
            ready(page, path)
        for width in (390, 700, 820, 1024, 1440, 1920):
            page.set_viewport_size({"width": width, "height": 900})
            assert faults_at_rest(page) == [], f"{name} at {width} px"
        leave(page)


def test_both_minds_are_seen_whole_at_their_heads(
    app: Serving, paths: dict[str, str], open_page: Opener
) -> None:
    """Whatever a captain writes, the other's name and source stay in view; each is scrolled for itself."""
    path = paths["ended"]
    page = open_page(f"{app.base_url}{path}")
    ready(page, path)
    page.locator(".mind__thought").first.evaluate(
        "(it) => { it.textContent = 'a long reason '.repeat(200); }"
    )
    for name in page.locator(".mind__seat .mind__by").all():
        expect(name).to_be_in_viewport(ratio=0.9)
    boxes = page.evaluate(
        """() => [document.getElementById("mind"), ...document.querySelectorAll(".mind__seat")]
            .map((one) => one.getBoundingClientRect().bottom)"""
    )
    assert max(boxes[1:]) <= boxes[0]

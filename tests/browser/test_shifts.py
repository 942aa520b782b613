"""Nothing on a page moves by itself: layout shift at most 0.02 on every page, at four widths."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, WIDE, House, Opener, leave
from tests.serving import serve, test_settings

pytestmark = pytest.mark.browser

MOST = 0.02
SIZES = {
    "wide": WIDE,
    "wider": {"width": 1920, "height": 1080},
    "tablet": {"width": 820, "height": 1180},
    "phone": PHONE,
}
LISTS = ("/leaderboard", "/reliability", "/docs", "/voice", "/rollouts", "/operator", "/nowhere")


def shifts(page: Page) -> float:
    """What has shifted at once until the next frame but one.

    That is the cumulative layout shift as the web's vitals count it: the most of all bursts of up to five
    seconds whose shifts are less than a second apart.
    """
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return float(page.evaluate("window.shiftAtOnce"))


MOVES = """<style>* { margin: 0 } li { height: 60px } #beside { width: 400px; height: 200px }</style>
<div id="room"></div><div id="beside">What does not belong to the feed</div>
<ol id="feed" style="position: absolute; left: 420px; top: 0"><li>1<li>2<li>3<li>4<li>5<li>6</ol>"""


@pytest.mark.parametrize("way", [0, 50])
def test_what_moves_with_the_feed_is_weighed_by_itself(open_page: Opener, way: int) -> None:
    """Neither hidden behind the lines that move in the same frame, nor made as heavy as they are."""
    page = open_page(f"data:text/html,{quote(MOVES)}", viewport=SIZES["tablet"])
    shifts(page)
    page.evaluate(
        "(way) => { feed.prepend(document.createElement('li')); room.style.height = `${way}px`; }", way
    )
    expected = 400 * (200 + way) / (820 * 1180) * way / 1180
    assert shifts(page) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("size", SIZES)
def test_what_is_on_and_what_was_played_come_without_a_move(
    house: House, open_page: Opener, size: str
) -> None:
    """The lobby and the wall, from the first paint until lists, form and tiles are there."""
    page = open_page(f"{house.serving.base_url}/", viewport=SIZES[size])
    expect(page.locator(".tile__line").first).not_to_be_empty()
    expect(page.locator(".game")).to_have_count(2)
    expect(page.get_by_role("button", name="Start the match")).to_be_visible()
    assert shifts(page) <= MOST
    page.goto(f"{house.serving.base_url}/wall")
    expect(page.locator(".tile__line").first).not_to_be_empty()
    assert shifts(page) <= MOST


def test_an_empty_lobby_comes_without_a_move(tmp_path: Path, open_page: Opener) -> None:
    """Nor does what begins then push away what is below it."""
    with serve(test_settings(tmp_path, environment="cricket")) as serving:
        page = open_page(f"{serving.base_url}/")
        expect(page.locator("#on")).to_contain_text("Nothing is live")
        serving.start(pace="broadcast")
        expect(page.locator(".tile__line")).not_to_be_empty()
        assert shifts(page) <= MOST


NOTE_AT_TWO = """() => {
  const frame = (next) => requestAnimationFrame(next);
  const note = () => { window.atTwo = window.shiftAtOnce; };
  const where = document.querySelector(".player__where");
  const look = () => (where.textContent.includes("2 /") ? frame(() => frame(note)) : frame(look));
  look();
}"""
AT_TWO = """() => new Promise((done) => {
  const look = () => (window.atTwo === undefined ? requestAnimationFrame(look) : done(window.atTwo));
  look();
})"""
"""Remembers what has shifted by the second event, wherever the replay is when it is asked."""


def test_a_record_comes_without_a_move(house: House, open_page: Opener) -> None:
    """The report at the end, an address in the middle, a replay from its beginning; pages side by side."""
    home = house.serving.base_url
    pages = {size: open_page("", viewport=viewport) for size, viewport in SIZES.items()}
    for path, place, words in (
        (f"/watch/{house.cricket}", ".ending__result", re.compile(".")),
        (f"/watch/{house.cricket}?seq=150", "#state", "Replay"),
    ):
        for size, page in pages.items():
            page.goto(f"{home}{path}")
            expect(page.locator(place)).to_contain_text(words)
            assert shifts(page) <= MOST, (path, size)
    for page in pages.values():
        page.goto(f"{home}/replay/{house.cricket}")
        page.evaluate(NOTE_AT_TWO)
    for size, page in pages.items():
        expect(page.locator(".player__where")).to_contain_text(re.compile(r"([2-9]|\d\d) /"), timeout=60_000)
        assert page.evaluate(AT_TWO) <= MOST, size
        leave(page)


def test_a_replay_goes_by_without_a_move(house: House, open_page: Opener) -> None:
    """A whole campaign at the highest speed, at every width; the pages play side by side, each for itself."""
    address = f"{house.serving.base_url}/replay/{house.collider}"
    pages = {size: open_page(address, viewport=viewport) for size, viewport in SIZES.items()}
    for page in pages.values():
        page.get_by_label("Replay speed").select_option("8")
    for page in pages.values():
        expect(page.locator("#state")).to_have_text("Finished", timeout=60_000)
    moved = {size: shifts(page) for size, page in pages.items()}
    assert all(one <= MOST for one in moved.values()), moved


def test_other_pages_come_without_a_move(house: House, open_page: Opener) -> None:
    """The board, reliability, voices, runs, a run, its group, the operator's, a page that is not there."""
    home = house.serving.base_url
    pages = {size: open_page("", viewport=viewport, forgive=("404",)) for size, viewport in SIZES.items()}
    for path in LISTS:
        for page in pages.values():
            page.goto(f"{home}{path}")
        for size, page in pages.items():
            page.wait_for_load_state("networkidle")
            assert shifts(page) <= MOST, (path, size)
    for path, words in (
        ("/rollouts/live", "8 of 8 episodes finished"),
        ("/group/g-000000?run=live", "4 of 4 finished"),
    ):
        for size, page in pages.items():
            page.goto(f"{home}{path}")
            expect(page.locator("#figures")).to_contain_text(words)
            assert shifts(page) <= MOST, (path, size)


@pytest.mark.parametrize("size", SIZES)
def test_a_match_is_scrolled_without_a_move(house: House, open_page: Opener, size: str) -> None:
    """From its head to its foot at once, as soon as it is open: what is fetched then pushes nothing away."""
    page = open_page(f"{house.serving.base_url}/watch/{house.cricket}", viewport=SIZES[size])
    expect(page.locator("#state")).to_have_text("Finished")
    if size == "phone":
        page.get_by_role("tab", name="Mind").click()
        page.wait_for_timeout(600)  # what follows a click within half a second is not counted
    page.evaluate("document.querySelector('.deeds').scrollIntoView({ block: 'center', behavior: 'instant' })")
    expect(page.locator(".deeds__table tbody tr").first).to_be_visible()
    assert shifts(page) <= MOST


def test_a_page_whose_script_does_not_come_shows_itself_in_the_end(house: House, open_page: Opener) -> None:
    page = open_page("", forgive=("Failed to load resource",))
    page.route("**/*.js*", lambda route: route.abort())
    page.goto(house.serving.base_url)
    expect(page.locator("main.waiting")).to_have_count(1)
    expect(page.get_by_role("contentinfo")).to_be_visible()

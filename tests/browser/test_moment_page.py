"""The page of a moment on a phone and on a desk; on a phone the end shows what matters at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, WIDE, Opener, stop_all, violations
from tests.serving import Serving

pytestmark = pytest.mark.browser

SIZES = {"phone": PHONE, "wide": WIDE}
THEMES = ("dark", "light")


@pytest.fixture(scope="module")
def match(app: Serving) -> str:
    """A match that is over, with its wickets and its chances."""
    stop_all(app)
    episode_id = app.start(seed=7, options={"max_overs": 2, "forecast_futures": 40}, captain_preset="planner")
    app.finish(episode_id)
    return episode_id


@pytest.fixture(scope="module")
def wicket(app: Serving, match: str) -> int:
    """The call of its last wicket."""
    calls = [one["seq"] for one in app.events(match) if one["data"].get("label") == "OUT"]
    return int(calls[-1])


@pytest.fixture(autouse=True)
def nothing_left(app: Serving) -> Iterator[None]:
    yield
    stop_all(app)


def moves(page: Page) -> float:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return float(page.evaluate("window.shifts"))


@pytest.mark.parametrize("size", SIZES)
def test_a_moment_is_seen_played_copied_and_changed(
    app: Serving, match: str, wicket: int, open_page: Opener, size: str
) -> None:
    """What happened is on the first screen; a copy is confirmed in words; one click takes the seat."""
    page = open_page(
        f"{app.base_url}/moment/{match}/{wicket}",
        viewport=SIZES[size],
        permissions=["clipboard-read", "clipboard-write"],
    )
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"^OUT, \d+\s% to \d+\s% for .+"))
    still = page.locator(".moment__still")
    page.wait_for_function("() => document.querySelector('.moment__still').naturalWidth === 640", polling=50)
    box = still.bounding_box()
    assert box and box["y"] + box["height"] < SIZES[size]["height"]
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"]
    assert moves(page) <= 0.02
    assert violations(page) == []
    page.get_by_text("Play the clip").click()
    page.wait_for_function(
        "() => document.querySelector('.moment__clip img').naturalWidth === 640", polling=50
    )
    expect(still).to_be_hidden()
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("status")).to_have_text("Link copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"{app.base_url}/moment/{match}/{wicket}"
    page.get_by_role("button", name="Change the ending").click()
    page.wait_for_url(lambda url: "/watch/ep-" in url and match not in url)
    expect(page.locator("#seat")).to_be_visible()
    expect(page.locator("#parent")).to_contain_text(f"forked from {match[-6:]}")
    assert "#seat=" not in page.url, "the key is taken out of the address"


def test_without_script_an_ending_is_changed_and_the_rest_is_links(
    app: Serving, match: str, wicket: int, open_page: Opener
) -> None:
    page = open_page(f"{app.base_url}/moment/{match}/{wicket}", java_script_enabled=False, viewport=PHONE)
    expect(page.get_by_role("button", name="Copy link")).to_be_hidden()
    expect(page.get_by_role("link", name="Watch from here")).to_be_visible()
    page.get_by_label("Who decides for").select_option("aggressive")
    page.get_by_role("button", name="Change the ending").click()
    page.wait_for_url(lambda url: "/watch/ep-" in url and match not in url)


VIDEO = """async (url) => {
  const video = Object.assign(document.createElement("video"), { src: url, muted: true });
  await new Promise((done, failed) => {
    video.onloadeddata = done;
    video.onerror = () => failed(video.error.message);
  });
  video.playbackRate = 8;
  const ended = new Promise((done) => { video.onended = done; });
  await video.play();
  await ended;
  const { corruptedVideoFrames: corrupt } = video.getVideoPlaybackQuality();
  return [video.videoWidth, video.videoHeight, video.duration, corrupt];
}"""


def test_a_share_says_what_came_of_it(app: Serving, match: str, wicket: int, open_page: Opener) -> None:
    """The device's own sheet where it has one; if that fails the link is copied or shown; its video plays."""
    page = open_page("", viewport=PHONE)
    page.add_init_script("navigator.share = async (it) => { window.sent = it; };")
    page.goto(f"{app.base_url}/moment/{match}/{wicket}")
    video = page.locator('meta[property="og:video"]').get_attribute("content")
    width, height, seconds, corrupt = page.evaluate(VIDEO, video)
    assert (width, height, corrupt) == (640, 360, 0) and 3 <= seconds <= 5
    page.get_by_role("button", name="Share").click()
    expect(page.get_by_role("status")).to_have_text("Shared")
    assert page.evaluate("window.sent.url") == f"{app.base_url}/moment/{match}/{wicket}"
    page.add_init_script("navigator.clipboard.writeText = async () => { throw new Error('denied'); };")
    page.reload()
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("status")).to_have_text(f"Copy this: {app.base_url}/moment/{match}/{wicket}")


def test_commentary_and_report_lead_to_the_pages_of_moments(
    app: Serving, match: str, wicket: int, open_page: Opener
) -> None:
    """A click goes there on the page, the link's address is the moment's own page; so is the copied link."""
    page = open_page(f"{app.base_url}/watch/{match}", permissions=["clipboard-read", "clipboard-write"])
    line = page.locator(f".feed__line[data-moment='{wicket}'] .feed__go")
    assert line.get_attribute("href") == f"{app.base_url}/moment/{match}/{wicket}"
    for link in page.locator(".ending__page").all():
        answer = app.client.get(link.get_attribute("href") or "")
        assert answer.status_code == 200 and "og:image" in answer.text
    line.click()
    expect(page.locator("#state")).to_have_text("Replay")
    page.get_by_role("button", name="Copy a link to this moment").click()
    expect(page.locator(".toast")).to_have_text("Link copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(rf"{app.base_url}/moment/{match}/\d+", copied)
    assert app.client.get(copied).text.count(f'content="{app.base_url}/moment/{match}/{wicket}"') == 1


@pytest.mark.parametrize("theme", THEMES)
def test_the_end_on_a_phone_is_one_screen(app: Serving, match: str, open_page: Opener, theme: str) -> None:
    """Result, three moments and Rematch above the bar that plays, without a scroll or a move."""
    page = open_page(f"{app.base_url}/watch/{match}", viewport=PHONE, has_touch=True, color_scheme=theme)
    expect(page.locator(".ending__turn")).to_have_count(3)
    expect(page.locator("[data-shows=commentary]")).to_have_attribute("aria-selected", "true")
    bar = page.locator("#player").bounding_box()
    parts = [
        page.locator(".ending__result"),
        page.get_by_role("button", name="Rematch"),
        *page.locator(".ending__turns li").all(),
    ]
    for part in parts:
        expect(part).to_be_visible()
        box = part.bounding_box()
        assert bar and box and box["y"] >= 0 and box["y"] + box["height"] <= bar["y"], box
    assert page.evaluate("scrollY") == 0
    assert moves(page) <= 0.02
    page.locator(".ending__turns p").first.wait_for()
    assert page.locator(".ending__turns li").first.locator("p:visible").count() == 1
    page.get_by_role("button", name="Why they turned it").tap()
    assert page.locator(".ending__turns li").first.locator("p:visible").count() > 1
    page.locator(".ending__turn").first.tap()
    expect(page.locator("#state")).to_have_text("Replay")
    expect(page.locator(".ground")).to_be_visible()


def test_a_match_that_ends_while_a_phone_watches_turns_to_its_report(app: Serving, open_page: Opener) -> None:
    """After the last ball has come to rest; who has chosen another view keeps it."""
    episode_id = app.start(pace="fast", seed=5, options={"max_overs": 1, "forecast_futures": 10})
    pages = [
        open_page(f"{app.base_url}/watch/{episode_id}", viewport=PHONE, has_touch=True) for _ in range(2)
    ]
    pages[1].locator("[data-shows=board]").tap()
    expect(pages[0].locator(".ending__result")).to_be_visible(timeout=60_000)
    expect(pages[1].locator("#state")).to_have_text("Finished")
    expect(pages[1].locator(".cards")).to_be_visible()
    assert all(moves(page) <= 0.02 for page in pages)

"""A record too long to be read whole: its page opens at the end, and goes anywhere by one part of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Opener, aside
from tests.episodes.long_record import EPISODE, long_journal
from tests.serving import Serving, serve, test_settings

pytestmark = pytest.mark.browser

TURNS = 10_100
LAST = 2 * TURNS + 2


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("data")
    assert aside(asyncio.run, long_journal(folder, TURNS)) == LAST
    with serve(test_settings(folder)) as serving:
        yield serving


def requests_of(page: Page) -> list[str]:
    """What the page asks of the record from now on."""
    asked: list[str] = []

    def note(url: str) -> None:
        path, _, query = urlsplit(url).path.partition(f"/api/episodes/{EPISODE}/")[2], "", urlsplit(url).query
        if path in ("state", "events"):
            asked.append(f"{path}?{query}" if query else path)

    page.on("request", lambda request: note(request.url))
    return asked


def of_progress(asked: str) -> bool:
    """Whether a state was asked for to show how far a slow answer is, on a busy machine."""
    return asked.partition("at=")[2].endswith("001")


def test_a_long_record_opens_at_its_end_and_is_never_read_whole(serving: Serving, open_page: Opener) -> None:
    page = open_page("about:blank")
    asked = requests_of(page)
    page.goto(f"{serving.base_url}/watch/{EPISODE}")
    where = page.locator(".player__where")
    expect(where).to_contain_text(f"{LAST} / {LAST}")
    expect(page.locator("#state")).to_contain_text("Finished")
    page.keyboard.press("ArrowLeft")
    expect(where).to_contain_text(f"{LAST - 1} / {LAST}")
    scrub = page.locator(".player__scrub")
    for place in (6_061, 18_183, 9_091):
        scrub.evaluate(
            "(bar, at) => { bar.value = String(at); bar.dispatchEvent(new Event('input', {bubbles: true})) }",
            place,
        )
        expect(where).to_contain_text(f"{place} / {LAST}")
    parts = [one for one in asked if one.startswith("events")]
    assert parts == [
        "events?after_seq=20000&limit=202",
        "events?after_seq=6000&limit=1000",
        "events?after_seq=18000&limit=1000",
        "events?after_seq=9000&limit=1000",
    ]
    states = [one for one in asked if one.startswith("state") and not of_progress(one)]
    assert sorted(states) == ["state", *(f"state?at={at}" for at in (17202, 18000, 20000, 6000, 9000))]
    page.keyboard.press("ArrowRight")
    expect(where).to_contain_text(f"9093 / {LAST}")
    assert len([one for one in asked if one.startswith("events")]) == len(parts)
    page.keyboard.press("Home")
    expect(where).to_contain_text(f"1 / {LAST}")


def test_a_link_to_a_moment_of_a_long_record_leads_there(serving: Serving, open_page: Opener) -> None:
    page = open_page(f"{serving.base_url}/watch/{EPISODE}?seq=12345")
    expect(page.locator(".player__where")).to_contain_text(f"12345 / {LAST}")


def test_while_the_server_goes_through_a_record_the_page_says_how_far_it_is(
    serving: Serving, open_page: Opener
) -> None:
    page, held = open_page("about:blank"), list[Route]()
    page.route(f"**/api/episodes/{EPISODE}/state", lambda route: held.append(route))
    page.goto(f"{serving.base_url}/watch/{EPISODE}")
    line = page.locator("#reading")
    expect(line).to_contain_text("is indexing this long record for the first time")
    expect(line).to_contain_text("99 % of 20,202 events")
    assert float(line.locator("progress").get_attribute("value") or 0) > 0.98
    held[0].continue_()
    expect(page.locator(".player__where")).to_contain_text(f"{LAST} / {LAST}")
    expect(line).to_have_count(0)

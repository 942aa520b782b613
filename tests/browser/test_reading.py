"""Checks of the watch page for those who read it: text, print, keys, what can be taken away."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import COLOURS, PHONE, RULES, Opener, stop_all, violations
from tests.serving import Serving

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def match(app: Serving) -> Iterator[str]:
    """One whole match, played before the page is opened."""
    stop_all(app)
    episode_id = app.start(max_overs=2, seed=8)
    app.finish(episode_id)
    yield episode_id


def text_of(page: Page) -> str:
    """What the page says as text, once it has all."""
    expect(page.locator("#state")).to_have_text("Finished")
    expect(page.get_by_role("heading", name="Commentary, newest first")).to_be_visible()
    return page.locator("#plain").inner_text()


@pytest.mark.parametrize("look", ["dark", "light"])
def test_the_match_reads_as_plain_text(app: Serving, open_page: Opener, match: str, look: str) -> None:
    """``?text=1`` shows headings and lines, no chart; axe finds nothing; the button and X lead back."""
    page = open_page(
        f"{app.base_url}/watch/{match}?text=1", viewport=PHONE, has_touch=True, color_scheme=look
    )
    told = text_of(page)
    result = app.client.get(f"/api/episodes/{match}").json()["result"]
    assert result in told
    for heading in ("LAST BALL", "WHO DECIDES, AND WHY", "COMMENTARY, NEWEST FIRST", "2ND INNINGS"):
        assert heading in told.upper()
    assert (
        page.locator("svg:visible").count() == page.locator("header svg:visible, footer svg:visible").count()
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert violations(page, rules=COLOURS if look == "light" else RULES) == []
    page.keyboard.press("x")
    expect(page.locator(".score")).to_be_visible()
    assert "text=" not in page.url


def test_text_follows_the_player(app: Serving, open_page: Opener, match: str) -> None:
    page = open_page(f"{app.base_url}/watch/{match}?text=1&seq=6")
    expect(page.locator("#plain")).to_contain_text("No ball has been bowled yet.")
    page.keyboard.press("End")
    expect(page.locator("#plain")).not_to_contain_text("No ball has been bowled yet.")


def test_overs_are_stepped_and_after_a_jump_every_card_is_whole(
    app: Serving, open_page: Opener, match: str
) -> None:
    """Comma and full stop go over by over; going to the beginning and back leaves no card empty."""
    page = open_page(f"{app.base_url}/watch/{match}")
    expect(page.locator("#state")).to_have_text("Finished")
    where = page.locator(".player__where")
    end = where.inner_text()
    whole = page.locator(".cards").inner_text()
    page.keyboard.press(",")
    expect(where).not_to_have_text(end)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("previous or next over")
    page.keyboard.press("Escape")
    page.keyboard.press("Home")
    expect(page.locator("#lead")).to_contain_text("No ball has been bowled yet")
    expect(page.locator(".cards .card")).to_have_count(0)
    page.keyboard.press("End")
    expect(page.locator(".cards")).to_have_text(re.compile(".+"))
    expect(page.locator(".cards .card").last.locator("tbody tr").first).to_be_attached()
    assert page.locator(".cards").inner_text() == whole


def test_seed_and_record_can_be_taken_away(app: Serving, open_page: Opener, match: str) -> None:
    """The seed goes to the clipboard; the download is the record, line by line."""
    page = open_page(f"{app.base_url}/watch/{match}", permissions=["clipboard-read", "clipboard-write"])
    expect(page.locator("#state")).to_have_text("Finished")
    page.keyboard.press("a")
    page.get_by_role("button", name="Copy the seed").click()
    expect(page.get_by_text("Seed 8 copied.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "8"
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the events").click()
    lines = Path(download.value.path()).read_text("utf-8").splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert json.loads(lines[-1])["type"] == "episode.ended"


def test_on_paper_it_is_ink_on_white_and_nothing_is_cut_off(
    app: Serving, open_page: Opener, match: str
) -> None:
    """Printed from the dark look: black on white, no bar, the whole commentary."""
    page = open_page(f"{app.base_url}/watch/{match}")
    expect(page.locator("#state")).to_have_text("Finished")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('.score__runs')).color") == "rgb(0, 0, 0)"
    expect(page.locator("#player")).to_be_hidden()
    cut = page.evaluate(
        """() => [...document.querySelectorAll(".feed__list, .mind-card")]
            .filter((one) => one.scrollHeight > one.clientHeight + 1).map((one) => one.className)"""
    )
    assert cut == []


def test_the_wheel_the_bowlers_and_the_stands_are_shown(app: Serving, open_page: Opener, match: str) -> None:
    """What the world counts is on the page, each chart with its figures as a table."""
    page = open_page(f"{app.base_url}/watch/{match}")
    expect(page.locator("#state")).to_have_text("Finished")
    page.locator(".wheel").scroll_into_view_if_needed()
    expect(page.locator(".wheel__stroke").first).to_be_visible()
    assert page.locator(".wheel table tbody tr").count() == 8
    who = page.get_by_label("Whose strokes")
    everyone = page.locator(".wheel__stroke").count()
    who.select_option(index=1)
    assert page.locator(".wheel__stroke").count() < everyone
    expect(page.locator(".bowlers tbody tr").first).to_contain_text(re.compile(r"\d\.\d"))
    page.get_by_role("button", name="Stands").click()
    expect(page.locator(".chart table caption")).to_have_text("Partnerships")
    expect(page.locator(".mind__others")).to_contain_text("also legal")


def test_inside_a_space_the_page_around_learns_what_is_shown(
    app: Serving, open_page: Opener, match: str
) -> None:
    """A Space shows us in a frame: its query leads to the ball, and what we show becomes its query."""
    around = f"""<!doctype html><script>
        window.told = [];
        window.postMessage = (message, origin) => window.told.push([message.queryString, origin]);
        </script><iframe src="{app.base_url}/?ep={match}&seq=6" width="1200" height="800"></iframe>"""
    page = open_page("")
    page.route("**/around", lambda route: route.fulfill(body=around, content_type="text/html"))
    page.goto(f"{app.base_url}/around")
    inside = page.frame_locator("iframe")
    expect(inside.locator("#state")).to_have_text("Replay")
    expect(inside.locator("#lead")).to_contain_text("No ball has been bowled yet")
    assert page.evaluate("window.told") == [[f"ep={match}&seq=6", "https://huggingface.co"]]
    inside.get_by_role("button", name="Next big moment").click()
    inside.get_by_role("button", name="Copy a link to this moment").click()
    page.wait_for_timeout(300)
    assert len(page.evaluate("window.told")) == 2
    assert page.evaluate("window.told[1][0]") != f"ep={match}&seq=6"

"""The lobby as the league's front page, and the league's own page, in both sizes and without a script."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Page, TimeoutError, expect

from tests.browser.conftest import COLOURS, PHONE, RULES, WIDE, Opener, leave, violations
from tests.serving import Serving, serve, test_settings, until

pytestmark = pytest.mark.browser

SIX = ("heuristic", "aggressive", "anchor", "defensive", "spin_first", "tactician")
CHAMPION = re.compile(r"Champion of season 1: [A-Za-z ]+ \([A-Za-z ]+\)")
WIDTH_OF = "async (url) => (await createImageBitmap(await (await fetch(url)).blob())).width"
WIDER_THAN_THE_WINDOW = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


def see_front(page: Page, played: int) -> None:
    """Now, next, results and table, each match with both teams and both captains."""
    expect(page.locator("#league")).to_contain_text(f"{played} of 16 matches played")
    now, next_one = page.locator("#league-now + ol > li").nth(0), page.locator("#league-now + ol > li").nth(1)
    expect(now.get_by_role("link", name=f"Match {played + 1}")).to_be_visible()
    expect(next_one).to_contain_text(f"Match {played + 2}")
    expect(page.locator("#league-results + ol > li")).to_have_count(4)
    for match in (now, next_one, page.locator("#league-results + ol > li").first):
        expect(match.locator(".side2__team")).to_have_count(2)
        expect(match.locator(".emblem")).to_have_count(2)
        expect(match.locator(".side2 small")).to_have_count(2)
    rows = page.locator("#league tbody tr")
    expect(rows).to_have_count(6)
    expect(rows.first.locator(".league__share")).to_contain_text("%")


def groups(app: Serving) -> list[str]:
    """The season and number of every match that is over, except those that gave way to a restart."""
    ended = app.client.get("/api/episodes?run_id=league&ended=true&limit=100").json()["episodes"]
    return [one["group_id"] for one in ended if one["reason"] == "finished"]


def on_air(app: Serving) -> list[tuple[str, str]]:
    """The matches on the air, once they are on record, with their seasons and numbers."""
    running = app.client.get("/custom/status").json()["running"]
    ids = [one["episode_id"] for one in running if one["pace"] == "broadcast"]
    found = [(name, app.client.get(f"/api/episodes/{name}")) for name in ids]
    return [(name, answer.json()["group_id"]) for name, answer in found if answer.is_success]


def call_along(page: Page) -> None:
    """A viewer of a league match calls a ball by touch and sees what the call cost; the match has a card."""
    card = page.locator('meta[property="og:image"]').last.get_attribute("content")
    assert page.evaluate(WIDTH_OF, card) == 1200
    for _ in range(3):  # a new question takes no tap at first
        page.locator(".crowd__card").nth(1).tap()
        with suppress(TimeoutError):
            page.locator(".crowd__count", has_text="1 called").wait_for(timeout=2_000)
            break
    expect(page.locator(".crowd__said")).to_contain_text("Lost: you")


def test_the_lobby_is_the_front_page_of_the_league(tmp_path: Path, open_page: Opener) -> None:
    """Six captains play a whole season: its pages, the crowd's call of a match, its card, its champion."""
    chosen = {"environment": "cricket", "league": True, "league_captains": SIX, "league_legs": 1}
    with serve(test_settings(tmp_path, league_pace="max", **chosen)) as app:
        until("six results", lambda: len(groups(app)) >= 6)
    with serve(test_settings(tmp_path, **chosen)) as app:
        ((name, group),) = until("a match to watch", lambda: on_air(app))
        played = int(group.split(".")[1]) - 1
        looked_at: list[Page] = []
        for size in (PHONE, WIDE):
            for script in (False, True):
                leave(*looked_at)
                look = {"viewport": size, "color_scheme": "light" if size is PHONE else "dark"}
                page = open_page(f"{app.base_url}/", java_script_enabled=script, **look)
                looked_at = [page]
                see_front(page, played)
                assert not page.evaluate(WIDER_THAN_THE_WINDOW)
            assert not violations(page)
        who = page.locator("#large .tile__who")
        expect(who).to_have_count(2)
        live = page.locator("#league-now + ol > li").first
        for place in (0, 1):  # team and captain
            for shown, listed in (("bdi", ".side2__team"), ("small", ".side2 small")):
                expect(who.nth(place).locator(shown)).to_have_text(
                    live.locator(listed).nth(place).inner_text()
                )
        table = open_page(f"{app.base_url}/league", viewport=PHONE, java_script_enabled=False)
        for heading in ("Table", "Results", "Fixtures", "Head to head", "Records of the season", "Rules"):
            expect(table.get_by_role("heading", name=heading, exact=True)).to_be_visible()
        assert not table.evaluate(WIDER_THAN_THE_WINDOW)
        for scheme, rules in (("light", RULES), ("dark", COLOURS)):
            league = open_page(f"{app.base_url}/league", viewport=PHONE, color_scheme=scheme)
            assert not violations(league, rules=rules)
            leave(league)
        match = open_page(f"{app.base_url}/watch/{name}", viewport=PHONE, has_touch=True)
        call_along(match)
        leave(table, match)
        app.client.post("/custom/pace", json={"episode_id": name, "pace": "max"})
        expect(page.locator("#league")).to_contain_text(f"{played + 1} of 16 matches played", timeout=20_000)
        leave(page)
    with serve(test_settings(tmp_path, league_pace="max", **chosen)) as app:
        until("the next season", lambda: "2.1" in groups(app))
        front = open_page(f"{app.base_url}/", java_script_enabled=False)
        expect(front.locator("#league")).to_contain_text(CHAMPION)
        front.locator("#league tbody a").first.click()
        assert "/captains/" in front.url
        expect(front.locator(".captain__facts")).to_contain_text(
            re.compile("[1-6] of 6|not placed yet")
        )  # the season goes on
        season = [one for one in groups(app) if one.startswith("1.")]
        assert sorted(season) == sorted(["1.final", *(f"1.{number}" for number in range(1, 16))])

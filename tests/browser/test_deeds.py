"""What captains said stands beside what they did and what came of it, over by over."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from spectator.environments.cricket.match.engine import segment_at
from tests.browser.conftest import PHONE, Opener, leave, stop_all
from tests.serving import Serving

pytestmark = pytest.mark.browser


@dataclass(frozen=True)
class Wild:
    """A match in which one captain plans at random."""

    app: Serving
    episode_id: str
    distance: float
    """Mean distance of its balls from the plan that bound it."""
    overs: int
    """Overs that were begun."""


@pytest.fixture(scope="module")
def wild(app: Serving) -> Iterator[Wild]:
    """One match of three overs for all the tests of this module."""
    stop_all(app)
    options = {"max_overs": 3, "forecast_futures": 50}
    episode_id = app.start(seed=4, captain_preset="random", options=options)
    app.finish(episode_id)
    events = app.events(episode_id)
    balls = [event["data"] for event in events if event["type"] == "cricket.ball_bowled"]
    overs = {(ball["innings"], ball["over"]) for ball in balls}
    yield Wild(app, episode_id, distance_of_home(events), len(overs))


def distance_of_home(events: list[dict[str, Any]]) -> float:
    """Mean over the balls of how far the home side's level was from its plan."""
    plan: dict[str, Any] = {}
    bound: dict[str, Any] = {}
    far: list[float] = []
    powerplay = total = 0
    for data, kind in ((event["data"], event["type"]) for event in events):
        if kind == "cricket.plan_changed" and (data["side"], data["part"]) == ("home", "match_plan"):
            plan = data["plan"]
            bound = bound if far else plan
        elif kind == "cricket.innings_started":
            powerplay, total = data["powerplay_balls"], data["balls"]
        elif kind == "cricket.over_started":
            bound = plan
        elif kind == "cricket.ball_bowled":
            phase = segment_at(6 * data["over"] + data["ball"] - 1, powerplay, total)
            role, intent = ("batting", "aggression") if data["side"] == "home" else ("bowling", "attack")
            far.append(abs(data["intents"][intent] - bound[f"{role}_{phase}"]))
    return statistics.mean(far)


def rows(page: Page) -> list[str]:
    """The overs of the table as text, once it has come."""
    page.locator(".deeds").scroll_into_view_if_needed()
    expect(page.locator(".deeds__table tbody tr").first).to_be_visible()
    return page.locator(".deeds__table tbody tr").all_inner_texts()


def test_every_over_tells_what_was_said_set_and_got_and_leads_there(wild: Wild, open_page: Opener) -> None:
    """The mean distance from the plan is that of the record; nothing of it is fetched before it is near."""
    page = open_page("")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{wild.app.base_url}/watch/{wild.episode_id}")
    expect(page.locator("#state")).to_have_text("Finished")
    assert not [url for url in asked if "deeds" in url]
    assert wild.distance > 0.02
    assert len(rows(page)) == min(wild.overs, 6)
    assert [url for url in asked if "deeds" in url]
    kept = page.locator(".deeds__kept")
    expect(kept).to_contain_text(re.compile(rf"\d of \d+ overs, {wild.distance:.2f} away on average"))
    row = page.locator(".deeds__table tbody tr").last
    expect(row).to_contain_text(re.compile(r"planned \d\.\d\d, played \d\.\d\d"))
    expect(row).to_contain_text(re.compile(r"planned \d\.\d\d, set \d\.\d\d"))
    expect(row).to_contain_text(re.compile(r"\d+ runs?"))
    row.locator("a").click()
    expect(page.locator("#state")).to_have_text("Replay")
    page.locator(".deeds").scroll_into_view_if_needed()
    newest = page.locator(".deeds__table tbody tr").first
    expect(newest).to_contain_text(re.compile(r"planned|no plan"))
    page.keyboard.press("Home")
    expect(kept).to_contain_text("No ball has been bowled yet")


def test_nobody_is_said_to_have_no_plan_before_the_record_is_read(
    quiet_app: Serving, open_page: Opener
) -> None:
    """Who joins late has not heard the plans: nothing is said of them until the page has."""
    episode_id = quiet_app.start(pace="broadcast", seed=7, options={"max_overs": 2})
    before = open_page(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(before.locator(".score__overs b").first).to_have_text("0.1", timeout=60_000)
    leave(before)
    page = open_page("")
    held: list[Route] = []
    page.route("**/events?**", lambda route: held.append(route), times=1)
    page.goto(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator("#state")).to_have_text("Live")
    with page.expect_request("**/events?**"):
        page.locator(".deeds").scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    expect(page.locator(".deeds")).not_to_contain_text("has given no plan")
    for route in held:
        route.continue_()
    expect(page.locator(".deeds__kept")).to_contain_text("kept to its plan")


def test_a_phone_has_plans_and_deeds_with_the_minds(wild: Wild, open_page: Opener) -> None:
    """Under Mind, and nowhere else; nothing sticks out."""
    page = open_page(f"{wild.app.base_url}/watch/{wild.episode_id}", viewport=PHONE, has_touch=True)
    expect(page.locator("#state")).to_have_text("Finished")
    expect(page.locator(".deeds")).to_be_hidden()
    page.get_by_role("tab", name="Mind", exact=True).click()
    expect(page.locator(".plans")).to_be_visible()
    assert len(rows(page)) == min(wild.overs, 6)
    expect(page.locator(".ground")).to_be_hidden()
    expect(page.locator(".cards").first).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    page.get_by_role("tab", name="Cards", exact=True).click()
    expect(page.locator(".deeds")).to_be_hidden()
    expect(page.locator(".cards").first).to_be_visible()


def test_who_joins_late_gets_the_overs_before(quiet_app: Serving, open_page: Opener) -> None:
    """The card asks for the record of what the page has not seen."""
    episode_id = quiet_app.start(pace="fast", seed=7, options={"max_overs": 2, "super_over": False})
    before = open_page(f"{quiet_app.base_url}/watch/{episode_id}", reduced_motion="reduce")
    expect(before.locator("#banner")).to_contain_text("target", timeout=60_000)
    leave(before)
    page = open_page(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator("#state")).to_have_text(re.compile("Live|Finished"))
    page.locator(".deeds").scroll_into_view_if_needed()
    expect(page.locator(".deeds__table caption").filter(has_text="1st innings")).to_have_count(1)

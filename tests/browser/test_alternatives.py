"""What else could have been called, in a replay: by key and button, with the player, as far as a fork."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, Opener, violations
from tests.serving import Serving, serve, test_settings

pytestmark = pytest.mark.browser

CALLS = ".alternative summary"


class Replay(NamedTuple):
    """A finished match."""

    app: Serving
    episode_id: str
    events: list[dict[str, Any]]

    @property
    def address(self) -> str:
        return f"{self.app.base_url}/watch/{self.episode_id}"

    def decisions(self, tool: str) -> list[int]:
        """Numbers of the decisions that used a tool."""
        made = [event for event in self.events if event["type"] == "decision.made"]
        return [event["seq"] for event in made if event["data"]["action"]["tool"] == tool]


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replay]:
    """One match of two overs for all the tests of this module."""
    settings = test_settings(tmp_path_factory.mktemp("alternatives"), environment="cricket", max_episodes=4)
    with serve(settings) as app:
        captains = {"captain_preset": "planner", "opponent_choice": "aggressive"}
        episode_id = app.start(seed=9, max_overs=2, options={"forecast_futures": 1000}, **captains)
        app.finish(episode_id)
        yield Replay(app, episode_id, app.events(episode_id))


def opened(page: Page) -> None:
    """Wait until the calls of a decision are told."""
    expect(page.locator(CALLS).first).to_be_visible(timeout=20_000)
    expect(page.locator(".alternatives__bar")).to_be_hidden()


def test_they_come_by_key_and_follow_the_player(replay: Replay, open_page: Opener) -> None:
    """The keys go on working, even from within a call; nothing of it is fetched before it is asked for."""
    fetched: list[str] = []
    page = open_page("")
    page.on("request", lambda request: fetched.append(request.url))
    seq = replay.decisions("bowl_delivery")[3]
    page.goto(f"{replay.address}?seq={seq}")
    expect(page.get_by_role("button", name="Alternatives")).to_be_visible()
    assert not [url for url in fetched if "alternatives" in url]
    page.keyboard.press("w")
    opened(page)
    expect(page.locator("#feed h2")).to_have_text("Alternatives")
    expect(page.locator(".alternative--played")).to_have_count(1)
    expect(page.locator(".alternative--played .badge")).to_have_text("played")
    first = page.locator(".alternatives__who").text_content() or ""
    page.locator(CALLS).nth(1).click()
    expect(page.locator(".alternative[open] p.quiet")).to_contain_text("±")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator(".alternatives__who")).not_to_have_text(first)
    opened(page)
    assert sum("alternatives?seq=" in url for url in fetched) == 2, "who steps on does not ask for every step"
    page.get_by_role("link", name="previous").click()
    expect(page.locator(".alternatives__say")).to_have_text(re.compile("Simulating|Chance to win"))
    opened(page)
    page.keyboard.press("w")
    expect(page.locator(".alternatives")).to_be_hidden()
    expect(page.locator("#feed h2")).to_have_text("Commentary")
    page.keyboard.press("?")
    expect(page.locator("dialog[open]")).to_contain_text("alternatives to a decision")


def test_a_call_says_how_sure_it_is_and_a_fork_begins_just_before_it(
    replay: Replay, open_page: Opener
) -> None:
    seq = replay.decisions("select_bowler")[1]
    page = open_page(f"{replay.address}?seq={seq}")
    page.get_by_role("button", name="Alternatives").click()
    opened(page)
    expect(page.locator(CALLS).first).to_contain_text("to bowl")
    page.locator(CALLS).first.click()
    page.locator(".alternative[open] button").click()
    dialog = page.locator("dialog[open]")
    expect(dialog.locator(".fork__where")).to_contain_text(re.compile("innings"))
    with page.expect_request("**/custom/fork") as asked:
        dialog.get_by_role("button", name="Play on from here").click()
    body = asked.value.post_data_json
    assert body is not None and body["seq"] == seq - 1


def test_they_take_turns_with_the_list_of_decisions(replay: Replay, open_page: Opener) -> None:
    page = open_page(f"{replay.address}?seq={replay.decisions('play_delivery')[2]}", viewport=PHONE)
    page.wait_for_selector("#feed .chip:not([hidden]) >> text=Alternatives", state="attached")
    page.keyboard.press("w")
    opened(page)
    assert violations(page, "#feed") == []
    overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert overflow <= 0
    page.keyboard.press("d")
    expect(page.locator(".log")).to_be_visible()
    expect(page.locator(".alternatives")).to_be_hidden()


def test_decisions_that_cost_most_are_listed_and_gone_to(replay: Replay, open_page: Opener) -> None:
    """The list has the costliest first; N and P go through them in the order of the match."""
    page = open_page(f"{replay.address}?log=1&worth=most")
    worths = page.locator(".log__worth")
    expect(worths.first).to_have_text(re.compile("−"))
    shown = [float(text.replace("−", "-")) for text in worths.all_inner_texts()]
    assert shown == sorted(shown)
    assert min(shown) <= -0.2
    expect(page.locator(".log__list")).to_have_attribute("aria-label", "Decisions, the costliest first")
    page.keyboard.press("Home")
    page.keyboard.press("n")
    said = page.locator(".costly")
    expect(said).to_have_text(re.compile(r"^Cost −\d\.\d points: 1 of \d+ that cost 0.2 or more$"))
    page.keyboard.press("n")
    expect(said).to_have_text(re.compile(": 2 of|No later"))
    page.keyboard.press("Home")
    page.keyboard.press("p")
    expect(said).to_have_text("No earlier decision cost 0.2 points or more")


def test_a_live_match_and_a_world_without_an_analyst_have_no_button(
    replay: Replay, open_page: Opener
) -> None:
    live = replay.app.start(seed=4, max_overs=2, pace="broadcast")
    page = open_page(f"{replay.app.base_url}/watch/{live}")
    expect(page.get_by_role("button", name="Decisions")).to_be_visible()
    expect(page.get_by_role("button", name="Alternatives")).to_be_hidden()
    page.keyboard.press("w")
    expect(page.locator("#feed h2")).to_have_text("Commentary")
    replay.app.client.post("/custom/stop_episode", json={"episode_id": live})
    expect(page.get_by_role("button", name="Alternatives")).to_be_visible()
    counting = replay.app.start(environment="counting")
    replay.app.finish(counting)
    page.goto(f"{replay.app.base_url}/watch/{counting}")
    expect(page.get_by_role("button", name="Decisions")).to_be_visible()
    expect(page.get_by_role("button", name="Alternatives")).to_be_hidden()

"""A person can play a seat from the page, and lose no match by leaving it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, Opener
from tests.serving import Serving, people_settings, serve, test_settings

pytestmark = pytest.mark.browser

TOKEN = "correct-horse-battery"

AFTER_TURN = """async ([id, turn]) => {
  const still = (one) => one.episode_id === id && one.turn <= turn;
  const running = async () => (await (await fetch("/custom/status")).json()).running;
  for (let tries = 0; (await running()).some(still); tries++) {
    if (tries > 400) throw new Error(`turn ${turn} did not pass`);
    await new Promise((go) => setTimeout(go, 50));
  }
}"""
"""Returns once an episode is past a turn, or over."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with a token, and time enough for a busy machine."""
    with serve(people_settings(tmp_path_factory.mktemp("data"), TOKEN)) as app:
        app.client.headers["Authorization"] = f"Bearer {TOKEN}"
        yield app


def take_seat(page: Page) -> None:
    """Sit down, with the token."""
    page.get_by_role("button", name="Take the seat").click()
    page.locator("#seat-token").fill(TOKEN)
    page.locator(".seat__token").get_by_role("button", name="Use it").click()
    expect(page.locator(".seat--asked")).to_be_visible()


def test_a_person_counts_with_the_keyboard_alone(table: Serving, open_page: Opener) -> None:
    """A wrong form is told beside its field; the reason reaches whoever watches; the end closes the seat."""
    episode_id = table.start(captain_preset="human", options={"turns": 3})
    url = f"{table.base_url}/watch/{episode_id}"
    viewer, page = open_page(url), open_page(url, forgive=("401", "422"))
    expect(viewer.locator("#seat")).to_contain_text("A person plays")
    take_seat(page)
    expect(page).to_have_title(re.compile("^Your turn · "))
    expect(viewer).not_to_have_title(re.compile("Your turn"))
    text = page.get_by_label("text", exact=True)
    page.keyboard.press("1")
    expect(text).to_be_focused()
    page.keyboard.type("one")
    page.keyboard.press("Enter")
    expect(page.locator("#seat-text-wrong")).to_contain_text("must match")
    expect(text).to_have_attribute("aria-invalid", "true")
    for number in (1, 2, 3):
        expect(page.locator(".seat__facts")).to_contain_text(f"next{number}")
        text.fill(f"ACTION: {number}")
        page.get_by_label("Why", exact=True).fill(f"{number} comes next")
        page.keyboard.press("Enter")
    expect(viewer.locator("#state")).to_have_text("Finished")
    expect(viewer.locator("#mind")).to_contain_text("3 comes next")
    expect(viewer.locator("#mind .mind__source")).to_have_text("human")
    expect(page.locator("#seat")).to_be_hidden()
    assert TOKEN not in page.content()


def test_a_person_captains_an_over_on_a_phone(table: Serving, open_page: Opener) -> None:
    """Six balls by the form, the rival's scripted captain in between; nothing is wider than the screen."""
    episode_id = table.start(environment="cricket", captain_preset="human", seed=5, max_overs=1)
    page = open_page(f"{table.base_url}/watch/{episode_id}", forgive=("401",), viewport=PHONE)
    take_seat(page)
    page.locator("#seat-elect").select_option("field")
    balls = 0
    while balls < 6:
        expect(page.locator(".seat--asked .seat__go")).to_be_enabled()
        asked = page.locator(".seat__task").inner_text()
        turn = table.client.get("/custom/asked", params={"episode_id": episode_id}).json()["turn"]
        if "who bowls" in asked:
            page.locator("#seat-bowler").select_option(index=2)
        balls += "delivery" in page.locator(".seat__go").inner_text()
        page.locator(".seat__go").click()
        page.evaluate(AFTER_TURN, [episode_id, turn])
    made = [
        line
        for line in table.client.get(f"/api/episodes/{episode_id}/events").text.splitlines()
        if '"decision.made"' in line and '"source":"human"' in line
    ]
    assert len([line for line in made if "bowl_delivery" in line or "play_delivery" in line]) >= 6
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    table.client.post("/custom/stop_episode", json={"episode_id": episode_id})


def test_of_two_tabs_one_decides_and_a_reload_keeps_the_seat(table: Serving, open_page: Opener) -> None:
    episode_id = table.start(captain_preset="human", options={"turns": 2})
    url = f"{table.base_url}/watch/{episode_id}"
    first, second = open_page(url, forgive=("401", "409")), open_page(url, forgive=("401", "409"))
    for page in (first, second):
        take_seat(page)
        page.get_by_label("text", exact=True).fill("ACTION: 1")
    first.locator(".seat__go").click()
    expect(second.locator(".seat__facts")).to_contain_text("next2")
    expect(second.get_by_label("text", exact=True)).to_have_value("")
    first.reload()
    expect(first.locator(".seat--asked .seat__facts")).to_contain_text("next2")
    first.get_by_role("button", name="leave the seat").click()
    expect(first.get_by_role("button", name="Take the seat")).to_be_visible()
    second.get_by_label("text", exact=True).fill("ACTION: 2")
    second.locator(".seat__go").click()
    expect(first.locator("#state")).to_have_text("Finished")


def test_time_runs_out_for_everybody_to_see_and_the_match_goes_on(tmp_path: Path, open_page: Opener) -> None:
    """An empty seat is decided for by the fallback, by its name, whoever watches; a pause stops the clock."""
    with serve(test_settings(tmp_path, person_decision_s=5)) as app:
        episode_id = app.start(captain_preset="human", options={"turns": 2})
        page = open_page(f"{app.base_url}/watch/{episode_id}")
        page.get_by_role("button", name="Take the seat").click()
        expect(page.locator(".seat__say")).to_contain_text("then the fallback decides")
        app.client.post("/custom/pause", json={})
        expect(page.locator(".seat__left")).to_contain_text("paused")
        app.client.post("/custom/resume", json={})
        expect(page.locator("#mind")).to_contain_text("timeout: no decision within 5 s")
        expect(page.locator("#mind .mind__source")).to_have_text("fallback")
        expect(page.locator("#mind .mind__note")).to_contain_text("The fallback had to decide: timeout")
        expect(page.locator("#mind .badge--foreign:visible")).to_contain_text("no answer in time")
        app.client.post("/custom/stop_episode", json={})
        expect(page.locator("#seat")).to_be_hidden()
        page.close()  # or it might be reading the record while the server goes


def test_two_people_play_by_a_link_each_and_neither_sees_what_the_other_is_asked(
    table: Serving, open_page: Opener
) -> None:
    """The starter leaves one seat to a rival, who needs no token; no address and no page keeps a key."""
    episode_id = table.start(
        environment="cricket", captain_preset="human", opponent_choice="human", seed=5, max_overs=1
    )
    keys = table.seats[episode_id]
    page = f"{table.base_url}/watch/{episode_id}"
    starter = open_page(f"{page}#seat={keys['home']},{keys['away']}")
    expect(starter.locator(".seat--asked")).to_be_visible()
    assert "#" not in starter.url
    starter.locator(".seat__invite").get_by_role("button").nth(1).click()
    link = starter.locator("#seat-link").input_value()
    assert link == f"{page}#seat={keys['away']}"
    rival = open_page(link)
    tabs = {"home": starter, "away": rival}
    turns: set[str] = set()
    turn = 0
    while turns != {"home", "away"}:
        told = table.client.get(
            "/custom/asked", params={"episode_id": episode_id}, headers=table.seat_header(episode_id)
        ).json()["asked"]
        if not told or told["turn"] <= turn:
            continue
        turn, actor = told["turn"], told["actor"]
        other = tabs["away" if actor == "home" else "home"]
        expect(tabs[actor].locator(".seat--asked .seat__go")).to_be_enabled()
        expect(other.locator(".seat--asked")).to_have_count(0)
        assert other.request.get(f"{table.base_url}/custom/asked?episode_id={episode_id}").status == 401
        tabs[actor].locator(".seat__go").click()
        turns.add(actor)
    for tab, key in ((starter, keys["away"]), (rival, keys["home"])):
        assert "#" not in tab.url and key not in str(tab.evaluate("JSON.stringify({...sessionStorage})"))
    rival.reload()
    expect(rival.locator("#seat-title")).to_contain_text("You")
    for tab in tabs.values():
        tab.close()
    table.client.post("/custom/stop_episode", json={"episode_id": episode_id})

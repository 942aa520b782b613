"""A person can play a seat from the page, and lose no match by leaving it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import PHONE, Opener, press_on_layout, violations
from tests.serving import Serving, people_settings, serve, test_settings

pytestmark = pytest.mark.browser

TOKEN = "correct-horse-battery"

AZERTY_ONE: tuple[tuple[str, str, list[str]], ...] = (
    ("&", "Digit1", []),
    ("1", "Digit1", ["Shift"]),
    ("1", "Numpad1", []),
)

WON = 5
"""A seed whose match of one over the person wins who plays as the phone's test does."""

AFTER_TURN = """async ([id, turn]) => {
  const still = (one) => one.episode_id === id && one.turn <= turn;
  const running = async () => (await (await fetch("/custom/status")).json()).running;
  for (let tries = 0; (await running()).some(still); tries++) {
    if (tries > 400) throw new Error(`turn ${turn} did not pass`);
    await new Promise((go) => setTimeout(go, 100));
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
    for key, held in (("!", ["Shift"]), ("1", ["Control"])):
        press_on_layout(page, key, "Digit1", *held)
        expect(text).not_to_be_focused()
    for key, code, held in AZERTY_ONE:
        press_on_layout(page, key, code, *held)
        expect(text).to_be_focused()
        text.evaluate("input => input.blur()")
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
    expect(viewer.locator("#mind .mind__source")).to_have_text("person")
    expect(page.locator("#seat")).to_be_hidden()
    assert TOKEN not in page.content()


SCHEMA = re.compile(r"_|deliver|aggression|preset|strategy|argument|json|schema|\btool|null", re.IGNORECASE)
"""Words of a schema, which no fan should have to read."""

GO = ".duel__body:not([disabled]) .seat__go"


def phase_of(page: Page) -> str:
    """Wait for the seat's next question, and return what it is about; empty at the end."""
    expect(page.locator(f"{GO}, .ending").first).to_be_attached()
    if page.locator(GO).count() == 0:
        return ""
    assert not SCHEMA.search(page.locator("#seat").inner_text())
    return page.locator(".duel").get_attribute("data-phase") or ""


def go_on(table: Serving, page: Page, episode_id: str, button: Locator, *, tap: bool) -> None:
    """Use a button, and wait until its turn has passed."""
    turn = table.client.get("/custom/asked", params={"episode_id": episode_id}).json()["turn"]
    if tap:
        button.tap()
    else:
        button.press("Enter")
    page.evaluate(AFTER_TURN, [episode_id, turn])


def drag(page: Page, fielder: Locator, by: tuple[float, float]) -> None:
    """Drag a fielder with a finger."""
    fielder.scroll_into_view_if_needed()
    box = fielder.locator("[r='2.8']").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touch = page.context.new_cdp_session(page)
    for kind, points in (
        ("touchStart", [{"x": x, "y": y}]),
        ("touchMove", [{"x": x + by[0], "y": y + by[1]}]),
        ("touchEnd", []),
    ):
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def test_a_person_wins_a_match_on_a_phone_by_touch(table: Serving, open_page: Opener) -> None:
    """From the toss to the card: the dial, the pitch map, a fielder dragged, and never a word of a schema."""
    episode_id = table.start(environment="cricket", captain_preset="human", seed=WON, max_overs=1)
    url = f"{table.base_url}/watch/{episode_id}"
    page = open_page(url, forgive=("401", "409"), viewport=PHONE, has_touch=True)  # 409: asked after the end
    take_seat(page)
    balls = {"bat": 0, "bowl": 0}
    scenes, before = [], ""
    while phase := phase_of(page):
        if phase != before:  # a new question is seen from its head, wherever the last one was left
            expect(page.locator("#seat-title")).to_be_in_viewport()
            scenes.append(page.locator(".duel__scene").inner_text())
        before = phase
        if phase == "bat" and balls["bat"] == 0:
            page.locator("[data-shot='drive']").tap()
            expect(page.locator(f"{GO} small")).to_have_text("drive, rotate")
        elif phase == "bat":
            go_on(
                table, page, episode_id, page.get_by_role("button", name="Bat the rest of the over"), tap=True
            )
            continue
        elif phase == "bowl" and balls["bowl"] == 0:
            assert violations(page, "#seat") == []
            page.get_by_label("good length, at the stumps").locator("..").tap()
            cover = page.locator(".set-field [data-man='2']")
            drag(page, cover, (0, 8))
            expect(page.locator(f"{GO} small")).to_contain_text("good length, at the stumps, own field")
            expect(page.locator(".duel__now")).to_contain_text("runs expected, wicket")
        balls |= {phase: balls.get(phase, 0) + 1}
        go_on(table, page, episode_id, page.locator(GO), tap=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    made = [one["data"] for one in table.events(episode_id) if one["type"] == "decision.made"]
    mine = [one["action"]["tool"] for one in made if one["source"] == "human"]
    assert mine.count("bowl_delivery") == balls["bowl"] >= 3 and mine.count("play_delivery") >= 6
    assert {"plan_shot", "plan_delivery", "set_field"} <= set(mine)
    assert any("You bat first." in one or "You bowl first." in one for one in scenes), scenes
    expect(page.locator(".seat__boast")).to_have_text(re.compile(r"^I beat Old Pro by \d+ (run|wicket)"))
    card = page.get_by_role("link", name="See the card").get_attribute("href")
    assert card == f"{table.base_url}/card/{episode_id}.png"


def test_a_person_captains_by_the_keyboard(table: Serving, open_page: Opener) -> None:
    """Arrows on the dial, the map and the field; a refusal beside the fielder; undo; advice; no violation."""
    episode_id = table.start(environment="cricket", captain_preset="human", seed=WON, max_overs=1)
    page = open_page(f"{table.base_url}/watch/{episode_id}", forgive=("401",), reduced_motion="reduce")
    take_seat(page)
    go, small = page.locator(GO), page.locator(f"{GO} small")
    balls = 0
    while (phase := phase_of(page)) != "bowl":
        if phase == "bat" and balls == 0:
            assert violations(page, "#seat") == []
            page.locator("[data-shot][aria-checked='true']").press("ArrowUp")
            page.keyboard.press("ArrowRight")
            page.keyboard.press("5")
            expect(small).to_have_text(re.compile("^(drive|defend), attack$"))
        balls += phase == "bat"
        go_on(table, page, episode_id, go, tap=False)
    assert balls >= 6
    page.locator("[name='seat-pitch']:checked").press("ArrowUp")
    page.keyboard.press("ArrowRight")
    expect(small).to_contain_text("yorker, at the stumps, standard field")
    cover = page.locator(".set-field [data-man='2']")
    for _ in range(4):
        cover.press("ArrowRight")
    expect(page.locator(".set-field__wrong")).to_contain_text("outside the ring")
    go.press("Enter")
    expect(go).to_be_enabled()
    for _ in range(4):
        page.keyboard.press("Control+z")
    expect(page.locator(".set-field__wrong")).to_be_hidden()
    expect(small).to_contain_text("yorker, at the stumps, standard field")
    page.get_by_role("button", name="What would the Planner do?").press("Enter")
    expect(page.locator(".duel__advice")).to_contain_text("Planner: ")
    expect(cover).to_be_visible()
    page.get_by_role("button", name="Every action as a form").click()
    expect(page.locator(".seat__tools")).to_contain_text("bowl delivery")
    page.get_by_role("button", name="Back to the picture").click()
    go_on(table, page, episode_id, page.get_by_role("button", name="Bowl the rest of the over"), tap=False)
    page.close()
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
        late = ("409",)  # asked after the end
        page = open_page(f"{app.base_url}/watch/{episode_id}", forgive=late)
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

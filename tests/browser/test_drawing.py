"""What is drawn is what happened, on the page, on its tile and in its clips; the pitch map has every ball."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Page, expect

from spectator.environments.cricket import WORLD
from spectator.environments.cricket.match.field import PITCH_M
from spectator.environments.cricket.show.scenes import CENTRE, RADIUS, scenes
from spectator.events import Event
from spectator.json_values import apply_patch
from tests.browser.conftest import PHONE, WIDE, Opener, violations
from tests.serving import Serving

pytestmark = pytest.mark.browser

Spot = tuple[float, float]

DRAWN = """(place) => {
  const spot = (it) => it.style.transform || it.getAttribute("transform");
  const name = (it) => it.querySelector("title")?.textContent ?? it.dataset.man;
  const root = document.querySelector(place);
  const circle = (it) => it && [it.cx.baseVal.value, it.cy.baseVal.value];
  return {
    men: Object.fromEntries([...root.querySelectorAll(".ground__man")].map((it) => [name(it), spot(it)])),
    ball: spot(root.querySelector(".ground__ball").parentNode),
    by: circle(root.querySelector(".ground__by")),
    marks: ["stumps", "pad", "throw", "run"].filter((one) => root.querySelector(`.ground__${one}`)),
    throw: root.querySelector(".ground__throw")?.getPointAtLength(1e6).y,
  };
}"""
"""Where a drawing has the men and the end of the ball, in metres of the drawing, and its marks."""


class Drawing(NamedTuple):
    """What is drawn of a ball."""

    men: dict[str, Spot]
    ball: Spot
    by: Spot | None
    marks: set[str]
    throw_y: float | None


def place_of(transform: str) -> Spot:
    x, y = map(float, re.findall(r"-?[\d.]+", transform)[:2])
    return x, y


def drawing(page: Page, place: str = ".ground") -> Drawing:
    expect(page.locator(f"{place} .ground__ball")).to_be_attached()
    read = page.evaluate(DRAWN, place)
    men = {name: place_of(spot) for name, spot in read["men"].items()}
    by = None if read["by"] is None else tuple(read["by"])
    return Drawing(men, place_of(read["ball"]), by, set(read["marks"]), read.get("throw"))


class Match(NamedTuple):
    """A match that is over, and its balls in order."""

    episode_id: str
    balls: list[dict[str, Any]]


@pytest.fixture(scope="module")
def match(app: Serving) -> Match:
    """Its record has every common dismissal."""
    episode_id = app.start(max_overs=20, seed=10)
    app.finish(episode_id)
    events = app.events(episode_id)
    return Match(episode_id, [event for event in events if event["type"] == "cricket.ball_bowled"])


GO_TO = """(seq) => new Promise((done) => {
  const link = document.createElement("a");
  link.dataset.moment = String(seq);
  document.body.append(link);
  link.click();
  link.remove();
  requestAnimationFrame(() => requestAnimationFrame(done));
})"""
"""Clicks a link to an event of a record that is read, and waits until it is drawn."""


def seek(page: Page, app: Serving, match: Match, seq: int) -> None:
    """Open the page at an event, or go there as by one of its links."""
    if match.episode_id in page.url:
        page.evaluate(GO_TO, seq)
    else:
        page.goto(f"{app.base_url}/watch/{match.episode_id}?seq={seq}")
        expect(page.locator(".player__where")).to_contain_text(" / ")
    expect(page.locator("#state")).to_have_text("Replay")


def test_each_dismissal_is_drawn_as_the_record_has_it(app: Serving, match: Match, open_page: Opener) -> None:
    """A catch ends within three metres of the man named, a run-out is thrown to its end."""
    page, seen = open_page(""), set()
    for ball in match.balls:
        data = ball["data"]
        if not data["dismissal"]:
            continue
        seek(page, app, match, ball["seq"])
        drawn = drawing(page)
        seen.add(data["dismissal"])
        assert {"keeper", "bowler"} < set(drawn.men) and len(drawn.men) == 11
        if data["position"]:
            assert math.dist(drawn.ball, drawn.men[data["position"]]) < 3, data["words"]
            assert drawn.by == pytest.approx(drawn.men[data["position"]])
        broken = data["dismissal"] in ("bowled", "stumped", "run out", "hit wicket")
        assert ("stumps" in drawn.marks) is broken
        assert ("pad" in drawn.marks) is (data["dismissal"] == "lbw")
        assert ("throw" in drawn.marks) is (data["dismissal"] == "run out")
        if data["dismissal"] == "run out":
            assert drawn.throw_y is not None and abs(abs(drawn.throw_y) - PITCH_M / 2) < 1
    assert {"caught", "bowled", "lbw", "run out", "stumped"} <= seen


def test_page_tile_and_clip_have_the_same_places(app: Serving, match: Match, open_page: Opener) -> None:
    """The lobby's tile of the match that is over, the page at its last ball, and the clip of that ball."""
    state: dict[str, Any] = {}
    before: dict[str, Any] = {}
    last = match.balls[-1]
    for raw in app.events(match.episode_id):
        before = state
        state = apply_patch(state, raw["patch"])
        if raw["seq"] == last["seq"]:
            break
    event = Event("e", "e", last["seq"], last["at"], 0, last["type"], last["data"])
    mover = scenes(event, before["world"], state["world"])[1].mover
    assert mover is not None
    scale = RADIUS / max(state["world"]["drawing"]["rope"])
    clip = [(at - middle) / scale for at, middle in zip(mover.places[-1], CENTRE, strict=True)]
    page = open_page("")
    seek(page, app, match, last["seq"])
    large = drawing(page)
    assert clip == pytest.approx(large.ball, abs=0.1)
    page.goto(app.base_url)
    tile = drawing(page, "#large .tile__picture")
    assert tile.ball == large.ball
    assert Counter(tile.men.values()) == Counter(large.men.values())
    assert WORLD.picture is not None
    assert WORLD.picture(state["world"])["ball"] == state["world"]["drawing"]["ball"]


def test_a_stop_is_drawn_at_its_fielder_and_names_come_by_touch(
    app: Serving, match: Match, open_page: Opener
) -> None:
    """On a phone names are hidden, but for who fielded the ball and for whom one touches."""
    page = open_page("", viewport=PHONE, has_touch=True)
    ones = [ball for ball in match.balls if ball["data"]["kind"] == "run" and ball["data"]["ran"] == 1]
    for ball in ones[:4]:
        seek(page, app, match, ball["seq"])
        drawn = drawing(page)
        assert drawn.by is not None
        assert math.dist(drawn.by, drawn.ball) < 1 or "run" in drawn.marks
    names = page.locator(".ground__man text:visible")
    expect(names).to_have_count(1)
    page.locator(".ground__man[data-man=keeper]").tap()
    expect(names.filter(has_text="keeper")).to_be_visible()
    page.locator(".ground__man[data-man=keeper]").tap()
    expect(names).to_have_count(1)


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_pitch_map_has_every_ball_of_an_innings_by_bowler(
    app: Serving, match: Match, open_page: Opener, size: dict[str, int], theme: str
) -> None:
    """Its dots are the record's balls, by every filter; each leads to its ball."""
    page = open_page(f"{app.base_url}/watch/{match.episode_id}", viewport=size, color_scheme=theme)
    if size == PHONE:
        page.locator("[data-shows=board]").click()
    page.locator(".pitch").scroll_into_view_if_needed()
    select = {one: page.get_by_label(f"Pitch map: {one}") for one in ("innings", "bowler", "batter")}
    select["innings"].select_option("1")
    first = [ball["data"] for ball in match.balls if ball["data"]["innings"] == 1]
    expect(page.locator(".pitch__ball")).to_have_count(len(first))
    for number in sorted({data["bowler_line"]["number"] for data in first}):
        select["bowler"].select_option(f"{number:02d}")
        bowled = [data for data in first if data["bowler_line"]["number"] == number]
        titles = page.locator(".pitch__ball title").all_text_contents()
        assert Counter(title.split(": ")[1].rpartition(", ")[0] for title in titles) == Counter(
            f"{data['length']}, {data['line']}" for data in bowled
        )
        wickets = page.locator(".pitch__ball--wicket")
        expect(wickets).to_have_count(sum(data["kind"] == "wicket" for data in bowled))
    cells = page.locator(".pitch table td").all_text_contents()
    assert sum(int(cell.split()[0]) for cell in cells) == len(bowled)
    expect(page.locator(".pitch__sum")).to_contain_text(f"{len(bowled)} balls")
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    assert violations(page, ".pitch") == []
    page.locator(".pitch__ball").first.click()
    expect(page.locator("#state")).to_have_text("Replay")


def test_balls_of_the_map_are_reached_by_keyboard(app: Serving, match: Match, open_page: Opener) -> None:
    """Its filters are ordinary choices, and the wickets are links."""
    page = open_page(f"{app.base_url}/watch/{match.episode_id}")
    page.locator(".pitch").scroll_into_view_if_needed()
    page.get_by_label("Pitch map: innings").focus()
    for name in ("bowler", "batter"):
        page.keyboard.press("Tab")
        expect(page.get_by_label(f"Pitch map: {name}")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".pitch .cards__fall a").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".ball__mark--wicket")).to_be_visible()

"""Nothing is cut off, runs into its neighbour or stands beside an empty stretch, from a phone to a desk."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, WIDE, House, Opener
from tests.serving import Serving, serve, test_settings

pytestmark = pytest.mark.browser

WIDTHS = (820, 1024, 1440, 1920)
EMPTY_PX = 130
"""Most room between a drawing and what explains it; a bowling card of six is higher."""

STRETCHES = """(most) => {
  const box = (name) => document.querySelector(name).getBoundingClientRect();
  const faults = [];
  const empty = box(".chart__legend").top - box(".chart > svg").bottom;
  if (empty > most) faults.push(`${empty} px of nothing under the overs`);
  const [bats, fields] = [...document.querySelectorAll(".score__team")].map((one) => one.offsetTop);
  if (Math.abs(bats - fields) > 1) faults.push(`teams at ${bats} and ${fields} px`);
  for (const text of document.querySelectorAll(".deeds__levels")) {
    const [words, cell] = [document.createRange(), text.closest("td").getBoundingClientRect()];
    words.selectNodeContents(text);
    if (words.getBoundingClientRect().right > cell.right + 1) faults.push(`wide: ${text.textContent}`);
  }
  for (const name of document.querySelectorAll(".bowlers th bdi"))
    if (name.getClientRects().length > 1) faults.push(`a bowler on several lines: ${name.textContent}`);
  return faults;
}"""


def test_columns_are_even_and_their_words_stay_in_them(house: House, open_page: Opener) -> None:
    """At the end of a match, when its tables are longest."""
    page = open_page(f"{house.serving.base_url}/watch/{house.cricket}")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 1000})
        page.locator(".deeds").scroll_into_view_if_needed()
        expect(page.locator(".deeds__levels").first).to_be_visible()
        expect(page.locator(".bowlers tbody tr").first).to_be_visible()
        assert page.evaluate(STRETCHES, EMPTY_PX) == [], f"at {width} px"


SMALL = """() => [...document.querySelectorAll("svg text")]
  .filter((it) => it.checkVisibility({ visibilityProperty: true }) && it.textContent)
  .map((it) => [it.getScreenCTM(), parseFloat(getComputedStyle(it).fontSize), it.textContent])
  .map(([{ a, b }, size, text]) => [size * Math.hypot(a, b), text])
  .filter(([pixels]) => pixels < 10.95)"""


def test_labels_of_a_search_are_readable(house: House, open_page: Opener) -> None:
    page = open_page(f"{house.serving.base_url}/watch/{house.collider}")
    expect(page.locator(".scan__power").first).to_be_visible()
    for width in (1920, 1440, 1280, 1120, 1000, 830):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(SMALL) == [], f"at {width} px"


def test_every_column_of_the_reliability_page_is_seen(quiet_app: Serving, open_page: Opener) -> None:
    told = quiet_app.start(seed=3, options={"max_overs": 1, "forecast_futures": 20})
    quiet_app.finish(told)
    page = open_page(f"{quiet_app.base_url}/reliability")
    for width in (360, 390, 640, 768, 820, 1024):
        page.set_viewport_size({"width": width, "height": 900})
        wide = page.locator(".reliability__figures").evaluate("(it) => it.scrollWidth - it.clientWidth")
        assert wide == 0, f"at {width} px"
        heads = page.locator(".reliability__figures thead th:visible")
        between = heads.evaluate_all(
            """(all) => all.slice(1).map((head, place) => {
                const [one, other] = [all[place], head].map((it) => {
                    const words = document.createRange();
                    words.selectNodeContents(it);
                    return words.getBoundingClientRect();
                });
                return other.left - one.right;
            })"""
        )
        assert min(between) >= 5, f"headings run together at {width} px"


EVEN = """() => {
  const boxes = (name) => [...document.querySelectorAll(name)].map((one) => one.getBoundingClientRect());
  const faults = [];
  const cards = boxes(".card");
  if (new Set(cards.map(({ width }) => Math.round(width))).size > 1) faults.push("cards of several widths");
  const [heading, main] = [boxes("h1")[0], boxes("main")[0]];
  if (heading.top > 160) faults.push(`${heading.top} px of nothing at the top`);
  if (Math.max(...cards.map(({ right }) => right)) < main.right - 60) faults.push("nothing at the right");
  return faults;
}"""


def test_the_cards_of_the_reference_are_even(house: House, open_page: Opener) -> None:
    """All as wide as each other, from the left of the page to its right; the page says where one is."""
    page = open_page(f"{house.serving.base_url}/docs")
    expect(page.get_by_role("navigation")).to_contain_text("API")
    for width in (390, 820, 1280, 1440, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(EVEN) == [], f"at {width} px"


def test_a_badge_on_the_leaderboard_stays_beside_its_name(house: House, open_page: Opener) -> None:
    page = open_page(f"{house.serving.base_url}/leaderboard")
    badge = page.locator(".board__name .badge").first
    expect(badge).to_be_visible()
    for width in (390, 820, 1001, 1280, 1440, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert badge.evaluate(
            "(it) => it.getBoundingClientRect().right <= it.parentElement.getBoundingClientRect().right + 1"
        ), f"at {width} px"


def test_both_last_thoughts_are_seen_beside_the_report(house: House, open_page: Opener) -> None:
    """Two lines of each, and no half of another under a call."""
    page = open_page(f"{house.serving.base_url}/watch/{house.cricket}")
    expect(page.locator(".ending__result")).to_be_visible()
    for width, height in ((1280, 800), (1440, 900), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        for seat in page.locator(".mind__seat").all():
            expect(seat.locator(".call")).to_be_hidden()
            room = seat.evaluate(
                """(it) => it.getBoundingClientRect().bottom
                    - it.querySelector("p.mind__thought").getBoundingClientRect().top"""
            )
            assert room >= 42, f"{room} px at {width} px"


def test_reasons_of_two_lines_are_whole_on_a_low_screen(house: House, open_page: Opener) -> None:
    page = open_page(f"{house.serving.base_url}/watch/{house.cricket}?seq=150")
    expect(page.locator(".mind__seat .call code")).to_have_count(2)
    page.locator(".mind__thought bdi").evaluate_all(
        "(all) => all.forEach((it) => { it.textContent = 'Two lines of a reason. '.repeat(4); })"
    )
    for width, height in ((1120, 720), (1280, 720), (1366, 768)):
        page.set_viewport_size({"width": width, "height": height})
        for seat in page.locator(".mind__seat").all():
            under = seat.evaluate(
                """(it) => it.querySelector("p.mind__thought").getBoundingClientRect().bottom
                    - it.querySelector(".call").getBoundingClientRect().top"""
            )
            assert under <= 0, f"{under} px of a reason are under its call at {width} by {height}"


def test_a_long_call_leaves_room_for_who_made_it_and_why(house: House, open_page: Opener) -> None:
    """A plan for a whole match, with all its figures, and two lines of its reason above."""
    decided = (one for one in house.serving.events(house.cricket) if one["type"] == "decision.made")
    seq = next(one["seq"] for one in decided if len(one["data"]["action"].get("arguments") or {}) > 5)
    page = open_page(f"{house.serving.base_url}/watch/{house.cricket}?seq={seq}")
    seat = page.locator(".mind__seat", has=page.locator(".call__arg:nth-child(5)")).first
    expect(seat).to_be_visible()
    for width, height in ((1280, 800), (1440, 900), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        room = seat.evaluate(
            """(it) => it.querySelector(".call").getBoundingClientRect().top
                - it.querySelector("p.mind__thought").getBoundingClientRect().top"""
        )
        assert room >= 36, f"{room} px at {width} px"


def test_the_timeline_has_room_beside_the_score_in_its_bar(house: House, open_page: Opener) -> None:
    page = open_page(f"{house.serving.base_url}/watch/{house.cricket}?text=1")
    expect(page.locator(".player__score")).to_have_text(re.compile("super over"))
    for width in (761, 820, 1000, 1101, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(
            """() => {
              const [track, score] = ["track", "score"].map(
                (name) => document.querySelector(`.player__${name}`).getBoundingClientRect());
              return track.width > 130 && score.right <= track.left;
            }"""
        )


def test_the_score_is_in_the_bar_only_while_its_place_is_out_of_sight(
    house: House, open_page: Opener
) -> None:
    """A slow page learns of several changes at once; the newest counts."""
    page = open_page("")
    page.add_init_script(
        """const Observer = IntersectionObserver;
        window.IntersectionObserver = class extends Observer {
          constructor(tell, given) {
            super((seen) => tell([{ ...seen[0], isIntersecting: false }, ...seen]), given);
          }
        };"""
    )
    page.goto(f"{house.serving.base_url}/watch/{house.cricket}")
    expect(page.locator(".player__where")).not_to_be_empty()
    expect(page.locator(".player__score")).to_be_hidden()


def line_height(page: Page) -> float:
    """Lines that a tile's newest words take, however many they are."""
    return float(
        page.locator(".tile__line bdi").first.evaluate(
            """(it) => {
              it.textContent = "many words of commentary ".repeat(20);
              const line = it.parentElement;
              return line.clientHeight / parseFloat(getComputedStyle(line).lineHeight);
            }"""
        )
    )


def test_a_tile_shows_no_half_of_a_line(quiet_app: Serving, open_page: Opener) -> None:
    quiet_app.start(pace="broadcast", max_overs=5, seed=7)
    page = open_page(f"{quiet_app.base_url}/", viewport=PHONE)
    expect(page.locator(".tile__line")).not_to_be_empty()
    assert line_height(page) < 2.1


def test_the_wall_is_on_air_only_while_something_is_on(tmp_path: Path, open_page: Opener) -> None:
    with serve(test_settings(tmp_path)) as serving:
        page = open_page(f"{serving.base_url}/wall")
        expect(page.locator("#state")).to_have_text("Ready")
        expect(page.locator("#empty")).to_contain_text("Nothing is live")
        serving.start(pace="broadcast", options={"turns": 1000})
        expect(page.locator("#state")).to_have_text("On air")


LONG = {
    ".ball__line": "Sundermark to Hawkridan: no-ball, 2 runs behind square on the leg side",
    ".ball__detail": "33.4 · back of a length, wide outside off, 144 km/h · reverse sweep",
    ".chances__range": "This innings: about 261, most likely 240 to 287",
}
CUT = """(texts) => Object.entries(texts).filter(([name, text]) => {
  const one = document.querySelector(name);
  one.textContent = text;
  const wide = one.scrollWidth > one.clientWidth + 1;
  return one.checkVisibility() && (wide || one.scrollHeight > one.clientHeight + 1);
}).map(([name]) => name)"""
OVERLAP = """() => {
  const [runs, overs] = ["runs", "overs"].map((name) => document.querySelector(`.score__${name}`));
  [runs.children[0].textContent, runs.children[2].textContent] = ["214", "10"];
  overs.firstChild.textContent = "45.5";
  const names = [...document.querySelectorAll(".score__team")];
  if (names.some((one) => one.scrollWidth > one.clientWidth + 1)) return -1;
  return overs.getBoundingClientRect().left - runs.getBoundingClientRect().left - runs.scrollWidth;
}"""


def test_words_of_a_ball_and_a_score_are_whole(house: House, open_page: Opener) -> None:
    """However long the names are, and with all ten out for three figures."""
    page = open_page(f"{house.serving.base_url}/watch/{house.cricket}")
    expect(page.locator(".ball__line")).not_to_be_empty()
    for width in (320, 360, 390, 641, 820, 1000, 1101, 1241, 1280, 1440, 1600, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(CUT, LONG) == [], f"at {width} px"
        assert page.evaluate(OVERLAP) >= 0, f"the score runs into the overs at {width} px"


CALLS = """() => {
  const long = "a long reason ".repeat(40);
  for (const one of document.querySelectorAll(".mind__thought bdi")) one.textContent = long;
  return [...document.querySelectorAll(".mind__seat")].map((seat) =>
    seat.getBoundingClientRect().bottom - seat.querySelector(".call").getBoundingClientRect().bottom);
}"""


def test_a_call_is_whole_however_long_its_reason(house: House, open_page: Opener) -> None:
    page = open_page(f"{house.serving.base_url}/watch/{house.cricket}?seq=150")
    expect(page.locator(".mind__seat .call code").first).not_to_be_empty()
    for width, height in ((1120, 720), (1280, 800), (1440, 900), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        assert min(page.evaluate(CALLS)) >= -1, f"at {width} px"


def test_nothing_is_empty_where_chances_would_be(house: House, open_page: Opener) -> None:
    """A match without forecasts has its batters under the ball, on a phone under the field."""
    page = open_page(f"{house.serving.base_url}/watch/{house.cricket}")
    expect(page.locator(".crease tbody tr").first).to_be_visible()
    expect(page.locator(".chances")).to_be_hidden()
    for width in (390, *WIDTHS, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        above = ".ground" if width == 390 else ".ball-why"
        gap = page.evaluate(
            """(above) => document.querySelector(".crease").getBoundingClientRect().top
                - document.querySelector(above).getBoundingClientRect().bottom""",
            above,
        )
        assert 0 <= gap < 40, f"{gap} px under {above} at {width} px"


def test_a_small_world_fills_its_page(quiet_app: Serving, open_page: Opener) -> None:
    """Counting shows every integer, its course and its worth; a slip leads to its moment."""
    options = {"environment": "counting", "captain_preset": "random", "seed": 5}
    counting = quiet_app.start(options={"turns": 10}, **options)
    quiet_app.finish(counting)
    page = open_page(f"{quiet_app.base_url}/watch/{counting}")
    expect(page.locator(".said__one")).to_have_count(10)
    expect(page.locator(".course__line")).to_be_visible()
    slips = page.locator(".said__one--wrong")
    expect(page.locator(".worth")).to_contain_text(f"Slips{slips.count()}")
    bottom = page.locator(".counts").evaluate("(counts) => counts.getBoundingClientRect().bottom")
    assert bottom > 0.75 * WIDE["height"]
    second = slips.nth(1).inner_text().split()[-1]
    slips.nth(1).click()
    expect(page.locator(".count")).to_contain_text(f"{second} of 10 said")
    expect(page.locator("a.said__one")).to_have_count(int(second))
    page.set_viewport_size(PHONE)
    page.goto(f"{quiet_app.base_url}/watch/{counting}")
    expect(page.get_by_role("tab", name="Report")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".said")).to_be_visible()
    expect(page.locator(".worth")).to_be_hidden()


def test_a_report_and_what_next_are_in_the_first_fold(house: House, open_page: Opener) -> None:
    page = open_page("")
    for width, height in ((1280, 800), (1440, 900), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto(f"{house.serving.base_url}/watch/{house.cricket}")
        for part in (page.locator(".ending__result"), page.get_by_role("button", name="Rematch")):
            expect(part).to_be_visible()
            box, bar = part.bounding_box(), page.locator("#player").bounding_box()
            assert box and bar and box["y"] + box["height"] < bar["y"], f"at {width} px"


PHONES = ((360, 780), (390, 844), (412, 915))
FIRST_FOLD = (".score__runs", ".score__equation", ".ball__line", ".over", ".chances__bar", ".ground svg")


def test_field_score_and_win_line_are_in_the_first_fold_of_a_phone(
    quiet_app: Serving, open_page: Opener
) -> None:
    """All of them, one below the other, between the header and the bar that plays."""
    told = quiet_app.start(seed=7, options={"max_overs": 2, "forecast_futures": 20})
    quiet_app.finish(told)
    events = quiet_app.events(told)
    over = [one["seq"] for one in events if one["type"] == "cricket.over_completed"]
    ended = [one["seq"] for one in events if one["type"] == "cricket.innings_ended"]
    places = {
        "first innings": over[0],
        "interval": ended[0] + 1,
        "second innings": over[2],
        "end": events[-1]["seq"],
    }
    page = open_page("", viewport=PHONE, has_touch=True)
    for (part, place), (width, height) in product(places.items(), PHONES):
        if (width, height) == PHONES[0]:
            page.goto(f"{quiet_app.base_url}/watch/{told}?seq={place}")
            expect(page.locator(".chances__value").first).to_be_visible()
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate("scrollY") == 0
        bar = page.locator("#player").bounding_box()
        boxes = [page.locator(one).bounding_box() for one in FIRST_FOLD]
        assert bar
        ends = [box["y"] + box["height"] for box in boxes if box]
        assert len(ends) == len(FIRST_FOLD)
        assert ends == sorted(ends), f"{part} at {width} px"
        assert ends[-1] < bar["y"], f"{part} at {width} px"
        field = page.locator(".ground__rope").bounding_box()
        assert field and field["height"] > 195, f"{part} at {width} px"


def test_names_on_a_narrow_tile_are_whole(quiet_app: Serving, open_page: Opener) -> None:
    """On two lines where one is too short; the score and its overs stay together in the headline."""
    quiet_app.start(pace="broadcast", max_overs=5, seed=7, options={"forecast_futures": 20})
    page = open_page(f"{quiet_app.base_url}/", viewport={"width": 360, "height": 740})
    expect(page.locator('.tile__seats[data-told="true"] bdi')).to_have_count(2)
    for name in page.locator(".tile__seats :is(bdi, small)").all():
        assert name.evaluate("(it) => it.parentElement.scrollWidth <= it.parentElement.clientWidth + 1")
        assert name.evaluate("(it) => it.scrollWidth <= it.clientWidth + 1")
    page.wait_for_function("() => document.querySelector('.tile__headline').textContent.includes('\\u00a0(')")


def test_what_happened_stands_on_the_line_of_what_was_told(quiet_app: Serving, open_page: Opener) -> None:
    told = quiet_app.start(seed=3, options={"max_overs": 1, "forecast_futures": 20})
    quiet_app.finish(told)
    page = open_page(f"{quiet_app.base_url}/reliability")
    tops = page.locator(".reliability__figures tbody tr").first.evaluate(
        """(row) => [...row.children].map((cell) => {
            const words = document.createRange();
            words.selectNodeContents(cell);
            return Math.round(words.getBoundingClientRect().bottom);
        })"""
    )
    assert max(tops) - min(tops) <= 1

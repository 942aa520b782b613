"""Nothing is cut off, runs into its neighbour or stands beside an empty stretch, from a phone to a desk."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, House, Opener
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
  .map((it) => [parseFloat(getComputedStyle(it).fontSize) * it.getScreenCTM().a, it.textContent])
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
        expect(page.locator("#empty")).to_contain_text("Nothing is on")
        serving.start(pace="broadcast", options={"turns": 1000})
        expect(page.locator("#state")).to_have_text("On air")

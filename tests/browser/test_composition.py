"""Nothing is cut off, runs into its neighbour or stands beside an empty stretch, from a phone to a desk."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import House, Opener

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

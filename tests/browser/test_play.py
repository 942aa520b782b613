"""A ball travels before what came of it is told, and the winning over is on the page to its last ball."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PHONE, Opener
from tests.serving import Serving

pytestmark = pytest.mark.browser

WON_WITHIN: Final = 1
"""A seed of which two overs end with a chase that is won with balls left."""

ORDER = """
window.order = [];
window.early = [];
let counted = 0, travelled = 0;
addEventListener("DOMContentLoaded", () => new MutationObserver((records) => {
  const said = new Set();
  for (const { target, addedNodes } of records) {
    const within = (place) => (target.closest?.(place) ?? target.parentElement?.closest(place)) !== null;
    if ([...addedNodes].some((node) => node.classList?.contains("ground__way--fly"))) said.add("travels");
    if (within(".score__side:not(.score__side--other) .score__overs b")) said.add("counts");
    if (within(".chances__value")) said.add("chances");
  }
  if (said.has("travels")) {
    const added = records.flatMap(({ addedNodes }) => [...addedNodes]);
    const lines = added.filter((node) => node.matches?.(".feed__line--new"));
    for (const one of [[...document.querySelectorAll("a.over__ball")].at(-1), ...lines].filter(Boolean))
      if (getComputedStyle(one).opacity !== "0") window.early.push(one.className);
    const flies = document.getElementById("main").style.getPropertyValue("--flight") !== "0ms";
    if (flies && lines.some((one) => one.offsetHeight > 2)) window.early.push("room for a line");
  }
  if (said.size) window.order.push([...said].sort().join(" and "));
  if (said.has("travels")) document.body.dataset.travelled = String(++travelled);
  if (said.has("counts")) document.body.dataset.counted = String(++counted);
}).observe(document.body, { subtree: true, childList: true, characterData: true }));
"""
"""What the page shows at once, in order: a ball on its way, that the overs count, the chances; and what of a
ball is seen while it is on its way."""


def test_the_ball_travels_and_then_the_score_counts(quiet_app: Serving, open_page: Opener) -> None:
    """For every ball that is drawn as it comes; at once for those who want nothing to move."""
    live = quiet_app.start(pace="broadcast", seed=7, options={"max_overs": 5, "forecast_futures": 20})
    page = open_page("")
    page.add_init_script(ORDER)
    page.goto(f"{quiet_app.base_url}/watch/{live}")
    expect(page.locator("body")).to_have_attribute("data-travelled", re.compile(r"[2-9]"), timeout=40_000)
    expect(page.locator(".ball__mark")).to_have_css("opacity", "1")
    order: list[str] = page.evaluate("window.order")
    seen = order[order.index("travels") :]
    assert {one for one in seen if "travels" in one} == {"travels"}, "nothing is told of a ball on its way"
    assert seen.count("travels") >= sum("counts" in one for one in seen) >= 1
    assert any("chances" in one for one in seen)
    assert page.evaluate("window.early") == []
    still = open_page("", reduced_motion="reduce")
    still.add_init_script(ORDER)
    still.goto(f"{quiet_app.base_url}/watch/{live}")
    expect(still.locator("body")).to_have_attribute("data-counted", re.compile(r"[1-9]"))
    assert not [said for said in still.evaluate("window.order") if "travels" in said]


def test_the_winning_over_and_the_end_are_on_the_page(quiet_app: Serving, open_page: Opener) -> None:
    """A chase that is won within an over: its bar, its balls, the result, the report, and no key is dead."""
    episode_id = quiet_app.start(max_overs=2, seed=WON_WITHIN)
    result = quiet_app.finish(episode_id)["result"]
    page = open_page(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator(".score__result")).to_have_text(result)
    assert "won by" in result and "wicket" in result
    overs, balls = page.locator(".score__overs b").first.inner_text().split(".")
    assert balls != "0", "the chase ended within an over"
    expect(page.locator(".chart__bars--now rect")).to_have_count(int(overs) + 1)
    expect(page.locator(".over__ball:not(.over__ball--todo)")).not_to_have_count(0)
    expect(page.locator(".ending__result")).to_have_text(result)
    expect(page.locator(".ending__turns li").first).to_be_visible()
    best = re.compile(r"^Best: \D+\d+ off \d+, \D+\d+ for \d+$")
    expect(page.locator(".ending__best")).to_have_text(best)
    innings = next(
        one
        for one in quiet_app.events(episode_id)
        if one["type"] == "cricket.innings_started" and one["data"]["innings"] == 2
    )
    phone = open_page(f"{quiet_app.base_url}/watch/{episode_id}?seq={innings['seq']}", viewport=PHONE)
    expect(phone.locator(".ball__best")).to_have_text(best)
    expect(phone.locator(".ball__best")).to_be_in_viewport(ratio=1)
    phone.locator(".player__live").click()
    expect(phone.locator(".ending__best")).to_be_in_viewport(ratio=1)
    phone.set_viewport_size({"width": 820, "height": 1180})
    phone.goto(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(phone.locator(".ending__best")).to_be_in_viewport(ratio=1)
    assert phone.evaluate("window.shifts") < 0.02
    last = last_ball(quiet_app.events(episode_id))
    expect(page.locator(".ball__mark")).to_have_text(last["mark"])
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#state")).to_have_text("Replay")
    expect(page.locator(".ending")).to_have_count(0)
    page.keyboard.press("End")
    expect(page.locator(".ending__result")).to_have_text(result)


def last_ball(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What the record says of the last ball."""
    balls: list[dict[str, Any]] = [one["data"] for one in events if one["type"] == "cricket.ball_bowled"]
    return balls[-1]

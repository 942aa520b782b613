"""Every page as a screen reader and a keyboard meet it, in the tree that Chromium makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, WIDE, House, Opener, violations

pytestmark = pytest.mark.browser

SIZES = {"wide": WIDE, "phone": PHONE}
NAMED = set(
    "button link checkbox combobox textbox searchbox slider spinbutton radio tab tabpanel tablist image"
    " progressbar dialog region navigation".split()
)
"""Roles that say nothing without a name."""
CONTROLS = {"button", "combobox", "slider", "checkbox", "textbox", "spinbutton", "tab"}
TABS_AT_MOST = 400

WALK = """() => {
  const tabbed = new Map();
  window.walked = [];
  addEventListener("focusin", ({ target: one }) => {
    const { width, height } = one.getBoundingClientRect();
    if (!tabbed.has(one)) tabbed.set(one, tabbed.size);
    window.walked.push({
      place: tabbed.get(one), name: one.getAttribute("aria-label") || one.id || one.textContent.trim(),
      seen: one.checkVisibility({ visibilityProperty: true }) && width > 0 && height > 0,
      ringed: getComputedStyle(one).outlineStyle !== "none",
      hidden: one.closest("[aria-hidden=true]") !== null,
    });
  });
}"""
"""Remembers where the keyboard goes."""
ROUND = "walked.findIndex(({ place }, count) => place === 0 && count > 0)"
"""After how many places it is at the first one again."""


def pages(house: House) -> dict[str, str]:
    """Every kind of page, by a name."""
    return {
        "lobby": "/",
        "watch": f"/watch/{house.live}",
        "report": f"/watch/{house.cricket}",
        "replay": f"/replay/{house.cricket}?seq=60",
        "moment": f"/moment/{house.cricket}/60",
        "campaign": f"/watch/{house.collider}",
        "wall": "/wall",
        "compare": f"/compare?a={house.cricket}&b={house.live}",
        "rollouts": "/rollouts",
        "run": "/rollouts/live",
        "group": "/group/g-000000?run=live",
        "leaderboard": "/leaderboard",
        "reliability": "/reliability",
        "captain": "/captains/heuristic",
        "docs": "/docs",
        "voice": "/voice",
        "operator": "/operator",
        "nowhere": "/nowhere",
        "embed": f"/embed/{house.live}",
    }


def go(page: Page, address: str) -> None:
    """Open a page and wait until it shows what it has."""
    page.goto(address)
    expect(page.locator(".waiting, .stage--waiting")).to_have_count(0)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def tree(page: Page) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Role, name and properties of all that is not ignored, in order."""
    nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    known = {node["nodeId"]: node for node in nodes}
    ahead = [nodes[0]]
    while ahead:
        node = ahead.pop()
        ahead += [known[child] for child in reversed(node.get("childIds", [])) if child in known]
        if not node["ignored"]:
            properties = {one["name"]: one["value"].get("value") for one in node.get("properties", [])}
            yield node["role"]["value"], str(node.get("name", {}).get("value", "")).strip(), properties


def faults(page: Page) -> list[str]:
    """What a screen reader would stumble over."""
    told = list(tree(page))
    found = [f"a {role} without a name" for role, name, _ in told if role in NAMED and not name]
    for role, count in (("main", 1), ("banner", 1)):
        has = sum(one == role for one, *_ in told)
        found += [f"{has} of {role}"] if has != count else []
    levels = [int(properties["level"]) for role, _, properties in told if role == "heading"]
    found += [f"{levels.count(1)} first headings"] if levels.count(1) != 1 else []
    found += [f"from heading {a} to {b}" for a, b in pairwise(levels) if b > a + 1]
    landmarks = [(role, name) for role, name, _ in told if role in {"region", "navigation", "complementary"}]
    found += [f"twice {one}" for one in set(landmarks) if landmarks.count(one) > 1]
    return found


@pytest.mark.parametrize("size", SIZES)
def test_every_page_has_names_roles_and_landmarks(house: House, open_page: Opener, size: str) -> None:
    """One main, one banner, one first heading, no level left out, no control without a name; axe agrees."""
    page = open_page("", viewport=SIZES[size], reduced_motion="reduce", forgive=("404",))
    found: dict[str, list[str]] = {}
    for name, path in pages(house).items():
        go(page, f"{house.serving.base_url}{path}")
        wrong = [one for one in faults(page) if name != "embed" or "banner" not in one]
        wrong += violations(page)
        if wrong:
            found[name] = wrong
    assert found == {}


def test_controls_of_a_match_are_told_apart_and_two_regions_speak(house: House, open_page: Opener) -> None:
    """No two controls by one name; what changes by itself is told by the state and one region, politely."""
    for episode_id in (house.cricket, house.live):
        page = open_page("", reduced_motion="reduce")
        go(page, f"{house.serving.base_url}/watch/{episode_id}")
        expect(page.locator(".mind__inspect:enabled")).to_have_count(2)
        told = list(tree(page))
        names = [f"{role} {name}" for role, name, _ in told if role in CONTROLS]
        assert sorted(set(names)) == sorted(names)
        spoken = [(role, one["live"], one.get("atomic")) for role, _, one in told if one.get("live")]
        assert spoken == [("status", "polite", True)] * 2
        place = page.get_by_role("slider", name="Position in the episode")
        expect(place).to_have_attribute("aria-valuetext", re.compile(r"^\d+ of \d+, \w+"))


def test_no_page_keeps_the_keyboard(house: House, open_page: Opener) -> None:
    """Tab goes through each page once, always seen and ringed, and leaves it at its end."""
    page = open_page("", reduced_motion="reduce", forgive=("404",))
    for name, path in pages(house).items():
        go(page, f"{house.serving.base_url}{path}")
        page.evaluate(WALK)
        for tabs in range(TABS_AT_MOST):
            page.keyboard.press("Tab")
            if tabs % 8 == 7 and page.evaluate(ROUND) > 0:
                break
        walked: list[dict[str, Any]] = page.evaluate("walked")
        ends = page.evaluate(ROUND)
        assert ends > 0, f"{name}: the keyboard does not come out: {walked[-3:]}"
        del walked[ends:]
        places = [one["place"] for one in walked]
        assert places == sorted(set(places)), name
        assert [one for one in walked if not one["seen"] or not one["ringed"] or one["hidden"]] == [], name


def test_the_focus_survives_going_to_a_moment(house: House, open_page: Opener) -> None:
    """By Enter on whatever names one: it stays, or goes to the same moment's link, or to the timeline."""
    page = open_page("", reduced_motion="reduce")
    address = f"{house.serving.base_url}/watch/{house.cricket}"
    for name in (".ending__turn", "a.over__ball", ".cards__fall a", ".feed__go"):
        go(page, address)
        place = page.locator(name).first
        moment = place.get_attribute("data-moment")
        place.focus()
        page.keyboard.press("Enter")
        expect(page.locator("#state")).to_have_text(re.compile("Replay|Finished"))
        page.wait_for_function("() => document.activeElement !== document.body")
        page.evaluate("() => new Promise((done) => setTimeout(done, 400))")
        kept = "(moment) => document.activeElement.matches(`.player__scrub, [data-moment='${moment}']`)"
        assert page.evaluate(kept, moment), name


def test_the_tabs_of_a_phone_are_tabs(house: House, open_page: Opener) -> None:
    """One stop of the keyboard; arrows go round them and not through the match; panels bear their names."""
    page = open_page("", viewport=PHONE, has_touch=True)
    go(page, f"{house.serving.base_url}/watch/{house.cricket}")
    expect(page.locator("#state")).to_have_text("Finished")
    tabs = page.get_by_role("tab")
    assert tabs.all_inner_texts() == ["Live", "Mind", "Report", "Cards"]
    page.get_by_role("tab", name="Live").focus()
    for name in ("Mind", "Report", "Cards", "Live"):
        page.keyboard.press("ArrowRight")
        tab = page.get_by_role("tab", name=name)
        expect(tab).to_be_focused()
        expect(page.get_by_role("tab", selected=True)).to_have_text(name)
        expect(page.get_by_role("tabpanel", name=name)).to_be_visible()
    expect(page.locator("#state")).to_have_text("Finished")
    page.keyboard.press("End")
    expect(page.get_by_role("tab", name="Cards")).to_be_focused()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.role") != "tab"
    page.get_by_role("button", name="One step back").click()
    expect(tabs).to_have_text(["Live", "Mind", "Commentary", "Cards"])
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.get_by_role("tabpanel")).to_have_count(0)
    expect(page.get_by_role("region", name="Commentary", exact=True)).to_be_visible()


def test_a_wicket_and_the_result_are_told_politely(house: House, open_page: Opener) -> None:
    """By a live region that waits its turn; what was jumped over is not read out."""
    serving = house.serving
    balls = [event for event in serving.events(house.cricket) if event["type"] == "cricket.ball_bowled"]
    wicket = next(place for place, ball in enumerate(balls) if place and ball["data"]["kind"] == "wicket")
    region = "#announce[role=status][aria-live=polite]"
    page = open_page(f"{serving.base_url}/watch/{house.cricket}?seq={balls[wicket]['seq'] - 1}")
    expect(page.locator("#state")).to_have_text("Replay")
    assert page.locator(region).text_content() == ""
    page.keyboard.press("ArrowRight")
    expect(page.locator(region)).to_contain_text("OUT")
    page.goto(f"{serving.base_url}/watch/{house.cricket}?seq={balls[-1]['seq'] - 1}")
    expect(page.locator("#state")).to_have_text("Replay")
    page.get_by_role("button", name="Play", exact=True).click()
    expect(page.locator("#state")).to_have_text("Finished")
    result = serving.client.get(f"/api/episodes/{house.cricket}").json()["result"]
    named = re.escape(result).replace("\\ won", ".*won")  # with its captain
    expect(page.locator(region)).to_contain_text(re.compile(f"result {named}"))

"""A collider campaign can be watched: hidden until frozen, opened, scanned, claimed; then the truth."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, WIDE, Opener, board
from tests.serving import Serving

pytestmark = pytest.mark.browser


AXIS_IS_CLEAR = """() => [".spectrum", ".limits"].map((name) => {
  const right = document.querySelector(`${name} .spectrum__title`).getBoundingClientRect().right;
  return [...document.querySelectorAll(`${name} .chart__grid text`)].every((one) => one.getBoundingClientRect().left >= right);
})"""  # noqa: E501
"""Whether no number of the vertical axis lies on its title, for spectrum and limits."""


def played(
    app: Serving, captain_preset: str = "heuristic", seed: int = 5, **options: Any
) -> tuple[str, dict[str, int]]:
    """A finished campaign, and the last number of each of its event types."""
    asked = {"difficulty": "easy", **options}
    episode = app.start(environment="collider", seed=seed, captain_preset=captain_preset, options=asked)
    app.finish(episode)
    lines = app.client.get(f"/api/episodes/{episode}/events").text.splitlines()
    return episode, {event["type"]: event["seq"] for event in map(json.loads, lines)}


def at(page: Page, app: Serving, episode: str, seq: int) -> Page:
    page.goto(f"{app.base_url}/replay/{episode}?seq={seq}")
    board(page)
    return page


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_campaign_from_the_beam_to_the_truth(
    quiet_app: Serving, open_page: Opener, viewport: dict[str, int]
) -> None:
    episode, seqs = played(quiet_app)
    page = open_page("", viewport=viewport)
    at(page, quiet_app, episode, seqs["collider.beam_configured"])
    expect(page.locator(".spectrum")).to_contain_text("No spectrum yet")
    expect(page.locator(".scan")).to_contain_text("No scan yet")

    at(page, quiet_app, episode, seqs["collider.spectrum_built"])
    expect(page.locator(".spectrum__hidden")).to_contain_text("BLINDED")
    cells = page.locator(".spectrum table tbody td:first-of-type").all_text_contents()
    assert "blinded" in cells and any(cell != "blinded" for cell in cells)

    at(page, quiet_app, episode, seqs["collider.mass_scanned"])
    expect(page.locator(".spectrum__hidden")).to_have_count(0)
    expect(page.locator(".scan")).to_contain_text("σ local at")

    at(page, quiet_app, episode, seqs["collider.significance_estimated"])
    expect(page.locator(".scan")).to_contain_text("σ global needs")
    expect(page.locator(".scan__needed")).to_have_count(2)

    at(page, quiet_app, episode, seqs["episode.ended"])
    expect(page.locator(".story__done.is-on")).to_have_text(["frozen", "unblinded", "claimed"])
    truth = quiet_app.client.get(f"/api/episodes/{episode}/truth").json()["truth"]
    expect(page.locator(".claim__truth")).to_contain_text(
        f"{truth['particles'][0]['mass_gev']:,g}" if truth["particles"] else "no resonance"
    )
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_right_null_looks_like_a_success_and_its_reason_is_in_sight(
    quiet_app: Serving, open_page: Opener, viewport: dict[str, int]
) -> None:
    episode, seqs = played(
        quiet_app, "reference", 27, scenario="null", difficulty="expert", limit_curves=True
    )
    page = open_page("", viewport=viewport)
    at(page, quiet_app, episode, seqs["episode.ended"])
    expect(page.locator(".campaign")).to_contain_text("strongest limit, 95 % CL")
    expect(page.locator(".claim__flag")).to_have_text(["✓ nothing to claim, and nothing claimed"])
    expect(page.locator(".limits")).to_contain_text("σ × B at 13 TeV, fb")
    assert page.evaluate(AXIS_IS_CLEAR) == [True, True]
    if viewport == PHONE:
        return
    at(page, quiet_app, episode, seqs["collider.trigger_set"])
    expect(page.locator(".call")).to_contain_text("GeV")
    reason, call = (page.locator(name).first.bounding_box() for name in (".mind__thought:visible", ".call"))
    assert reason and call and reason["y"] + reason["height"] <= call["y"]


def test_the_truth_comes_with_the_end_of_a_live_campaign(quiet_app: Serving, open_page: Opener) -> None:
    """It is sealed until the end is recorded, which is after the verdict is shown."""
    episode = quiet_app.start(environment="collider", seed=5, pace="fast", options={"difficulty": "easy"})
    page = open_page(f"{quiet_app.base_url}/watch/{episode}")
    expect(page.locator("#state")).to_have_text("Finished", timeout=60_000)
    expect(page.locator(".claim__truth li")).not_to_have_count(0)


def test_a_campaign_is_read_as_text(quiet_app: Serving, open_page: Opener) -> None:
    episode, _ = played(quiet_app)
    page = open_page(f"{quiet_app.base_url}/watch/{episode}?text=1")
    for words in ("Campaign", "MUSD", "Step by step", "Verdict"):
        expect(page.locator("#plain")).to_contain_text(words)

"""Two models play each other in a real browser: their thoughts form in sight, the record replaces them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, Opener
from tests.llm.brains import Said, counter, pundit
from tests.llm.endpoints import endpoint, write_captains
from tests.llm.fake_server import Mode
from tests.serving import Serving, serve, test_settings

EVIL = "‮<img src=x onerror=alert(1)>​ " + "so on " * 16_000


def hostile(body: Mapping[str, Any]) -> Said:
    """Counts, but thinks aloud what nobody should see."""
    return replace(counter(body), thought=EVIL)


def pondering(body: Mapping[str, Any]) -> Said:
    """Counts, and thinks about it at some length."""
    return replace(counter(body), thought="Which number comes next? " + "One more than the last. " * 8)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server whose two models think at a pace that can be followed, and a hostile one."""
    folder = tmp_path_factory.mktemp("models")
    slow = {"pause_s": 0.03, "chunk": 8}
    with (
        endpoint(pondering, [Mode.SLOW], **slow) as home,
        endpoint(pundit, [Mode.SLOW], **slow) as away,
        endpoint(hostile, [Mode.SLOW], pause_s=0.05, chunk=4_000) as evil,
        endpoint(pundit, [Mode.SLOW], pause_s=0.004, chunk=12) as quick,
    ):
        captains = write_captains(
            folder / "captains.toml",
            home={"base_url": home.base_url, "label": "Kestrel", "price_in": 0.4, "price_out": 1.6},
            away={"base_url": away.base_url, "label": "Marlin", "style": "json"},
            quick={"base_url": quick.base_url, "label": "Swift"},
            rival={"base_url": quick.base_url, "label": "Petrel", "style": "xml"},
            evil={"base_url": evil.base_url, "label": "Evil"},
        )
        settings = test_settings(
            folder, environment="cricket", captains_file=captains, llm_live="llm:away", max_episodes=3
        )
        with serve(settings) as app:
            yield app


def seen_forming(page: Page, times: int) -> list[str]:
    """Texts of a decision that formed, as long as ``times`` different ones of the same were seen."""
    until = time.monotonic() + 40
    texts: list[str] = []
    while time.monotonic() < until:
        text = page.evaluate("() => document.querySelector('.mind__stream:not([hidden])')?.innerText ?? ''")
        if texts and (len(text) < len(texts[-1]) or not text.startswith(texts[-1][:20])):
            texts = []  # of another decision, which may begin with the same words
        if text.strip() and (not texts or text != texts[-1]):
            texts.append(text)
        if len(texts) >= times:
            return texts
        page.wait_for_timeout(20)
    raise AssertionError(f"no thought formed in sight: {texts}")


@pytest.mark.parametrize("viewport", [{"width": 1440, "height": 900}, PHONE], ids=["wide", "phone"])
def test_thoughts_form_in_sight_and_give_way_to_the_decision(
    models: Serving, open_page: Opener, viewport: dict[str, int]
) -> None:
    game = {"environment": "counting", "captain_preset": "llm:home", "pace": "fast"}
    episode_id = models.start(**game, options={"turns": 100})
    page = open_page(f"{models.base_url}/watch/{episode_id}", viewport=viewport)
    texts = seen_forming(page, 3)
    assert len(texts[-1]) > len(texts[0])
    forming = page.locator(".mind__seat--forming")
    expect(forming.locator(".mind__cost")).to_have_text(re.compile(r"^(thinking|thought for) "))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    expect(page.locator(".mind__seat .mind__total").first).to_contain_text("This match:")
    models.client.post("/custom/stop_episode", json={"episode_id": episode_id})
    expect(page.locator("#state")).to_contain_text("Stopped")
    expect(page.locator(".mind__stream:not([hidden])")).to_have_count(0)
    expect(page.locator(".mind__seat").first.locator(".mind__by")).to_contain_text("Kestrel")
    expect(page.locator(".mind__seat").first.locator(".mind__total")).to_contain_text("$")


def test_a_rivals_thoughts_are_shown_with_the_ball_that_they_led_to(
    models: Serving, open_page: Opener
) -> None:
    """Until then the page says that somebody thinks, for how long, and why it does not say what."""
    match = {"environment": "cricket", "captain_preset": "llm:rival", "opponent_choice": "llm_live"}
    episode_id = models.start(**match, max_overs=1, seed=4)
    page = open_page(f"{models.base_url}/watch/{episode_id}")
    texts = seen_forming(page, 1)
    assert texts == ["Thoughts and plans are shown once the ball has been played."]
    models.client.post("/custom/stop_episode", json={"episode_id": episode_id})


def test_a_match_between_two_models_is_played_to_its_end_and_retold(
    models: Serving, open_page: Opener
) -> None:
    page = open_page(models.base_url)
    page.locator("#captain_preset").select_option("llm:quick")
    page.locator("#opponent_choice").select_option("llm:rival")
    page.get_by_label("max overs").fill("1")
    page.locator("#pace").select_option("max")
    page.get_by_role("button", name="Start the match").click()
    page.wait_for_url("**/watch/ep-*")
    expect(page.locator("#state")).to_contain_text("Finished", timeout=120_000)
    episode_id = page.url.rsplit("/", 1)[-1].partition("?")[0]
    usage = models.client.get(f"/api/episodes/{episode_id}").json()["usage"]
    assert {used["fallbacks"] for used in usage.values()} == {0} and usage.keys() == {"home", "away"}
    expect(page.locator(".mind__stream:not([hidden])")).to_have_count(0)
    page.goto(f"{models.base_url}/replay/{episode_id}")
    expect(page.locator(".mind__thought:not(.mind__stream)").first).to_contain_text(
        "goes on with the game", timeout=40_000
    )
    expect(page.locator(".mind__stream:not([hidden])")).to_have_count(0)


def test_a_hostile_thought_is_text_and_stays_in_its_box(models: Serving, open_page: Opener) -> None:
    episode_id = models.start(environment="counting", captain_preset="llm:evil", options={"turns": 100})
    page = open_page(f"{models.base_url}/watch/{episode_id}", viewport=PHONE)
    text = seen_forming(page, 2)[-1]
    assert "‮" not in text and "​" not in text
    assert page.locator("#mind img").count() == 0
    box = page.locator(".mind__stream:not([hidden])").first
    assert box.evaluate("(e) => e.getBoundingClientRect().height") < 300
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    heard = page.locator("#announce").inner_text()
    assert "so on" not in heard, "a screen reader is not read the thought"
    models.client.post("/custom/stop_episode", json={"episode_id": episode_id})

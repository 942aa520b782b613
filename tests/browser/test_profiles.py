"""The page of worlds of other profiles: the rewards so far are shown, free text is answered in a text box."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from spectator import catalog
from tests.browser.conftest import Opener
from tests.profiled_worlds import NAMES
from tests.serving import Serving, serve, test_settings

pytestmark = pytest.mark.browser


@pytest.fixture
def app_of_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    """A server with the worlds of every profile."""
    for name in NAMES:
        monkeypatch.setitem(catalog.BUILT_IN, name, f"tests.profiled_worlds:{name.upper()}")
    catalog.load_world.cache_clear()
    with serve(test_settings(tmp_path, max_episodes=2, person_decision_s=600)) as running:
        yield running
    catalog.load_world.cache_clear()


def test_the_rewards_so_far_stand_beside_the_captain(app_of_profiles: Serving, open_page: Opener) -> None:
    episode = app_of_profiles.start(environment="trading", options={"rounds": 4}, pace="fast")
    page = open_page(f"{app_of_profiles.base_url}/watch/{episode}")
    expect(page.locator("#mind")).to_contain_text("Rewards so far: −0.3")
    counted = app_of_profiles.start(options={"turns": 2})
    page = open_page(f"{app_of_profiles.base_url}/watch/{counted}")
    expect(page.locator("#state")).to_have_text("Finished")
    expect(page.locator("#mind").get_by_text("Rewards so far")).to_be_hidden()


def test_free_text_is_answered_in_a_text_box(app_of_profiles: Serving, open_page: Opener) -> None:
    episode = app_of_profiles.start(environment="essay", captain_preset="human", options={"rounds": 1})
    page = open_page(f"{app_of_profiles.base_url}/watch/{episode}")
    page.get_by_role("button", name="Take the seat").click()
    box = page.get_by_label("said", exact=True)
    assert box.evaluate("element => element.tagName") == "TEXTAREA"
    box.fill("The number\nis 0.")
    page.locator(".seat__go").click()
    expect(page.locator("#state")).to_have_text("Finished")
    decided = [one for one in app_of_profiles.events(episode) if one["type"] == "decision.made"]
    assert decided[0]["data"]["action"] == {"said": "The number\nis 0."}

"""Nothing a model, a stranger or a broken panel does harms the page."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PHONE, Opener
from tests.browser.worlds import MARKUP
from tests.serving import Serving

pytestmark = pytest.mark.browser

VISIBLE_LIMIT = 2_000
"""Characters that a watch page shows at most of one hostile episode before anybody asks for more."""


def test_hostile_text_is_text(strange_app: Serving, open_page: Opener) -> None:
    """Markup is shown, not run; hidden characters are gone; floods are clipped, with a way to more."""
    episode_id = strange_app.start(environment="hostile", options={"turns": 4})
    strange_app.finish(episode_id)
    page = open_page(f"{strange_app.base_url}/watch/{episode_id}?seq=12", viewport=PHONE)
    expect(page.locator("#state")).to_have_text("Replay")
    for _ in range(5):
        shown = page.locator("main").inner_text()
        assert len(shown) < VISIBLE_LIMIT
        assert not set(shown) & set("\u202e\u2066\u200b\ufeff")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        page.keyboard.press("Shift+ArrowLeft")
        page.wait_for_timeout(80)
    page.keyboard.press("End")
    expect(page.locator("#state")).to_have_text("Finished")
    expect(page.locator("#mind")).to_contain_text("<b>bold</b>")
    more = page.locator("#mind button.more[aria-expanded]:visible").first
    more.click()
    expect(more).to_have_attribute("aria-expanded", "true")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img, main script, main b:has-text('bold') b").count() == 0
    page.goto(f"{strange_app.base_url}/")
    expect(page.locator(".game").first).to_contain_text("onerror")
    assert page.evaluate("window.pwned") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_hostile_names_in_the_catalogue_are_text_too(strange_app: Serving, open_page: Opener) -> None:
    """A world's own titles and labels are shown as they are written."""
    captain = {"name": "x", "label": MARKUP, "summary": MARKUP, "source": "model", "available": False}
    world = {
        "name": MARKUP,
        "title": MARKUP,
        "summary": MARKUP,
        "captains": [{**captain, "missing": MARKUP}],
        "opponents": [],
        "packs": [],
        "options": {"properties": {MARKUP: {"type": "integer", "description": MARKUP}}},
    }
    page = open_page("")
    page.route(
        "**/custom/catalog",
        lambda route: route.fulfill(
            json={"default_environment": MARKUP, "environments": [world], "paces": ["max"]}
        ),
    )
    page.goto(f"{strange_app.base_url}/")
    expect(page.get_by_label("World", exact=True)).to_contain_text("<script>")
    assert page.evaluate("window.pwned") is None
    assert page.locator("form img, form script").count() == 0


def test_a_panel_that_throws_is_replaced_and_the_rest_lives_on(
    strange_app: Serving, open_page: Opener
) -> None:
    """A notice stands where the panel was; header, mind, commentary and player go on to the end."""
    episode_id = strange_app.start(
        environment="broken", pace="fast", captain_preset="random", options={"turns": 30}, seed=3
    )
    page = open_page(f"{strange_app.base_url}/watch/{episode_id}", forgive=("the panel failed",))
    expect(page.locator("#body")).to_contain_text("panel failed, so its board is not shown")
    expect(page.locator("#body")).not_to_contain_text("This panel is fine")
    expect(page.locator("#state")).to_have_text("Finished")
    assert page.locator("#feed li").count() >= 5
    expect(page.locator("#mind")).to_contain_text("ACTION:")
    page.keyboard.press("Home")
    expect(page.locator("#state")).to_have_text("Replay")


def test_a_panel_that_cannot_be_loaded_costs_only_itself(quiet_app: Serving, open_page: Opener) -> None:
    """The same when its file is missing."""
    episode_id = quiet_app.start(max_overs=1)
    quiet_app.finish(episode_id)
    page = open_page("", forgive=("the panel failed", "ERR_FAILED"))
    page.route("**/panels/**", lambda route: route.abort())
    page.goto(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator("#body")).to_contain_text("panel failed")
    expect(page.locator("#state")).to_have_text("Finished")


def test_events_from_the_future_do_not_stop_the_page(quiet_app: Serving, open_page: Opener) -> None:
    """Frames of unknown kinds, events of unknown types and versions, and a clock an hour off."""
    episode_id = quiet_app.start(pace="fast", max_overs=1, seed=5)
    page = open_page("")

    def from_the_future(route: object) -> None:
        server = route.connect_to_server()  # type: ignore[attr-defined]

        def pass_on(message: str | bytes) -> None:
            route.send('{"frame":"hologram","depth":3}')  # type: ignore[attr-defined]
            text = (
                str(message).replace('"v":1,', '"v":2,"novel":{"x":1},').replace("step.taken", "step.danced")
            )
            route.send(text.replace('"at":"2026', '"at":"2031'))  # type: ignore[attr-defined]

        server.on_message(pass_on)

    page.route_web_socket("**/live/**", from_the_future)
    page.goto(f"{quiet_app.base_url}/watch/{episode_id}")
    expect(page.locator("#state")).to_have_text("Finished", timeout=30_000)
    assert page.locator("#feed li").count() >= 12

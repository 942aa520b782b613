"""A match can be heard: by the server's clips or by the browser itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Opener
from tests.serving import Serving, serve, test_settings

pytestmark = pytest.mark.browser

LISTEN = """
window.heard = [];
const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (...when) {
  window.heard.push(this.buffer.duration);
  return start.apply(this, when);
};
"""

SPEAK = """
window.said = [];
const voice = { name: "Test voice", lang: "en-GB", localService: true, default: true };
class Words { constructor(text) { this.text = text; } }
Object.defineProperty(window, "SpeechSynthesisUtterance", { value: Words });
Object.defineProperty(window, "speechSynthesis", { value: {
  getVoices: () => [voice],
  addEventListener() {},
  cancel() {},
  speak(words) { window.said.push(words.text); setTimeout(() => words.onend(), 30); },
} });
"""


@pytest.fixture(scope="module")
def speaking_app(tmp_path_factory: pytest.TempPathFactory, espeak: str) -> Iterator[Serving]:
    """A server that speaks by espeak-ng."""
    settings = test_settings(
        tmp_path_factory.mktemp("data"), environment="cricket", max_episodes=2, voice="espeak"
    )
    with serve(settings) as running:
        yield running


@pytest.fixture(scope="module")
def browsers_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that leaves speaking to the browsers."""
    settings = test_settings(
        tmp_path_factory.mktemp("data"), environment="cricket", max_episodes=2, voice="browser"
    )
    with serve(settings) as running:
        yield running


def until(page: Page, condition: str) -> None:
    """Wait until ``condition`` holds in the page; Playwright's own way is against the page's policy."""
    for _ in range(400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{condition} never held")


def listen(page: Page) -> None:
    """Turn the sound on, as a person does."""
    page.get_by_role("button", name="Turn the sound on").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()


def test_a_live_match_is_heard_and_captioned_and_a_screen_reader_is_left_alone(
    speaking_app: Serving, open_page: Opener
) -> None:
    episode_id = speaking_app.start(pace="broadcast", max_overs=1, seed=3)
    page = open_page("")
    page.add_init_script(LISTEN)
    page.goto(f"{speaking_app.base_url}/watch/{episode_id}")
    listen(page)
    expect(page.locator("#sound")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#caption")).not_to_be_empty(timeout=40_000)
    until(page, "window.heard.length >= 2")
    assert page.locator("#announce").text_content() == ""
    page.keyboard.press("m")
    expect(page.locator("#sound")).to_have_attribute("aria-pressed", "false")
    heard = page.evaluate("window.heard.length")
    expect(page.locator("#caption")).not_to_be_empty()
    caption = page.locator("#caption").inner_text()
    expect(page.locator("#caption")).not_to_have_text(caption)  # captions go on without the sound
    expect(page.locator("#caption")).to_be_visible()
    assert page.evaluate("window.heard.length") == heard
    page.get_by_role("button", name="Sound is off").click()
    expect(page.locator("#sound")).to_have_attribute("aria-pressed", "false")
    page.get_by_role("checkbox", name="Captions").uncheck()
    expect(page.locator("#caption")).to_be_hidden()
    speaking_app.client.post("/custom/stop_episode", json={"episode_id": episode_id})


def test_a_replay_is_heard_where_it_stands_and_not_when_it_hurries(
    speaking_app: Serving, open_page: Opener
) -> None:
    episode_id = speaking_app.start(max_overs=1, seed=3)
    speaking_app.finish(episode_id)
    page = open_page("")
    page.add_init_script(LISTEN)
    page.goto(f"{speaking_app.base_url}/replay/{episode_id}")
    listen(page)
    until(page, "window.heard.length >= 1")
    page.get_by_label("Replay speed").select_option("8")
    expect(page.locator("#caption")).to_be_empty(timeout=20_000)
    heard = page.evaluate("window.heard.length")
    expect(page.locator("#state")).to_have_text("Finished", timeout=60_000)
    assert page.evaluate("window.heard.length") <= heard + 1


def test_the_browser_speaks_where_the_server_does_not(browsers_app: Serving, open_page: Opener) -> None:
    episode_id = browsers_app.start(max_overs=1, seed=3)
    browsers_app.finish(episode_id)
    page = open_page("")
    page.add_init_script(SPEAK)
    page.goto(f"{browsers_app.base_url}/replay/{episode_id}")
    listen(page)
    until(page, "window.said.length >= 2")
    said = page.evaluate("window.said")
    recorded = {
        e["data"]["radio"] or e["data"]["text"]
        for e in browsers_app.events(episode_id)
        if e["type"] == "narration.line"
    }
    assert all(any(text.startswith(words[:40]) for text in recorded) for words in said)


def test_without_any_voice_captions_go_on_and_it_is_said(browsers_app: Serving, open_page: Opener) -> None:
    episode_id = browsers_app.start(max_overs=1, seed=4)
    browsers_app.finish(episode_id)
    page = open_page(f"{browsers_app.base_url}/replay/{episode_id}")
    listen(page)
    expect(page.locator("#caption")).not_to_be_empty(timeout=40_000)
    page.locator("#sound").click()
    expect(page.locator(".sound__fault")).to_contain_text("Captions continue", timeout=20_000)


def test_what_was_chosen_is_kept(browsers_app: Serving, open_page: Opener) -> None:
    episode_id = browsers_app.start(max_overs=1, seed=4)
    browsers_app.finish(episode_id)
    page = open_page(f"{browsers_app.base_url}/watch/{episode_id}")
    page.locator("#sound").click()
    home, away = browsers_app.client.get(f"/api/episodes/{episode_id}/glance").json()["sides"]
    expect(page.locator("#caption")).to_have_text(f"{home}, Old Pro against {away}, Old Pro")
    page.get_by_label("Volume").fill("0.3")
    page.get_by_role("checkbox", name="Captions").uncheck()
    page.reload()
    page.locator("#sound").click()
    expect(page.get_by_label("Volume")).to_have_value("0.3")
    expect(page.get_by_role("checkbox", name="Captions")).not_to_be_checked()
    expect(page.locator("#caption")).to_be_hidden()

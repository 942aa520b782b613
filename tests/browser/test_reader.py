"""The reader's page of imported episodes: the conversation, find, siblings, and nothing that cannot work."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import COLOURS, PHONE, RULES, WIDE, Opener, aside, violations
from tests.importing.imported import DATA, Imported, episodes_in, lines, run_import
from tests.serving import Serving, serve, test_settings

pytestmark = pytest.mark.browser

MARKED = """() => {
  const [{startContainer, startOffset, endOffset}] = CSS.highlights.get("find-now");
  return startContainer.data.slice(startOffset, endOffset);
}"""
HTML = "<img src=x onerror=\"document.title='taken'\"><b>bold</b>"


def png(width: int = 64, height: int = 48) -> str:
    """A red picture, as base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xc0\x30\x20" * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    whole = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
    return base64.b64encode(whole + chunk(b"IEND", b"")).decode()


def call(name: str, arguments: str, call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


LOG = "\n".join(f"line {place}: nothing unusual here" for place in range(200))
RICH: list[dict[str, Any]] = [
    {"role": "system", "content": "You are a careful assistant. Keep the secret."},
    {"role": "user", "content": [
        {"type": "text", "text": f"What is on the picture? {HTML}"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png()}"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/tracker.png"}},
    ]},
    {"role": "assistant", "content": "Let me look.", "reasoning_content": "A needle may be in the log.",
     "tool_calls": [call("read_log", '{"path": "a.log", "id": 9007199254740993}', "c1"),
                    call("read_log", '{"path": "b.log"}', "c2")]},
    {"role": "tool", "tool_call_id": "c2", "content": "nothing"},
    {"role": "tool", "tool_call_id": "c1", "content": f"{LOG}\nthe needle is here"},
    {"role": "assistant", "content": "It is a red square."},
]  # fmt: skip


@dataclass(frozen=True)
class Imports:
    """A server that shows imported runs."""

    serving: Serving
    root: Path
    episodes: Mapping[str, list[Imported]]

    def page(self, run: str, place: int = 0) -> str:
        """Address of an episode of a run, oldest first."""
        return f"{self.serving.base_url}/watch/{self.episodes[run][place].summary.episode_id}"


@pytest.fixture(scope="module")
def imports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Imports]:
    root, files = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("files")
    long: list[dict[str, str]] = []
    for place in range(250):
        long += [{"role": "user", "content": f"Question {place}. {'Say more. ' * 30}"}]
        long += [{"role": "assistant", "content": f"Answer {place}. {'More to read. ' * 40}"}]
    for path, name in (
        (lines(files / "rich.jsonl", {"messages": RICH, "reward": 0.75}), "rich"),
        (lines(files / "long.jsonl", {"messages": long}), "long"),
        (DATA / "verifiers_traces.jsonl", "sums"),
    ):
        assert aside(run_import, path, into=root / name).exit_code == 0
    episodes = {run: aside(episodes_in, root / run) for run in ("rich", "long", "sums")}
    with serve(test_settings(tmp_path_factory.mktemp("data"), runs_dir=root)) as serving:
        yield Imports(serving, root, episodes)


def read(page: Page) -> Page:
    """The page, once its conversation is drawn."""
    expect(page.locator("#state")).to_have_text("Imported")
    return page


def roles(page: Page) -> list[str]:
    return page.locator(".msg h3").all_inner_texts()


def test_a_conversation_is_read_in_order_with_calls_results_and_images(
    imports: Imports, open_page: Opener
) -> None:
    page = read(open_page(imports.page("rich")))
    assert roles(page) == ["System", "User", "Model", "Result of read_log", "Result of read_log", "Model"]
    expect(page.locator("#m1")).to_contain_text("Keep the secret.")
    expect(page.locator("#m2")).to_contain_text("<b>bold</b>")
    picture = page.locator("#m2 img")
    expect(picture).to_have_count(1)
    assert picture.evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 64
    expect(page.locator("#m3 .msg__call")).to_have_count(2)
    expect(page.locator("#m3 .msg__call").first).to_contain_text("9007199254740993")
    expect(page.locator("#m6 .msg__reward")).to_have_text("+0.75 reward")
    expect(page.locator("#verdict")).to_contain_text("0.75")
    assert page.title() != "taken" and page.locator("img[src=x]").count() == 0


def test_thoughts_and_long_texts_are_folded_until_they_are_opened(
    imports: Imports, open_page: Opener
) -> None:
    page = read(open_page(imports.page("rich")))
    thought = page.locator("#m3 .msg__thought")
    expect(thought.get_by_text("A needle may be")).to_be_hidden()
    page.get_by_role("button", name="Open thoughts").click()
    expect(thought.get_by_text("A needle may be")).to_be_visible()
    result = page.locator("#m5")
    expect(result).not_to_contain_text("the needle is here")
    result.get_by_role("button", name="Show all").click()
    expect(result).to_contain_text("the needle is here")


def test_find_opens_what_is_folded_and_goes_from_match_to_match(imports: Imports, open_page: Opener) -> None:
    page = read(open_page(imports.page("rich")))
    page.keyboard.press("/")
    box = page.get_by_role("searchbox", name="Find in the conversation")
    expect(box).to_be_focused()
    box.fill("NEEDLE")
    count = page.locator(".find__count")
    expect(count).to_have_text("1 of 2")
    expect(page.locator("#m3 .msg__thought").get_by_text("A needle may be")).to_be_visible()
    box.press("Enter")
    expect(count).to_have_text("2 of 2")
    expect(page.get_by_text("the needle is here")).to_be_in_viewport()
    assert page.evaluate(MARKED) == "needle"
    box.press("Shift+Enter")
    expect(count).to_have_text("1 of 2")
    box.fill("a[b(")
    expect(count).to_have_text("No match")
    box.press("Escape")
    expect(count).to_have_text("")
    expect(box).to_have_value("")


def test_nothing_is_offered_that_cannot_work_and_absent_values_are_absent(
    imports: Imports, open_page: Opener
) -> None:
    page = read(open_page(imports.page("long")))
    shown = page.locator("body").inner_text()
    for absent in (
        "Rematch",
        "Play on",
        "<1 ms",
        "0 tokens",
        "$0",
        "Seed",
        "Took",
        "Tokens",
        "unknown",
        "Speed",
    ):
        assert absent not in shown, absent
    expect(page.locator("#verdict")).to_contain_text("No reward")
    assert page.locator(".player, #seat, #fork, #control, #sound").count() == 0
    assert page.locator("#siblings").is_hidden()
    page.get_by_role("link", name="Step by step").click()
    expect(page.locator("#state")).to_contain_text("Replay")
    page.keyboard.press("End")
    expect(page.get_by_role("button", name="Watch from the start")).to_be_visible()
    for button in ("Rematch", "Play on"):
        expect(page.get_by_role("button", name=button)).to_have_count(0)
    shown = page.locator("body").inner_text()
    assert "<1 ms" not in shown and "0 tokens" not in shown


def test_an_episode_without_a_verdict_says_why_and_leads_to_its_siblings(
    imports: Imports, open_page: Opener
) -> None:
    classes = [one.end.get("failure_class") for one in imports.episodes["sums"]]
    failed = classes.index("unknown")
    page = read(open_page(imports.page("sums", failed)))
    expect(page.locator("#verdict")).to_contain_text("Failed, no verdict")
    expect(page.locator(".verdict__why")).not_to_be_empty()
    siblings = page.locator("#siblings")
    expect(siblings).to_contain_text("of 4 answers to the same prompt")
    expect(siblings.locator("a[aria-current=page]")).to_contain_text("failed")
    before = page.url
    other = siblings.get_by_role("link", name="Previous").or_(siblings.get_by_role("link", name="Next")).first
    other.click()
    expect(page).not_to_have_url(before)
    read(page)
    page.get_by_role("link", name="Compare all").click()
    expect(page.locator(".sibling")).to_have_count(4)
    expect(page.get_by_role("button", name="Play on from here")).to_have_count(0)


def test_keys_go_from_message_to_message_and_links_lead_to_one(imports: Imports, open_page: Opener) -> None:
    page = read(open_page(f"{imports.page('long')}#m301"))
    expect(page.locator("#m301")).to_be_in_viewport()
    expect(page.locator("#m301 article")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("#m302 article")).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(page.locator("#m300 article")).to_be_focused()
    assert page.locator(".msg").count() == 500
    page.mouse.wheel(0, 30_000)
    page.wait_for_timeout(300)
    expect(page.get_by_role("searchbox")).to_be_in_viewport()


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(
    imports: Imports, open_page: Opener, viewport: dict[str, int], theme: str
) -> None:
    for run in ("rich", "sums"):
        page = read(open_page(imports.page(run), viewport=viewport, color_scheme=theme))
        page.get_by_role("searchbox").fill("the")
        expect(page.locator(".find__count")).to_contain_text("1 of")
        rules = COLOURS if theme == "light" else RULES
        assert violations(page, rules=rules) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_visitor_without_rights_sees_that_there_is_a_system_prompt(
    imports: Imports, open_page: Opener, tmp_path: Path
) -> None:
    with serve(test_settings(tmp_path, runs_dir=imports.root, operator_token="t" * 24)) as serving:
        address = imports.page("rich").replace(imports.serving.base_url, serving.base_url)
        page = read(open_page(address, forgive=("401",)))
        expect(page.locator("#m1")).not_to_contain_text("Keep the secret.")
        page.get_by_role("button", name="Show the system prompt").click()
        expect(page.locator("#m1")).to_contain_text("Only operators may read prompts.")

"""A plain Python loop in the browser while it runs: its run, its groups, and an episode under way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, WIDE, Opener
from tests.serving import Serving, serve, test_settings

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.browser


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with serve(test_settings(tmp_path / "data", runs_dir=tmp_path / "runs")) as serving:
        yield serving


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.watchable.plain_loop", str(tmp_path / "runs" / "guesses")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True, cwd=ROOT) as playing:
        yield playing
        playing.kill()


def go_on(loop: subprocess.Popen[str]) -> None:
    assert loop.stdin is not None
    loop.stdin.write("\n")
    loop.stdin.flush()


def no_wider_than_the_screen(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_plain_loop_is_watched_while_it_runs(
    serving: Serving, open_page: Opener, loop: subprocess.Popen[str], viewport: dict[str, int]
) -> None:
    lobby = open_page(f"{serving.base_url}/rollouts", viewport=viewport)
    lobby.locator(".runcard[data-key=guesses]").click(timeout=60_000)
    run = lobby
    expect(run.locator("#figures")).to_contain_text("12 of 16 episodes finished")
    expect(run.locator("#what")).to_contain_text("a guessing loop")
    expect(run.locator(".group")).to_have_count(3)
    expect(run.locator("#failed")).to_contain_text("the grader broke <img src=x")
    no_wider_than_the_screen(run)
    go_on(loop)
    expect(run.locator(".group")).to_have_count(4)
    playing = run.locator(".cell[data-standing=playing]")
    expect(playing).to_have_count(1)
    episode = open_page(playing.get_attribute("href"), viewport=viewport)
    expect(episode.get_by_text("This match: 1 decision").first).to_be_visible()
    expect(episode.locator("#state")).to_contain_text("Live")
    go_on(loop)
    expect(episode.get_by_text("This match: 6 decisions").first).to_be_visible()
    expect(episode.locator("main")).to_contain_text("107505301260286111")
    episode.keyboard.press("i")
    episode.get_by_text("Prompt, reply and tokens as sent").click()
    expect(episode.get_by_role("img", name="Of 4 tokens,")).to_be_visible()
    expect(episode.get_by_text("Guess 6 of 6. <img src=x").last).to_be_visible()
    episode.keyboard.press("Escape")
    no_wider_than_the_screen(episode)
    go_on(loop)
    expect(episode.locator("#state")).to_contain_text("Finished")
    expect(run.locator("#figures")).to_contain_text("16 of 16 episodes finished")
    group = open_page(f"{serving.base_url}/group/prompt-3?run=guesses", viewport=viewport)
    expect(group.locator(".sibling")).to_have_count(4)
    no_wider_than_the_screen(group)
    for page in (run, episode, group):
        assert page.locator("img[src=x]").count() == 0 and page.title() != "taken"


def test_a_killed_loop_is_shown_as_ended_without_a_verdict(
    serving: Serving, open_page: Opener, loop: subprocess.Popen[str]
) -> None:
    go_on(loop)
    run = open_page(f"{serving.base_url}/rollouts")
    run.locator(".runcard[data-key=guesses]").click(timeout=60_000)
    expect(run.locator(".cell[data-standing=playing]")).to_have_count(1)
    loop.kill()
    expect(run.locator(".cell[data-standing=playing]")).to_have_count(0)
    expect(run.locator("#failed")).to_contain_text("the process that played it went away")
    expect(run.locator("#figures")).to_contain_text("13 of 16 episodes finished")

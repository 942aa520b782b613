"""512 episodes in groups of eight are watched in Chromium, wide and on a phone, while TRL trains on them.

The name keeps it out of ``make test``; ``make training`` runs it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, WIDE, Opener, browser, open_page
from tests.serving import Serving, serve, test_settings

ROOT = Path(__file__).resolve().parents[2]

GROUPS, SIZE = 64, 8

TRAINING_S = 1500
"""Seconds that the training may take, on two cores that it shares with the server and Chromium."""

__all__ = ["browser", "open_page"]

pytestmark = [pytest.mark.browser, pytest.mark.timeout(2 * TRAINING_S)]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with serve(test_settings(tmp_path / "data", runs_dir=tmp_path / "runs")) as serving:
        yield serving


def no_wider_than_the_screen(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"


def test_a_training_run_is_watched_to_its_end(serving: Serving, open_page: Opener, tmp_path: Path) -> None:
    python = ROOT / ".venv-trl" / "bin" / "python"
    assert python.exists(), "TRL is not here; install it with: make trl-venv"
    command = [str(python), "-m", "tests.training.peer_trl_watched"]
    with (
        (tmp_path / "trainer.log").open("w") as log,
        subprocess.Popen(
            [*command, str(tmp_path / "runs" / "grpo"), str(GROUPS)], stdout=log, stderr=log, cwd=ROOT,
            env={**os.environ, "TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1"},
        ) as trainer,
    ):  # fmt: skip
        try:
            watch(serving, open_page, trainer)
        finally:
            trainer.kill()
        told = (tmp_path / "trainer.log").read_text()
    assert trainer.returncode == 0, told[-4000:]


def watch(serving: Serving, open_page: Opener, trainer: subprocess.Popen[bytes]) -> None:
    lobby = open_page(f"{serving.base_url}/rollouts")
    lobby.locator(".runcard", has_text="grpo").click(timeout=120_000)
    runs = [lobby, open_page(f"{serving.base_url}/rollouts/grpo", viewport=PHONE)]
    for page in runs:
        expect(page.locator(".group").nth(1)).to_be_visible(timeout=120_000)
        no_wider_than_the_screen(page)
    groups = [
        open_page(f"{serving.base_url}/group/g-000000?run=grpo", viewport=viewport)
        for viewport in (WIDE, PHONE)
    ]
    for page in groups:
        expect(page.locator(".sibling")).to_have_count(SIZE)
        expect(page.locator("#figures")).to_contain_text(f"{SIZE} of {SIZE} finished")
        no_wider_than_the_screen(page)
    assert trainer.poll() is None, "it was over before anybody could watch it"
    assert trainer.wait(TRAINING_S) == 0
    for page in runs:
        expect(page.locator("#figures")).to_contain_text(f"{GROUPS * SIZE} episodes finished")
        expect(page.locator(".group")).to_have_count(GROUPS)
        no_wider_than_the_screen(page)

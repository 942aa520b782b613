"""docs/write-an-environment.md takes an outsider to their own game: its blocks are run as they stand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect, sync_playwright

from tests.serving import ROOT, serve_process

PAGE = ROOT / "docs" / "write-an-environment.md"
FILE = re.compile(r"^`([\w./]+)`\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
METADATA = "Metadata-Version: 2.1\nName: noughts\nVersion: 0.1.0\n"


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The page's files in a folder, registered as an installed package would be."""
    folder = tmp_path_factory.mktemp("outsider")
    for name, text in FILE.findall(PAGE.read_text("utf-8")):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    named = re.search(
        r"\[project\.entry-points\.(.*?)\n\n", (folder / "pyproject.toml").read_text(), re.DOTALL
    )
    assert named is not None
    installed = folder / "noughts-0.1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(METADATA)
    (installed / "entry_points.txt").write_text("[" + named[1].replace('"', ""))
    yield folder


def run(outside: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(outside)},
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_the_game_of_the_page_keeps_the_contract(outside: Path) -> None:
    command = re.search(r"python -c '(.*?)'$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert command is not None
    checked = run(outside, "-c", command[1])
    assert checked.returncode == 0, checked.stderr


def test_it_is_played_from_the_command_line(outside: Path) -> None:
    played = run(outside, "-m", "spectator.cli", "play", "noughts", "--seed", "3")
    assert played.returncode == 0, played.stderr
    events = [json.loads(line) for line in played.stdout.splitlines()]
    assert events[0]["data"]["environment"] == "noughts"
    assert {event["data"]["actor"] for event in events if event["type"] == "decision.made"} == {"x", "o"}
    assert events[-1]["data"]["reason"] == "finished"


@pytest.mark.browser
def test_it_is_in_the_catalogue_and_its_panel_in_the_cockpit(
    outside: Path, tmp_path: Path, chromium: str
) -> None:
    with (
        serve_process(tmp_path, variables={"PYTHONPATH": str(outside)}) as server,
        httpx.Client(base_url=server.base_url, timeout=30) as client,
        sync_playwright() as playwright,
    ):
        begun = client.post(
            "/custom/start_episode", json={"environment": "noughts", "seed": 3, "pace": "max"}
        )
        assert begun.status_code == 202, begun.text
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        page = browser.new_page()
        page.set_default_timeout(20_000)
        page.goto(f"{server.base_url}/watch/{begun.json()['episode_id']}")
        expect(page.locator(".noughts__cell")).to_have_count(9, timeout=20_000)
        expect(page.locator(".noughts__verdict")).to_have_text(re.compile("won|drawn"), timeout=20_000)
        expect(page.locator("#mind")).to_contain_text("Crosses")
        page.goto(f"{server.base_url}/wall")
        client.post(
            "/custom/start_episode", json={"environment": "noughts", "seed": 3, "pace": "broadcast"}
        ).raise_for_status()
        marks = page.locator(".tile__picture g path:not([d=''])")
        expect(marks.nth(4)).to_be_visible(timeout=20_000)
        browser.close()

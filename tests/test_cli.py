"""The command line does what it says, exits 0 only on success, and is light to start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from spectator import __version__
from tests.commands import spectator
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint, write_captains


def test_play_prints_the_episode_as_ndjson() -> None:
    result = spectator("play", "counting", "--seed", "3", "--option", "turns=2")
    assert result.exit_code == 0
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["type"] == "episode.started"
    assert events[0]["data"]["seed"] == 3
    assert events[-1]["type"] == "episode.ended"
    assert events[-1]["data"]["reason"] == "finished"


def test_an_exported_episode_is_the_played_one_byte_for_byte(tmp_path: Path) -> None:
    played = spectator("play", "counting", "--data-dir", str(tmp_path))
    episode_id = json.loads(played.stdout.splitlines()[0])["episode_id"]
    exported = spectator("export", episode_id, "--data-dir", str(tmp_path))
    assert exported.exit_code == 0
    assert exported.stdout == played.stdout
    tail = spectator("export", episode_id, "--data-dir", str(tmp_path), "--after-seq", "3")
    assert tail.stdout == "".join(played.stdout.splitlines(keepends=True)[3:])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["play", "cuonting"], "environment: unknown 'cuonting'; did you mean 'counting'?"),
        (["play", "counting", "--option", "turns=0"], "options.turns"),
        (["play", "counting", "--option", "turns=many"], "options.turns"),
        (["play", "counting", "--option", "tunrs=3"], "options.tunrs"),
        (["play", "counting", "--option", "turns"], "NAME=VALUE"),
        (["play", "counting", "--captain", "nobody"], "captain_preset: unknown 'nobody'"),
        (["play", "counting", "--pace", "warp"], "warp"),
        (["play", "counting", "--seed", "-1"], "-1"),
        (["play", "counting", "--seed", str(2**60)], "seed"),
        (["simulate", "counting"], "does not support simulate"),
        (["export", "nobody", "--data-dir", "."], "no journal"),
        (["nonsense"], "No such command"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments: list[str], says: str) -> None:
    result = spectator(*arguments)
    assert result.exit_code != 0
    assert says in result.output
    assert "Traceback" not in result.output


def test_the_catalogue_lists_every_world() -> None:
    listing = json.loads(spectator("catalog", "--json").stdout)
    assert {"counting", "cricket"} <= {world["name"] for world in listing}
    assert "counting" in spectator("catalog").stdout


@pytest.mark.parametrize("command", ["catalog", "export", "play", "serve", "simulate", "verify", "watch"])
def test_help_shows_an_example(command: str) -> None:
    result = spectator(command, "--help") if command != "serve" else spectator("--help")
    assert result.exit_code == 0
    if command != "serve":
        assert "Example:" in result.stdout


def test_the_version_is_the_package_s() -> None:
    assert __version__ in spectator("--version").stdout


@pytest.mark.usefixtures("real_starts")
@pytest.mark.parametrize("module", ["spectator", "spectator.cli"])
def test_neither_the_package_nor_its_command_line_imports_a_heavy_room(module: str) -> None:
    code = (
        f"import sys, {module};"
        "print([m for m in ('pydantic', 'numpy', 'sqlalchemy', 'fastapi', 'uvicorn') if m in sys.modules])"
    )
    heavy = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert heavy.stdout.strip() == "[]"


def test_a_model_plays_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(counter) as fake:
        captains = write_captains(tmp_path / "captains.toml", mine={"base_url": fake.base_url})
        monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(captains))
        result = spectator("play", "counting", "--captain", "llm:mine", "--option", "turns=2")
    assert result.exit_code == 0, result.output
    events = [json.loads(line) for line in result.stdout.splitlines()]
    made = [event["data"] for event in events if event["type"] == "decision.made"]
    assert [(one["source"], one["model"]) for one in made] == [("model", "mine-1")] * 2


def test_the_catalogue_says_what_a_model_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keyless = {"base_url": "https://example.org/v1", "api_key_env": "NO_SUCH_KEY"}
    captains = write_captains(tmp_path / "captains.toml", mine=keyless)
    monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(captains))
    assert "llm:mine needs a key in the variable NO_SUCH_KEY" in spectator("catalog").stdout
    listed = {world["name"]: world for world in json.loads(spectator("catalog", "--json").stdout)}
    assert listed["counting"]["missing"]["llm:mine"] == "needs a key in the variable NO_SUCH_KEY"
    assert "llm_live" in listed["cricket"]["opponents"]
    refused = spectator("play", "counting", "--captain", "llm:mine")
    assert refused.exit_code == 1
    assert "needs a key in the variable NO_SUCH_KEY" in refused.output


def test_a_wrong_captains_file_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(tmp_path / "nowhere.toml"))
    refused = spectator("catalog")
    assert refused.exit_code == 1
    assert "nowhere.toml cannot be read" in refused.output and "Traceback" not in refused.output

"""docs/tutorials/train-a-captain.md: its commands run, at a small size, with weights that ship.

`captain_with_torch.py` runs its training, and `peer_trl.py` its TRL, where torch is.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest.mock import patch

import httpx
import pytest
from click.testing import Result

from spectator.cli.captain import train
from spectator.environments.cricket.trained.captain import CARD, FOLDER, WEIGHTS, card_of
from tests.commands import spectator
from tests.serving import ROOT, serve, test_settings

PAGE = (ROOT / "docs" / "tutorials" / "train-a-captain.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line
    for kind, block in BLOCKS
    if kind == ""
    for line in block.replace("\\\n", "").splitlines()
    if line.startswith("spectator ")
]
SMALL = {
    "--matches 100": "--matches 2 --option max_overs=1 --jobs 1",
    "--opponent heuristic": "--opponent heuristic --option max_overs=1",
    " > match.ndjson": "",
}
ELSEWHERE = ("spectator train", "spectator serve")
"""Commands that other tests run."""


def invoke(command: str) -> Result:
    return spectator(*shlex.split(command)[1:])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder as it is after the training."""
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "my-captain" / "captain").mkdir(parents=True)
    for name in (WEIGHTS, CARD):
        shutil.copy(FOLDER / name, folder / "my-captain" / "captain" / name)
    [table] = [block for kind, block in BLOCKS if kind == "toml"]
    (folder / "captains.toml").write_text(table)
    before = Path.cwd()
    os.chdir(folder)
    with patch.dict(os.environ, {"SPECTATOR_CAPTAINS_FILE": str(folder / "captains.toml")}):
        yield folder
    os.chdir(before)


@pytest.fixture(scope="module")
def done(folder: Path) -> Mapping[str, Result]:
    """The commands of the page after the training, in their order, by the first words of each."""
    found = {}
    for command in COMMANDS:
        if not command.startswith(ELSEWHERE):
            for large, small in SMALL.items():
                command = command.replace(large, small)
            found[" ".join(command.split()[:2])] = invoke(command)
    return found


def test_the_page_is_short_and_linked() -> None:
    assert len(PAGE.splitlines()) < 150
    for page in ("README.md", "docs/trained-captain.md", "docs/captains.md", "docs/training/README.md"):
        assert "tutorials/train-a-captain.md" in (ROOT / page).read_text(encoding="utf-8")


def test_the_command_that_trains_has_these_options() -> None:
    [command] = [one for one in COMMANDS if one.startswith("spectator train")]
    given = train.make_context("train", shlex.split(command)[2:]).params
    assert (given["recipe"], given["width"], given["supervised_s"]) == ("cricket-captain", 128, 2100.0)


def test_every_command_after_the_training_works(done: Mapping[str, Result]) -> None:
    assert list(done) == [
        f"spectator {one}" for one in ("catalog", "play", "evaluate", "verify-bundle", "board")
    ]
    assert {name: one.output for name, one in done.items() if one.exit_code} == {}
    assert "trained, " in done["spectator catalog"].output and ", mine" in done["spectator catalog"].output
    assert "mine made" in done["spectator evaluate"].output
    assert "verified: every decision" in done["spectator verify-bundle"].output


def test_its_match_names_it_and_the_digest_of_its_weights(done: Mapping[str, Result]) -> None:
    events = [json.loads(line) for line in done["spectator play"].stdout.splitlines()]
    card = card_of()
    assert card is not None
    assert events[0]["data"]["seats"]["home"] == {
        "policy": "mine", "label": "My captain", "source": "model", "fingerprint": card.sha256[:16],
    }  # fmt: skip
    made = [one["data"] for one in events if one["type"] == "decision.made"]
    assert {one["source"] for one in made if one["actor"] == "home"} == {"model"}


def test_a_server_seats_it_and_shows_the_result(done: Mapping[str, Result], folder: Path) -> None:
    settings = test_settings(
        folder / "data", environment="cricket", captains_file=folder / "captains.toml", max_episodes=2
    )
    with serve(settings) as app, httpx.Client(base_url=app.base_url, timeout=30) as client:
        worlds = client.get("/custom/catalog").json()["environments"]
        board = client.get("/api/leaderboard").json()
        begun = client.post(
            "/custom/start_episode",
            json={"captain_preset": "mine", "opponent_choice": "mine", "max_overs": 1, "pace": "max"},
        )
    [cricket] = [one for one in worlds if one["name"] == "cricket"]
    for seat in ("captains", "opponents"):
        [mine] = [one for one in cricket[seat] if one["name"] == "mine"]
        assert (mine["label"], mine["source"], mine["missing"]) == ("My captain", "model", None)
    assert cricket["suggested_captain"] == "trained"
    assert "mine" in {captain["name"] for one in board["verified"] for captain in one["captains"]}
    assert begun.status_code == 202, begun.text


def test_a_bundle_verifies_without_the_weights_and_not_with_another_digest(
    done: Mapping[str, Result], folder: Path
) -> None:
    with patch.dict(os.environ):
        del os.environ["SPECTATOR_CAPTAINS_FILE"]
        assert invoke("spectator verify-bundle bundle").exit_code == 0
        manifest = folder / "bundle" / "manifest.json"
        whole = manifest.read_text()
        card = card_of()
        assert card is not None
        manifest.write_text(whole.replace(card.sha256[:16], "0123456789abcdef"))
        wrong = invoke("spectator verify-bundle bundle")
        manifest.write_text(whole)
    assert wrong.exit_code == 1
    assert (
        f"captains.mine.fingerprint: is claimed to be '0123456789abcdef', but weights '{card.sha256[:12]}'"
        in (wrong.output)
    )


def test_the_examples_of_counting_are_those_of_its_captain() -> None:
    [block] = [block for kind, block in BLOCKS if kind == "python"]
    made: dict[str, object] = {}
    exec(block, made)
    examples, episode = made["examples"], made["episode"]
    assert isinstance(examples, list) and len(examples) == 3 * 64
    assert getattr(episode, "value", None) == 1.0
    assert examples[1]["prompt"][1]["content"] == examples[0]["completion"][0]["content"]

"""The command of docs/tutorials/train-a-captain.md at a tiny size, with torch: part of `make training`.

The name keeps it out of ``make test``, which collects ``test_*.py``.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from spectator.cli import main
from tests.training.test_tutorial import BLOCKS, COMMANDS

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.timeout(600)

TINY = {
    "--examples": "8", "--supervised": "8", "--self-play": "1", "--seeds": "1", "--width": "32",
    "--layers": "1", "--decisions": "40", "--matches": "4", "--vocabulary": "20", "--tokens": "4000",
}  # fmt: skip
"""Instead of the page's values."""


def command(folder: Path) -> list[str]:
    """The page's command at a tiny size, without `spectator`."""
    [line] = [one for one in COMMANDS if one.startswith("spectator train")]
    words = shlex.split(line.replace("my-captain", str(folder)))[1:]
    assert set(TINY) <= set(words)
    return [TINY.get(before, word) for before, word in zip(["", *words], words, strict=False)]


def train(folder: Path, *further: str) -> str:
    python = Path(os.environ.get("SPECTATOR_TORCH_PYTHON", ROOT / ".venv-trl" / "bin" / "python"))
    assert python.exists(), "torch is not here; install it with: make trl-venv"
    done = subprocess.run(
        [str(python), "-m", "spectator.cli", *command(folder), *further],
        capture_output=True, text=True, timeout=560, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captain")
    train(folder)
    return folder


def results(folder: Path) -> Any:
    return json.loads((folder / "results.json").read_text())


def test_it_ends_with_weights_that_play(folder: Path) -> None:
    from spectator.environments.cricket.trained.network import Memory, Network

    captain = Network.load(folder / "captain")
    memory = Memory(captain)
    chances = memory.chances(memory.read(captain.tokenizer.encode("toss 5 pitch even even\n>")), [1, 2, 3])
    assert len(chances) == 3


def test_training_goes_on_from_a_captains_weights(folder: Path, tmp_path: Path) -> None:
    train(tmp_path, "--start", str(folder / "captain"), "--self-play", "0", "--seeds", "0")
    assert (tmp_path / "words.json").read_text() == (folder / "words.json").read_text()
    before, after = (np.load(one / "supervised.npz")["embedding.weight"] for one in (folder, tmp_path))
    likeness = np.corrcoef(before.ravel(), after.ravel())[0, 1]
    assert likeness > 0.8, "it begins with what was learnt before"


def test_it_plays_under_the_name_of_its_owner(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [table] = [block for kind, block in BLOCKS if kind == "toml"]
    (folder / "captains.toml").write_text(table.replace("my-captain/", ""))
    monkeypatch.setenv("SPECTATOR_CAPTAINS_FILE", str(folder / "captains.toml"))
    small = ["--option", "max_overs=1", "--option", "decisions=over"]
    done = CliRunner().invoke(main, ["play", "cricket", "--captain", "mine", *small])
    assert done.exit_code == 0, done.output
    made = [
        one["data"] for one in map(json.loads, done.stdout.splitlines()) if one["type"] == "decision.made"
    ]
    assert {one["source"] for one in made if one["actor"] == "home"} == {"model"}


def test_it_keeps_a_curve_and_figures(folder: Path) -> None:
    told = results(folder)
    assert told["supervised"]["steps"] > 0
    assert [row["step"] for row in told["curve"]] == list(range(1, len(told["curve"]) + 1))
    assert {"worth_bat", "worth_bowl", "worth_se", "entropy", "kl_start", "tokens"} <= told["curve"][0].keys()
    assert told["eval self-play/heuristic"]["matches"] == 2


def test_a_run_that_is_complete_learns_nothing_more(folder: Path) -> None:
    before = results(folder)
    assert "kl of acts" not in train(folder)
    assert results(folder) == before


def spectator(*command: str) -> subprocess.Popen[str]:
    python = os.environ.get("SPECTATOR_TORCH_PYTHON", str(ROOT / ".venv-trl" / "bin" / "python"))
    return subprocess.Popen(
        [python, "-m", "spectator.cli", *command], stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def self_play(folder: Path, seconds: float) -> subprocess.Popen[str]:
    """Continue with self-play in a folder with a supervised network."""
    size = "--workers 1 --seeds 0 --decisions 150 --matches 2".split()
    return spectator("train", "cricket-captain", "--folder", str(folder), "--self-play", str(seconds), *size)


def test_self_play_that_was_killed_continues_its_run(folder: Path, tmp_path: Path) -> None:
    for name in ("words.json", "supervised.npz"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    with self_play(tmp_path, 500) as killed:
        assert killed.stdout is not None
        steps = (line for line in killed.stdout if "self-play" in line)
        next(steps), next(steps)
        killed.kill()
    before = len(results(tmp_path)["curve"])
    spent_s = sum(row["play_s"] + row["learn_s"] for row in results(tmp_path)["curve"])
    with self_play(tmp_path, spent_s + 0.1) as resumed:
        resumed.communicate(timeout=300)
    assert resumed.returncode == 0
    curve = results(tmp_path)["curve"]
    assert [row["step"] for row in curve] == list(range(1, before + 2))
    with spectator("rollouts", "status", str(tmp_path / "run")) as status:
        shown, _ = status.communicate(timeout=60)
    assert status.returncode == 0
    versions = [line.split()[0] for line in shown.splitlines() if line.startswith("step-")]
    assert versions[-1] == f"step-{before}"
    assert "own share 100 %" in shown

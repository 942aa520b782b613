"""Recorded episodes as an evaluation log that inspect_ai itself reads."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from spectator.journal.encoding import read_jsonl
from tests.commands import spectator
from tests.rollouts.exported_run import SIZE, play_run

PEER = Path(__file__).with_name("peer_inspect.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run with its log, and its rows in our own form beside it."""
    run, out = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("logs")
    play_run(run, seed=5, episodes=2 * SIZE)
    for form, name in (("inspect", "log.json"), ("episode-record", "records.jsonl")):
        done = spectator("rollouts", "export", run, "--format", form, "--out", out / name)
        assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def log(folder: Path) -> Any:
    return json.loads((folder / "log.json").read_text())


def rewards(folder: Path) -> dict[str, float]:
    rows: list[Any] = list(read_jsonl(folder / "records.jsonl"))
    return {row["episode_id"]: row["reward"] for row in rows}


def test_a_log_has_a_sample_for_each_episode_and_what_it_scored(folder: Path, log: Any) -> None:
    known = rewards(folder)
    scored = {one["id"]: one["scores"]["reward"]["value"] for one in log["samples"] if one["scores"]}
    assert scored == known and len(known) > 2
    assert log["eval"]["dataset"]["sample_ids"] == [one["id"] for one in log["samples"]]
    (score,) = log["results"]["scores"]
    assert score["metrics"]["mean"]["value"] == pytest.approx(sum(known.values()) / len(known))
    for sample in log["samples"]:
        assert sample["metadata"]["seed"] >= 0 and sample["metadata"]["digest"]
        said = [one for one in sample["messages"] if one["role"] == "assistant"]
        assert sample["turn_count"] == len(said) and all("turn" in one["metadata"] for one in said)
        assert all(one["content"][0] == {"type": "reasoning", "reasoning": "Let me see."} for one in said)


def test_an_empty_choice_is_a_log_without_samples_and_a_table_is_refused(tmp_path: Path) -> None:
    played = tmp_path / "played"
    done = spectator(
        "evaluate", "counting", "--captains", "heuristic,random", "--matches", "2", "--out", played
    )
    assert done.exit_code == 0, done.output
    chosen = ["export", "--data-dir", str(played), "--all", "--format", "inspect"]
    done = spectator(*chosen)
    assert json.loads(done.stdout)["samples"] == [] and "in which no model decided" in done.stderr
    done = spectator(*chosen, "--out", tmp_path / "log.parquet")
    assert done.exit_code == 2 and "cannot be a .parquet file" in done.stderr


@pytest.mark.openenv
def test_inspect_ai_reads_it(inspect_python: str, folder: Path, log: Any) -> None:
    done = subprocess.run(
        [inspect_python, str(PEER), str(folder / "log.json")],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["status"] == "success" and told["task"] == "spectator/counting"
    assert not told["head_has_samples"] and told["total"] == len(log["samples"])
    assert told["metrics"].keys() == {"mean", "stderr", "own_share"}
    assert {one["id"]: one["reward"] for one in told["samples"] if one["reward"] is not None} == rewards(
        folder
    )
    for read, written in zip(told["samples"], log["samples"], strict=True):
        assert read["roles"] == [message["role"] for message in written["messages"]]
        assert read["thoughts"] == read["roles"].count("assistant") > 0
        assert len(read["calls"]) == read["thoughts"] and read["tokens"] > 0
        assert all(arguments["text"].startswith("ACTION: ") for arguments in read["calls"])
    assert told["tokens"] == sum(one["tokens"] for one in told["samples"])

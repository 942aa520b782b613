"""Exports read by those they are for: ``datasets``, chat templates, OpenEnv, the Hub's traces."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from spectator.journal.encoding import read_jsonl
from spectator.journal.notes import Note, NoteStore
from tests.commands import spectator
from tests.rollouts.exported_run import SIZE, TURNS, fork_a_miscount, play_run

pytestmark = pytest.mark.openenv

GROUPS = 3

PEER = Path(__file__).with_name("peer_consumers.py")
FILES = [f"{form}.{kind}" for form in ("messages", "groups", "preferences") for kind in ("jsonl", "parquet")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run, exported in every form."""
    run, out = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("exports")
    play_run(run, seed=5, episodes=GROUPS * SIZE)
    wanted = [*FILES, "tokens.parquet", "results.jsonl", "traces"]
    for name in wanted:
        form = {"results.jsonl": "episode-record"}.get(name, name.partition(".")[0])
        arguments = ["rollouts", "export", str(run), "--format", form, "--out", str(out / name)]
        result = spectator(*arguments)
        assert result.exit_code == 0, result.output
    return out


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a fork and with labels by people, exported by the command for any journal."""
    run, out = tmp_path_factory.mktemp("judged"), tmp_path_factory.mktemp("judged-exports")
    play_run(run)
    parent, fork = asyncio.run(fork_a_miscount(run))
    book = NoteStore(run / "notes.ndjson")
    for number, (episode_id, label) in enumerate(((parent, "good"), (fork, "bad"))):
        book.add(Note(f"n-{number}", episode_id, None, label, "", "Ada", "2026-11-23T00:00:00Z"))
    for name in (*FILES, "traces"):
        export_recorded(run, name.partition(".")[0], out / name, "--all")
    for kind in ("jsonl", "parquet"):
        export_recorded(run, "preferences", out / f"forked.{kind}", parent, fork)
        notes = ("--notes", str(run / "notes.ndjson"))
        export_recorded(run, "preferences", out / f"noted.{kind}", "--all", *notes)
    return out


def export_recorded(run: Path, form: str, out: Path, *which: str) -> None:
    asked = ["export", *which, "--data-dir", str(run), "--format", form, "--out", str(out)]
    result = spectator(*asked)
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module")
def consumed(openenv_python: str, folder: Path, judged: Path) -> list[dict[str, Any]]:
    """What the packages make of both; to import them takes longer than all else."""
    done = subprocess.run(
        [openenv_python, str(PEER), str(folder), str(judged)],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    answer: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.fixture(scope="module")
def told(consumed: list[dict[str, Any]]) -> dict[str, Any]:
    return consumed[0]


def test_forks_and_labels_become_pairs_that_a_chat_template_renders(
    judged: Path, consumed: list[dict[str, Any]]
) -> None:
    told = consumed[1]
    for name in ("preferences", "forked", "noted"):
        pairs = lines(judged, f"{name}.jsonl")
        assert len(told[name]) == len(told[f"{name}/rejected"]) == len(pairs) > 0
        assert all(a != b for a, b in zip(told[name], told[f"{name}/rejected"], strict=True))
    (by_reward,), (by_label,) = lines(judged, "forked.jsonl"), lines(judged, "noted.jsonl")
    for pair in (by_reward, by_label):
        assert (pair["kind"], pair["margin"], pair["prompt"]) == ("fork", 1.0, by_reward["prompt"])
    assert by_label["chosen"] == by_reward["rejected"], "people may judge otherwise"
    assert by_label["rejected"] == by_reward["chosen"]
    assert len(told["messages"]) == len(lines(judged, "messages.jsonl")) > 0
    assert {trace["session_id"] for trace in told["traces"]} == {
        path.stem for path in (judged / "traces").iterdir()
    }


def lines(folder: Path, name: str) -> list[Any]:
    return list(read_jsonl(folder / name))


def test_chat_templates_render_every_call_every_group_every_pair(folder: Path, told: dict[str, Any]) -> None:
    for form in ("messages", "preferences"):
        assert len(told[form]) == len(lines(folder, f"{form}.jsonl")) > 0
    assert len(told["groups"]) == sum(group["usable"] > 0 for group in lines(folder, "groups.jsonl"))
    for row, text in zip(lines(folder, "messages.jsonl"), told["messages"], strict=True):
        assert text.startswith('<tools>{"name": "say"') and text.count("<system>") == 1
        for message in [*row["messages"], *row["completion"]]:
            for call in message.get("tool_calls", ()):
                arguments = call["function"]["arguments"]
                assert " ".join(f"{name}={json.dumps(value)}" for name, value in arguments.items()) in text
        assert text.endswith("</assistant>")
    whole = [text for text in told["groups"] if text.count("<assistant>") == TURNS]
    assert whole and all(text.count("<think>Let me see.</think>") == TURNS for text in whole)


def test_datasets_loads_tables_and_lines(folder: Path, told: dict[str, Any]) -> None:
    groups = lines(folder, "groups.jsonl")
    assert len(groups) == GROUPS and sum(group["usable"] for group in groups) > SIZE
    assert told["rewards"] == [group["rewards"] for group in groups]
    calls = lines(folder, "messages.jsonl")
    assert told["trained_tokens"] == sum(sum(row["mask"]) for row in calls) > 0


def test_openenvs_own_collector_goes_on_in_our_records(folder: Path, told: dict[str, Any]) -> None:
    ours = {one for group in lines(folder, "groups.jsonl") for one in group["episode_ids"]}
    assert set(told["records"]["ids"]) == ours
    assert told["records"]["rows"] == len(ours) + 1
    assert set(told["records"]["rewards"]) == {0.0, 1.0}


def test_the_hubs_loader_takes_our_traces_for_sessions(folder: Path, told: dict[str, Any]) -> None:
    """``datasets`` tells them from plain rows and reads messages, through the converter that the Hub uses."""
    ours = {path.stem for path in (folder / "traces").iterdir()}
    assert {trace["session_id"] for trace in told["traces"]} == ours
    for trace in told["traces"]:
        assert trace["asked"] >= 1
        assert {"system", "user"} <= set(trace["roles"])

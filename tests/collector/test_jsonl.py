"""Collected episodes in files: the loader is the inverse of the saver, whatever happens in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from spectator.collector.records import (
    EpisodeRecord,
    StepRecord,
    load_episodes_jsonl,
    save_episodes_jsonl,
    save_truths_jsonl,
)
from spectator.errors import ConfigurationError


def step(number: int, **changes: Any) -> StepRecord:
    return StepRecord(
        **{
            "step": number,
            "prompt": "rules\n" + "turn\n" * number,
            "completion": "go",
            "action": {"tool": "collect"},
            "parsed_ok": True,
            "source": "model",
            "reward": 0.0,
            **changes,
        }
    )


def episode(steps: int = 3, **changes: Any) -> EpisodeRecord:
    return EpisodeRecord(
        **{
            "episode_id": "ep-1",
            "environment": "counting",
            "environment_version": "1",
            "seed": 7,
            "end_reason": "finished",
            "terminated": True,
            "truncated": False,
            "total_reward": 0.5,
            "steps": [step(number) for number in range(1, steps + 1)],
            **changes,
        }
    )


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "e.jsonl"
    saved = [episode(), episode(0, total_reward=None, failure_class="env_infra"), episode(9)]
    assert save_episodes_jsonl(saved, path) == 3
    loaded = load_episodes_jsonl(path)
    assert (loaded.episodes, loaded.bad_lines) == (saved, [])


texts = st.text(st.characters(exclude_categories=()), max_size=40)


@example(prompts=["é \ud83d"], completion="\ud83d", action={"a": "\ude00"})
@settings(max_examples=60)
@given(
    prompts=st.lists(texts, max_size=6),
    completion=texts,
    action=st.dictionaries(st.text(max_size=40), texts, max_size=3),
)
def test_any_text_survives(
    tmp_path_factory: pytest.TempPathFactory, prompts: list[str], completion: str, action: dict[str, str]
) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "e.jsonl"
    steps = [
        step(number, prompt=prompt, completion=completion, action=action)
        for number, prompt in enumerate(prompts, 1)
    ]
    saved = episode(steps=0).model_copy(update={"steps": tuple(steps)})
    save_episodes_jsonl([saved], path)
    assert load_episodes_jsonl(path).episodes == [saved]


def test_size_is_linear_in_steps(tmp_path: Path) -> None:
    def size(steps: int) -> int:
        save_episodes_jsonl([episode(steps)], tmp_path / "e.jsonl")
        return (tmp_path / "e.jsonl").stat().st_size

    assert size(400) < 2.1 * size(200)


def test_bad_lines_are_reported_and_the_rest_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    save_episodes_jsonl([episode(), episode()], path)
    good = path.read_text().splitlines()
    lines = [
        good[0], "", "{", '"text"', good[0].replace('"version":1', '"version":2'),
        good[0].replace('"seed":7', '"seed":"x"'), good[0].replace('"prompt_kept":0', '"prompt_kept":-1'),
        good[0].replace('"reward":0.0', '"reward":NaN'), good[1], good[1][:50],
        good[0].replace('"steps":[{', '"steps":[5,{'), good[0].replace('"steps":[', '"steps":7,"x":['),
    ]  # fmt: skip
    path.write_text("\n".join(lines))
    loaded = load_episodes_jsonl(str(path))
    assert len(loaded) == 2
    assert [bad.number for bad in loaded.bad_lines] == [3, 4, 5, 6, 7, 8, 10, 11, 12]
    assert "version" in loaded.bad_lines[2].reason
    assert loaded.bad_lines[3].reason.startswith("seed")


def test_appending_after_a_death_loses_only_the_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    save_episodes_jsonl([episode(), episode()], path)
    path.write_bytes(path.read_bytes()[:-20])
    assert save_episodes_jsonl([episode(1)], path, append=True) == 1
    loaded = load_episodes_jsonl(path)
    assert [len(one.steps) for one in loaded] == [3, 1]
    assert [bad.number for bad in loaded.bad_lines] == [2]


@pytest.mark.parametrize("append", [False, True])
def test_a_failure_while_writing_leaves_the_file_as_it_was(tmp_path: Path, append: bool) -> None:
    path = tmp_path / "e.jsonl"
    save_episodes_jsonl([episode()], path)
    before = path.read_bytes()

    def failing() -> Any:
        yield episode()
        raise RuntimeError("the model went away")

    with pytest.raises(RuntimeError):
        save_episodes_jsonl(failing(), path, append=append)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["e.jsonl"]


FULL = """
import resource, sys
from pathlib import Path
from spectator.collector.records import load_episodes_jsonl, save_episodes_jsonl
path = Path(sys.argv[1])
some = load_episodes_jsonl(path).episodes
size = path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + int(1.5 * size), resource.RLIM_INFINITY))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    save_episodes_jsonl([*some, *some], path, append=True)
except OSError:
    sys.exit(7)
"""


def test_a_disk_that_fills_while_adding_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """Half a line was left, and a whole one before it that the next try added once more."""
    path = tmp_path / "e.jsonl"
    save_episodes_jsonl([episode()], path)
    before = path.read_bytes()
    assert subprocess.run([sys.executable, "-c", FULL, str(path)], timeout=60).returncode == 7
    assert path.read_bytes() == before


KILLED = """
import os, signal, sys
from pathlib import Path
from spectator.collector.records import load_episodes_jsonl, save_episodes_jsonl
path = Path(sys.argv[1])
one = load_episodes_jsonl(path).episodes[0]
def dying():
    for _ in range(1000):
        yield one
    os.kill(os.getpid(), signal.SIGKILL)
save_episodes_jsonl(dying(), path)
"""


def test_a_kill_while_writing_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    save_episodes_jsonl([episode()], path)
    before = path.read_bytes()
    died = subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=60)
    assert died.returncode == -signal.SIGKILL
    assert path.read_bytes() == before


def test_what_is_no_ordinary_file_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="ordinary"):
        save_episodes_jsonl([episode()], tmp_path)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"reward": float("nan")}, "reward"),
        ({"terminated": True, "truncated": True}, "terminated"),
        ({"token_ids": (1, 2), "logprobs": (0.0,)}, "logprobs"),
        ({"step": 0}, "step"),
    ],
)
def test_a_wrong_step_is_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        step(1, **{"step": 1, **changes})


def test_steps_are_numbered_in_order() -> None:
    with pytest.raises(ValidationError, match="numbered"):
        EpisodeRecord.model_validate({**episode(0).model_dump(), "steps": [step(2).model_dump()]})


def test_the_truth_goes_into_a_file_of_its_own(tmp_path: Path) -> None:
    assert "truth" not in EpisodeRecord.model_fields
    path = tmp_path / "truth.jsonl"
    save_truths_jsonl({"ep-1": {"mass_gev": 125.0}}, path)
    assert json.loads(path.read_text()) == {"episode_id": "ep-1", "truth": {"mass_gev": 125.0}}

"""An imported episode is what it says, wherever it stands in a file; a group is the answers to one prompt."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.importing.generated import GENERATED, text_of
from tests.importing.imported import Imported, episodes_in, lines, run_import

Row = dict[str, Any]


def nemo(agent: str, task: int, question: str, answer: str, **more: Any) -> Row:
    return {
        "responses_create_params": {"input": [{"role": "user", "content": question}]},
        "response": {"id": "resp", "model": "m", "output": [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": answer}]},
        ]},
        "reward": 1.0, "_ng_task_index": task, "agent_ref": {"name": agent}, **more,
    }  # fmt: skip


def result(env: str | None, example: int, question: str, answer: str) -> Row:
    named = {} if env is None else {"env_id": env}
    return {
        "example_id": example, "prompt": [{"role": "user", "content": question}],
        "completion": [{"role": "assistant", "content": answer}], "reward": 1.0, **named,
    }  # fmt: skip


def known(folder: Path) -> list[tuple[str, str | None, float | None]]:
    return [(one.summary.episode_id, one.summary.group_id, one.summary.score) for one in episodes_in(folder)]


def sizes(played: Sequence[Imported]) -> dict[str | None, int]:
    return dict(Counter(one.summary.group_id for one in played))


def test_a_row_that_moved_up_is_the_same_and_a_new_one_is_new(tmp_path: Path) -> None:
    rows = [result(None, 0, "q0", "a"), result(None, 0, "q0", ""), result(None, 1, "q1", "b")]
    path, run = tmp_path / "results.jsonl", tmp_path / "run"
    run_import(lines(path, *rows), into=run)
    done = run_import(lines(path, rows[0], rows[2], result(None, 0, "q0", "c")), into=run)
    assert "1 episode imported, 2 already there" in done.output
    assert sorted(sizes(episodes_in(run)).values()) == [1, 3]


def test_tasks_of_two_environments_are_two_groups(tmp_path: Path) -> None:
    one = lines(tmp_path / "one.jsonl", *[nemo("adder", 0, "1 + 1?", str(n)) for n in range(2)])
    other = lines(tmp_path / "other.jsonl", *[nemo("poet", 0, "A poem.", str(n)) for n in range(3)])
    again = lines(tmp_path / "again.jsonl", *[nemo("adder", 0, "2 + 2?", str(n)) for n in range(4)])
    run = tmp_path / "run"
    assert run_import(one, other, again, into=run).exit_code == 0
    found = sizes(episodes_in(run))
    assert sorted(found.values()) == [2, 3, 4]
    assert sorted(str(name).rsplit(":", 1)[0] for name in found) == ["adder:task-0"] * 2 + ["poet:task-0"]


def test_an_own_rollout_number_makes_the_same_row_the_same_rollout(tmp_path: Path) -> None:
    row = nemo("adder", 0, "1 + 1?", "2", _ng_rollout_index=0)
    path = lines(tmp_path / "rollouts.jsonl", row, row, {**row, "_ng_rollout_index": 1})
    assert "2 episodes imported, 1 already there" in run_import(path, into=tmp_path / "run").output


@pytest.mark.parametrize("beside", [False, True])
def test_examples_of_two_environments_of_verifiers_are_two_groups(tmp_path: Path, beside: bool) -> None:
    run = tmp_path / "run"
    for env in ("sums", "poems"):
        (tmp_path / env).mkdir()
        path = tmp_path / env / "results.jsonl"
        rows = [result(None if beside else env, 7, f"Of {env}?", answer) for answer in "ab"]
        if beside:
            (tmp_path / env / "metadata.json").write_text(json.dumps({"env_id": env}))
        assert run_import(lines(path, *rows), into=run).exit_code == 0
    played = episodes_in(run)
    assert {one.summary.environment for one in played} == {"sums", "poems"}
    assert sorted(sizes(played).values()) == [2, 2]
    assert {str(name).split(":")[0] for name in sizes(played)} == {"sums", "poems"}


def test_metadata_that_cannot_be_read_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    (tmp_path / "metadata.json").write_text("{torn")
    run_import(lines(tmp_path / "results.jsonl", result(None, 7, "q", "a")), into=tmp_path / "run")
    (name,) = sizes(episodes_in(tmp_path / "run"))
    assert name == "example-7"


def inspected(task: str, **more: Any) -> Row:
    sample = {
        "id": 1, "epoch": 1, "input": f"Of {task}?", "scores": {"match": {"value": "C"}},
        "messages": [{"role": "user", "content": f"Of {task}?"}, {"role": "assistant", "content": "Yes."}],
    }  # fmt: skip
    return {"version": 2, "eval": {"task": task, **more}, "samples": [sample]}


def test_samples_of_two_tasks_of_inspect_are_two_groups(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for task in ("sums", "poems"):
        (path := tmp_path / f"{task}.json").write_text(json.dumps(inspected(task)))
        assert run_import(path, into=run).exit_code == 0
    found = sizes(episodes_in(run))
    assert sorted(str(name).rsplit(":", 1)[0] for name in found) == ["poems:sample-1", "sums:sample-1"]


def test_sessions_without_ids_are_what_was_said(tmp_path: Path) -> None:
    head = {"type": "session", "harness": "tiny"}
    said = [{"type": "message", "message": {"role": "assistant", "content": word}} for word in ("one", "two")]
    run = tmp_path / "run"
    run_import(lines(tmp_path / "a.jsonl", head, said[0], head, said[1]), into=run)
    done = run_import(lines(tmp_path / "b.jsonl", head, said[1], head, said[0]), into=run)
    assert "0 episodes imported, 2 already there" in done.output


def test_calls_in_any_order_are_whole_episodes(tmp_path: Path) -> None:
    rows = [
        {
            "episode_id": f"e{episode}", "seq": seq, "call": 0, "decided": True, "environment": "sums",
            "messages": [{"role": "user", "content": f"{seq}?"}], "reply": {"content": f"{episode}.{seq}"},
            "episode_reason": "finished", "episode_reward": 1.0,
        }
        for episode in range(3)
        for seq in range(2, 6)
    ]  # fmt: skip
    shuffled = random.Random(2).sample(rows, len(rows))
    run_import(lines(tmp_path / "shuffled.jsonl", *shuffled, *rows[:5]), into=tmp_path / "shuffled")
    run_import(lines(tmp_path / "rows.jsonl", *rows), into=tmp_path / "rows")
    replies = [
        sorted(
            [str((one.call.reply or {})["content"]) for one in played.calls] for played in episodes_in(folder)
        )
        for folder in (tmp_path / "shuffled", tmp_path / "rows")
    ]
    assert replies[0] == replies[1] == [[f"{episode}.{seq}" for seq in range(2, 6)] for episode in range(3)]
    assert known(tmp_path / "shuffled") == known(tmp_path / "rows")


@pytest.mark.parametrize(
    "form",
    ["groups", "hf-traces", "inspect", "messages", "nemo-gym", "steps", "verifiers", "chatml", "prime-rl"],
)
def test_equal_tasks_of_two_environments_never_share_a_group(form: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    groups: list[set[str | None]] = []
    for env in ("sums", "poems", "poems:1", "of/poems"):
        rows = [row for answer in "ab" for row in GENERATED[form].rows(env, 7, answer)]
        if form == "chatml":
            rows = [{**row, "group_id": "g"} for row in rows]
        text = text_of(form, rows)
        if form == "inspect":
            text = text.replace(b'"sums"', json.dumps(env).encode()).replace(b'"r"', f'"{env}"'.encode())
        (tmp_path / "rows").write_bytes(text)
        assert run_import(tmp_path / "rows", into=run).exit_code == 0
        groups.append(set(sizes(episodes_in(run))) - set().union(*groups))
    assert [len(one) for one in groups] == [1, 1, 1, 1] and None not in set().union(*groups)
    assert set(sizes(episodes_in(run)).values()) == {2}


@pytest.mark.parametrize("form", ["messages", "steps", "hf-traces"])
def test_a_session_that_grew_since_its_import_is_reported(form: str, tmp_path: Path) -> None:
    rows = GENERATED[form].rows("sums", 1, "a")
    rows = [*rows, *rows[1:]] if form == "hf-traces" else rows
    head, whole = tmp_path / "head", tmp_path / "whole"
    head.write_bytes(text_of(form, rows[:-1]))
    whole.write_bytes(text_of(form, rows))
    assert run_import(head, into=tmp_path / "run").exit_code == 0
    before = known(tmp_path / "run")
    grown = run_import(whole, into=tmp_path / "run")
    assert grown.exit_code == 1 and "it was imported when it had" in grown.output
    assert known(tmp_path / "run") == before
    assert "1 already there" in run_import(head, into=tmp_path / "run").output


def test_a_session_in_two_files_is_reported_unless_one_has_all(tmp_path: Path) -> None:
    rows = [{**row, "response": f"{n}"} for n, row in enumerate(GENERATED["steps"].rows("sums", 1, "a"))]
    for name, part in (("head", rows[:-1]), ("tail", rows[-1:]), ("whole", rows)):
        (tmp_path / name).write_bytes(text_of("steps", part))
    run_import(tmp_path / "whole", into=tmp_path / "all")
    for name in ("head", "tail"):
        done = run_import(tmp_path / name, into=tmp_path / "all")
        assert (done.exit_code, "1 already there" in done.output) == (0, True), done.output
    run_import(tmp_path / "head", into=tmp_path / "run")
    before = known(tmp_path / "run")
    done = run_import(tmp_path / "tail", into=tmp_path / "run")
    assert done.exit_code == 1 and "1 of its 1 answers are not shown, as the others" in done.output
    assert known(tmp_path / "run") == before

"""An imported episode is what it says, wherever it stands in a file; a group is the answers to one prompt."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from spectator.importing.file_formats import NAMES
from spectator.importing.foreign import ForeignEpisode, ForeignTurn
from spectator.importing.importer import build
from tests.importing.imported import DATA, Imported, episodes_in, lines, run_import

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


def trl(step: int, question: str, answer: str) -> Row:
    return {"step": step, "prompt": question, "completion": answer, "reward": 1.0}


def record(question: str, answer: str) -> Row:
    said = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return {"episode_id": None, "messages": said, "tool_trace": [], "reward": 1.0, "task": {"name": "sums"}}


def grouped(group: str, question: str, *answers: str) -> Row:
    said = [[{"role": "assistant", "content": one}] for one in answers]
    asked = [{"role": "user", "content": question}]
    return {"group_id": group, "prompt": asked, "completions": said, "rewards": [1.0] * len(answers)}


MAKERS: dict[str, Callable[[int, str], Row]] = {
    "nemo-gym": lambda task, answer: nemo("adder", task, f"{task} + 1?", answer),
    "verifiers": lambda task, answer: result("sums", task, f"{task} + 1?", answer),
    "trl": lambda task, answer: trl(task, f"{task} + 1?", answer),
    "episode-record": lambda task, answer: record(f"{task} + 1?", answer),
    "groups": lambda task, answer: grouped(f"g{task}", f"{task} + 1?", answer, answer),
}


def rewritten(row: Any) -> Any:
    """The same JSON, written down in another way: members the other way round, 1 for 1.0."""
    if isinstance(row, dict):
        return {name: rewritten(row[name]) for name in reversed(row)}
    if isinstance(row, list):
        return [rewritten(one) for one in row]
    return int(row) if isinstance(row, float) and row.is_integer() else row


def known(folder: Path) -> list[tuple[str, str | None, float | None]]:
    return [(one.summary.episode_id, one.summary.group_id, one.summary.score) for one in episodes_in(folder)]


def sizes(played: Sequence[Imported]) -> dict[str | None, int]:
    return dict(Counter(one.summary.group_id for one in played))


@pytest.mark.parametrize("form", MAKERS)
def test_a_file_that_is_rewritten_reordered_or_merged_adds_nothing(form: str, tmp_path: Path) -> None:
    rows = [MAKERS[form](task, answer) for task in (1, 2) for answer in ("2", "3", "3", "é")]
    run = tmp_path / "run"
    first, second = lines(tmp_path / "a.jsonl", *rows[:4]), lines(tmp_path / "b.jsonl", *rows[4:])
    assert run_import(first, second, into=run).exit_code == 0
    before = known(run)
    assert len(before) == len(rows) * (2 if form == "groups" else 1)
    shuffled = random.Random(1).sample(rows, len(rows))
    spaced = [json.dumps(rewritten(one), indent=None, separators=(" , ", " : ")) for one in shuffled]
    orders: dict[str, Sequence[Row | str]] = {
        "merged": [*rows[4:], *rows[:4]], "shuffled": shuffled, "spaced": spaced,
    }  # fmt: skip
    for name, other in orders.items():
        done = run_import(lines(tmp_path / f"{name}.jsonl", *other), into=run)
        assert f"0 episodes imported, {len(before)} already there" in done.output, name
    assert known(run) == before
    other_way = tmp_path / "other-way"
    run_import(lines(tmp_path / "c.jsonl", *reversed(rows)), into=other_way)
    assert known(other_way) == before


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


def session_lines(env: str, task: int, answer: str) -> list[Row]:
    head = {
        "type": "session",
        "harness": env,
        "id": f"{task}-{answer}",
        "groupId": f"task-{task}",
        "reward": 0.5,
    }
    said = [("user", f"{task} + 1?"), ("assistant", answer)]
    return [head, *({"type": "message", "message": {"role": role, "content": text}} for role, text in said)]


def call_lines(env: str, task: int, answer: str) -> list[Row]:
    return [
        {"episode_id": f"{task}-{answer}", "seq": seq, "call": 0, "decided": True, "environment": env,
         "group_id": f"task-{task}", "messages": [{"role": "user", "content": f"{task} + {seq}?"}],
         "reply": {"content": answer}, "episode_reason": "finished", "episode_reward": 1.0, "reward": 0.5}
        for seq in (2, 5)
    ]  # fmt: skip


def step_lines(env: str, task: int, answer: str) -> list[Row]:
    return [
        {"session_id": f"{task}-{answer}", "env_name": env, "group_id": f"task-{task}", "step_id": step,
         "messages": [{"role": "user", "content": f"{task} + {step}?"}], "response": answer,
         "step_reward": 0.1 * step, "terminated": step == 3, "truncated": False}
        for step in (1, 2, 3)
    ]  # fmt: skip


def collected(env: str, task: int, answer: str) -> Row:
    steps: list[Row] = [
        {"step": step, "completion": answer, "action": {}, "parsed_ok": True, "source": "model",
         "reward": 0.1, "prompt": f"{task} + {step}?", "done": step == 2}
        for step in (1, 2)
    ]  # fmt: skip
    return {"seed": task, "environment": env, "steps": steps, "total_reward": 0.2, "terminal_reward": 1.0}


def event_lines(env: str, task: int, answer: str) -> list[Row]:
    turn = ForeignTurn(asked=[], reply={"role": "assistant", "content": answer})
    one = ForeignEpisode(key=[env, task, answer], environment=env, turns=[turn], reward=1.0)
    built = build(one, "run", datetime(2026, 1, 2, tzinfo=UTC))
    return [json.loads(event.text) for event in built.events]


def sample(env: str, task: int, answer: str) -> Row:
    said = [{"role": "user", "content": f"{task} + 1?"}, {"role": "assistant", "content": answer}]
    scores = {"second": {"value": 0.25}, "first": {"value": "C"}}
    return {
        "id": task,
        "epoch": 1 + "abc".index(answer),
        "input": f"{task} + 1?",
        "messages": said,
        "scores": scores,
    }


def traced(env: str, task: int, answer: str) -> list[Row]:
    row = json.loads((DATA / "verifiers_traces.jsonl").read_text().splitlines()["abc".index(answer)])
    row |= {"env": {"id": env}, "group": {"id": f"task-{task}"}}
    row["traces"][0]["id"] = f"{env}-{task}-{answer}"
    return [row]


BLOCKS: dict[str, Callable[[str, int, str], list[Row]]] = {
    "nemo-gym": lambda env, task, answer: [nemo(env, task, f"{task} + 1?", answer)],
    "verifiers": lambda env, task, answer: [result(env, task, f"{task} + 1?", answer)],
    "trl": lambda env, task, answer: [{**trl(task, f"{task} + 1?", answer), "a": 0.1, "b": 0.2, "c": 0.3}],
    "episode-record": lambda env, task, answer: [record(f"{task} + 1?", answer)],
    "groups": lambda env, task, answer: [
        {**grouped(f"task-{task}", f"{task} + 1?", answer), "environment": env}
    ],
    "hf-traces": session_lines, "messages": call_lines, "steps": step_lines, "ndjson": event_lines,
    "traces": traced,
    "collector": lambda env, task, answer: [collected(env, task, answer)],
    "inspect": lambda env, task, answer: [sample(env, task, answer)],
}  # fmt: skip
"""The rows of one episode, by format."""

IN_ORDER = {"hf-traces", "ndjson"}
"""Formats in which the rows of an episode follow each other."""

ANONYMOUS = {"nemo-gym", "verifiers", "trl", "episode-record", "collector", "groups"}
"""Formats whose rows have no ids: equal rows of one file are different episodes."""


def file_of(form: str, path: Path, rows: Sequence[Row], *, otherwise: bool = False) -> Path:
    """Write a file, or the same one otherwise: members turned round, other spaces and line ends."""
    lines = list(rows)
    if form == "inspect":
        about = {
            "task": "sums",
            "run_id": "r",
            "eval_id": "e",
            "scorers": [{"name": "second"}, {"name": "first"}],
        }
        lines = [{"version": 2, "eval": about, "samples": lines}]
    if otherwise:
        written = [json.dumps(rewritten(one), separators=(" , ", " : ")) for one in lines]
        path.write_bytes("".join(f"{one}\r\n" for one in [*written, ""]).encode())
    else:
        path.write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    return path


def figures(folder: Path) -> list[tuple[Any, ...]]:
    """What people compare: ids, groups, scores, ends, rewards, answers."""
    return sorted(
        (one.summary.episode_id, one.summary.group_id, one.summary.environment, one.summary.score,
         one.summary.reason, one.end.get("total_reward"), one.summary.turns,
         [(step["reward"], step["rubric"]) for step in one.of_type("step.taken")],
         [call.call.reply["content"] for call in one.calls if call.call.reply])
        for one in episodes_in(folder)
    )  # fmt: skip


@pytest.mark.parametrize("form", [*NAMES, "traces"])
def test_every_format_gives_the_same_episodes_however_its_file_is_written(form: str, tmp_path: Path) -> None:
    chance = random.Random(form)
    blocks = [BLOCKS[form]("sums", task, answer) for task in (1, 2) for answer in "abc"]
    rows = [row for block in blocks for row in block]
    moved = chance.sample(blocks, len(blocks))
    shuffled = [row for block in moved for row in block]
    if form not in IN_ORDER:
        shuffled = chance.sample(rows, len(rows))
    halves = [row for block in moved[:3] for row in block], [row for block in moved[3:] for row in block]
    kept = {one.name: one for one in (
        file_of(form, tmp_path / "as-it-was", rows),
        file_of(form, tmp_path / "rewritten", rows, otherwise=True),
        file_of(form, tmp_path / "reordered", shuffled, otherwise=True),
        file_of(form, tmp_path / "half", halves[0]),
        file_of(form, tmp_path / "other-half", halves[1], otherwise=True),
        file_of(form, tmp_path / "twice", [*rows, *rows]),
    )}  # fmt: skip

    def imported(run: str, *names: str) -> list[tuple[Any, ...]]:
        done = run_import(*(kept[name] for name in names), into=tmp_path / "runs" / run)
        assert done.exit_code == 0, done.output
        return figures(tmp_path / "runs" / run)

    first = imported("run", "as-it-was")
    assert len(first) == len({one[0] for one in first}) == len(blocks)
    assert imported("run", "as-it-was", "rewritten", "reordered", "half", "other-half") == first
    assert imported("rewritten", "rewritten") == first
    assert imported("resumed", "half", "reordered") == first
    assert imported("split", "other-half", "half") == first
    twice = imported("run", "twice")
    assert imported("doubled", "twice") == twice
    assert [one for one in twice if one in first] == first
    assert len(twice) == len(first) * (2 if form in ANONYMOUS else 1)


@pytest.mark.parametrize("form", sorted(set(BLOCKS) - {"trl", "collector", "ndjson", "episode-record"}))
def test_equal_tasks_of_two_environments_never_share_a_group(form: str, tmp_path: Path) -> None:
    """TRL names no environment, collectors no groups, and events are not translated."""
    run = tmp_path / "run"
    groups: list[set[str | None]] = []
    for env in ("sums", "poems", "poems:1", "of/poems"):
        rows = [row for answer in "ab" for row in BLOCKS[form](env, 7, answer)]
        path = file_of(form, tmp_path / "rows", rows)
        if form == "inspect":
            path.write_text(path.read_text().replace('"sums"', json.dumps(env)).replace('"r"', f'"{env}"'))
        elif form == "messages":
            path.write_text(path.read_text().replace("7-", f"{env}-7-"))
        assert run_import(path, into=run).exit_code == 0
        groups.append(set(sizes(episodes_in(run))) - set().union(*groups))
    assert [len(one) for one in groups] == [1, 1, 1, 1] and None not in set().union(*groups)
    assert set(sizes(episodes_in(run)).values()) == {2}


@pytest.mark.parametrize("form", ["messages", "steps", "hf-traces"])
def test_a_session_that_grew_since_its_import_is_reported(form: str, tmp_path: Path) -> None:
    rows = BLOCKS[form]("sums", 1, "a")
    rows = [*rows, *rows[1:]] if form == "hf-traces" else rows
    head, whole = file_of(form, tmp_path / "head", rows[:-1]), file_of(form, tmp_path / "whole", rows)
    assert run_import(head, into=tmp_path / "run").exit_code == 0
    before = figures(tmp_path / "run")
    grown = run_import(whole, into=tmp_path / "run")
    assert grown.exit_code == 1 and "it was imported when it had" in grown.output
    assert figures(tmp_path / "run") == before
    assert "1 already there" in run_import(head, into=tmp_path / "run").output

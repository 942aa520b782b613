"""Exports for trainers: what is in them, what is not, and who can read them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

import spectator
from spectator.catalog import load_world
from spectator.cli import main
from spectator.environments.counting.world import CountingEnvironment
from spectator.environments.world import World
from spectator.exports.formats import FORMATS
from spectator.journal.encoding import BadLine, atomic_file, json_line, read_jsonl
from tests.llm.brains import Said, batsman, counter, read_situation
from tests.rollouts.exported_run import GROUPS, SIZE, TURNS, fork_a_miscount, play_run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "exports.md"
ROWS = ("messages", "tokens", "groups", "preferences", "episode-record")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    play_run(folder)
    return folder


@pytest.fixture(scope="module")
def forked(run: Path, groups: list[dict[str, Any]]) -> tuple[str, str]:
    return asyncio.run(fork_a_miscount(run))


def export(folder: Path, form: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["rollouts", "export", str(folder), "--format", form, *arguments])


def rows(folder: Path, form: str, *arguments: str) -> list[dict[str, Any]]:
    result = export(folder, form, *arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def groups(run: Path) -> list[dict[str, Any]]:
    return rows(run, "groups", "--advantages")


@pytest.fixture(scope="module")
def calls(run: Path, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows(run, "messages")


def test_a_group_has_its_usable_members_and_counts_the_others(groups: list[dict[str, Any]]) -> None:
    assert [group["group_id"] for group in groups] == [f"g-{number:06d}" for number in range(GROUPS)]
    assert {group["size"] for group in groups} == {SIZE}
    for group in groups:
        lists = ("completions", "rewards", "advantages", "episode_ids", "attempts", "truncated", "fallbacks")
        assert {len(group[name]) for name in lists} == {group["usable"]}
    crashed = [group for group in groups if group["failures"]]
    assert 0 < len(crashed) < GROUPS
    for group in crashed:
        assert (group["state"], group["usable"], group["rewards"]) == ("void", 0, [])
        assert group["failures"] == {"env_infra": SIZE * 2}, "two attempts at each, and no reward of 0"
    whole = [group for group in groups if not group["failures"]]
    assert {group["state"] for group in whole} == {"complete"}
    assert {reward for group in whole for reward in group["rewards"]} == {0.0, 1.0}
    assert any(any(group["fallbacks"]) for group in whole)


def test_a_group_of_a_run_that_stopped_is_not_complete_at_any_export(tmp_path: Path) -> None:
    """Four of six siblings were begun: the run's own size counts, from the commands as from Python."""
    folder = tmp_path / "first"
    play_run(folder, episodes=4, group_size=4, load=load_world, brain=counter)
    manifest = folder / "rollouts.json"
    kept = json.loads(manifest.read_text())
    kept["request"] |= {"episodes": 6, "group_size": 6}
    manifest.write_text(json.dumps(kept))
    out = tmp_path / "groups.jsonl"
    asyncio.run(spectator.export(folder, out, form="groups"))
    alone = ["export", "--all", "--data-dir", str(folder), "--format", "groups"]
    found = [*rows(folder, "groups"), json.loads(out.read_text())]
    found.append(json.loads(CliRunner().invoke(main, alone).stdout))
    assert [(one["size"], one["usable"], one["state"]) for one in found] == [(6, 4, "open")] * 3


def test_a_group_is_whole_whichever_of_its_episodes_is_named(run: Path, groups: list[dict[str, Any]]) -> None:
    group = next(group for group in groups if group["usable"])
    named = group["episode_ids"][0]
    result = CliRunner().invoke(main, ["export", named, "--data-dir", str(run), "--format", "groups"])
    (row,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert row == {**group, "advantages": None}


def test_a_completion_is_the_whole_conversation_in_order(groups: list[dict[str, Any]]) -> None:
    for group in groups:
        for completion, fallbacks in zip(group["completions"], group["fallbacks"], strict=True):
            roles = [message["role"] for message in completion]
            assert roles[0] == roles[-1] == "assistant"
            assert roles.count("assistant") == TURNS - fallbacks
            asked = [call["id"] for message in completion for call in message.get("tool_calls", ())]
            answered = [message["tool_call_id"] for message in completion if message["role"] == "tool"]
            assert len(answered) == len(asked) - 1, "every call but the last is answered, once"
            assert all(
                isinstance(call["function"]["arguments"], dict)
                for message in completion
                for call in message.get("tool_calls", ())
            )
        assert group["same_prompt"]
        if group["usable"]:
            assert [message["role"] for message in group["prompt"]] == ["system", "user"]


def test_advantages_are_normalised_within_a_group_and_optional(
    run: Path, groups: list[dict[str, Any]]
) -> None:
    for group in groups:
        assert sum(group["advantages"]) == pytest.approx(0.0, abs=1e-9)
        paired = zip(group["rewards"], group["advantages"], strict=True)
        assert sorted(paired) == sorted(
            zip(sorted(group["rewards"]), sorted(group["advantages"]), strict=True)
        )
    assert all(group["advantages"] is None for group in rows(run, "groups"))


def test_what_a_stand_in_or_a_failure_did_is_credited_to_no_answer(calls: list[dict[str, Any]]) -> None:
    def masked(row: Mapping[str, Any]) -> bool:
        return not any(row["mask"])

    failed = [row for row in calls if row["source"] == "fallback"]
    assert failed and all(row["failure_class"] == "unparsable" for row in failed)
    for row in failed:
        assert (row["decided"], row["trainable"], row["reward"]) == (False, False, None) and masked(row)
    crashed = [row for row in calls if row["episode_failure"] == "env_infra"]
    assert crashed and all(row["decided"] or row["source"] == "model" for row in crashed)
    for row in crashed:
        assert (row["trainable"], row["reward"], row["episode_reward"]) == (False, None, None) and masked(row)
    own = [row for row in calls if row["trainable"]]
    for row in own:
        assert sum(row["mask"]) == len(row["token_ids"]) == len(row["logprobs"])
        assert row["completion"][0]["role"] == "assistant" and row["terminated"] and not row["truncated"]
    by_episode: dict[str, float] = {}
    for row in own:
        by_episode[row["episode_id"]] = by_episode.get(row["episode_id"], 0.0) + row["reward"]
    scores = {row["episode_id"]: row["episode_reward"] for row in own}
    assert by_episode == scores, "the last decision was a model's own in each of them"


def test_the_reward_stands_on_the_agents_own_last_answer_whoever_ended_the_match(tmp_path: Path) -> None:
    one_over: dict[str, Any] = {
        "environment": "cricket",
        "options": {"max_overs": 1},
        "episodes": 2,
        "group_size": 2,
    }
    play_run(tmp_path, brain=batsman, load=load_world, **one_over)
    events = rows(tmp_path, "ndjson")
    calls = rows(tmp_path, "messages")
    (group,) = rows(tmp_path, "groups")
    assert len(group["episode_ids"]) == 2
    for episode_id, reward in zip(group["episode_ids"], group["rewards"], strict=True):
        taken = [
            one["data"] for one in events if one["episode_id"] == episode_id and one["type"] == "step.taken"
        ]
        assert taken[-1]["actor"] == "away", "the other side bowled the last ball, or faced it"
        own = [one for one in calls if one["episode_id"] == episode_id]
        assert {one["actor"] for one in own} == {"home"}
        assert all(one["trainable"] and one["group_id"] == "g-000000" for one in own)
        assert [one["reward"] for one in own] == [0.0] * (len(own) - 1) + [reward]
        assert reward == own[0]["episode_reward"] == own[0]["episode_score"] > 0


def test_rows_of_tokens_hold_each_answer_once_and_say_how_it_was_joined(
    run: Path, calls: list[dict[str, Any]]
) -> None:
    found = rows(run, "tokens")
    for row in found:
        lengths = {len(row[name]) for name in ("token_ids", "loss_mask", "logprobs", "weight_versions")}
        assert len(lengths) == 1
        assert len(row["seqs"]) == len(row["joins"])
        for value, bit, version in zip(
            row["logprobs"], row["loss_mask"], row["weight_versions"], strict=True
        ):
            assert bit == 1 or value is None
            assert bit == 0 or (value is not None and version == "w7")
    assert {join for row in found for join in row["joins"]} == {"first", "forked"}
    assert sum(sum(row["loss_mask"]) for row in found) == sum(sum(row["mask"]) for row in calls)
    assert len([seq for row in found for seq in row["seqs"]]) == len(calls), "no call is dropped"
    assert {row["calls_without_tokens"] for row in found} == {0}
    assert {row["reward"] for row in found if row["failure_class"] == "env_infra"} == {None}


def test_pairs_are_of_the_same_question_and_the_better_action_is_chosen(run: Path) -> None:
    pairs = rows(run, "preferences")
    assert pairs
    for pair in pairs:
        assert pair["margin"] == pair["chosen_reward"] - pair["rejected_reward"] > 0
        assert pair["chosen"] != pair["rejected"] and pair["prompt"][-1]["role"] in ("user", "tool")
        assert "next: 2" in pair["prompt"][-1]["content"], "there they parted"
        said = [
            one[0]["tool_calls"][0]["function"]["arguments"]["text"]
            for one in (pair["chosen"], pair["rejected"])
        ]
        assert said == ["ACTION: 2", "ACTION: 7"]
        assert pair["kind"] == "group" or "heuristic" in (pair["chosen_source"], pair["rejected_source"])


def test_a_fork_is_preferred_to_its_parent_where_it_does_better(run: Path, forked: tuple[str, str]) -> None:
    parent, fork = forked
    result = CliRunner().invoke(
        main, ["export", parent, fork, "--data-dir", str(run), "--format", "preferences"]
    )
    (pair,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert (pair["kind"], pair["margin"]) == ("fork", 1.0)
    assert (pair["chosen_episode_id"], pair["rejected_episode_id"]) == (fork, parent)
    assert (pair["chosen_source"], pair["rejected_source"]) == ("heuristic", "model")
    (chosen,) = pair["chosen"]
    assert chosen["tool_calls"][0]["function"] == {"name": "say", "arguments": {"text": "ACTION: 2"}}
    (inherited, *_) = [row for row in rows(run, "messages") if row["episode_id"] == fork]
    assert (inherited["inherited"], inherited["trainable"], inherited["reward"]) == (True, False, None)
    assert not any(inherited["mask"]), "trained on in the parent alone"
    assert not [row for row in rows(run, "tokens") if row["episode_id"] == fork and any(row["loss_mask"])]
    assert fork not in {one for group in rows(run, "groups") for one in group["episode_ids"]}


def test_records_are_of_episodes_with_a_verdict_and_traces_of_all(
    run: Path, groups: list[dict[str, Any]], tmp_path: Path
) -> None:
    result = export(run, "episode-record")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    usable = {one for group in groups for one in group["episode_ids"]}
    assert usable <= {record["episode_id"] for record in records}
    assert "without a verdict" in result.stderr
    assert "events" not in result.stderr.splitlines(), "no label of a bar that is not drawn"
    for record in records:
        assert isinstance(record["reward"], float) and record["done"]
        assert len(record["tool_trace"]) == TURNS
        assert [entry["result"]["done"] for entry in record["tool_trace"]] == [False] * (TURNS - 1) + [True]
    alone = export(run, "traces")
    assert alone.exit_code == 1 and "folder" in alone.output
    assert export(run, "traces", "--out", str(tmp_path / "traces")).exit_code == 0
    traces = list((tmp_path / "traces").iterdir())
    assert {path.stem for path in traces} == {row["episode_id"] for row in rows(run, "messages")} > usable
    for path in traces:
        session, *messages = [json.loads(line) for line in path.read_text().splitlines()]
        assert (session["type"], session["harness"], session["id"]) == ("session", "spectator", path.stem)
        assert {line["type"] for line in messages} == {"message"}
        answers = [line["message"] for line in messages if line["message"]["role"] == "assistant"]
        assert answers and all(answer["reasoningContent"] == "Let me see." for answer in answers)
        assert all(
            isinstance(json.loads(one["toolCalls"][0]["function"]["arguments"]), dict) for one in answers
        )


class HidingEnvironment(CountingEnvironment):
    """Has something to hide."""

    def truth(self) -> Mapping[str, Any]:
        return {"hidden": "kept from everybody"}


def test_nothing_of_the_truth_is_in_any_other_form(tmp_path: Path) -> None:
    def hiding(name: str) -> World:
        return replace(load_world(name), environment=HidingEnvironment)

    play_run(tmp_path, load=hiding)
    told = rows(tmp_path, "truth")
    assert [row["truth"] for row in told] == [{"hidden": "kept from everybody"}] * GROUPS * SIZE
    for form in ROWS:
        found = rows(tmp_path, form)
        assert found and "truth" not in {name for row in found for name in row}
        assert "kept from everybody" not in json.dumps(found)


@pytest.mark.parametrize("form", ROWS)
def test_lines_and_tables_hold_the_same(run: Path, tmp_path: Path, form: str) -> None:
    lines, table = tmp_path / "rows.jsonl", tmp_path / "rows.parquet"
    for out in (lines, table):
        assert export(run, form, "--out", str(out)).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.jsonl", "rows.parquet"]
    columns, as_json = FORMATS[form].schema()
    loaded = list(read_jsonl(lines))
    found = parquet.read_table(table).to_pylist()
    assert len(found) == len(loaded) > 0
    for row, line in zip(found, loaded, strict=True):
        assert not isinstance(line, BadLine) and list(line) == list(row) == list(columns)
        for name in columns:
            held = json.loads(row[name]) if name in as_json and row[name] is not None else row[name]
            assert held == line[name], name


@pytest.mark.parametrize("form", [form for form in ROWS if form != "messages"])
def test_the_page_lists_the_columns(form: str) -> None:
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## `{form}`\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \| `([^`]+)` \| (\*JSON\*)?", section, re.MULTILINE)
    columns, as_json = FORMATS[form].schema()
    assert [(name, kind) for name, kind, _ in listed] == list(columns.items())
    assert {name for name, _, marked in listed if marked} == set(as_json)


def write_lines(rows: list[dict[str, Any]], path: Path) -> None:
    with atomic_file(path) as file:
        for row in rows:
            file.write(json_line(row) + "\n")


def test_what_was_written_is_read_back_and_bad_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    written: list[dict[str, Any]] = [{"text": "é\u2028", "n": [1, 2.5, None, True]}, {"deep": {"x": [{}]}}]
    write_lines(written, path)
    assert list(read_jsonl(path)) == written
    whole = path.read_bytes()
    path.write_bytes(whole + b'\n[1]\n{"reward": NaN}\n\xff\xfe\n' + whole[:9])
    found = list(read_jsonl(path))
    assert [row for row in found if not isinstance(row, BadLine)] == written
    assert [row.number for row in found if isinstance(row, BadLine)] == [4, 5, 6, 7]
    before = path.read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_lines([{"a": 1}, {"reward": float("nan")}], path)
    assert path.read_bytes() == before, "what cannot be written leaves the file as it was"
    assert [one.name for one in tmp_path.iterdir()] == ["rows.jsonl"]
    assert json_line({"a": "\n"}) == '{"a":"\\n"}'
    assert json_line({"a": "é\ud800", "b": "\\ud800"}) == '{"a":"é?","b":"\\\\ud800"}'


def half_a_pair(body: Mapping[str, Any]) -> Said:
    """Counts, and gives half of a surrogate pair as its reason, as models cut in an emoji do."""
    said = counter(body)
    arguments = {**json.loads(json.dumps(said.calls[0][1])), "reason": "so \ud83d"}
    return replace(said, calls=[(said.calls[0][0], arguments)])


@pytest.fixture(scope="module")
def halved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("halved")
    play_run(folder, brain=half_a_pair, load=load_world, episodes=1, group_size=1)
    return folder


@pytest.mark.parametrize("form", ["messages", "groups", "episode-record", "traces", "inspect"])
def test_half_a_surrogate_pair_of_one_answer_spoils_no_file(halved: Path, form: str) -> None:
    """Traces and records failed on it, and no reader of Arrow took the others."""
    result = export(halved, form)
    assert result.exit_code == 0, result.output
    assert "so ?" in result.stdout
    assert not re.search(r"(?<!\\)\\ud83d", result.stdout)


def test_wrong_forms_and_places_are_refused_and_leave_nothing(run: Path, tmp_path: Path) -> None:
    for arguments, named in [
        (["--format", "groups", "--out", str(tmp_path)], "is a folder"),
        (["--format", "truth", "--out", str(tmp_path / "t.parquet")], "cannot be a .parquet file"),
        (["--format", "parquet"], "needs --out"),
    ]:
        result = CliRunner().invoke(main, ["rollouts", "export", str(run), *arguments])
        assert result.exit_code == 2 and named in result.output
    empty = CliRunner().invoke(main, ["rollouts", "export", str(tmp_path)])
    assert empty.exit_code == 1 and "does not hold a run of rollouts" in str(empty.output) + str(
        empty.exception
    )
    assert list(tmp_path.iterdir()) == []


def two_at_once(body: Mapping[str, Any]) -> Said:
    following = read_situation(body)["next"]
    return Said(
        calls=[("say", {"text": f"ACTION: {number}"}) for number in (following, following + 1)],
        finish="tool_calls",
    )


def second_try(body: Mapping[str, Any]) -> Said:
    return counter(body) if "Answer again" in body["messages"][-1]["content"] else Said(text="hm")


@pytest.mark.parametrize(
    ("brain", "model", "fields", "answers"),
    [
        (counter, {"style": "json"}, {"message_cut": 1}, TURNS),
        (counter, {}, {"message_cut": 1}, TURNS),
        (two_at_once, {"actions_per_answer": 2}, {}, TURNS / 2),
        (second_try, {}, {}, TURNS),
    ],
    ids=["text, trimmed", "tools, trimmed", "two actions an answer", "repaired"],
)
def test_a_transcript_is_well_formed_however_it_was_played(
    tmp_path: Path, brain: Any, model: dict[str, Any], fields: dict[str, Any], answers: float
) -> None:
    """No tool message without its call, no call but the last without its answer, nothing missing or twice."""
    play_run(tmp_path, brain=brain, model=model, episodes=1, group_size=1, seed=5, **fields)
    (group,) = rows(tmp_path, "groups")
    messages = [*group["prompt"], *group["completions"][0]]
    assert sum(message["role"] == "assistant" for message in messages) == answers
    for number in range(1, TURNS + 1):
        if number % (TURNS / answers) == 1 or answers == TURNS:
            asked = [one for one in messages if re.search(rf'"?next"?: ?{number}\b', str(one["content"]))]
            assert len(asked) == 1, f"the question of turn {number} stands there once"
    unanswered: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            unanswered.remove(message["tool_call_id"])
            continue
        assert not unanswered
        unanswered = [call["id"] for call in message.get("tool_calls", ())]
    calls = rows(tmp_path, "messages")
    assert sum(row["trainable"] for row in calls) == answers
    assert sum(row["reward"] or 0.0 for row in calls) == group["rewards"][0] == 1.0
    tokens = rows(tmp_path, "tokens")
    assert {row["calls_without_tokens"] for row in tokens} == {0}
    assert sum(sum(row["loss_mask"]) for row in tokens) == sum(sum(row["mask"]) for row in calls) > 0


def test_the_page_shows_how_to_read_them(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    assert export(run, "groups", "--out", "groups.jsonl").exit_code == 0
    found: dict[str, Any] = {}
    exec(compile(snippet, str(PAGE), "exec"), found)
    assert found["row"] == rows(run, "groups")[-1]

"""Every format is recognised, and what its files say is what the record holds: nothing more, nothing as 0."""

from __future__ import annotations

import json
import math
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from spectator.cli.journal import FORMS
from spectator.importing.archives import member_bytes
from spectator.importing.declaration import FIELDS
from spectator.importing.file_formats import NAMES
from spectator.importing.formats import FORMATS
from spectator.importing.paths import path
from tests.importing.generated import GENERATED, text_of
from tests.importing.imported import DATA, Imported, episodes_in, lines, picture, run_import
from tools.import_page import PAGE, import_page

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 2}'}}


def at(second: int) -> dict[str, Any]:
    """When a row of results began."""
    return {"timing": {"start_time": 1763800000.0 + second}}


def imported(path: Path, folder: Path, **given: Any) -> list[Imported]:
    done = run_import(path, into=folder, **given)
    assert done.exit_code == 0, done.output
    return episodes_in(folder)


def test_traces_of_verifiers_keep_tokens_rewards_groups_and_errors(tmp_path: Path) -> None:
    run = tmp_path / "sums"
    played = imported(DATA / "verifiers_traces.jsonl", run)
    assert [one.summary.environment for one in played] == ["sums"] * 4
    assert [one.summary.score for one in played] == pytest.approx([1.1, 0.1, 1.1, None])
    failed = played[-1]
    assert failed.summary.reason == "environment_error" and "the scorer failed" in failed.end["detail"]
    assert not failed.of_type("step.taken")
    first = played[0]
    assert [one["action"] for one in first.of_type("decision.made")] == [
        {"tool": "add", "arguments": {"a": 2, "b": 2}},
        {"text": "It is 4."},
    ]
    assert first.of_type("decision.made")[0]["reasoning"] == "I call the tool."
    taken = first.of_type("step.taken")
    assert [one["reward"] for one in taken] == pytest.approx([1.1])
    assert taken[0]["rubric"] == {"correct": 1.0, "brief": 0.5} and taken[0]["done"]
    asked, answered = first.calls[1].call, first.calls[1].call.reply
    assert [message["role"] for message in asked.messages] == ["system", "user", "assistant", "tool"]
    assert asked.prompt_token_ids is not None and asked.prompt_token_ids.tolist() == [*range(1, 12)]
    assert asked.token_ids is not None and asked.token_ids.tolist() == [12]
    assert asked.logprobs is not None and asked.logprobs.tolist() == [-0.125]
    assert answered is not None and answered["usage"] == {"tokens_in": 11, "tokens_out": 1}
    assert first.summary.started_at.startswith("2025-11-22T08:26:40")
    (group,) = picture(run)["groups"].values()
    assert group["usable"] == 3 and group["size"] == 4 and group["state"] == "partial"


def test_rows_of_results_of_verifiers_have_their_trajectory_or_their_completion(tmp_path: Path) -> None:
    prompt = [{"role": "user", "content": "2 + 2?"}]
    plain = {
        "example_id": 7, "prompt": prompt, "completion": [{"role": "assistant", "content": "4"}],
        "reward": 1.0, "metrics": {"correct": 1.0}, "timing": {"start_time": 1763800000.0},
        "is_completed": True, "is_truncated": False,
        "token_usage": {"input_tokens": 9.0, "output_tokens": 1.0},
    }  # fmt: skip
    called = json.dumps({"id": "c1", "name": "add", "arguments": '{"a":2}'})
    acted = [{"role": "assistant", "content": "", "tool_calls": [called]}]
    steps = [
        {"prompt": prompt, "completion": acted, "reward": 0.25,
         "tokens": {"prompt_ids": [1, 2], "completion_ids": [3], "completion_logprobs": [math.nan]}},
        {"prompt": [*prompt, {"role": "user", "content": "go on"}], "completion": "4", "reward": None},
    ]  # fmt: skip
    path = lines(
        tmp_path / "results.jsonl",
        plain,
        {**plain, **at(1), "completion": [], "trajectory": steps, "reward": 0.25},
        {**plain, **at(2), "is_truncated": True, "stop_condition": "max_turns_reached", "reward": 0.5},
        {
            **plain,
            **at(3),
            "error": {"error": "EndpointError", "error_chain_str": "EndpointError: gone"},
            "reward": 0.0,
        },
    )
    whole, stepped, cut, failed = imported(path, tmp_path / "run")
    assert whole.summary.score == 1.0 and whole.summary.group_id == "example-7"
    assert whole.of_type("decision.made")[0]["tokens_in"] == 9
    assert [one["reward"] for one in stepped.of_type("step.taken")] == [0.25]
    assert stepped.of_type("decision.made")[0]["action"] == {"tool": "add", "arguments": {"a": 2}}
    assert stepped.calls[0].call.logprobs is not None and math.isnan(stepped.calls[0].call.logprobs[0])
    assert [len(one.call.messages) for one in stepped.calls] == [1, 2]
    assert (cut.summary.reason, cut.end["total_reward"], cut.summary.score) == ("step_cap", 0.5, None)
    assert failed.summary.reason == "environment_error" and failed.summary.score is None
    assert failed.summary.detail == "EndpointError: gone"


def test_rollouts_of_nemo_gym_are_cut_at_their_answers(tmp_path: Path) -> None:
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Let me add."}]},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a": 2}'},
        {"type": "function_call", "call_id": "c2", "name": "add", "arguments": '{"a": 3}'},
        {"type": "function_call_output", "call_id": "c1", "output": "4"},
        {"type": "function_call_output", "call_id": "c2", "output": "5"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}],
         "prompt_token_ids": [1, 2], "generation_token_ids": [3, 4], "generation_log_probs": [-0.5, -1.0]},
    ]  # fmt: skip
    asked = {
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Add."}], "type": "message"}],
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "add", "parameters": {}}],
    }
    row = {
        "responses_create_params": asked,
        "response": {"created_at": 1763800000.0, "model": "my-model", "output": output, "error": None},
        "reward": 1.0, "_ng_task_index": 3, "_ng_rollout_index": 0, "agent_ref": {"name": "simple_agent"},
    }  # fmt: skip
    told: Any = row["response"]
    later = {"created_at": 1763800001.0, "incomplete_details": {"reason": "max_output_tokens"}}
    cut = {**row, "response": {**told, **later}}
    without = {**row, "response": {**told, "created_at": 1763800002.0}, "reward": None}
    whole, short, absent = imported(lines(tmp_path / "rollouts.jsonl", row, cut, without), tmp_path / "run")
    assert whole.summary.score == 1.0 and whole.summary.group_id == short.summary.group_id
    assert str(whole.summary.group_id).startswith("simple_agent:task-3:")
    assert whole.summary.environment == "simple_agent" and whole.summary.captain_label == "my-model"
    called, said = whole.of_type("decision.made")
    assert [one["arguments"] for one in called["action"]["calls"]] == [{"a": 2}, {"a": 3}]
    assert called["reasoning"] == "Let me add." and called["legal"] == ["add"]
    assert said["action"] == {"text": "Done."}
    assert whole.calls[1].call.token_ids is not None and whole.calls[1].call.token_ids.tolist() == [3, 4]
    assert [one["role"] for one in whole.calls[0].call.messages] == ["system", "user"]
    assert short.summary.reason == "step_cap" and short.end["total_reward"] == 1.0
    assert absent.summary.reason == "finished" and absent.summary.score is None
    assert absent.of_type("step.taken") == [] and "no reward" in str(absent.summary.result)


def test_transitions_of_nemo_gym_are_answers_to_whole_prompts(tmp_path: Path) -> None:
    asked, said, more = (
        {"type": "message", "role": role, "content": text}
        for role, text in (("user", "1 + 1?"), ("assistant", "2"), ("user", "And 2 + 2?"))
    )
    output = [[asked, said], [asked, said, more, {**said, "content": "4"}]]
    row = {"responses_create_params": {"input": []}, "response": {"output": output}, "reward": 1.0}
    (one,) = imported(lines(tmp_path / "rollouts.jsonl", row), tmp_path / "run")
    assert [len(call.call.messages) for call in one.calls] == [1, 3]
    assert [action["action"] for action in one.of_type("decision.made")] == [{"text": "2"}, {"text": "4"}]
    row["response"] = {"output": [[asked]]}
    done = run_import(lines(tmp_path / "bad.jsonl", row), into=tmp_path / "run")
    assert "response.output[0] has no answer: a transition must have one" in done.output


def test_rows_of_the_first_verifiers_name_their_example_by_id(tmp_path: Path) -> None:
    row = {"id": 7, "prompt": "q", "completion": "a", "task": "default", "reward": 0.5, "generation_ms": 0.0}
    rows = [row, {**row, "completion": "b"}]
    groups = {one.summary.group_id for one in imported(lines(tmp_path / "r.jsonl", *rows), tmp_path / "run")}
    assert [str(one).rpartition(":")[0] for one in groups] == ["default:example-7"]


def by_question(played: list[Imported]) -> list[Imported]:
    """Sorted by what was asked and answered: a file's rows have no times to sort by."""
    return sorted(
        played,
        key=lambda one: [str(call.call.messages[0]["content"]) + str(call.call.reply) for call in one.calls],
    )


def trl_table(path: Path) -> Path:
    columns = {
        "step": [1, 1, 1, 1],
        "prompt": ["2 + 2?"] * 2 + ["2 + 3?"] * 2,
        "completion": ["4", "5", "5", "6"],
        "accuracy_reward": [1.0, 0.0, 1.0, math.nan],
        "length_reward": [0.5, 0.5, 0.5, math.nan],
        "advantage": [0.7, -0.7, 0.0, 0.0],
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def test_completions_of_trl_are_groups_by_step_and_prompt(tmp_path: Path) -> None:
    path = trl_table(tmp_path / "completions_00001.parquet")
    played = by_question(imported(path, tmp_path / "run"))
    assert [one.summary.score for one in played] == [1.5, 0.5, 1.5, None]
    assert len({one.summary.group_id for one in played}) == 2
    assert played[0].of_type("step.taken")[0]["rubric"] == {"accuracy_reward": 1.0, "length_reward": 0.5}
    assert "advantage +0.7" in str(played[0].summary.result)
    assert played[3].of_type("step.taken") == []
    groups = picture(tmp_path / "run")["groups"]
    assert sorted(group["state"] for group in groups.values()) == ["complete", "partial"]
    named = by_question(imported(path, tmp_path / "named", options=["--reward", "accuracy_reward"]))
    assert [one.summary.score for one in named] == [1.0, 0.0, 1.0, None]


def test_lines_of_trl_take_conversations_too(tmp_path: Path) -> None:
    row = {"step": 3, "prompt": [{"role": "user", "content": "Add."}], "reward": 0.5, "advantage": 0.0}
    said = [{"role": "assistant", "content": "", "tool_calls": [CALL]}, {"role": "tool", "content": "4"}]
    path = lines(tmp_path / "completions.jsonl", {**row, "completion": said})
    (one,) = imported(path, tmp_path / "run")
    assert one.summary.score == 0.5
    assert one.of_type("decision.made")[0]["action"] == {"tool": "add", "arguments": {"a": 2, "b": 2}}
    assert one.of_type("imported.said")[-1]["messages"][0]["content"] == "4"


def test_viewers_get_messages_with_roles_and_images_without_what_is_private_or_has_no_room(
    tmp_path: Path,
) -> None:
    def picture(size: int) -> dict[str, Any]:
        data = {"type": "base64", "media_type": "image/png", "data": "A" * size}
        return {"type": "image", "source": data}

    remote = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    svg = {"type": "image_url", "image_url": "data:image/svg+xml;base64,AAAA"}
    asked = [picture(8), remote, svg, picture(600_000), *[picture(400_000)] * 6]
    row = [
        {"role": "system", "content": "secret"},
        {"role": "user", "content": asked},
        {"role": "assistant", "content": "Look.", "tool_calls": [CALL]},
        {"role": "tool", "content": "x" * 10_000, "tool_call_id": "c"},
        *({"role": "user", "content": "y" * 8_192} for _ in range(9)),
    ]
    (one,) = imported(lines(tmp_path / "chat.jsonl", {"messages": row}), tmp_path / "run")
    task, after = one.of_type("imported.said")
    assert task["private"] == 1 and "secret" not in str(task)
    (question,) = task["messages"]
    assert [len(image) for image in question["images"]] == [len("data:image/png;base64,") + 8, *[400_022] * 4]
    assert question["content"].count("[image]") == 8
    assert all("images" not in message for message in one.calls[0].call.messages)
    result, *more = after["messages"]
    assert (result["role"], result["tool_call_id"], result["length"]) == ("tool", "c", 10_000)
    assert len(result["content"]) == 8_192 and len(more) == 7 and after["omitted"] == 2


def inspect_text(path: Path) -> Path:
    """The archive's members as one JSON text, as inspect_ai writes it."""
    archive = DATA / "inspect.eval"
    with zipfile.ZipFile(archive) as members, archive.open("rb") as file:
        read = {one.filename: json.loads(member_bytes(file, one)) for one in members.infolist()}
    samples = [one for name, one in read.items() if name.startswith("samples/")]
    path.write_text(json.dumps({**read["header.json"], "samples": samples}, indent=2))
    return path


@pytest.mark.parametrize("kind", ["archive", "text"])
def test_logs_of_inspect_are_samples_and_epochs(kind: str, tmp_path: Path) -> None:
    path = DATA / "inspect.eval" if kind == "archive" else inspect_text(tmp_path / "log.json")
    played = imported(path, tmp_path / "run")
    assert [one.summary.environment for one in played] == ["sums"] * 4
    groups = {str(one.summary.group_id).rpartition(":")[0] for one in played}
    assert groups == {"sums:sample-1", "sums:sample-2"}
    assert {one.summary.score for one in played} == {0.0, 1.0}
    actions = [action["action"] for one in played for action in one.of_type("decision.made")]
    assert {"tool": "add", "arguments": {"a": 2, "b": 3}} in actions and {"text": "It is 5."} in actions
    assert {"text": "It is 4. <script>alert(1)</script>"} in actions
    for one in played:
        assert one.of_type("step.taken")[0]["rubric"] == {"includes": one.summary.score}
        assert one.summary.captain_label == "mockllm/model"


def test_both_forms_of_one_log_are_the_same_episodes(tmp_path: Path) -> None:
    path = inspect_text(tmp_path / "log.json")
    done = run_import(DATA / "inspect.eval", path, into=tmp_path / "run")
    assert "4 episodes imported, 4 already there" in done.output


def test_a_log_with_sorted_members_is_the_same_episodes(tmp_path: Path) -> None:
    """As ``jq -S`` writes it: version last; and with the samples first."""
    path, run = inspect_text(tmp_path / "log.json"), tmp_path / "run"
    log = json.loads(path.read_text())
    (tmp_path / "sorted.json").write_text(json.dumps(log, indent=2, sort_keys=True))
    (tmp_path / "reversed.json").write_text(json.dumps(dict(reversed(log.items())), indent=2))
    done = run_import(path, tmp_path / "sorted.json", tmp_path / "reversed.json", into=run)
    assert "4 episodes imported, 8 already there" in done.output, done.output


def inspect_sample(number: int, value: object, **more: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": "q, not NaN"}, {"role": "assistant", "content": "4"}]
    scores = {"match": {"value": value}}
    return {"id": number, "epoch": 1, "input": "q", "messages": said, "scores": scores, **more}


def inspect_log(path: Path, *samples: dict[str, Any], **more: Any) -> Path:
    about = {"run_id": "r", "eval_id": "e", "task": "t", "model": "m"}
    path.write_text(json.dumps({"version": 2, "eval": about, **more, "samples": samples}), encoding="utf-8")
    return path


def test_numbers_that_are_not_finite_cost_no_sample(tmp_path: Path) -> None:
    """NaN in a metric, in a score and in a call; the score that it is, is absent."""
    metrics = {"scores": [{"name": "match", "metrics": {"stderr": {"value": math.nan}}}]}
    samples = [inspect_sample(1, 1.0), inspect_sample(2, math.nan), inspect_sample(3, -math.inf)]
    path = inspect_log(tmp_path / "log.json", *samples, results=metrics)
    path.write_text(path.read_text().replace("-Infinity", "1e999"), encoding="utf-8")
    played = imported(path, tmp_path / "run")
    assert [one.summary.score for one in played] == [1.0, None, None]
    assert played[0].calls[0].call.messages[0]["content"] == "q, not NaN"
    log = inspect_log(tmp_path / "large.json", inspect_sample(1, 0.5, metadata={"n": 0.5}))
    log.write_text(log.read_text().replace('{"n": 0.5}', '{"n": 1e999}'), encoding="utf-8")
    assert [one.summary.score for one in imported(log, tmp_path / "other")] == [0.5]


@pytest.mark.parametrize("written", ["1e400", "-1e400", "NaN", "Infinity"])
def test_a_call_with_such_a_number_is_kept_as_it_was_written(tmp_path: Path, written: str) -> None:
    function = {"name": "f", "arguments": f'{{"p": {written}}}'}
    said = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "type": "function", "function": function}],
    }
    row = {"example_id": 0, "prompt": [{"role": "user", "content": "q"}], "completion": [said], "reward": 1.0}
    (one,) = imported(lines(tmp_path / "results.jsonl", row), tmp_path / "run")
    assert one.summary.score == 1.0
    assert one.of_type("decision.made")[0]["action"] == {"tool": "f", "arguments": {"p": None}}
    assert one.calls[0].call.reply["tool_calls"][0]["arguments"] == function["arguments"]  # type: ignore[index]


def test_a_sample_that_was_declared_invalid_has_no_verdict(tmp_path: Path) -> None:
    mark = {"timestamp": "2026-01-02T00:00:00Z", "author": "a", "reason": "the sandbox was down"}
    log = inspect_log(
        tmp_path / "log.json",
        inspect_sample(1, 0.0),
        inspect_sample(2, 1.0, invalidation=mark),
        invalidated=True,
    )
    valid, invalid = imported(log, tmp_path / "run")
    assert (valid.summary.score, valid.summary.reason) == (0.0, "finished")
    assert (invalid.summary.score, invalid.summary.reason) == (None, "environment_error")
    assert invalid.end["detail"] == "declared invalid: the sandbox was down"


def test_sessions_of_the_hub_stand_one_after_the_other(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "traces.jsonl",
        {
            "type": "session",
            "harness": "my-agent",
            "id": "s1",
            "name": "sums",
            "timestamp": 1_763_800_000_000,
        },
        {"type": "message", "message": {"role": "user", "content": "2 + 2?"}},
        {"type": "message", "message": {"role": "assistant", "content": "", "toolCalls": [CALL]}},
        {"type": "message", "message": {"role": "tool", "content": "4", "toolCallId": "c1"}},
        {"type": "message", "message": {"role": "assistant", "content": "It is 4.", "model": "m"}},
        {"type": "session", "harness": "my-agent", "id": "s2", "reward": 0.5},
        {"type": "message", "message": {"role": "assistant", "content": "5", "reasoningContent": "hm"}},
    )
    first, second = sorted(imported(path, tmp_path / "run"), key=lambda one: -len(one.events))
    assert first.summary.title == "sums" and first.summary.score is None
    assert first.of_type("step.taken") == []
    assert first.of_type("decision.made")[0]["action"]["tool"] == "add"
    assert second.summary.score == 0.5 and second.of_type("decision.made")[0]["reasoning"] == "hm"


def test_the_collectors_own_file_keeps_every_prompt_answer_and_reward(tmp_path: Path) -> None:
    """Its format was unknown."""
    asked = [
        "<user>Count.<assistant>",
        "<user>Count.<assistant>one<user>On.<assistant>",
        "<user>Again.<assistant>",
    ]
    step = {"action": {}, "parsed_ok": True, "source": "model", "done": False, "latency_s": 0.5}
    steps = [
        {**step, "step": 1, "completion": "one", "reward": 0.25, "prompt_kept": 0, "prompt_added": asked[0],
         "token_ids": [4, 5], "logprobs": [-0.5, -1.5], "tokens_in": 9, "tokens_out": 2},
        {**step, "step": 2, "completion": "?", "reward": 0.5, "prompt_kept": len(asked[0]),
         "prompt_added": asked[1][len(asked[0]):], "source": "fallback", "parsed_ok": False},
        {**step, "step": 3, "completion": "two", "reward": 0.0, "prompt_kept": 0, "prompt_added": asked[2]},
    ]  # fmt: skip
    row = {
        "format": "spectator.collector", "version": 1, "episode_id": "ep-1", "environment": "sums", "seed": 3,
        "model": "m-1", "end_reason": "finished", "failure_class": None, "truncated": False,
        "total_reward": 0.75, "started_at": "2026-11-26T20:24:13.950Z", "steps": steps,
    }  # fmt: skip
    lost = {
        **row,
        "episode_id": "ep-2",
        "total_reward": None,
        "end_reason": "policy_error",
        "steps": steps[:1],
    }
    cut = {**row, "episode_id": "ep-3", "truncated": True, "end_reason": "step_cap", "steps": steps[:1]}
    wrong = {**row, "version": 2}
    done = run_import(lines(tmp_path / "e.jsonl", row, lost, cut, wrong), into=tmp_path / "run")
    assert (done.exit_code, "line 4: version is 2" in done.output) == (1, True), done.output
    found = sorted(episodes_in(tmp_path / "run"), key=lambda one: str(one.summary.reason))
    failed, whole, capped = found
    assert (whole.summary.environment, whole.summary.seed, whole.summary.score) == ("sums", 3, 0.75)
    assert [call.call.messages for call in whole.calls] == [
        [{"role": "user", "content": asked[0]}],
        [{"role": "user", "content": asked[0]}, {"role": "assistant", "content": "one"},
         {"role": "user", "content": "<user>On.<assistant>"}],
        [{"role": "user", "content": asked[2]}],
    ]  # fmt: skip
    assert [one["reward"] for one in whole.of_type("step.taken")] == [0.25, 0.0], (
        "a fallback's action is not the model's"
    )
    assert whole.calls[0].call.logprobs is not None and whole.calls[0].call.logprobs.tolist() == [-0.5, -1.5]
    assert whole.of_type("warning")[0]["message"] == "1 of 3 decisions were a fallback's"
    assert failed.end["detail"] == "policy_error" and failed.summary.score is None
    assert (capped.summary.reason, capped.end["truncated"]) == ("step_cap", True)


def test_the_predecessors_files_are_read_without_their_truth(tmp_path: Path) -> None:
    step = {"step": 0, "prompt": "p", "completion": "{}", "action": {}, "parsed_ok": True, "reward": 0.5}
    row = {
        "seed": 3, "scenario": "mixed", "truth": {"mass_gev": 125.25}, "total_reward": 0.5,
        "cumulative_reward": 0.5, "terminal_reward": None, "steps": [{**step, "done": True}],
    }  # fmt: skip
    capped = {**row, "seed": 4, "steps": [{**step, "done": False}]}
    played = imported(lines(tmp_path / "e.jsonl", row, capped), tmp_path / "run")
    first, second = sorted(played, key=lambda one: one.summary.seed)
    assert (first.summary.environment, first.summary.reason, second.summary.reason) == (
        "collector", "finished", "step_cap",
    )  # fmt: skip
    assert [one.end["total_reward"] for one in (first, second)] == [0.5, 0.5]
    assert b"125.25" not in (tmp_path / "run" / "journal.db").read_bytes()


def test_steps_of_a_pooled_system_are_sessions_in_whatever_order(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "hi"}]
    step = {
        "session_id": "qa_1", "env_name": "qa", "group_id": "g", "step_id": 1, "messages": talk,
        "response": "ACTION: 1", "step_reward": 0.5, "terminated": False, "truncated": False,
        "env_state": '{"weight_version": 7}',
    }  # fmt: skip
    last = {**step, "step_id": 2, "terminated": True, "messages": json.dumps(talk), "response": "[2]"}
    other = {**step, "session_id": "qa_2", "is_truncated": 1, "is_terminal": 0}
    open_one = {**step, "session_id": "qa_3"}
    bad = {**step, "session_id": "qa_4", "step_id": None}
    path = lines(tmp_path / "steps.jsonl", last, other, step, open_one, bad)
    done = run_import(path, into=tmp_path / "run")
    assert (done.exit_code, "a step needs a session_id and a step_id" in done.output) == (1, True), (
        done.output
    )
    by_turns = sorted(
        episodes_in(tmp_path / "run"), key=lambda one: (-len(one.calls), one.summary.reason or "")
    )
    whole, left, cut = by_turns
    assert [call.call.reply["content"] for call in whole.calls if call.call.reply] == ["ACTION: 1", "[2]"]
    assert whole.calls[1].call.messages == talk and list(whole.calls[0].call.weight_versions) == [("7", 0)]
    assert (whole.summary.environment, whole.summary.score, whole.summary.group_id) == ("qa", 1.0, "qa:g")
    assert (left.summary.reason, cut.summary.reason) == ("interrupted", "step_cap")


def test_every_format_can_be_chosen_and_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert FORMS == NAMES
    assert page == import_page(page), "run: python -m tools.import_page"


def test_every_expression_of_the_table_can_be_read() -> None:
    for one in FORMATS:
        assert set(one.reads) <= set(FIELDS), one.name
        places = (one.condition, one.each, one.key, one.sort, one.row_id, one.begins, one.aside)
        assert all(callable(path(each)) for each in (*one.reads.values(), *places) if each)


MINE = {
    "task": {"name": "sums"},
    "log": [{"speaker": "x", "role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}],
    "grades": [{"by": "human", "points": 0.5}, {"by": "test", "points": 1}],
    "n": 2**70 + 1,
}


def test_a_map_reads_what_no_format_knows(tmp_path: Path) -> None:
    file = lines(tmp_path / "mine.jsonl", MINE, {**MINE, "log": "?", "grades": []}, {"other": 1})
    refused = run_import(file, into=tmp_path / "run")
    assert refused.exit_code == 3 and "an object with task, log, grades, n" in refused.output
    assert "--map messages=PATH" in refused.output and not (tmp_path / "run").exists()
    given = "messages=log,reward=max_by(grades, &points).points,group=task.name,environment=task.name"
    done = run_import(file, into=tmp_path / "run", options=["--map", given])
    assert done.exit_code == 1 and "line 3: log is missing" in done.output, done.output
    first, second = sorted(episodes_in(tmp_path / "run"), key=lambda one: -len(one.calls))
    assert (first.summary.score, first.summary.group_id, len(first.calls)) == (1.0, "sums:sums", 1)
    assert (second.summary.score, len(second.calls)) == (None, 0)
    again = run_import(file, into=tmp_path / "run", options=["--map", given])
    assert "0 episodes imported, 2 already there" in again.output
    whole = tmp_path / "all.json"
    whole.write_text(json.dumps({"runs": [MINE, {**MINE, "n": 0}]}, indent=2))
    options = ["--map", "each=runs,messages=it.log,reward=it.grades[0].points"]
    assert "2 episodes imported" in run_import(whole, into=tmp_path / "two", options=options).output
    assert {one.summary.score for one in episodes_in(tmp_path / "two")} == {0.5}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("reward=a", "says nothing of messages; add messages=PATH"),
        ("messages=a,colour=b", "unknown field"),
        ("messages=a[", "is not a path of jmespath.org"),
        ("messages", "use FIELD=PATH with each, messages"),
    ],
)
def test_a_map_that_cannot_be_read_says_why(tmp_path: Path, given: str, said: str) -> None:
    file = lines(tmp_path / "mine.jsonl", MINE)
    done = run_import(file, into=tmp_path / "run", options=["--map", given])
    assert done.exit_code == 2 and said in done.output, done.output


def test_the_advantage_of_trl_says_which_columns_are_rewards(tmp_path: Path) -> None:
    def rows(weight: float) -> list[dict[str, Any]]:
        rewards = [(1.0, 0.5), (0.0, 0.25), (1.0, 0.0)]
        mean = sum(right + weight * brief for right, brief in rewards) / 3
        return [
            {"step": 1, "prompt": "q", "completion": str(n), "right": right, "brief": brief,
             "length": 10.0 * n, "advantage": (right + weight * brief - mean) / 0.5}
            for n, (right, brief) in enumerate(rewards)
        ]  # fmt: skip

    sure = run_import(lines(tmp_path / "sure.jsonl", *rows(1.0)), into=tmp_path / "sure")
    assert sure.exit_code == 0 and "length is not added to the reward" in sure.output
    assert sorted(one.summary.score or 0.0 for one in episodes_in(tmp_path / "sure")) == [0.25, 1.0, 1.5]
    unsure = run_import(lines(tmp_path / "unsure.jsonl", *rows(0.3)), into=tmp_path / "unsure")
    assert "advantage does not follow from that sum" in unsure.output and "--reward" in unsure.output
    named = run_import(
        lines(tmp_path / "named.jsonl", *rows(0.3)), into=tmp_path / "named", options=["--reward", "right"]
    )
    assert "does not follow" not in named.output and "not added" not in named.output


def test_rewards_that_are_decimals_are_read(tmp_path: Path) -> None:
    table = pyarrow.table(
        {"step": [1, 1], "prompt": ["q", "q"], "completion": ["a", "b"],
         "correct": pyarrow.array([Decimal("0.25"), Decimal("1.00")], pyarrow.decimal128(5, 2))}
    )  # fmt: skip
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    assert sorted(one.summary.score or 0 for one in imported(tmp_path / "t.parquet", tmp_path / "run")) == [
        0.25,
        1,
    ]


@pytest.mark.parametrize("large", [2**53 + 1, 107505301260286111, 2**63 + 1, 2**64 + 1, -(2**70) - 1])
@pytest.mark.parametrize("text", [False, True])
def test_integers_keep_all_digits(tmp_path: Path, large: int, text: bool) -> None:
    function = {"name": "f", "arguments": json.dumps({"id": large})}
    said = {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "function": function}]}
    used = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "b", "name": "g", "input": {"id": large}}],
    }
    row = {"messages": [{"role": "user", "content": "q"}, said, used]}
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([row], indent=2) if text else json.dumps(row))
    (one,) = imported(file, tmp_path / "run")
    assert [each["action"]["arguments"]["id"] for each in one.of_type("decision.made")] == [large, large]


def test_a_prompt_that_is_repeated_is_shown_once(tmp_path: Path) -> None:
    """Each step holds the whole conversation; viewers see what is new."""
    asked = [{"role": "user", "content": "first"}]
    more = [*asked, {"role": "assistant", "content": "one"}, {"role": "user", "content": "second"}]
    step = {"session_id": "s", "env_name": "e", "step_reward": 0.5, "terminated": True}
    rows = [
        {**step, "step_id": 1, "messages": asked, "response": "one"},
        {**step, "step_id": 2, "messages": more, "response": "two"},
    ]
    (one,) = imported(lines(tmp_path / "steps.jsonl", *rows), tmp_path / "run")
    said = [each.get("messages", []) for each in one.of_type("imported.said")]
    assert [[message["content"] for message in each] for each in said] == [["first"], ["second"], []]
    assert [len(call.call.messages) for call in one.calls] == [1, 3]


CALLED = {"tool": "add", "arguments": {"a": 1}}


@pytest.mark.parametrize(
    ("form", "roles", "first", "details"),
    [
        ("claude-code", "user assistant tool", CALLED, {"reasoning": "hm", "tokens_in": 7, "model": "m-1"}),
        (
            "codex",
            "user assistant tool",
            {"tool": "shell", "arguments": {"command": ["ls"]}},
            {"reasoning": "hm"},
        ),
        ("atif", "user assistant tool", CALLED, {"tokens_in": 10, "tokens_out": 3, "model": "m-1"}),
        ("langsmith", "user", {"text": "It is a."}, {"latency_s": 2.0}),
        ("langfuse", "system user assistant tool", {"text": "It is a."}, {"latency_s": 2.0, "tokens_in": 9}),
        ("otel", "user", {"text": "It is a."}, {"latency_s": 1.0, "model": "m-1"}),
        ("lm-eval", "user", {"text": "It is a."}, {}),
        ("mini-swe-agent", "system user assistant tool", None, {"model": "m-1"}),
        ("swe-agent", "assistant system user assistant tool", None, {}),
        ("tau-bench", "system user assistant tool", None, {}),
    ],
)
def test_messages_calls_and_details_are_where_a_format_has_them(
    form: str, roles: str, first: dict[str, Any] | None, details: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "rows.jsonl").write_bytes(text_of(form, GENERATED[form].rows("sums", 1, "a")))
    (one,) = imported(tmp_path / "rows.jsonl", tmp_path / "run")
    assert [message["role"] for message in one.calls[-1].call.messages] == roles.split()
    decided = one.of_type("decision.made")[0]
    assert first is None or decided["action"] == first
    assert {name: decided[name] for name in details} == details
    assert one.calls[-1].call.reply is not None and one.calls[-1].call.reply["content"] == "It is a."


@pytest.mark.parametrize("prefix", ["gen_ai.prompt.{}.", "llm.input_messages.{}.message."])
def test_spans_with_numbered_attributes_are_messages_too(prefix: str, tmp_path: Path) -> None:
    """As OpenLLMetry and OpenInference write them."""
    answer = prefix.replace("prompt", "completion").replace("input", "output").format(0)
    span = {
        "name": "chat", "context": {"trace_id": "t", "span_id": "s"}, "start_time": "2026-01-02T00:00:00Z",
        "attributes": {
            f"{prefix.format(0)}role": "system", f"{prefix.format(0)}content": "Add.",
            f"{prefix.format(1)}role": "user", f"{prefix.format(1)}content": "2 + 2?",
            f"{answer}role": "assistant", f"{answer}content": "",
            f"{answer}tool_calls.0.name": "add", f"{answer}tool_calls.0.arguments": '{"a": 2}',
        },
    }  # fmt: skip
    (one,) = imported(lines(tmp_path / "spans.jsonl", span), tmp_path / "run")
    assert [message["content"] for message in one.calls[0].call.messages] == ["Add.", "2 + 2?"]
    assert one.of_type("decision.made")[0]["action"] == {"tool": "add", "arguments": {"a": 2}}


def test_the_reward_of_a_trajectory_of_harbor_is_in_the_file_beside(tmp_path: Path) -> None:
    (tmp_path / "trial" / "agent").mkdir(parents=True)
    told = {"task_name": "hello", "verifier_result": {"rewards": {"reward": 1.0}}}
    (tmp_path / "trial" / "result.json").write_text(json.dumps(told))
    path = tmp_path / "trial" / "agent" / "trajectory.json"
    path.write_text(json.dumps(GENERATED["atif"].rows("sums", 1, "a")[0], indent=2))
    (one,) = imported(path, tmp_path / "run")
    assert (one.summary.score, one.summary.group_id) == (1.0, "hello:hello")


def test_filters_of_lm_eval_are_environments_of_their_own(tmp_path: Path) -> None:
    row = GENERATED["lm-eval"].rows("sums", 1, "b")[0]
    path = tmp_path / "samples_gsm8k_2026-01-02T03-04-05.678901.jsonl"
    played = imported(lines(path, row, {**row, "filter": "strict", "exact_match": 0.0}), tmp_path / "run")
    assert {(one.summary.environment, one.summary.score) for one in played} == {
        ("gsm8k", 0.375),
        ("gsm8k_strict", 0.0),
    }

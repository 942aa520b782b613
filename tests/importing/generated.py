"""Rows of every format, generated: a run of two tasks with three answers each, as its files hold it.

For each format: the rows of an episode, whether they have ids of their own, and the figures that the program
which writes the files computes from them, by its own rule and not by ours.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from spectator.importing.foreign import ForeignEpisode, ForeignTurn
from spectator.importing.importer import build

Row = dict[str, Any]

DATA = Path(__file__).with_name("samples")
ANSWERS = "abc"
START = datetime(2026, 1, 2, tzinfo=UTC)


def reward_of(task: int, answer: str) -> float:
    """The reward of an answer, a different one for each."""
    return 0.25 * ANSWERS.index(answer) + 0.125 * (task % 2)


def at(task: int, answer: str, second: int = 0) -> datetime:
    """When something happened in an episode."""
    return START + timedelta(hours=task, minutes=ANSWERS.index(answer), seconds=second)


def iso(when: datetime) -> str:
    """A time as most programs write it."""
    return when.isoformat().replace("+00:00", "Z")


def talk(task: int, answer: str) -> list[Row]:
    """A conversation with a call, its result and a last answer, in the form of OpenAI's chat API."""
    function = {"name": "add", "arguments": json.dumps({"a": task, "big": 2**63 + task})}
    return [
        {"role": "system", "content": "Add."},
        {"role": "user", "content": f"{task} + 1?"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "c1", "type": "function", "function": function},
        ]},
        {"role": "tool", "content": f"{task + 1}", "tool_call_id": "c1"},
        {"role": "assistant", "content": f"It is {answer}."},
    ]  # fmt: skip


def events(env: str, task: int, answer: str) -> list[Row]:
    turn = ForeignTurn(asked=[], reply={"role": "assistant", "content": f"It is {answer}."})
    one = ForeignEpisode(
        key=[env, task, answer], environment=env, turns=[turn], reward=reward_of(task, answer)
    )
    return [json.loads(event.text) for event in build(one, "run", START).events]


def claude(env: str, task: int, answer: str) -> list[Row]:
    session, rows = f"{env}-{task}-{answer}", []
    used = {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": task}}
    said: Sequence[tuple[str, Any]] = [
        ("user", f"{task} + 1?"),
        ("assistant", [{"type": "thinking", "thinking": "hm"}]), ("assistant", [used]),
        ("user", [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "2"}]}]),
        ("assistant", [{"type": "text", "text": f"It is {answer}."}]),
    ]  # fmt: skip
    for place, (role, content) in enumerate(said):
        message = {"role": role, "content": content}
        if role == "assistant":
            message |= {"id": f"m{place // 3}", "model": "m-1", "usage": {
                "input_tokens": 3, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 0,
                "output_tokens": 2,
            }}  # fmt: skip
        rows.append({
            "type": role, "sessionId": session, "uuid": f"{session}-{place}", "message": message,
            "parentUuid": f"{session}-{place - 1}" if place else None, "isSidechain": False,
            "timestamp": iso(at(task, answer, place)),
        })  # fmt: skip
    return rows


def codex(env: str, task: int, answer: str) -> list[Row]:
    items: list[Row] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"{task} + 1?"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x"},
        {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
        {"type": "message", "role": "assistant",
         "content": [{"type": "output_text", "text": f"It is {answer}."}]},
    ]  # fmt: skip
    head = {
        "id": f"{env}-{task}-{answer}",
        "timestamp": iso(at(task, answer)),
        "cwd": "/",
        "cli_version": "1",
    }
    rows = [("session_meta", head), ("turn_context", {"model": "m-1"})]
    rows += [("response_item", one) for one in items]
    return [{"timestamp": iso(at(task, answer, n)), "type": t, "payload": p} for n, (t, p) in enumerate(rows)]


def session(env: str, task: int, answer: str) -> list[Row]:
    head = {"type": "session", "harness": env, "id": f"{task}-{answer}", "groupId": f"task-{task}",
            "reward": reward_of(task, answer)}  # fmt: skip
    said = [("user", f"{task} + 1?"), ("assistant", f"It is {answer}.")]
    return [head, *({"type": "message", "message": {"role": role, "content": text}} for role, text in said)]


def nemo(env: str, task: int, answer: str) -> list[Row]:
    output = [
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "4"},
        {"type": "message", "role": "assistant",
         "content": [{"type": "output_text", "text": f"It is {answer}."}]},
    ]  # fmt: skip
    asked = {"input": [{"role": "user", "content": f"{task} + 1?"}]}
    return [{"responses_create_params": asked, "response": {"model": "m-1", "output": output},
             "reward": reward_of(task, answer), "_ng_task_index": task,
             "agent_ref": {"name": env}}]  # fmt: skip


def calls(env: str, task: int, answer: str) -> list[Row]:
    return [
        {"episode_id": f"{env}-{task}-{answer}", "seq": seq, "call": 0, "decided": True, "environment": env,
         "group_id": f"task-{task}", "messages": [{"role": "user", "content": f"{task} + {seq}?"}],
         "reply": {"content": f"It is {answer}."}, "episode_reason": "finished",
         "episode_reward": reward_of(task, answer)}
        for seq in (2, 5)
    ]  # fmt: skip


def group(env: str, task: int, answer: str) -> list[Row]:
    said = talk(task, answer)
    return [{"group_id": f"task-{task}", "environment": env, "prompt": said[:2], "completions": [said[2:]],
             "rewards": [reward_of(task, answer)]}]  # fmt: skip


def record(env: str, task: int, answer: str) -> list[Row]:
    return [{"episode_id": None, "messages": talk(task, answer), "tool_trace": [],
             "reward": reward_of(task, answer), "task": {"name": env}}]  # fmt: skip


def collected(env: str, task: int, answer: str) -> list[Row]:
    steps: list[Row] = [
        {"step": step, "completion": f"It is {answer}.", "action": {}, "parsed_ok": True, "source": "model",
         "reward": reward_of(task, answer) / 2, "prompt": f"{task} + {step}?", "done": step == 2}
        for step in (1, 2)
    ]  # fmt: skip
    return [{"seed": 2**62 + 1, "environment": env, "steps": steps, "total_reward": reward_of(task, answer)}]


def steps(env: str, task: int, answer: str) -> list[Row]:
    return [
        {"session_id": f"{task}-{answer}", "env_name": env, "group_id": f"task-{task}", "step_id": step,
         "messages": [{"role": "user", "content": f"{task} + {step}?"}], "response": f"It is {answer}.",
         "step_reward": reward_of(task, answer) / 4 * (1 if step < 3 else 2), "terminated": step == 3,
         "truncated": False}
        for step in (1, 2, 3)
    ]  # fmt: skip


def traced(env: str, task: int, answer: str) -> list[Row]:
    row = json.loads((DATA / "verifiers_traces.jsonl").read_text().splitlines()[0])
    row |= {"env": {"id": env}, "group": {"id": f"task-{task}"}}
    row["traces"][0]["id"] = f"{env}-{task}-{answer}"
    row["traces"][0]["rewards"] = {
        "correct": {"score": reward_of(task, answer) * 2, "weight": 0.25},
        "brief": {"score": reward_of(task, answer) / 2},
    }
    row["traces"][0]["nodes"][-1]["message"]["content"] = f"It is {answer}."
    return [row]


def result(env: str, task: int, answer: str) -> list[Row]:
    said = talk(task, answer)
    return [{"example_id": task, "env_id": env, "prompt": said[:2], "completion": said[2:],
             "reward": reward_of(task, answer), "metrics": {"turns": 2.0}}]  # fmt: skip


def trl(env: str, task: int, answer: str) -> list[Row]:
    said, reward = talk(task, answer), reward_of(task, answer)
    return [{"step": task, "prompt": said[:2], "completion": said[2:], "right": reward * 0.75,
             "brief": reward * 0.25}]  # fmt: skip


def sample(env: str, task: int, answer: str) -> list[Row]:
    value: Any = {"a": "I", "b": "P", "c": "C"}[answer]
    return [{"id": task, "epoch": 1 + ANSWERS.index(answer), "input": f"{task} + 1?",
             "messages": talk(task, answer), "output": {"model": "m-1"},
             "scores": {"second": {"value": math.nan}, "first": {"value": value}}}]  # fmt: skip


def lm_eval(env: str, task: int, answer: str) -> list[Row]:
    return [{"doc_id": task, "doc": {"q": task}, "target": "2", "filter": "none", "metrics": ["exact_match"],
             "arguments": {"gen_args_0": {"arg_0": f"Q: {task} + 1?", "arg_1": {"until": ["Q"]}}},
             "resps": [[f"It is {answer}."]], "filtered_resps": [answer], "doc_hash": "d", "prompt_hash": "p",
             "target_hash": "t", "exact_match": reward_of(task, answer)}]  # fmt: skip


def tau(env: str, task: int, answer: str) -> list[Row]:
    return [{"task_id": task, "reward": reward_of(task, answer), "info": {"task": {"instruction": env}},
             "traj": talk(task, answer), "trial": ANSWERS.index(answer)}]  # fmt: skip


def simulated(env: str, task: int, answer: str) -> list[Row]:
    return [{"id": f"{env}-{task}-{answer}", "task_id": str(task), "trial": 0, "messages": talk(task, answer),
             "termination_reason": "user_stop", "reward_info": {"reward": reward_of(task,
             answer)}}]  # fmt: skip


def atif(env: str, task: int, answer: str) -> list[Row]:
    called = {"tool_call_id": "c1", "function_name": "add", "arguments": {"a": task}}
    seen = {"results": [{"source_call_id": "c1", "content": "2"}]}
    return [{"schema_version": "ATIF-v1.4", "session_id": f"{env}-{task}-{answer}",
             "agent": {"name": env, "version": "1", "model_name": "m-1"}, "steps": [
        {"step_id": 1, "source": "user", "message": f"{task} + 1?"},
        {"step_id": 2, "source": "agent", "message": "", "tool_calls": [called], "observation": seen,
         "metrics": {"prompt_tokens": 10, "completion_tokens": 3}},
        {"step_id": 3, "source": "agent", "message": f"It is {answer}.", "timestamp": iso(at(task, answer))},
    ]}]  # fmt: skip


def swe(env: str, task: int, answer: str) -> list[Row]:
    history = [{**one, "agent": "main", "message_type": "m"} for one in talk(task, answer)]
    demo = {"role": "assistant", "content": "As before.", "is_demo": True}
    return [{"environment": env, "trajectory": [], "history": [demo, *history],
             "info": {"exit_status": "submitted", "model_stats": {}}}]  # fmt: skip


def mini(env: str, task: int, answer: str) -> list[Row]:
    said = [*talk(task, answer), {"role": "exit", "content": "done", "extra": {}}]
    return [{"messages": said, "trajectory_format": "mini-swe-agent-1.1",
             "info": {"exit_status": "Submitted", "config": {"model": {"model_name": "m-1"}}}}]  # fmt: skip


def langsmith(env: str, task: int, answer: str) -> list[Row]:
    trace = f"{env}-{task}-{answer}"
    asked = [[{"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"],
               "kwargs": {"content": f"{task} + 1?", "type": "human"}}]]  # fmt: skip
    said = {"generations": [[{"text": "", "message": {
        "lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"],
        "kwargs": {"content": f"It is {answer}.", "type": "ai"}}}]]}  # fmt: skip
    root = {"id": trace, "trace_id": trace, "run_type": "chain", "name": env, "inputs": {}, "outputs": {},
            "dotted_order": "1", "start_time": iso(at(task, answer)), "parent_run_id": None,
            "feedback_stats": {"correctness": {"n": 1, "avg": reward_of(task, answer)}}}  # fmt: skip
    call = {**root, "id": f"{trace}-1", "run_type": "llm", "inputs": {"messages": asked}, "outputs": said,
            "dotted_order": "1.1", "start_time": iso(at(task, answer, 1)), "feedback_stats": None,
            "end_time": iso(at(task, answer, 3)), "parent_run_id": trace}  # fmt: skip
    return [root, call]


def langfuse(env: str, task: int, answer: str) -> list[Row]:
    seen = {"id": "o1", "type": "GENERATION", "startTime": iso(at(task, answer)), "model": "m-1",
            "endTime": iso(at(task, answer, 2)), "input": talk(task, answer)[:4],
            "output": {"role": "assistant", "content": f"It is {answer}."},
            "usageDetails": {"input": 9, "output": 2}}  # fmt: skip
    return [{"id": f"{env}-{task}-{answer}", "name": env, "timestamp": iso(at(task, answer)), "input": "q",
             "observations": [seen], "scores": [{"name": "right", "value": reward_of(task,
             answer)}]}]  # fmt: skip


def spans(env: str, task: int, answer: str) -> list[Row]:
    asked = [{"role": "user", "parts": [{"type": "text", "content": f"{task} + 1?"}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": f"It is {answer}."}]}]
    held = {"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps(said),
            "gen_ai.response.model": "m-1", "gen_ai.agent.name": env}  # fmt: skip
    attributes = [{"key": name, "value": {"stringValue": value}} for name, value in held.items()]
    nanos = int(at(task, answer).timestamp()) * 10**9
    span = {"traceId": f"{env}-{task}-{answer}", "spanId": "s1", "name": "chat", "attributes": attributes,
            "startTimeUnixNano": str(nanos), "endTimeUnixNano": str(nanos + 10**9)}  # fmt: skip
    return [{"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}]


def sharegpt(env: str, task: int, answer: str) -> list[Row]:
    said = [{"from": "human", "value": f"{task} + 1?"}, {"from": "gpt", "value": f"It is {answer}."}]
    return [{"conversations": said, "reward": reward_of(task, answer), "source": env}]


def chatml(env: str, task: int, answer: str) -> list[Row]:
    return [{"messages": talk(task, answer), "reward": reward_of(task, answer), "task": env}]


@dataclass(frozen=True)
class Generated:
    """How files of a format are made.

    Args:
        rows: The rows of one episode of an environment, a task and an answer.
        within: The member of one object that lists the rows, if they are not lines; with the rest of it.
        ids: Whether rows have ids of their own: equal rows are then the same episode.
        in_order: Whether the rows of an episode follow each other.
        figure: The reward that the tool itself computes for an episode from its rows; none by default.
    """

    rows: Callable[[str, int, str], list[Row]]
    within: tuple[str, Mapping[str, Any]] | None = None
    ids: bool = True
    in_order: bool = False
    figure: Callable[[Sequence[Row]], float | None] = lambda rows: None


def inspect_value(rows: Sequence[Row]) -> float | None:
    """As inspect_ai's `value_to_float`: C is 1, P a half, I and N 0; NaN is no number."""
    values = [one["value"] for one in rows[0]["scores"].values()]
    return next(({"C": 1.0, "P": 0.5, "I": 0.0}[one] for one in values if isinstance(one, str)), None)


def weighted(rows: Sequence[Row]) -> float:
    """As verifiers' `Trace.reward`: each score times its weight, 1 unless given."""
    rewards = rows[0]["traces"][0]["rewards"].values()
    return float(sum(one["score"] * one.get("weight", 1.0) for one in rewards))


def own(name: str) -> Callable[[Sequence[Row]], float | None]:
    """The tool takes the reward as it is written."""
    return lambda rows: rows[-1][name]


INSPECT_HEAD = {"version": 2, "status": "success", "eval": {
    "task": "sums", "run_id": "r", "eval_id": "e", "scorers": [{"name": "second"}, {"name": "first"}],
}}  # fmt: skip

GENERATED: dict[str, Generated] = {
    "ndjson": Generated(events, in_order=True, figure=lambda rows: rows[-1]["data"]["score"]),
    "claude-code": Generated(claude),
    "codex": Generated(codex, in_order=True),
    "hf-traces": Generated(session, in_order=True, figure=lambda rows: rows[0]["reward"]),
    "nemo-gym": Generated(nemo, ids=False, figure=own("reward")),
    "messages": Generated(calls, figure=own("episode_reward")),
    "groups": Generated(group, ids=False, figure=lambda rows: rows[0]["rewards"][0]),
    "episode-record": Generated(record, ids=False, figure=own("reward")),
    "collector": Generated(collected, ids=False,
    figure=lambda rows: sum(s["reward"] for s in rows[0]["steps"])),
    "steps": Generated(steps, figure=lambda rows: sum(one["step_reward"] for one in rows)),
    "verifiers": Generated(result, ids=False, figure=own("reward")),
    "prime-rl": Generated(traced, figure=weighted),
    "trl": Generated(trl, ids=False, figure=lambda rows: rows[0]["right"] + rows[0]["brief"]),
    "inspect": Generated(sample, within=("samples", INSPECT_HEAD), figure=inspect_value),
    "lm-eval": Generated(lm_eval, ids=False, figure=own("exact_match")),
    "tau-bench": Generated(tau, ids=False, figure=own("reward")),
    "tau2-bench": Generated(
        simulated, within=("simulations", {"info": {}, "tasks": []}),
        figure=lambda rows: rows[0]["reward_info"]["reward"],
    ),
    "atif": Generated(atif),
    "swe-agent": Generated(swe, ids=False),
    "mini-swe-agent": Generated(mini, ids=False),
    "langsmith": Generated(langsmith, figure=lambda rows: rows[0]["feedback_stats"]["correctness"]["avg"]),
    "langfuse": Generated(langfuse, figure=lambda rows: rows[0]["scores"][0]["value"]),
    "otel": Generated(spans),
    "sharegpt": Generated(sharegpt, ids=False, figure=own("reward")),
    "chatml": Generated(chatml, ids=False, figure=own("reward")),
}  # fmt: skip
"""One for every format of the table."""


def rewritten(row: Any) -> Any:
    """The same JSON, written in another way: members in another order, 1 for 1.0."""
    if isinstance(row, dict):
        return {name: rewritten(row[name]) for name in reversed(row)}
    if isinstance(row, list):
        return [rewritten(one) for one in row]
    return int(row) if isinstance(row, float) and row.is_integer() else row


def text_of(form: str, rows: Sequence[Row], *, otherwise: bool = False) -> bytes:
    """The text of a file, or the same one written otherwise."""
    made = GENERATED[form]
    lines: list[Row] = list(rows)
    if made.within is not None:
        member, rest = made.within
        lines = [{**rest, member: lines}]
    if otherwise:
        spaced = [json.dumps(rewritten(one), separators=(" , ", " : ")) for one in lines]
        return "".join(f"{one}\r\n" for one in [*spaced, ""]).encode()
    return "".join(f"{json.dumps(one)}\n" for one in lines).encode()

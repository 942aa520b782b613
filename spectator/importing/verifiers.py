"""Rollouts of verifiers: ``traces.jsonl`` of version 0.2 and later, ``results.jsonl`` of earlier versions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from spectator.importing.file_rows import Entries, FileRow, Source, each_row
from spectator.importing.foreign import (
    ForeignEpisode,
    ForeignTurn,
    UnreadableEntry,
    completed,
    count,
    digest_of,
    group_of,
    group_within,
    integers,
    kind_of,
    message_of,
    messages_of,
    moment,
    need,
    number,
    numbers,
    reals,
    text,
    tools_of,
    usage_of,
)

NAME: Final = "verifiers"

VERSION: Final = 1
"""The supported version of traces."""

_CUT: Final = frozenset(
    {"max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "compaction_failed"}
)
"""Stop conditions that are limits."""

_TASK: Final = "it must be the task that was played"


def matches(row: Mapping[str, Any]) -> bool:
    """Whether a line is one of this format."""
    if "nodes" in row and "task" in row:
        return True
    if "traces" in row and "task" in row:
        return True
    known = "example_id" in row or {"id", "generation_ms"} <= row.keys()
    return known and ("completion" in row or "trajectory" in row)


def read(source: Source) -> Entries:
    """Yield the episodes of a file, one per trace or per row of results."""
    beside = _environment_beside(source)
    return each_row(source, lambda row, _: _episodes(row, beside))


def _environment_beside(source: Source) -> str:
    """Return the environment that ``metadata.json`` in the same folder names; verifiers writes it."""
    try:
        metadata = json.loads((source.path.parent / "metadata.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    return text(metadata.get("env_id")) if isinstance(metadata, Mapping) else ""


def _episodes(row: FileRow, beside: str) -> Iterator[ForeignEpisode]:
    value = row.value
    if "traces" in value:
        yield from _traces(value)
    elif "nodes" in value:
        yield _trace(value, {})
    else:
        yield _result(row, beside)


def _traces(value: Mapping[str, Any]) -> Iterator[ForeignEpisode]:
    traces = need(value, "traces", list, "it must list the traces of the episode")
    if traces:
        for trace in traces:
            yield _trace(trace, value)
        return
    task = need(value, "task", dict, _TASK)
    yield ForeignEpisode(
        key=[NAME, "episode", text(value.get("id")), task],
        environment=_environment(value, task),
        turns=[],
        group=_group(value, task),
        error=_errors(value) or "no agent started",
    )


def _trace(trace: Any, episode: Mapping[str, Any]) -> ForeignEpisode:
    if not isinstance(trace, Mapping):
        raise UnreadableEntry(f"traces contains {kind_of(trace)}: it must contain objects only")
    if trace.get("version", VERSION) != VERSION:
        raise UnreadableEntry(f"version is {trace.get('version')!r}: only version {VERSION} is supported")
    task = need(trace, "task", dict, _TASK)
    nodes = need(trace, "nodes", list, "it must list the messages")
    path, others = _last_branch(nodes)
    calls = {call.get("node"): call for call in trace.get("calls") or () if isinstance(call, Mapping)}
    turns, after = _turns(nodes, path, calls)
    rewards = {name: one for name, one in (trace.get("rewards") or {}).items() if isinstance(one, Mapping)}
    values = [
        score * (1.0 if (weight := number(one.get("weight"))) is None else weight)
        for one in rewards.values()
        if (score := number(one.get("score"))) is not None
    ]
    agent = trace.get("agent") or {}
    config = agent.get("config") or {}
    timing = trace.get("timing") or {}
    ok = trace.get("ok") is not False
    return ForeignEpisode(
        key=[NAME, "trace", text(trace.get("id")) or digest_of(trace)],
        anonymous=not text(trace.get("id")),
        environment=_environment(episode, task),
        agent=text(config.get("model")) or next((one.model for one in turns if one.model), ""),
        turns=turns,
        after=after,
        group=_group(episode, task),
        seed=count((task.get("data") or {}).get("seed")),
        reward=math.fsum(values) if values else None,
        rubric={
            name: score for name, one in rewards.items() if (score := number(one.get("score"))) is not None
        },
        error=None if ok else _errors(trace) or _errors(episode) or "it did not complete",
        cut=text(trace.get("stop_condition")) if trace.get("stop_condition") in _CUT else None,
        ended=trace.get("is_completed") is not False,
        result=text(trace.get("stop_condition")) or None,
        began=next((when for node in nodes if (when := moment(node.get("timestamp")))), None)
        or moment(timing.get("start")),
        tools=tools_of(trace.get("tools") or (nodes[path[0]].get("tools") if path else None)),
        notes=[f"{others} other branches of its conversation are not shown"] if others else [],
    )


def _last_branch(nodes: Sequence[Any]) -> tuple[list[int], int]:
    """Return the node indexes from root to last leaf, and the number of other leaves."""
    parents = set()
    for place, node in enumerate(nodes):
        if not isinstance(node, Mapping):
            raise UnreadableEntry(f"nodes[{place}] is {kind_of(node)}: it must be an object")
        parent = node.get("parent")
        if parent is not None and not (isinstance(parent, int) and 0 <= parent < place):
            raise UnreadableEntry(f"nodes[{place}].parent is {parent!r}: it must be an earlier message")
        parents.add(parent)
    leaves = [place for place in range(len(nodes)) if place not in parents]
    path: list[int] = []
    at = leaves[-1] if leaves else None
    while at is not None:
        path.append(at)
        at = nodes[at].get("parent")
    return path[::-1], max(0, len(leaves) - 1)


def _turns(
    nodes: Sequence[Mapping[str, Any]], path: Sequence[int], calls: Mapping[Any, Mapping[str, Any]]
) -> tuple[list[ForeignTurn], list[Any]]:
    turns: list[ForeignTurn] = []
    asked: list[Any] = []
    tokens: list[int] = []
    for place in path:
        node = nodes[place]
        message = message_of(node.get("message"), f"nodes[{place}].message")
        ids = integers(node.get("token_ids")) or []
        if node.get("sampled") and message["role"] == "assistant":
            call = calls.get(place) or {}
            turns.append(
                ForeignTurn(
                    asked=asked,
                    reply=message,
                    model=text(call.get("model")) or None,
                    finish_reason=text(call.get("finish_reason")) or None,
                    usage=_usage(call.get("usage")),
                    at=moment(node.get("timestamp")),
                    latency_s=_took(call.get("time")),
                    **_sampled(node, tokens, ids),
                )
            )
            asked = []
        else:
            asked.append(message)
        tokens += ids
    return turns, asked


def _sampled(node: Mapping[str, Any], before: Sequence[int], ids: Sequence[int]) -> dict[str, Any]:
    """Return the tokens of prompt and answer; the mask marks the answer's tokens."""
    mask = node.get("mask")
    if not ids or not isinstance(mask, list) or len(mask) != len(ids) or not any(mask):
        return {}
    first = mask.index(True)
    written = list(ids[first:])
    return {
        "prompt_token_ids": [*before, *ids[:first]],
        "token_ids": written,
        "logprobs": reals(node.get("logprobs"), len(written)),
    }


def _usage(usage: object) -> dict[str, int] | None:
    if not isinstance(usage, Mapping):
        return None
    prompt, cached = count(usage.get("prompt_tokens")), count(usage.get("cached_input_tokens"))
    known = {"tokens_in": None if prompt is None else prompt + (cached or 0)}
    known["tokens_out"] = count(usage.get("completion_tokens"))
    return {name: value for name, value in known.items() if value is not None}


def _took(span: object) -> float:
    if not isinstance(span, Mapping):
        return 0.0
    start, end = number(span.get("start")), number(span.get("end"))
    return max(0.0, end - start) if start and end else 0.0


def _environment(episode: Mapping[str, Any], task: Mapping[str, Any]) -> str:
    env = episode.get("env") or {}
    return text(env.get("name")) or text(env.get("id")) or text(task.get("type")) or NAME


def _group(episode: Mapping[str, Any], task: Mapping[str, Any]) -> str | None:
    group = episode.get("group") or {}
    named = text(group.get("id")) or text(task.get("key")) or text(task.get("hash"))
    return group_within(_environment(episode, task), named) if named else None


def _errors(row: Mapping[str, Any]) -> str:
    errors = [one for one in row.get("errors") or () if isinstance(one, Mapping)]
    return f"{text(errors[-1].get('type'))}: {text(errors[-1].get('message'))}" if errors else ""


def _result(row: FileRow, beside: str) -> ForeignEpisode:
    """Return the episode of a row of ``results.jsonl``.

    Args:
        beside: The environment, if the row does not name one.
    """
    value = row.value
    prompt = messages_of(value.get("prompt"), "prompt")
    steps = value.get("trajectory")
    turns, after = (
        (_steps(steps), [])
        if isinstance(steps, list) and steps
        else completed(prompt, value.get("completion") or [])
    )
    timing, error = value.get("timing") or {}, value.get("error")
    usage = value.get("token_usage") or {}
    if len(turns) == 1 and turns[0].usage is None and usage:
        turns[0].usage = usage_of(usage, "input_tokens", "output_tokens")
    example = value["id" if "id" in value and "example_id" not in value else "example_id"]
    environment = text(value.get("env_id")) or beside or text(value.get("task"))
    task = f"example-{example}"
    return ForeignEpisode(
        key=[NAME, row.digest],
        anonymous=True,
        environment=environment or NAME,
        agent=text(value.get("model")),
        turns=turns,
        after=after,
        group=group_of(environment, task, prompt) if environment else task,
        reward=number(value.get("reward")),
        rubric=numbers(value.get("metrics")),
        error=_classic_error(error),
        cut=text(value.get("stop_condition")) or "a limit" if value.get("is_truncated") is True else None,
        ended=value.get("is_completed") is not False,
        result=text(value.get("stop_condition")) or None,
        began=moment(timing.get("start_time")) if isinstance(timing, Mapping) else None,
        tools=tools_of(value.get("tool_defs")),
        order_ms=min(count(example) or 0, 2**32),
    )


def _classic_error(error: object) -> str | None:
    if isinstance(error, Mapping):
        return text(error.get("error_chain_str")) or text(error.get("error")) or "it failed"
    return text(error) or None


def _steps(steps: Sequence[Any]) -> list[ForeignTurn]:
    """Return the turns of a trajectory, each with its whole prompt, reward and tokens."""
    turns = []
    for place, step in enumerate(steps):
        if not isinstance(step, Mapping):
            raise UnreadableEntry(f"trajectory[{place}] is {kind_of(step)}: it must be an object")
        name = f"trajectory[{place}]"
        messages = list(messages_of(step.get("completion"), f"{name}.completion"))
        reply = next((one for one in messages if one["role"] == "assistant"), None)
        if isinstance(step.get("completion"), str):
            reply = {"role": "assistant", "content": messages[0]["content"]}
        if reply is None:
            raise UnreadableEntry(f"{name}.completion has no assistant message")
        tokens = step.get("tokens") or {}
        ids = integers(tokens.get("completion_ids"))
        turns.append(
            ForeignTurn(
                asked=messages_of(step.get("prompt"), f"{name}.prompt"),
                reply=reply,
                fresh_prompt=True,
                reward=number(step.get("reward")),
                prompt_token_ids=integers(tokens.get("prompt_ids")),
                token_ids=ids,
                logprobs=None if ids is None else reals(tokens.get("completion_logprobs"), len(ids)),
            )
        )
    return turns

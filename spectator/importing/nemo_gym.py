"""Rollouts of NeMo Gym: one per line, with request and response of OpenAI's Responses API, and a reward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from spectator.importing.file_rows import Entries, FileRow, Source, each_row
from spectator.importing.foreign import (
    ForeignEpisode,
    ForeignTurn,
    UnreadableEntry,
    content_of,
    count,
    group_of,
    integers,
    message_of,
    moment,
    need,
    number,
    numbers,
    reals,
    text,
    tools_of,
    usage_of,
)
from spectator.journal.encoding import ChatMessage, tool_call

NAME: Final = "nemo-gym"

_OF_MODEL: Final = frozenset({"reasoning", "function_call", "custom_tool_call"})
_OUTCOMES: Final = frozenset({"function_call_output", "custom_tool_call_output"})


def matches(row: Mapping[str, Any]) -> bool:
    """Whether a line is one of this format."""
    return "responses_create_params" in row and "response" in row


def read(source: Source) -> Entries:
    """Yield the rollouts of a file."""
    return each_row(source, _rollout)


def _rollout(row: FileRow, source: Source) -> Iterator[ForeignEpisode]:
    value = row.value
    asked = need(value, "responses_create_params", dict, "it must be the request")
    response = need(value, "response", dict, "it must be the response of the agent")
    output = need(response, "output", list, "it must list the items of the response")
    prompt = _prompt(asked)
    listed = bool(output) and all(isinstance(one, list) for one in output)
    turns, after = _transitions(output) if listed else _turns(prompt, output)
    if len(turns) == 1:
        turns[0].usage = usage_of(response.get("usage"), "input_tokens", "output_tokens")
    error, incomplete = response.get("error"), response.get("incomplete_details")
    task = value.get("_ng_task_index")
    agent = value.get("agent_ref") or {}
    group = response.get("group_id") if task is None else task
    environment = text(response.get("env_id")) or text(agent.get("name")) or NAME
    yield ForeignEpisode(
        key=[NAME, row.digest],
        anonymous=value.get("_ng_rollout_index") is None,
        environment=environment,
        agent=text(response.get("model")) or text(asked.get("model")),
        turns=turns,
        after=after,
        group=None if group is None else group_of(environment, f"task-{group}", prompt),
        reward=number(value.get("reward")),
        rubric=numbers(response.get("metrics")),
        error=None if not error else text(error.get("message")) or "it failed",
        cut=_cut(incomplete),
        began=moment(response.get("created_at")),
        tools=tools_of(asked.get("tools")),
        order_ms=min(count(task) or 0, 2**32),
    )


def _prompt(asked: Mapping[str, Any]) -> list[ChatMessage]:
    """Return the messages of the request; answers among them are context."""
    messages: list[ChatMessage] = []
    if text(asked.get("instructions")):
        messages.append({"role": "system", "content": asked["instructions"]})
    given = asked.get("input")
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    for place, item in enumerate(given if isinstance(given, list) else ()):
        messages.append(_item(item, f"responses_create_params.input[{place}]"))
    return messages


def _item(item: Any, name: str) -> ChatMessage:
    """Return an item of a request or a response as a message."""
    if not isinstance(item, Mapping):
        raise UnreadableEntry(f"{name} is not an object")
    kind = item.get("type")
    if kind in _OUTCOMES:
        content, _ = content_of(item.get("output"))
        return {"role": "tool", "content": content, "tool_call_id": text(item.get("call_id"))}
    if kind in ("function_call", "custom_tool_call"):
        given = item.get("arguments") if kind == "function_call" else item.get("input")
        call = tool_call(text(item.get("call_id")), text(item.get("name")) or "unnamed", text(given) or "{}")
        return {"role": "assistant", "content": "", "tool_calls": [call]}
    if kind == "reasoning":
        parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
        thought = "\n".join(text(one.get("text")) for one in parts if isinstance(one, Mapping))
        return {"role": "assistant", "content": "", "reasoning_content": thought}
    if kind not in (None, "message"):
        return {"role": "tool", "content": f"[{text(kind)}]"}
    return message_of(item, name)


def _transitions(output: Sequence[list[Any]]) -> tuple[list[ForeignTurn], list[ChatMessage]]:
    """Return a turn per transition, which lists its whole prompt and the answer, and the messages after."""
    turns: list[ForeignTurn] = []
    after: list[ChatMessage] = []
    for place, items in enumerate(output):
        said, after = _turns([], items)
        if not said:
            raise UnreadableEntry(f"response.output[{place}] has no answer: a transition must have one")
        *earlier, last = said
        last.asked = [*(one for turn in earlier for one in (*turn.asked, turn.reply)), *last.asked]
        last.fresh_prompt = True
        turns.append(last)
    return turns, after


def _turns(prompt: list[ChatMessage], output: Sequence[Any]) -> tuple[list[ForeignTurn], list[ChatMessage]]:
    """Split the items of a response into turns, and the messages after the last.

    A turn extends until the next tool output, or to the item with its tokens.
    """
    turns: list[ForeignTurn] = []
    asked: list[ChatMessage] = list(prompt)
    open_turn: ForeignTurn | None = None
    for place, item in enumerate(output):
        message = _item(item, f"response.output[{place}]")
        if message["role"] != "assistant":
            open_turn = None
            asked.append(message)
            continue
        if open_turn is None:
            open_turn = ForeignTurn(asked=asked, reply={"role": "assistant", "content": ""})
            turns.append(open_turn)
            asked = []
        _join(open_turn.reply, message)
        if (ids := integers(item.get("generation_token_ids"))) is not None:
            open_turn.token_ids = ids
            open_turn.prompt_token_ids = integers(item.get("prompt_token_ids"))
            open_turn.logprobs = reals(item.get("generation_log_probs"), len(ids))
            open_turn = None
    return turns, asked


def _join(reply: ChatMessage, more: ChatMessage) -> None:
    """Add an item of an answer to the reply."""
    for name in ("content", "reasoning_content"):
        if more.get(name):
            reply[name] = f"{reply[name]}\n{more[name]}" if reply.get(name) else more[name]
    if more.get("tool_calls"):
        reply["tool_calls"] = [*reply.get("tool_calls", ()), *more["tool_calls"]]


def _cut(incomplete: object) -> str | None:
    reason = text(incomplete.get("reason")) if isinstance(incomplete, Mapping) else ""
    return reason or None

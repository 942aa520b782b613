"""Rollouts of NeMo Gym: a line each, with request and response in OpenAI's Responses form, and a reward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from spectator.importing.file_rows import Entries, FileRow, Source, each_row
from spectator.importing.foreign import (
    ForeignEpisode,
    ForeignTurn,
    UnreadableEntry,
    content_of,
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


def known_by(row: Mapping[str, Any]) -> bool:
    """Whether a line is one of this format."""
    return "responses_create_params" in row and "response" in row


def read(source: Source) -> Entries:
    """The rollouts of a file."""
    return each_row(source, _rollout)


def _rollout(row: FileRow, source: Source) -> Iterator[ForeignEpisode]:
    value = row.value
    asked = need(value, "responses_create_params", dict, "it must be the request")
    response = need(value, "response", dict, "it must be the response of the agent")
    output = need(response, "output", list, "it must list the items of the response")
    turns, after = _turns(_prompt(asked), output)
    if len(turns) == 1:
        turns[0].usage = usage_of(response.get("usage"), "input_tokens", "output_tokens")
    error, incomplete = response.get("error"), response.get("incomplete_details")
    task = value.get("_ng_task_index")
    agent = value.get("agent_ref") or {}
    group = response.get("group_id") if task is None else task
    yield ForeignEpisode(
        key=[NAME, row.number, row.digest],
        environment=text(response.get("env_id")) or text(agent.get("name")) or NAME,
        agent=text(response.get("model")) or text(asked.get("model")),
        turns=turns,
        after=after,
        group=None if group is None else f"task-{group}",
        reward=number(value.get("reward")),
        rubric=numbers(response.get("metrics")),
        error=None if not error else text(error.get("message")) or "it failed",
        cut=_cut(incomplete),
        began=moment(response.get("created_at")),
        tools=tools_of(asked.get("tools")),
        order_ms=row.number,
    )


def _prompt(asked: Mapping[str, Any]) -> list[ChatMessage]:
    """The request's own words; answers in it are context."""
    said: list[ChatMessage] = []
    if text(asked.get("instructions")):
        said.append({"role": "system", "content": asked["instructions"]})
    given = asked.get("input")
    if isinstance(given, str):
        return [*said, {"role": "user", "content": given}]
    for place, item in enumerate(given if isinstance(given, list) else ()):
        said.append(_item(item, f"responses_create_params.input[{place}]"))
    return said


def _item(item: Any, name: str) -> ChatMessage:
    """An item of a request or a response as a message of its own."""
    if not isinstance(item, Mapping):
        raise UnreadableEntry(f"{name} is no item")
    kind = item.get("type")
    if kind in _OUTCOMES:
        said, _ = content_of(item.get("output"))
        return {"role": "tool", "content": said, "tool_call_id": text(item.get("call_id"))}
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


def _turns(prompt: list[ChatMessage], output: Sequence[Any]) -> tuple[list[ForeignTurn], list[ChatMessage]]:
    """The items of a response cut at the answers of the model.

    An answer goes on until something answers it, or until the item that carries its tokens.
    """
    turns: list[ForeignTurn] = []
    said: list[ChatMessage] = list(prompt)
    open_turn: ForeignTurn | None = None
    for place, item in enumerate(output):
        message = _item(item, f"response.output[{place}]")
        if message["role"] != "assistant":
            open_turn = None
            said.append(message)
            continue
        if open_turn is None:
            open_turn = ForeignTurn(asked=said, reply={"role": "assistant", "content": ""})
            turns.append(open_turn)
            said = []
        _join(open_turn.reply, message)
        if (ids := integers(item.get("generation_token_ids"))) is not None:
            open_turn.token_ids = ids
            open_turn.prompt_token_ids = integers(item.get("prompt_token_ids"))
            open_turn.logprobs = reals(item.get("generation_log_probs"), len(ids))
            open_turn = None
    return turns, said


def _join(reply: ChatMessage, more: ChatMessage) -> None:
    """Add an item of an answer to what it holds already."""
    for name in ("content", "reasoning_content"):
        if more.get(name):
            reply[name] = f"{reply[name]}\n{more[name]}" if reply.get(name) else more[name]
    if more.get("tool_calls"):
        reply["tool_calls"] = [*reply.get("tool_calls", ()), *more["tool_calls"]]


def _cut(incomplete: object) -> str | None:
    reason = text(incomplete.get("reason")) if isinstance(incomplete, Mapping) else ""
    return reason or None

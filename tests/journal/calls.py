"""Small model calls for tests of the journal, each beside the decision that states it."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from spectator.core_events import DecisionMade, ModelExchange, RecordedReply, core_fact
from spectator.events import Event, RecordedEvent, record
from spectator.llm.exchanges import fingerprint
from spectator.model_calls import ModelCall

TOOLS = [{"type": "function", "function": {"name": "say", "parameters": {"minimum": 1}}}]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def reply(text: str) -> dict[str, Any]:
    return RecordedReply(
        content=text, thought="", refusal=None, tool_calls=[], finish_reason="stop", model="m", usage=None
    ).model_dump(mode="json")


def call_of(
    messages: Sequence[Mapping[str, Any]],
    text: str | None = "yes",
    *,
    tools: Sequence[Mapping[str, Any]] = TOOLS,
    prompt: Sequence[int] | None = None,
    tokens: Sequence[int] | None = None,
    logprobs: Sequence[float] | None = None,
    **more: Any,
) -> ModelCall:
    return ModelCall(
        messages=messages,
        tools=tools,
        reply=None if text is None else reply(text),
        prompt_token_ids=None if prompt is None else array("q", prompt),
        token_ids=None if tokens is None else array("q", tokens),
        logprobs=None if logprobs is None else array("d", logprobs),
        **more,
    )


def decided(
    episode_id: str, seq: int, calls: Sequence[ModelCall], *, actor: str = "home", long: bool = False
) -> RecordedEvent:
    """The decision behind which ``calls`` are; with ``long``, its event holds no reply."""
    exchanges = []
    for call in calls:
        asked = fingerprint(call.messages, call.tools)
        held = None if long else call.reply
        exchanges.append(ModelExchange(request=asked, reply=held, digest=call.digest(asked)))
    made = DecisionMade(
        actor=actor, source="model", action={"n": seq}, reasoning="", latency_s=0.1, exchanges=exchanges
    )
    return record(Event(episode_id, "e1", seq, "now", seq, "decision.made", core_fact(made).data))

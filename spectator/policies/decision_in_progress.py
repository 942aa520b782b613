"""One decision of a model while it is made: the answers so far, and what they come to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from spectator.clock import Clock
from spectator.failures import FailureClass
from spectator.llm.chat import ChatAnswer, Message, Usage
from spectator.llm.loose_json import MAX_TEXT
from spectator.llm.parsing import (
    CallRefused,
    ParsedCall,
    WrittenCall,
    check_call,
    find_calls,
    unjudged,
    written_form,
)
from spectator.model_calls import ModelCall
from spectator.observations import LegalAction, Observation
from spectator.policies.base import Decision
from spectator.policies.history import answer_message, tool_messages
from spectator.policies.prompting import EDITION, correction

MAX_CALLS_SHOWN: Final = 8
"""Calls of a rejected answer that are shown back to the model."""


@dataclass(slots=True)
class DecisionInProgress:
    """One decision under way.

    Args:
        observation: What is to be decided on.
        began: When, by the clock's ``monotonic``.
        limit: Seconds that it may take.
        tools: The legal actions in the endpoint's form, where the style has them.
        answers: What the model answered so far.
        parse: How the answer became an action, as far as it did.
        exchanges: The questions so far and what came back, as the event holds them.
        calls: The same, whole.
        written: Characters that were heard of the answer that forms.
        used: Tokens so far; ``None`` before any.
        estimated: Whether some of them were not counted by the endpoint.
        cost: What they cost; ``None`` without prices.
    """

    observation: Observation
    began: float
    limit: float
    tools: Sequence[Mapping[str, Any]] = ()
    answers: list[ChatAnswer] = field(default_factory=list)
    parse: Literal["ok", "repaired", "failed"] | None = "ok"
    exchanges: list[Mapping[str, Any]] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)
    written: int = 0
    used: Usage | None = None
    estimated: bool = False
    cost: float | None = None

    def left(self, clock: Clock) -> float:
        """Seconds left."""
        return self.began + self.limit - clock.monotonic()

    def decision(
        self,
        clock: Clock,
        action: Mapping[str, Any],
        source: Literal["model", "fallback"],
        reasoning: str,
        *,
        model: str,
        fallback_reason: str | None = None,
        failure_class: FailureClass | None = None,
    ) -> Decision:
        """The decision, with what the answers so far cost."""
        return Decision(
            action,
            source,
            reasoning,
            raw_text="\n\n".join([written_form(answer) for answer in self.answers]) if self.answers else None,
            parse=self.parse,
            fallback_reason=fallback_reason,
            failure_class=failure_class,
            model=model,
            latency_s=round(clock.monotonic() - self.began, 6),
            tokens_in=None if self.used is None else self.used.tokens_in,
            tokens_out=None if self.used is None else self.used.tokens_out,
            tokens_estimated=self.estimated,
            cost=self.cost,
            prompt=EDITION,
            exchanges=self.exchanges,
            calls=self.calls,
        )


def read_calls(
    answer: ChatAnswer, legal: Sequence[LegalAction], text_field: str | None, most: int
) -> list[ParsedCall]:
    """The calls of an answer: the first is legal, the others are judged when they are due.

    Args:
        answer: What the model wrote.
        legal: What may be done now.
        text_field: The argument that takes the whole answer as it is, in worlds that are played in free text.
        most: How many calls may be taken.

    Raises:
        CallRefused: There is none, or the first is not legal.
        UnsupportedSchema: What is legal cannot be told from its schema.
    """
    try:
        if text_field is not None:
            written = [free_text(answer, legal[0]["tool"], text_field)]
        else:
            written = find_calls(answer, legal)
        if not written:
            raise no_call(answer)
        if most > 1:
            return [check_call(written[0], legal), *map(unjudged, written[1:most])]
        # A text may weigh several actions before it ends with one; tool calls are meant to be carried out.
        return [check_call(written[0] if answer.tool_calls else written[-1], legal)]
    except CallRefused as broken:
        if answer.finish_reason == "length":
            broken.failure_class = "truncated"
        raise


def no_call(answer: ChatAnswer) -> CallRefused:
    """The rule that an answer without any call broke."""
    if answer.refusal or answer.finish_reason == "content_filter":
        return CallRefused("the model declined to answer", failure_class="declined")
    if answer.finish_reason == "length":
        cut = "the answer was cut at the longest length before it named an action"
        return CallRefused(cut, failure_class="truncated")
    if not answer.text:
        return CallRefused("the answer is empty", failure_class="unparsable")
    return CallRefused("the answer names no action in the form asked for", failure_class="unparsable")


def free_text(answer: ChatAnswer, tool: str, field: str) -> WrittenCall:
    """An answer that is the action itself, word for word.

    Raises:
        CallRefused: It is empty, was declined, is too long or was cut: half a text is another text.
    """
    if answer.finish_reason == "length":
        raise CallRefused("the answer was cut at the longest length", failure_class="truncated")
    if not answer.text.strip() or answer.refusal or answer.finish_reason == "content_filter":
        raise no_call(answer)
    text = answer.text.strip()
    if len(text) > MAX_TEXT:
        raise CallRefused(f"the answer has more than {MAX_TEXT} characters", failure_class="truncated")
    return WrittenCall(tool, {field: text})


def with_ids(calls: Sequence[ParsedCall]) -> tuple[ParsedCall, ...]:
    """The calls with ids that differ, whatever the endpoint gave."""
    if len(calls) == 1 and 0 < len(calls[0].id) <= 64:
        return (calls[0],)
    taken = [call.id for call in calls]
    return tuple(
        call
        if call.id and len(call.id) <= 64 and call.id not in taken[:number]
        else replace(call, id=f"call_{number}")
        for number, call in enumerate(calls)
    )


def rejected(answer: ChatAnswer, rule: str) -> list[Message]:
    """The answer that broke ``rule``, and the words that ask for another."""
    words = correction(rule)
    written = find_calls(answer, ())[:MAX_CALLS_SHOWN] if answer.tool_calls else []
    if not written:
        return [
            answer_message(answer.text or answer.refusal or "", (), answer.verbatim),
            {"role": "user", "content": words},
        ]
    calls = with_ids([replace(one, tool=one.tool or "unnamed") for one in map(unjudged, written)])
    return [answer_message(answer.text, calls, answer.verbatim), *tool_messages(calls, (), words)]


def stated_reasoning(call: ParsedCall, answer: ChatAnswer) -> str:
    """The stated reason first, then the thoughts behind it."""
    prose = answer.text if answer.tool_calls else re.split(r"```|[{<]", answer.text, maxsplit=1)[0]
    stated = call.reason or prose.strip()
    return "\n\n".join([part for part in (stated, answer.thought) if part])

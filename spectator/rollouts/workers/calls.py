"""Calls to models between a worker and its desk: each prompt by what it adds to the one before it."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from spectator.journal.attachments import Attachments
from spectator.model_calls import ModelCall
from spectator.prefix import common_length


@dataclass(frozen=True, slots=True)
class SentCall:
    """A call as it travels.

    Args:
        kept: Messages of the call before it that its prompt begins with.
        messages: Those that follow.
        tools: Its tools; ``None`` where they are those of the call before it.
        prompt_kept: Tokens of prompt and answer of the call before it that its prompt begins with.
        prompt: Ids of the tokens that follow; ``None`` where they are not known.
        rest: Everything else: the other fields of :class:`~spectator.model_calls.ModelCall` by name.
    """

    kept: int
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] | None
    prompt_kept: int
    prompt: array[int] | None
    rest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SentAttachments:
    """What belongs to the events of an append, as it travels; see :class:`Attachments`."""

    calls: Sequence[Sequence[SentCall]]
    truth: str | None


@dataclass(slots=True)
class CallsUnderLease:
    """One end's memory of the last call of an episode; the other end's is the same.

    >>> here, there = CallsUnderLease(), CallsUnderLease()
    >>> task = {"role": "user", "content": "Go."}
    >>> first = ModelCall(messages=[task])
    >>> second = ModelCall(messages=[task, {"role": "assistant", "content": "1"}])
    >>> sent = [here.packed(Attachments([[call]])) for call in (first, second)]
    >>> [len(one.calls[0][0].messages) for one in sent]
    [1, 1]
    >>> [there.unpacked(one).calls[0][0] for one in sent] == [first, second]
    True
    """

    messages: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    tokens: array[int] = field(default_factory=lambda: array("q"))

    def packed(self, attachments: Attachments | None) -> SentAttachments | None:
        """``attachments`` as they travel."""
        if attachments is None:
            return None
        return SentAttachments(
            [[self._pack(call) for call in calls] for calls in attachments.calls], attachments.truth
        )

    def unpacked(self, sent: SentAttachments | None) -> Attachments | None:
        """Inverse of :meth:`packed`; messages that were sent before are the very same objects again."""
        if sent is None:
            return None
        return Attachments([[self._unpack(call) for call in calls] for calls in sent.calls], sent.truth)

    def _pack(self, call: ModelCall) -> SentCall:
        same = takewhile(lambda pair: pair[0] is pair[1], zip(self.messages, call.messages, strict=False))
        kept = sum(1 for _ in same)
        tools = None if call.tools is self.tools else [dict(tool) for tool in call.tools]
        prompt = call.prompt_token_ids
        prompt_kept = 0 if prompt is None else common_length(self.tokens, prompt)
        rest = {
            "reply": call.reply, "token_ids": call.token_ids, "logprobs": call.logprobs,
            "weight_versions": call.weight_versions, "about": call.about, "measured": call.measured,
        }  # fmt: skip
        self._remember(call)
        messages = [dict(message) for message in call.messages[kept:]]
        return SentCall(
            kept, messages, tools, prompt_kept, None if prompt is None else prompt[prompt_kept:], rest
        )

    def _unpack(self, sent: SentCall) -> ModelCall:
        call = ModelCall(
            messages=[*self.messages[: sent.kept], *sent.messages],
            tools=self.tools if sent.tools is None else sent.tools,
            prompt_token_ids=None if sent.prompt is None else self.tokens[: sent.prompt_kept] + sent.prompt,
            **sent.rest,
        )
        self._remember(call)
        return call

    def _remember(self, call: ModelCall) -> None:
        self.messages, self.tools = call.messages, call.tools
        if call.prompt_token_ids is not None:
            self.tokens = call.prompt_token_ids + (call.token_ids or array("q"))

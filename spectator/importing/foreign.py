"""What a file says of one episode, in one form for all formats; what it does not say is ``None``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from spectator.journal.chat_form import ChatMessage


class NotReadable(ValueError):
    """An entry of a file is not what its format says; the message names the field and the rule."""


@dataclass(slots=True, kw_only=True)
class ForeignTurn:
    """One answer of a model.

    Args:
        asked: The messages that its prompt adds to everything before; all of its prompt where ``anew``.
        reply: The answer as a message of the assistant.
        anew: Whether the prompt does not go on from the answer before it.
        reward: What it earned, where the file says so.
        prompt_token_ids: Ids of the prompt's tokens.
        token_ids: Ids of the answer's tokens, shape ``(n,)``.
        logprobs: Their log probabilities in nats, shape ``(n,)``.
        usage: ``tokens_in`` and ``tokens_out``, where counted.
        model: The model that answered.
        finish_reason: Why it stopped.
        at: When it was there.
        latency_s: How long it took, seconds.
    """

    asked: Sequence[ChatMessage]
    reply: ChatMessage
    anew: bool = False
    reward: float | None = None
    prompt_token_ids: Sequence[int] | None = None
    token_ids: Sequence[int] | None = None
    logprobs: Sequence[float] | None = None
    usage: Mapping[str, int] | None = None
    model: str | None = None
    finish_reason: str | None = None
    at: datetime | None = None
    latency_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class ForeignEpisode:
    """An episode that was played by another program.

    Args:
        key: What it is, as JSON: of no other episode, and the same whenever its file is read.
        environment: What was played, in whatever words.
        turns: The answers, in order.
        after: What was said after the last answer.
        agent: The model, or whoever decided; empty where the file does not say.
        title: The environment's name as shown to people.
        group: Name of the episodes of one prompt.
        seed: Its seed.
        reward: What it came to; ``None`` where the file gives no reward, which is not 0.
        rubric: Named parts of the reward.
        error: What went wrong; then there is no verdict.
        cut: Why it was cut short.
        ended: Whether it came to its end.
        result: What came of it, in words.
        began: When it began.
        tools: The tools that were offered, in the endpoint's form.
        notes: What of it is not shown, a sentence each.
        order_ms: By which episodes without a time sort, 0 .. 2**48 - 1.
    """

    key: Sequence[Any]
    environment: str
    turns: Sequence[ForeignTurn]
    after: Sequence[ChatMessage] = ()
    agent: str = ""
    title: str = ""
    group: str | None = None
    seed: int | None = None
    reward: float | None = None
    rubric: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    cut: str | None = None
    ended: bool = True
    result: str | None = None
    began: datetime | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()
    order_ms: int = 0

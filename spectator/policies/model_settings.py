"""How a model is asked: its settings, with their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from spectator.llm.constraint import Constraint, ConstraintSetting, Subset, in_list, strongest
from spectator.llm.endpoints import Price

Style = Literal["tools", "json", "xml"]
"""How a model names its actions: native tool calls, one JSON object, or ``<tool_call>`` tags."""

PromptSize = Literal["full", "short"]
"""The whole prompt, or one for small models; see :mod:`spectator.policies.short_prompts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Settings of a model policy.

    Args:
        model: Name of the model at its endpoint.
        style: How it names its actions.
        temperature: 0 .. 2; ``None`` for the endpoint's default.
        max_tokens: Longest answer, thoughts included.
        max_tokens_field: See :class:`ChatRequest`.
        timeout_s: Longest time for a decision, seconds, including a second request.
        context_tokens: Limit of prompt and answer tokens; older turns are omitted.
        actions_per_answer: Number of actions that it may plan in one answer.
        tool_choice: ``auto`` or ``required``, for the style ``tools``.
        stream: Whether to stream answers, to show thoughts live.
        send_seed: Whether the endpoint accepts a seed.
        tokens: Whether to request token ids and log probabilities, for the training record.
        waits_for_rest: Whether a decision waits, within its time limit, for an endpoint that is paused after
            failures; otherwise the fallback decides at once.
        send_back: Whether to send unknown members of its messages back, such as thoughts and signatures.
        history_tokens: Tokens of past turns after which the conversation restarts.
        whole_situations: Whether every message contains the whole situation, not only changes; for prompts
            from which earlier messages are removed.
        constraint: How answers are constrained; see :mod:`spectator.llm.constraint`.
        subset: Who reads the schemas of constraints.
        extra: Further fields of the request.
        recorded: The captain's settings as each call records them, with secrets masked.
        price_in: Price per million prompt tokens; 0 if unknown.
        price_out: Price per million answer tokens; 0 if unknown.
        price: Complete token prices; replaces the two above.
    """

    model: str
    style: Style = "tools"
    temperature: float | None = None
    max_tokens: int = 1024
    max_tokens_field: str = "max_tokens"
    timeout_s: float = 60.0
    context_tokens: int = 16_384
    actions_per_answer: int = 1
    tool_choice: str | None = None
    stream: bool = True
    send_seed: bool = True
    tokens: bool = False
    send_back: bool = True
    history_tokens: int = 2_000
    whole_situations: bool = False
    waits_for_rest: bool = False
    constraint: ConstraintSetting = "none"
    subset: Subset = "local"
    prompt: PromptSize = "full"
    extra: Mapping[str, Any] = field(default_factory=dict)
    recorded: Mapping[str, Any] = field(default_factory=dict)
    price_in: float = 0.0
    price_out: float = 0.0
    price: Price | None = None

    @property
    def strongest(self) -> Constraint:
        """The constraint to try first."""
        return strongest(self.constraint, self.style)

    @property
    def listed(self) -> bool:
        """Whether answers hold a list of actions."""
        listed = self.strongest == "json_schema" and in_list(self.subset, self.actions_per_answer)
        return listed or self.actions_per_answer > 1

    @property
    def priced(self) -> Price | None:
        """Token prices; ``None`` if unknown."""
        if self.price is None and (self.price_in or self.price_out):
            return Price(input=self.price_in, output=self.price_out)
        return self.price

"""How a language model is asked: sampling, limits, prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spectator.llm.presets import Price
from spectator.policies.prompting import Style


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How a model is asked.

    Args:
        model: Its name at its endpoint.
        style: How it is asked to act.
        temperature: 0 .. 2; ``None`` leaves it to the endpoint.
        max_tokens: Longest answer, thoughts included.
        max_tokens_field: See :class:`ChatRequest`.
        timeout_s: Longest time for a decision, second asking included.
        context_tokens: Tokens of prompt and answer together; older turns are left out beyond it.
        actions_per_answer: More than 1 lets it plan that many actions ahead in one answer.
        tool_choice: ``auto`` or ``required``, for the style ``tools``.
        stream: Whether its thoughts are to be heard while they form.
        send_seed: Whether the endpoint takes a seed.
        tokens: Whether token ids and log probabilities are asked for, for the training record.
        waits_for_rest: Whether a decision waits, while it has time, for an endpoint that is left alone after
            failing; else somebody else decides at once.
        send_back: Whether members of its messages that nobody here knows, such as thoughts and their
            signatures, are sent back with them.
        history_tokens: Tokens of past turns after which the conversation begins again.
        whole_situations: Whether every message states the whole situation, and not only what changed: for
            prompts from which earlier messages are removed.
        extra: Further fields of the request.
        price_in: Price of a million prompt tokens; 0 where it is not known.
        price_out: Price of a million answer tokens.
        price: What its tokens cost, cached ones apart; by the two above when left out.
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
    extra: Mapping[str, Any] = field(default_factory=dict)
    price_in: float = 0.0
    price_out: float = 0.0
    price: Price | None = None

    @property
    def priced(self) -> Price | None:
        """What its tokens cost; ``None`` where nobody knows."""
        if self.price is None and (self.price_in or self.price_out):
            return Price(input=self.price_in, output=self.price_out)
        return self.price

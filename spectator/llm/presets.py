"""Providers of models: where each is asked, in which form, what it supports, and its published prices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType
from typing import Final, Literal

from spectator.llm.chat import Usage

Form = Literal["openai", "anthropic", "gemini"]
"""How requests and answers are written: chat completions, Anthropic's Messages, Gemini's generateContent."""


_DAY: Final = re.compile(r"-\d{4}-?\d{2}-?\d{2}")
"""What follows a model's name in the name of its version of a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What tokens cost at one provider, as published on a day; it may have changed since.

    Args:
        input: Price of ``per`` prompt tokens.
        output: Price of ``per`` tokens of the answer, thoughts included.
        cached_input: Price of ``per`` prompt tokens that the provider had at hand; as ``input`` if ``None``.
        cache_write: Price of ``per`` prompt tokens that it put into its cache; as ``input`` if ``None``.
        currency: ISO 4217.
        per: Tokens that the prices are for.
        as_of: The day on which they were published or last read; ``None`` for prices of the user's own.

    Raises:
        ValueError: A price is negative, or ``per`` is not at least 1.

    >>> Price(input=1.0, cached_input=0.1, output=5.0).cost(Usage(1_000, 200, cached_in=900))
    0.00119
    """

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    currency: str = "USD"
    per: int = 1_000_000
    as_of: date | None = None

    def __post_init__(self) -> None:
        prices = (self.input, self.output, self.cached_input or 0.0, self.cache_write or 0.0)
        if not all(price >= 0 for price in prices) or self.per < 1:
            raise ValueError("prices are 0 or more, for at least one token")

    def cost(self, usage: Usage) -> float:
        """What ``usage`` costs, in ``currency``."""
        cached = min(usage.cached_in, usage.tokens_in)
        written = min(usage.cache_written, usage.tokens_in - cached)
        read_at = self.input if self.cached_input is None else self.cached_input
        written_at = self.input if self.cache_write is None else self.cache_write
        fresh = usage.tokens_in - cached - written
        taken = fresh * self.input + cached * read_at + written * written_at + usage.tokens_out * self.output
        return taken / self.per

    def __str__(self) -> str:
        cached = "" if self.cached_input is None else f" ({self.cached_input:g} cached)"
        published = "" if self.as_of is None else f", as published on {self.as_of.isoformat()}"
        tokens = "a million" if self.per == 1_000_000 else f"{self.per:,}"
        return (
            f"{self.input:g}{cached} in, {self.output:g} out, {self.currency} for {tokens} tokens{published}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """What a captain of one provider need not say itself.

    Args:
        label: Its name, for people.
        base_url: Where it is asked.
        form: In which form.
        key_env: Variable that usually holds its key; ``None`` where it needs none.
        max_tokens_field: See :class:`spectator.llm.chat.ChatRequest`.
        stream: Whether answers are asked for while they form.
        send_seed: Whether it takes a seed.
        local: Whether it is a program on one's own machine, for which nobody is paid.
        tools_need: What must be done there before models can call tools; empty where nothing.
        context_needs: What must be done there for prompts of usual length; empty where nothing.
        prices: Of its models, by the beginning of their names; only those that were certain on their day.
    """

    label: str
    base_url: str
    form: Form = "openai"
    key_env: str | None = None
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream: bool = True
    send_seed: bool = True
    local: bool = False
    tools_need: str = ""
    context_needs: str = ""
    prices: Mapping[str, Price] = field(default_factory=dict)

    def price_of(self, model: str) -> Price | None:
        """The price of ``model``, or of that which it is a dated version of; ``None`` where it is not known.

        >>> PROVIDERS["anthropic"].price_of("claude-haiku-4-5-20251001").output
        5.0
        >>> PROVIDERS["openai"].price_of("gpt-5-mini-pro") is None
        True
        """
        for name, price in self.prices.items():
            if model == name or (model.startswith(name) and _DAY.fullmatch(model, len(name))):
                return price
        return None


_ANTHROPIC: Final = date(2026, 10, 10)
_OPENAI: Final = date(2025, 8, 7)
_GEMINI: Final = date(2025, 6, 17)

PROVIDERS: Final[Mapping[str, Provider]] = MappingProxyType(
    {
        "openai": Provider(
            label="OpenAI",
            base_url="https://api.openai.com/v1",
            key_env="OPENAI_API_KEY",
            max_tokens_field="max_completion_tokens",
            stream=False,  # organisations that are not verified may not stream its newer models
            prices={
                "gpt-5-mini": Price(input=0.25, cached_input=0.025, output=2.0, as_of=_OPENAI),
                "gpt-5-nano": Price(input=0.05, cached_input=0.005, output=0.4, as_of=_OPENAI),
                "gpt-5": Price(input=1.25, cached_input=0.125, output=10.0, as_of=_OPENAI),
            },
        ),
        "anthropic": Provider(
            label="Anthropic",
            base_url="https://api.anthropic.com/v1",
            form="anthropic",
            key_env="ANTHROPIC_API_KEY",
            send_seed=False,
            prices={
                "claude-haiku-4-5": Price(
                    input=1.0, cached_input=0.1, cache_write=1.25, output=5.0, as_of=_ANTHROPIC
                ),
                "claude-opus-4-5": Price(
                    input=5.0, cached_input=0.5, cache_write=6.25, output=25.0, as_of=_ANTHROPIC
                ),
            },
        ),
        "gemini": Provider(
            label="Gemini",
            base_url="https://generativelanguage.googleapis.com/v1beta",
            form="gemini",
            key_env="GEMINI_API_KEY",
            prices={"gemini-2.5-flash": Price(input=0.3, output=2.5, as_of=_GEMINI)},
        ),
        "openrouter": Provider(
            label="OpenRouter", base_url="https://openrouter.ai/api/v1", key_env="OPENROUTER_API_KEY"
        ),
        "huggingface": Provider(
            label="Hugging Face", base_url="https://router.huggingface.co/v1", key_env="HF_TOKEN"
        ),
        "ollama": Provider(
            label="Ollama",
            base_url="http://127.0.0.1:11434/v1",
            local=True,
            tools_need="choose a model that its library lists under tools",
            context_needs="set OLLAMA_CONTEXT_LENGTH for its server; else it cuts prompts at 4096 tokens",
        ),
        "vllm": Provider(
            label="vLLM",
            base_url="http://127.0.0.1:8001/v1",
            local=True,
            tools_need="start it with --enable-auto-tool-choice and the model's --tool-call-parser",
            context_needs="start it with a larger --max-model-len",
        ),
        "sglang": Provider(
            label="SGLang",
            base_url="http://127.0.0.1:30000/v1",
            local=True,
            tools_need="start it with the model's --tool-call-parser",
            context_needs="start it with a larger --context-length",
        ),
        "llama.cpp": Provider(
            label="llama.cpp",
            base_url="http://127.0.0.1:8080/v1",
            local=True,
            tools_need="start llama-server with --jinja",
            context_needs="start llama-server with a larger --ctx-size",
        ),
    }
)
"""The providers that captains can name, by what they call them."""

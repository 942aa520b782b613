"""The types of a chat completion: request, answer, tool calls, token usage."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Message = Mapping[str, Any]
"""One message of a conversation as the endpoint takes it: ``role``, ``content``, ``tool_calls``, ..."""


class FrozenMessage(dict[str, Any]):
    """A message that changes no more, so that what is made of it can be kept with it.

    Args:
        message: The message.
    """

    __slots__ = ("encoded", "hashed")

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.encoded: Any = None
        """Its JSON, once made; see :mod:`spectator.llm.wire_forms`."""
        self.hashed: tuple[Any, Any] | None = None
        """The hash before and after it, once made; see :mod:`spectator.llm.exchanges`."""


class FrozenTools(list[Mapping[str, Any]]):
    """Tools that change no more, so that what is made of them can be kept with them.

    Args:
        tools: The tools.
    """

    __slots__ = ("canonical", "encoded")

    def __init__(self, tools: Iterable[Mapping[str, Any]]) -> None:
        super().__init__(tools)
        self.encoded: Any = None
        """Their JSON, once made; see :mod:`spectator.llm.wire_forms`."""
        self.canonical: bytes | None = None
        """The same with sorted keys; see :mod:`spectator.llm.exchanges`."""


class FrozenPrefix:
    """What is made of the beginning of a conversation that grows by messages that change no more."""

    __slots__ = ("encoded", "encoded_of", "hashed", "hashed_of")

    def __init__(self) -> None:
        self.encoded = bytearray()
        """Its messages as JSON, with commas between; see :mod:`spectator.llm.wire_forms`."""
        self.encoded_of = 0
        """How many of them."""
        self.hashed: Any = None
        """The hash after its messages; see :mod:`spectator.llm.exchanges`."""
        self.hashed_of = 0
        """How many of them."""


class Conversation(list[Message]):
    """Messages of which the first ``settled`` change no more; changed by nobody once it is made.

    Args:
        messages: Oldest first.
        settled: How many of them change no more; they are the beginning of all later conversations that share
            ``beginning``.
        beginning: Keeps what is made of them.
    """

    __slots__ = ("beginning", "settled")

    def __init__(self, messages: Iterable[Message], settled: int, beginning: FrozenPrefix) -> None:
        super().__init__(messages)
        self.settled = settled
        self.beginning = beginning


def common_frozen(before: Sequence[Message], after: Sequence[Message]) -> int:
    """How many messages two conversations surely begin with together, without a look at any of them.

    >>> beginning = FrozenPrefix()
    >>> first = Conversation([{"role": "system"}], 1, beginning)
    >>> common_frozen(first, Conversation([*first, {"role": "user"}], 2, beginning))
    1
    """
    if isinstance(before, Conversation) and isinstance(after, Conversation):
        return min(before.settled, after.settled) if before.beginning is after.beginning else 0
    return 0


DeltaKind = Literal["thought", "text", "tool", "restart"]
"""Part of the answer that grew; ``restart`` voids all before it, because the request is sent anew."""

OnDelta = Callable[[DeltaKind, str], None]
"""Hears an answer while it forms; called on the event loop and must return at once."""

Wait = Literal["place", "model", "retry"]
"""What a request waits for: its turn among those under way, an answer, the time to be sent again."""

OnWait = Callable[[Wait, float | None, str], None]
"""Hears what a request waits for from now on, until when by the clock where that is known, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One question to a model. What is ``None`` or empty is not sent.

    Args:
        model: Name of the model at its endpoint.
        messages: The conversation so far, oldest first.
        tools: Tools that it may call, in the form of the endpoint.
        tool_choice: ``auto``, ``required`` or ``none``.
        temperature: 0 .. 2.
        top_p: 0 .. 1.
        max_tokens: Longest answer, thoughts included.
        max_tokens_field: Name of the field that carries ``max_tokens``; newer endpoints of OpenAI want
            ``max_completion_tokens``.
        stop: Texts that end the answer.
        seed: Seed of the sampling, where the endpoint has one.
        logprobs: Ask for the log probability of each token.
        token_ids: Ask for token ids, as vLLM and SGLang give them.
        stream: Ask for the answer while it forms.
        extra: Further fields of the body, sent as they are.
    """

    model: str
    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_tokens_field: str = "max_tokens"
    stop: Sequence[str] = ()
    seed: int | None = None
    logprobs: bool = False
    token_ids: bool = False
    stream: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model wrote it.

    Args:
        id: The endpoint's name for it; empty when it gave none.
        name: Name of the tool.
        arguments: Its arguments as text, meant to be a JSON object.
        verbatim: Members of it that this library does not know, to be sent back as they are.
    """

    id: str
    name: str
    arguments: str
    verbatim: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that an answer took, as the endpoint counts them.

    Args:
        tokens_in: Tokens of the prompt.
        tokens_out: Tokens of the answer, thoughts included.
        cached_in: How many of ``tokens_in`` the endpoint had at hand.
        thought_out: How many of ``tokens_out`` were thoughts, where it says so.
        cache_written: How many of ``tokens_in`` the endpoint put into its cache at a price of their own.

    >>> (Usage(1200, 80) + Usage(1300, 70)).cost(price_in=2.0, price_out=10.0)
    0.0065
    """

    tokens_in: int = 0
    tokens_out: int = 0
    cached_in: int = 0
    thought_out: int = 0
    cache_written: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.cached_in + other.cached_in,
            self.thought_out + other.thought_out,
            self.cache_written + other.cache_written,
        )

    def cost(self, price_in: float, price_out: float) -> float:
        """What it cost, at prices for a million tokens."""
        return (self.tokens_in * price_in + self.tokens_out * price_out) / 1_000_000


@dataclass(slots=True, kw_only=True)
class ChatAnswer:
    """What a model answered. Fields that the endpoint did not give are ``None``.

    Args:
        text: What it wrote, without its thoughts.
        thought: Its thoughts: the endpoint's own field for them, and what stood in ``<think>``.
        tool_calls: Calls in the endpoint's own form.
        refusal: The endpoint's word that the model declined.
        verbatim: Members of its message that this library does not know, to be sent back as they are.
        finish_reason: ``stop``, ``length``, ``tool_calls``, ``content_filter``, ...
        model: The model that answered, by its own account.
        weight_version: Version of its weights; the last one, where they changed while it answered.
        weight_versions: Runs of ``(version, tokens)`` over the tokens of the answer, in order; 0 tokens where
            the endpoint does not tell them apart.
        usage: Tokens.
        logprobs: Log probability of each token of the answer, shape ``(tokens_out,)``.
        token_ids: Ids of the tokens of the answer, same shape.
        prompt_token_ids: Ids of the tokens of the prompt, shape ``(tokens_in,)``.
        latency_s: From the request that was answered to the end of the answer.
        first_token_s: From that request to the first part of the answer.
        attempts: Requests that it took, at least 1.
    """

    text: str
    thought: str = ""
    tool_calls: Sequence[ToolCall] = ()
    refusal: str | None = None
    verbatim: Mapping[str, Any] = field(default_factory=dict)
    finish_reason: str | None = None
    model: str | None = None
    weight_version: str | None = None
    weight_versions: Sequence[tuple[str, int]] = ()
    usage: Usage | None = None
    logprobs: array[float] | None = None
    token_ids: array[int] | None = None
    prompt_token_ids: array[int] | None = None
    latency_s: float = 0.0
    first_token_s: float | None = None
    attempts: int = 1

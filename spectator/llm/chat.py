"""Types of chat completions: request, answer, tool calls, token usage."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Message = Mapping[str, Any]
"""One message of a conversation: ``role``, ``content``, ``tool_calls``, ..."""


class FrozenMessage(dict[str, Any]):
    """A message that no longer changes, with its cached JSON and hash."""

    __slots__ = ("encoded", "hashed")

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.encoded: Any = None
        """Cached JSON; see :mod:`spectator.llm.wire_forms`."""
        self.hashed: tuple[Any, Any] | None = None
        """Cached hash states before and after it; see :mod:`spectator.llm.exchanges`."""


class FrozenTools(list[Mapping[str, Any]]):
    """Tools that no longer change, with their cached JSON."""

    __slots__ = ("canonical", "encoded")

    def __init__(self, tools: Iterable[Mapping[str, Any]]) -> None:
        super().__init__(tools)
        self.encoded: Any = None
        """Cached JSON; see :mod:`spectator.llm.wire_forms`."""
        self.canonical: bytes | None = None
        """Cached JSON with sorted keys; see :mod:`spectator.llm.exchanges`."""


class FrozenPrefix:
    """Cached JSON and hash of the frozen beginning of a growing conversation."""

    __slots__ = ("encoded", "encoded_of", "hashed", "hashed_of")

    def __init__(self) -> None:
        self.encoded = bytearray()
        """Messages as JSON, separated by commas; see :mod:`spectator.llm.wire_forms`."""
        self.encoded_of = 0
        """Number of messages in ``encoded``."""
        self.hashed: Any = None
        """Hash state after the messages; see :mod:`spectator.llm.exchanges`."""
        self.hashed_of = 0
        """Number of messages in ``hashed``."""


class Conversation(list[Message]):
    """An immutable list of messages, of which the first ``settled`` are frozen.

    Args:
        messages: Oldest first.
        settled: Number of frozen messages. All later conversations that share ``beginning`` begin with them.
        beginning: Cache for the frozen messages.
    """

    __slots__ = ("beginning", "settled")

    def __init__(self, messages: Iterable[Message], settled: int, beginning: FrozenPrefix) -> None:
        super().__init__(messages)
        self.settled = settled
        self.beginning = beginning


def common_frozen(before: Sequence[Message], after: Sequence[Message]) -> int:
    """Return how many frozen messages two conversations share, without comparing any.

    >>> beginning = FrozenPrefix()
    >>> first = Conversation([{"role": "system"}], 1, beginning)
    >>> common_frozen(first, Conversation([*first, {"role": "user"}], 2, beginning))
    1
    """
    if isinstance(before, Conversation) and isinstance(after, Conversation):
        return min(before.settled, after.settled) if before.beginning is after.beginning else 0
    return 0


DeltaKind = Literal["thought", "text", "tool", "restart", "lost"]
"""Kind of a streamed part; ``restart`` discards all parts before it, because the request is retried.

``lost`` says, also without streaming, that a request which the endpoint may bill ended without an answer; its
text is the numbers of tokens in and out where the endpoint counted them.
"""

OnDelta = Callable[[DeltaKind, str], None]
"""Called on the event loop with each part of an answer as it arrives; must return at once."""

Wait = Literal["place", "model", "retry"]
"""What a request waits for: a free place among concurrent requests, the model's answer, its retry."""

OnWait = Callable[[Wait, float | None, str], None]
"""Called with what a request now waits for, until when (monotonic clock, if known), and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request to a model. Fields that are ``None`` or empty are not sent.

    Args:
        model: Name of the model at its endpoint.
        messages: The conversation so far, oldest first.
        tools: Tools that the model may call, in OpenAI's form.
        tool_choice: ``auto``, ``required`` or ``none``.
        temperature: 0 .. 2.
        top_p: 0 .. 1.
        max_tokens: Longest answer, thoughts included.
        max_tokens_field: Name of the field for ``max_tokens``; newer OpenAI models need
            ``max_completion_tokens``.
        stop: Texts that end the answer.
        seed: Sampling seed, if the endpoint supports one.
        logprobs: Request the log probability of each token.
        token_ids: Request token ids, as vLLM and SGLang return them.
        stream: Request the answer as a stream.
        constraint: How the answer is constrained; see :mod:`spectator.llm.constraint`.
        schema: JSON schema of the answer, for the constraint ``json_schema``.
        extra: Further fields of the body, sent unchanged.
        prompt_ids: The prompt as token ids, sent to ``/completions`` in place of messages and tools, as vLLM
            takes them.
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
    constraint: str = "none"
    schema: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    prompt_ids: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as the model wrote it.

    Args:
        id: The endpoint's id; empty if it gave none.
        arguments: The arguments as text; should be a JSON object.
        verbatim: Members that this library does not know, to send back unchanged.
    """

    id: str
    name: str
    arguments: str
    verbatim: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """Token usage of an answer, as the endpoint counts it.

    Args:
        tokens_in: Tokens of the prompt.
        tokens_out: Tokens of the answer, thoughts included.
        cached_in: Part of ``tokens_in`` that the endpoint read from its cache.
        thought_out: Part of ``tokens_out`` that was thoughts, if reported.
        cache_written: Part of ``tokens_in`` that the endpoint wrote to its cache, at a separate price.

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
        """Return the cost, at prices per million tokens."""
        return (self.tokens_in * price_in + self.tokens_out * price_out) / 1_000_000


@dataclass(slots=True, kw_only=True)
class ChatAnswer:
    """A model's answer. Fields that the endpoint did not give are ``None``.

    Args:
        text: The answer without thoughts.
        thought: The thoughts: the endpoint's field for them, and text in ``<think>``.
        tool_calls: Native tool calls.
        refusal: The endpoint's statement that the model declined.
        verbatim: Members of the message that this library does not know, to send back unchanged.
        finish_reason: ``stop``, ``length``, ``tool_calls``, ``content_filter``, ...
        model: The model that answered, as the endpoint names it.
        provider: Who served the model, as a router such as OpenRouter names it.
        system_fingerprint: The configuration that served the model, as the endpoint names it.
        weight_version: Version of the weights; the last one, if they changed during the answer.
        weight_versions: Runs of ``(version, tokens)`` over the tokens of the answer, in order; 0 tokens if
            the endpoint does not assign tokens to versions.
        logprobs: Log probability of each token of the answer, shape ``(tokens_out,)``.
        token_ids: Ids of the tokens of the answer, same shape.
        prompt_token_ids: Ids of the tokens of the prompt, shape ``(tokens_in,)``.
        latency_s: Seconds from the successful request to the end of the answer.
        first_token_s: Seconds from that request to the first part of the answer.
        attempts: Number of requests, including failed ones, at least 1.
    """

    text: str
    thought: str = ""
    tool_calls: Sequence[ToolCall] = ()
    refusal: str | None = None
    verbatim: Mapping[str, Any] = field(default_factory=dict)
    finish_reason: str | None = None
    model: str | None = None
    provider: str | None = None
    system_fingerprint: str | None = None
    weight_version: str | None = None
    weight_versions: Sequence[tuple[str, int]] = ()
    usage: Usage | None = None
    logprobs: array[float] | None = None
    token_ids: array[int] | None = None
    prompt_token_ids: array[int] | None = None
    latency_s: float = 0.0
    first_token_s: float | None = None
    attempts: int = 1


class ChatEndpoint(Protocol):
    """The part of a client that policies need."""

    async def complete(
        self,
        request: ChatRequest,
        *,
        deadline: float,
        session: str | None = None,
        on_delta: OnDelta | None = None,
    ) -> ChatAnswer:
        """See :meth:`spectator.llm.client.ChatClient.complete`."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...

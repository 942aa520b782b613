"""The chat client: one request to a model, with retries, deadline and streaming."""

from __future__ import annotations

import asyncio
import logging
import random
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final, Self

from spectator import __version__
from spectator.clock import Clock
from spectator.errors import (
    EndpointBusy,
    EndpointError,
    EndpointMalformed,
    EndpointRefused,
    EndpointResting,
    EndpointTimeout,
    EndpointUnavailable,
)
from spectator.llm.answer_reader import AnswerReader, read_body
from spectator.llm.answers import Assembly, token_ids
from spectator.llm.anthropic import AnthropicForm
from spectator.llm.chat import ChatAnswer, ChatRequest, Message, OnDelta, OnWait
from spectator.llm.endpoints import Address, ApiKey, Form, mask
from spectator.llm.gemini import GeminiForm
from spectator.llm.rate_limits import AdaptiveLimit, RateLimiter
from spectator.llm.retry import (
    Attempts,
    CircuitBreaker,
    RetryPolicy,
    error_of,
    parse_retry_after,
    rejected_answer,
)
from spectator.llm.transport import HttpTransport, Reply, Transport
from spectator.llm.wire_forms import OpenAIForm, WireForm, decode_json, encode_json_body

LEAST_RETRY_S: Final = 0.1
"""A request is not repeated with less time left: the failure before says more than a timeout."""

TOKENIZE_S: Final = 5.0
"""Longest time to ask for the token ids of a prompt after its answer, seconds."""

_FORMS: Final[Mapping[Form, Callable[[], WireForm]]] = {
    "openai": OpenAIForm,
    "anthropic": AnthropicForm,
    "gemini": GeminiForm,
}


def wire_form(name: Form) -> WireForm:
    """Return the wire form with this name."""
    return _FORMS[name]()


logger = logging.getLogger(__name__)

MAX_ERROR_BYTES: Final = 64 * 1024
"""Bytes read of an error's body, about."""

CHARACTERS_PER_TOKEN: Final = 4
"""Estimated bytes per token of a request, until the endpoint reports its usage."""

_NO_BREAKER: Final = nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """Time and size limits of a client.

    Args:
        request_s: Timeout of a single request, seconds, at least 1.
        connect_s: Timeout for connecting, seconds, at least 0.1.
        read_s: Longest silence while reading an answer, seconds, at least 0.1; ``None`` for ``request_s``.
        connections: Maximum number of connections.
        concurrency: Maximum number of concurrent requests; 0 for no limit. Requests that wait for a retry do
            not count.
        startup_jitter_s: Requests in the first seconds are delayed randomly, at most to the end of this time.
        answer_bytes: Maximum size of an answer.
    """

    request_s: float = 300.0
    connect_s: float = 10.0
    read_s: float | None = None
    connections: int = 128
    concurrency: int = 0
    startup_jitter_s: float = 0.0
    answer_bytes: int = 16 * 1024 * 1024

    def __post_init__(self) -> None:
        read_s = self.request_s if self.read_s is None else self.read_s
        if self.request_s < 1 or self.connect_s < 0.1 or read_s < 0.1:
            raise ValueError("request_s must be at least 1, connect_s and read_s at least 0.1")
        if self.connections < 1 or self.concurrency < 0 or self.startup_jitter_s < 0 or self.answer_bytes < 1:
            raise ValueError(
                "connections and answer_bytes must be at least 1, concurrency and startup_jitter_s at least 0"
            )

    @classmethod
    def for_fleet(cls, workers: int, *, by_session: bool = False) -> Self:
        """Return the usual limits of a fleet.

        Args:
            workers: Number of concurrent episodes.
            by_session: Whether its endpoint keeps whole sessions; such endpoints may queue for long.
        """
        return cls(
            request_s=900.0 if by_session else 300.0,
            connections=max(128, 8 * workers),
            concurrency=64 if by_session else 0,
            startup_jitter_s=2.0,
        )

    def transport(self, *, public_only: bool = False) -> HttpTransport:
        """Return a transport with these limits; see :class:`HttpTransport`."""
        return HttpTransport(
            max_connections=self.connections,
            connect_s=self.connect_s,
            read_s=self.read_s,
            public_only=public_only,
        )


class ChatClient:
    """A client of one endpoint; used from one event loop, by any number of tasks.

    Args:
        transport: The connections; closed by :meth:`aclose`.
        address: The endpoint's address.
        rng: Draws random delays.
        key: The endpoint's key, if it needs one.
        limits: Time and size limits; default: ``ClientLimits()``.
        retry: Retry policy; default: ``RetryPolicy()``.
        breaker: Pauses requests when the endpoint keeps failing; ``None`` for no pauses.
        adaptive: Adapts the number of concurrent requests; replaces ``limits.concurrency``.
        form: The endpoint's API; default: chat completions.
        pacing: Rate limits shared by all clients of the endpoint; its own adaptive limit replaces
            ``adaptive``.
    """

    def __init__(
        self,
        transport: Transport,
        address: Address,
        *,
        clock: Clock,
        rng: random.Random,
        key: ApiKey | None = None,
        limits: ClientLimits | None = None,
        retry: RetryPolicy | None = None,
        breaker: CircuitBreaker | None = None,
        adaptive: AdaptiveLimit | None = None,
        form: WireForm | None = None,
        pacing: RateLimiter | None = None,
    ) -> None:
        self._transport = transport
        self._address = address
        self._clock = clock
        self._rng = rng
        self._key = key
        self._limits = limits = limits or ClientLimits()
        self._retry = retry or RetryPolicy()
        self._breaker = breaker
        self._pacing = pacing
        self.adaptive = adaptive = adaptive if pacing is None else pacing.places
        """Limit of concurrent requests, if it is adaptive."""
        self._places: asyncio.Semaphore | AdaptiveLimit | None = adaptive
        if adaptive is None and limits.concurrency:
            self._places = asyncio.Semaphore(limits.concurrency)
        self._first_request_at: float | None = None
        self._started = False  # whether the time of the startup jitter is over
        self._form = form or OpenAIForm()
        self._has_templates = True
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "User-Agent": f"openenv-spectator/{__version__}",
            **self._form.headers,
        }

    async def complete(
        self,
        request: ChatRequest,
        *,
        deadline: float,
        session: str | None = None,
        on_delta: OnDelta | None = None,
        on_wait: OnWait | None = None,
        served: Callable[[], str | None] | None = None,
    ) -> ChatAnswer:
        """Send a request, retrying until it succeeds, cannot succeed, or the time is up.

        Cancelling closes the connection at once.

        Args:
            deadline: Seconds from now until the time is up, retries included.
            session: Name of the session, for endpoints that route by session.
            on_delta: Called with parts of the answer, if ``request.stream`` is set.
            on_wait: Called when the request begins to wait for something.
            served: Returns the version of the weights that are served now, if the endpoint may not report it.

        Raises:
            EndpointError: There is no answer; the class says why.
            ConfigurationError: The address needs a session.
        """
        until = self._clock.monotonic() + deadline
        url, body = self._form.url(self._address, session, request), self._form.encode(request)
        tokens = len(body) // CHARACTERS_PER_TOKEN + (request.max_tokens or 0)
        pending = _PendingRequest(url, body, request.stream, until, on_delta, on_wait, tokens, served)
        attempts: Attempts | None = None
        if self._limits.startup_jitter_s and not self._started:
            await self._jitter(until)
        while True:
            try:
                answer = await self._attempt(pending, 1 if attempts is None else attempts.failed + 1)
                if self.adaptive is not None:
                    self.adaptive.succeeded()
                if request.token_ids and answer.token_ids and answer.prompt_token_ids is None:
                    answer.prompt_token_ids = await self._prompt_token_ids(pending, answer)
                return answer
            except EndpointError as error:
                if isinstance(error, EndpointBusy) and error.status is not None:
                    self._slow_down(error)
                error.detail = mask(error.detail, self._key)
                attempts = attempts or Attempts(self._retry, self._rng)
                wait = attempts.wait_after(error)
                level = logging.DEBUG if isinstance(error, EndpointResting) else logging.WARNING
                logger.log(level, "a request to a model failed: %s (%s)", error, error.detail or error.kind)
                if wait is None or self._clock.monotonic() + wait >= until - LEAST_RETRY_S:
                    raise
                failed = error
                if on_wait is not None:
                    on_wait("retry", self._clock.monotonic() + wait, error.kind)
            if on_delta is not None:
                on_delta("restart", "")
            await self._clock.sleep(wait)
            if self._clock.monotonic() >= until - LEAST_RETRY_S:
                raise failed

    async def tokenize(
        self, model: str, messages: Sequence[Message], *, deadline: float, opens_answer: bool = True
    ) -> list[int]:
        """Return the token ids of a conversation, as the endpoint's chat template makes them (vLLM).

        Args:
            messages: The conversation.
            deadline: Seconds from now until the time is up, retries included.
            opens_answer: Whether to add what the template writes before an answer.

        Raises:
            EndpointRefused: The endpoint does not offer it.
            EndpointError: There is no answer.
        """
        until = self._clock.monotonic() + deadline
        root = self._address.base_url.rstrip("/").removesuffix("/v1")
        body = {"model": model, "messages": list(messages), "add_generation_prompt": opens_answer}
        attempts = Attempts(self._retry, self._rng)
        while True:
            try:
                async with asyncio.timeout(max(0.0, until - self._clock.monotonic())):
                    return await self._tokenized(f"{root}/tokenize", encode_json_body(body))
            except TimeoutError as error:
                raise EndpointTimeout(f"no token ids within {deadline:.3g} s") from error
            except EndpointError as error:
                error.detail = mask(error.detail, self._key)
                wait = attempts.wait_after(error)
                if wait is None or self._clock.monotonic() + wait >= until:
                    raise
            await self._clock.sleep(wait)

    async def _tokenized(self, url: str, body: bytes) -> list[int]:
        async with self._transport.post(url, body, self._sent_headers()) as reply:
            if reply.status == 200:
                found = decode_json(await read_body(reply, self._limits.answer_bytes))
                tokens = found.get("tokens") if isinstance(found, dict) else None
                if isinstance(tokens, list) and tokens and all(isinstance(one, int) for one in tokens):
                    return tokens
            else:
                failed = error_of(reply.status, *await self._error_body(reply))
                if failed.retryable or reply.status in (401, 402, 403):
                    raise failed
        raise EndpointRefused(
            "the endpoint has no /tokenize for conversations, so token_in cannot be used; use vLLM, or turn "
            "token_in off",
            status=404,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    def __repr__(self) -> str:
        return f"ChatClient({type(self._address).__name__}, {self._limits})"

    async def _jitter(self, until: float) -> None:
        """Delay a request randomly, to spread the first requests of a fleet."""
        now = self._clock.monotonic()
        if self._first_request_at is None:
            self._first_request_at = now
        over = self._first_request_at + self._limits.startup_jitter_s
        self._started = now >= over
        left = min(over, until) - now
        if left > 0:
            await self._clock.sleep(self._rng.uniform(0.0, left))

    def _slow_down(self, error: EndpointBusy) -> None:
        """Reduce concurrency, and wait as long as the endpoint asks for."""
        if self.adaptive is not None:
            self.adaptive.refused()
        if self._pacing is not None and error.retry_after_s is not None:
            self._pacing.rest(error.retry_after_s)

    async def _prompt_token_ids(self, pending: _PendingRequest, answer: ChatAnswer) -> array[int] | None:
        """Return the ids of a prompt's tokens from an endpoint that gives only its answer's (llama.cpp).

        They are taken only if they are as many as the endpoint counted.
        """
        if not self._has_templates or answer.usage is None:
            return None
        root = self._address.base_url.rstrip("/").removesuffix("/v1")
        try:
            async with asyncio.timeout(max(0.0, min(TOKENIZE_S, pending.until - self._clock.monotonic()))):
                prompt = await self._member(f"{root}/apply-template", pending.body, "prompt")
                self._has_templates = isinstance(prompt, str)
                if not self._has_templates:
                    return None
                body = {"content": prompt, "add_special": True, "parse_special": True}
                ids = await self._member(f"{root}/tokenize", encode_json_body(body), "tokens")
        except (EndpointError, TimeoutError) as error:
            self._has_templates = not isinstance(error, EndpointMalformed)
            return None
        is_whole = isinstance(ids, list) and len(ids) == answer.usage.tokens_in
        try:
            return token_ids(ids) if is_whole else None
        except ValueError:
            return None

    async def _member(self, url: str, body: bytes, name: str) -> Any:
        """Return a member of the object that ``url`` answers; ``None`` if there is none."""
        async with self._transport.post(url, body, self._sent_headers()) as reply:
            found = decode_json(await read_body(reply, self._limits.answer_bytes))
        return found.get(name) if isinstance(found, dict) and reply.status == 200 else None

    async def _attempt(self, pending: _PendingRequest, number: int) -> ChatAnswer:
        places = self._places
        if isinstance(places, AdaptiveLimit):
            if not places.take():
                await self._take_place(places, pending)
        elif places is not None:
            if places.locked():
                await self._take_place(places, pending)
            else:
                await places.acquire()
        try:
            if self._pacing is None:
                return await self._ask(pending, number)
            place = await self._pacing.shared_slot(pending.until)
            try:
                return await self._paced(self._pacing, pending, number)
            finally:
                if place is not None:
                    place.release()
        finally:
            if places is not None:
                places.release()

    async def _paced(self, pacing: RateLimiter, pending: _PendingRequest, number: int) -> ChatAnswer:
        """Send the request when the limits per minute allow it."""
        slot, used = pacing.reserve(pending.tokens, pending.until), 0
        try:
            if (wait := slot.at - self._clock.monotonic()) > 0:
                if pending.on_wait is not None:
                    pending.on_wait("place", slot.at, "")
                await self._clock.sleep(wait)
            used = pending.tokens
            answer = await self._ask(pending, number)
            if answer.usage is not None:
                used = answer.usage.tokens_in + answer.usage.tokens_out
            return answer
        finally:
            pacing.settle(slot, used)

    async def _ask(self, pending: _PendingRequest, number: int) -> ChatAnswer:
        if pending.on_wait is not None:
            pending.on_wait("model", None, "")
        with _NO_BREAKER if self._breaker is None else self._breaker.request():
            began = self._clock.monotonic()
            limit = min(self._limits.request_s, pending.until - began)
            try:
                async with asyncio.timeout(limit) as scope:
                    return await self._exchange(pending, number, began)
            except TimeoutError:
                if not scope.expired():
                    raise
            raise EndpointTimeout(f"no answer within {max(0.0, limit):.3g} s")

    async def _take_place(self, places: asyncio.Semaphore | AdaptiveLimit, pending: _PendingRequest) -> None:
        """Wait until a further concurrent request is allowed."""
        if pending.on_wait is not None:
            pending.on_wait("place", None, "")
        try:
            async with asyncio.timeout(pending.until - self._clock.monotonic()):
                await places.acquire()
        except TimeoutError:
            message = "too many concurrent requests: none finished in time"
            raise (EndpointTimeout if self._pacing is None else EndpointBusy)(message) from None

    async def _exchange(self, pending: _PendingRequest, number: int, began: float) -> ChatAnswer:
        headers = self._sent_headers()
        assembly = Assembly(self._key, pending.on_delta, pending.served)
        reading = AnswerReader(assembly, self._limits.answer_bytes, self._clock, self._form.translation())
        answering = False
        try:
            async with self._transport.post(pending.url, pending.body, headers) as reply:
                if answering := reply.status == 200:
                    await (reading.stream(reply) if pending.stream else reading.whole(reply))
                    answering = False
                else:
                    body, wait = await self._error_body(reply)
                    if (said := rejected_answer(reply.status, body)) is None:
                        raise error_of(reply.status, body, wait)
                    assembly.feed(said)
            return assembly.answer(
                latency_s=self._clock.monotonic() - began,
                first_token_s=None if reading.first_at is None else reading.first_at - began,
                attempts=number,
            )
        except (EndpointError, asyncio.CancelledError) as error:
            used = assembly.usage
            cut = answering and isinstance(error, EndpointUnavailable) and error.status is None
            silent = isinstance(error, asyncio.CancelledError | EndpointTimeout)
            if pending.on_delta is not None and (used is not None or cut or silent):
                pending.on_delta("lost", "" if used is None else f"{used.tokens_in} {used.tokens_out}")
            raise

    def _sent_headers(self) -> Mapping[str, str]:
        if self._key is None:
            return self._headers
        name, value = self._form.key_header(self._key)
        return {**self._headers, name: value}

    async def _error_body(self, reply: Reply) -> tuple[bytes, float | None]:
        """Return the body of an error, and the seconds to wait from its headers."""
        body = bytearray()
        while len(body) <= MAX_ERROR_BYTES and (piece := await reply.read()):
            body += piece
        wait = parse_retry_after(reply.header("Retry-After"), self._clock.now())
        if (exact := parse_retry_after(reply.header("retry-after-ms"), self._clock.now())) is not None:
            wait = exact / 1_000
        return bytes(body), wait


@dataclass(slots=True)
class _PendingRequest:
    url: str
    body: bytes
    stream: bool
    until: float
    on_delta: OnDelta | None
    on_wait: OnWait | None
    tokens: int
    served: Callable[[], str | None] | None

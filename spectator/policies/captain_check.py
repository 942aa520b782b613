"""Check a captain before a match: a few calls, what works, and what to change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from spectator.errors import (
    EndpointBusy,
    EndpointError,
    EndpointMalformed,
    EndpointTimeout,
    EndpointUnavailable,
)
from spectator.llm.chat import ChatAnswer, ChatRequest, Message
from spectator.llm.endpoints import PROVIDERS
from spectator.llm.tool_calls import find_calls, unchecked_call
from spectator.observations import LegalAction
from spectator.policies.turns import answer_message, tool_messages, with_ids

if TYPE_CHECKING:
    from spectator.llm.transport import Reply, Transport
    from spectator.policies.captains import ModelCaptain
    from spectator.policies.model import ChatEndpoint


def advice(error: EndpointError, captain: ModelCaptain) -> str:
    """What to change after ``error``, in a sentence for whoever runs the captain."""
    if "key" in str(error):
        name = captain.api_key_env
        return f"put a valid key into the variable {name}" if name else "name the key's variable"
    by_status = {
        402: "pay its provider, or choose another captain",
        403: "ask its provider for access to this model",
        404: f"check the model's name ({captain.model}) and the address ({captain.base_url})",
        413: "set a smaller context_tokens",
    }
    if error.status in by_status:
        return by_status[error.status]
    if "paid" in str(error):
        return by_status[402]
    if isinstance(error, EndpointBusy) or error.failure_class == "rate_limited":
        return "try again later, and set requests_per_minute, tokens_per_minute or concurrency"
    if isinstance(error, EndpointTimeout):
        return f"raise timeout_s ({captain.timeout_s:g}), or see whether the endpoint is overloaded"
    if isinstance(error, EndpointMalformed):
        return f"check the address ({captain.base_url}) and the form ({captain.form}): something else answers"
    if isinstance(error, EndpointUnavailable):
        return f"see whether the endpoint runs, and check the address ({captain.base_url})"
    return "change or leave out the field that it names: temperature, max_tokens_field, send_seed, extra"


LIMITS_TOLD: Final = (
    "x-ratelimit-limit-requests",
    "x-ratelimit-limit-tokens",
    "anthropic-ratelimit-requests-limit",
    "anthropic-ratelimit-tokens-limit",
)
"""Headers in which endpoints state their limits for a minute."""

WORD: Final = "marigold"
"""What the model is asked to say again."""

FILLER: Final = "The river runs past the old mill and turns. "
"""A sentence that makes a prompt long."""

_TOOL: Final[Mapping[str, Any]] = {
    "type": "function",
    "function": {
        "name": "paint",
        "description": "Paint the door.",
        "parameters": {
            "type": "object",
            "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}},
            "required": ["colour"],
        },
    },
}
_SYSTEM: Final = {
    "role": "system",
    "content": "This is a technical check. Do exactly what the last message says.",
}
_FORMS: Final[Mapping[str, str]] = {
    "tools": '{"reason": "...", "tool": "paint", "arguments": {"colour": "blue"}}',
    "json": '{"reason": "...", "tool": "paint", "arguments": {"colour": "blue"}}',
    "xml": '<tool_call>{"name": "paint", "arguments": {"colour": "blue"}}</tool_call>',
}


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """What one call showed.

    Args:
        about: What it is about, in a word or two.
        works: Whether it does; ``None`` where that is no question.
        told: What was found, in a sentence.
        change: What to change; empty where nothing.
        needed: Whether the captain cannot play without.
    """

    about: str
    works: bool | None
    told: str
    change: str = ""
    needed: bool = True


class RecordingTransport:
    """Connections that note what the endpoint says of its limits.

    Args:
        transport: The connections.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.said: dict[str, str] = {}
        """The limits, by the names of their headers."""

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Reply]:
        """See :meth:`spectator.llm.transport.Transport.post`."""
        return self._noting(url, body, headers)

    @asynccontextmanager
    async def _noting(self, url: str, body: bytes, headers: Mapping[str, str]) -> AsyncIterator[Reply]:
        async with self._transport.post(url, body, headers) as reply:
            self.said |= {name: value for name in LIMITS_TOLD if (value := reply.header(name)) is not None}
            yield reply

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()


class CaptainCheck:
    """Asks a captain's endpoint a handful of questions.

    Args:
        captain: The captain.
        client: Asks its endpoint.
        limits: What the endpoint said of its limits, filled while it is asked.
        context: Whether to send a prompt as long as the captain may.
    """

    def __init__(
        self, captain: ModelCaptain, client: ChatEndpoint, limits: Mapping[str, str], *, context: bool = True
    ) -> None:
        self._captain = captain
        self._client = client
        self._limits = limits
        self._context = context
        self._provider = PROVIDERS.get(captain.provider or "")
        self._stream = captain.stream

    async def findings(self) -> AsyncIterator[CheckFinding]:
        """What was found, as it is; nothing more follows where the endpoint gives no answer at all."""
        try:
            answer = await self._first()
        except EndpointError as error:
            yield CheckFinding("answer", False, f"{error}{_said(error)}", advice(error, self._captain))
            return
        yield CheckFinding(
            "answer", True, f"{answer.model or self._captain.model} in {answer.latency_s:.2g} s"
        )
        yield self._streaming(answer)
        yield await self._tools()
        yield await self._written()
        yield _thoughts(answer)
        yield _usage(answer, self._captain)
        if self._context:
            yield await self._long_prompt()
        yield self._said_limits()

    async def _first(self) -> ChatAnswer:
        """A first answer; without what the endpoint may refuse, where it refuses the usual request."""
        question: list[Message] = [_SYSTEM, {"role": "user", "content": f"Say only: {WORD}"}]
        try:
            return await self._ask(question)
        except EndpointError as error:
            if error.status != 400 or not self._stream:
                raise
            self._stream = False
            try:
                return await self._ask(question)
            except EndpointError:
                raise error from None

    async def _ask(self, messages: list[Message], **more: Any) -> ChatAnswer:
        captain = self._captain
        request = ChatRequest(
            model=captain.model,
            messages=messages,
            temperature=captain.temperature,
            max_tokens=captain.max_tokens,
            max_tokens_field=captain.max_tokens_field,
            seed=1 if captain.send_seed else None,
            stream=self._stream,
            extra=captain.extra,
        )
        session = "check" if captain.by_session else None
        heard = (lambda kind, text: None) if self._stream else None
        return await self._client.complete(
            replace(request, **more), deadline=captain.timeout_s, session=session, on_delta=heard
        )

    def _streaming(self, answer: ChatAnswer) -> CheckFinding:
        if self._captain.stream and not self._stream:
            told = "refused; whole answers come"
            return CheckFinding("streaming", False, told, "set stream = false for this captain", needed=True)
        if not self._stream:
            return CheckFinding("streaming", None, "not asked for (stream = false)")
        first = "" if answer.first_token_s is None else f"first words after {answer.first_token_s:.2g} s"
        return CheckFinding("streaming", True, first)

    async def _tools(self) -> CheckFinding:
        """A call of a tool, and whether the conversation can go on after it."""
        needed = self._captain.style == "tools"
        need = self._provider.tools_need if self._provider else ""
        change = "; or ".join(part for part in (need, 'set style = "json"' if needed else "") if part)
        words = "Paint the door blue with the tool."
        question: list[Message] = [_SYSTEM, {"role": "user", "content": words}]
        try:
            answer = await self._ask(question, tools=[_TOOL], tool_choice=self._captain.tool_choice)
        except EndpointError as error:
            return CheckFinding("tools", False, f"{error}{_said(error)}", change, needed)
        if not answer.tool_calls:
            return CheckFinding(
                "tools", False, "the model was offered a tool and called none", change, needed
            )
        try:
            await self._ask([*question, *self._returned(answer)], tools=[_TOOL])
        except EndpointError as error:
            told = f"a first call works, and the next request is refused: {error}{_said(error)}"
            again = "set send_back = true" if not self._captain.send_back else "try send_back = false"
            return CheckFinding("tools", False, told, again, needed)
        return CheckFinding("tools", True, "called, and the conversation goes on after it", needed=needed)

    def _returned(self, answer: ChatAnswer) -> list[Message]:
        """The answer as the captain sends it back, and the result of its first call."""
        calls = with_ids([unchecked_call(find_calls(answer, ())[0])])
        verbatim: Mapping[str, Any] = answer.verbatim
        if not self._captain.send_back:
            calls, verbatim = tuple(replace(call, verbatim={}) for call in calls), {}
        return [answer_message(answer.text, calls, verbatim), *tool_messages(calls, (), "Done. Say only: ok")]

    async def _written(self) -> CheckFinding:
        """An action written in the text of an answer."""
        style = self._captain.style
        needed = style != "tools"
        about = "XML" if style == "xml" else "JSON"
        question: list[Message] = [_SYSTEM, {"role": "user", "content": f"Write only this: {_FORMS[style]}"}]
        try:
            answer = await self._ask(question)
        except EndpointError as error:
            return CheckFinding(about, False, f"{error}{_said(error)}", advice(error, self._captain), needed)
        legal: LegalAction = {"tool": "paint", "arguments": {"type": "object"}}
        if [call.tool for call in find_calls(answer, [legal])] != ["paint"]:
            cut = " (it was cut: raise max_tokens)" if answer.finish_reason == "length" else ""
            told = f"no action could be read in the answer{cut}"
            return CheckFinding(about, False, told, "choose another style or model" if needed else "", needed)
        return CheckFinding(about, True, "an action was written and read", needed=needed)

    async def _long_prompt(self) -> CheckFinding:
        """Whether the endpoint takes, and reads, a prompt as long as the captain may send."""
        captain = self._captain
        room = int((captain.context_tokens - captain.max_tokens) * 0.8)
        sentences = max(1, room * 4 // len(FILLER))
        content = f"Remember this: {WORD}. {FILLER * sentences}Say only what you were told to remember."
        need = (self._provider.context_needs if self._provider else "") or "set a smaller context_tokens"
        try:
            answer = await self._ask([_SYSTEM, {"role": "user", "content": content}])
        except EndpointError as error:
            return CheckFinding(
                "context", False, f"a prompt of about {room} tokens: {error}{_said(error)}", need
            )
        counted = 0 if answer.usage is None else answer.usage.tokens_in
        if 0 < counted < room // 2 or WORD not in answer.text.casefold():
            told = f"a prompt of about {room} tokens was cut or not read; the endpoint counted {counted}"
            return CheckFinding("context", False, told, need, needed=0 < counted < room // 2)
        return CheckFinding("context", True, f"a prompt of about {room} tokens was read from its beginning")

    def _said_limits(self) -> CheckFinding:
        captain = self._captain
        own = {
            "requests_per_minute": captain.requests_per_minute,
            "tokens_per_minute": captain.tokens_per_minute,
            "concurrency": captain.concurrency,
        }
        set_here = ", ".join(f"{name} = {value}" for name, value in own.items() if value is not None)
        said = ", ".join(f"{name}: {value}" for name, value in self._limits.items())
        told = f"the endpoint says {said}" if said else "the endpoint does not tell"
        return CheckFinding("limits", None, f"{told}; this captain has {set_here or 'none of its own'}")


def _thoughts(answer: ChatAnswer) -> CheckFinding:
    if answer.thought:
        kept = ", to be sent back as they came" if answer.verbatim else ""
        return CheckFinding("thoughts", True, f"{len(answer.thought)} characters{kept}")
    return CheckFinding("thoughts", None, "none were shown")


def _usage(answer: ChatAnswer, captain: ModelCaptain) -> CheckFinding:
    price = f"price {captain.price}" if captain.price else "no price is known, so money cannot be capped"
    if answer.usage is None or not answer.usage.tokens_in:
        return CheckFinding(
            "usage", False, f"tokens are not counted and will be estimated; {price}", needed=False
        )
    used = answer.usage
    return CheckFinding("usage", True, f"{used.tokens_in} in, {used.tokens_out} out; {price}")


def _said(error: EndpointError) -> str:
    return f" ({error.detail.strip()[:200]})" if error.detail.strip() else ""

"""Test a captain's endpoint with a few requests: what works, and what to change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
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
from spectator.llm.constraint import REJECTED_STATUSES, Constraint, answer_schema, strongest, weaker
from spectator.llm.endpoints import PROVIDERS
from spectator.llm.tool_calls import CallRejected, check_call, find_calls, unchecked_call
from spectator.observations import LegalAction
from spectator.policies.action_catalogue import strict_tools
from spectator.policies.turns import answer_message, tool_messages, with_ids

if TYPE_CHECKING:
    from spectator.llm.chat import ChatEndpoint
    from spectator.policies.captains import ModelCaptain


def advice(error: EndpointError, captain: ModelCaptain) -> str:
    """Return what to change after ``error``, as a sentence for the captain's operator."""
    if "key" in str(error):
        name = captain.api_key_env
        return f"set the variable {name} to a valid key" if name else "set api_key_env to the key's variable"
    by_status = {
        402: "pay the provider, or choose another captain",
        403: "ask the provider for access to this model",
        404: f"check the model's name ({captain.model}) and the address ({captain.base_url})",
        413: "set a smaller context_tokens",
    }
    if error.status in by_status:
        return by_status[error.status]
    if "payment" in str(error):
        return by_status[402]
    if isinstance(error, EndpointBusy) or error.failure_class == "rate_limited":
        return "try again later, and set requests_per_minute, tokens_per_minute or concurrency"
    if isinstance(error, EndpointTimeout):
        return f"increase timeout_s ({captain.timeout_s:g}), or check whether the endpoint is overloaded"
    if isinstance(error, EndpointMalformed):
        return f"check base_url ({captain.base_url}) and form ({captain.form}): another program answers"
    if isinstance(error, EndpointUnavailable):
        return f"check that the endpoint is running, and its address ({captain.base_url})"
    return "change or remove the field that it names: temperature, max_tokens_field, send_seed, extra"


WORD: Final = "marigold"
"""The word that the model must repeat."""

PROSE: Final = "Write a short sentence about the sea."
"""A question whose answer names an action only if it is constrained to one."""

FILLER: Final = "The river runs past the old mill and turns. "
"""The sentence that fills the long prompt."""

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


_LEGAL: Final[LegalAction] = {"tool": "paint", "arguments": _TOOL["function"]["parameters"]}


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """Result of one test.

    Args:
        about: What was tested, in a word or two.
        works: Whether it works; ``None`` for information only.
        message: What was found, in a sentence.
        change: What to change; empty if nothing.
        needed: Whether the captain needs it to play.
    """

    about: str
    works: bool | None
    message: str
    change: str = ""
    needed: bool = True


class CaptainCheck:
    """Tests a captain's endpoint with a few requests.

    Args:
        limits: Limits in the endpoint's headers; filled during the test.
        context: Whether to test a prompt of the longest allowed length.
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
        """Run the tests and yield their results; stop if the endpoint gives no answer."""
        try:
            answer = await self._first()
        except EndpointError as error:
            yield CheckFinding("answer", False, f"{error}{_detail(error)}", advice(error, self._captain))
            return
        yield CheckFinding(
            "answer", True, f"{answer.model or self._captain.model} in {answer.latency_s:.2g} s"
        )
        yield self._streaming(answer)
        yield await self._tools()
        yield await self._written()
        yield await self._constrained()
        yield _thoughts(answer)
        yield _usage(answer, self._captain)
        if self._context:
            yield await self._long_prompt()
        yield self._stated_limits()

    async def _first(self) -> ChatAnswer:
        """Return a first answer; without streaming if the endpoint rejects that."""
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
        on_delta = (lambda kind, text: None) if self._stream else None
        return await self._client.complete(
            replace(request, **more), deadline=captain.timeout_s, session=session, on_delta=on_delta
        )

    def _streaming(self, answer: ChatAnswer) -> CheckFinding:
        if self._captain.stream and not self._stream:
            message = "rejected; answers without streaming work"
            return CheckFinding("streaming", False, message, "set stream = false for this captain")
        if not self._stream:
            return CheckFinding("streaming", None, "not requested (stream = false)")
        first = "" if answer.first_token_s is None else f"first words after {answer.first_token_s:.2g} s"
        return CheckFinding("streaming", True, first)

    async def _tools(self) -> CheckFinding:
        """Test a tool call, and the next request of the conversation."""
        needed = self._captain.style == "tools"
        need = self._provider.tools_need if self._provider else ""
        change = "; or ".join(part for part in (need, 'set style = "json"' if needed else "") if part)
        words = "Paint the door blue with the tool."
        question: list[Message] = [_SYSTEM, {"role": "user", "content": words}]
        try:
            answer = await self._ask(question, tools=[_TOOL], tool_choice=self._captain.tool_choice)
        except EndpointError as error:
            return CheckFinding("tools", False, f"{error}{_detail(error)}", change, needed)
        if not answer.tool_calls:
            return CheckFinding("tools", False, "the model did not call the offered tool", change, needed)
        try:
            await self._ask([*question, *self._returned(answer)], tools=[_TOOL])
        except EndpointError as error:
            message = f"a first call works, but the next request is rejected: {error}{_detail(error)}"
            setting = "set send_back = true" if not self._captain.send_back else "try send_back = false"
            return CheckFinding("tools", False, message, setting, needed)
        return CheckFinding("tools", True, "called, and the conversation continues after it", needed=needed)

    def _returned(self, answer: ChatAnswer) -> list[Message]:
        """Return the answer as it is sent back, and the result of its first call."""
        calls = with_ids([unchecked_call(find_calls(answer, ())[0])])
        verbatim: Mapping[str, Any] = answer.verbatim
        if not self._captain.send_back:
            calls, verbatim = tuple(replace(call, verbatim={}) for call in calls), {}
        return [answer_message(answer.text, calls, verbatim), *tool_messages(calls, (), "Done. Say only: ok")]

    async def _written(self) -> CheckFinding:
        """Test an action written in the text of an answer."""
        style = self._captain.style
        needed = style != "tools"
        about = "XML" if style == "xml" else "JSON"
        question: list[Message] = [_SYSTEM, {"role": "user", "content": f"Write only this: {_FORMS[style]}"}]
        try:
            answer = await self._ask(question)
        except EndpointError as error:
            message = f"{error}{_detail(error)}"
            return CheckFinding(about, False, message, advice(error, self._captain), needed)
        legal: LegalAction = {"tool": "paint", "arguments": {"type": "object"}}
        if [call.tool for call in find_calls(answer, [legal])] != ["paint"]:
            cut = " (it was cut: increase max_tokens)" if answer.finish_reason == "length" else ""
            message = f"the answer contains no readable action{cut}"
            change = "choose another style or model" if needed else ""
            return CheckFinding(about, False, message, change, needed)
        return CheckFinding(about, True, "an action was written and read", needed=needed)

    async def _constrained(self) -> CheckFinding:
        """Test constraints, the strongest first, by a question that only a constraint answers in form."""
        captain = self._captain
        setting = captain.constraint
        constraint = strongest("auto" if setting == "none" else setting, captain.style)
        found: list[str] = []
        while constraint != "none":
            problem = await self._constraint_problem(constraint)
            if problem is None:
                break
            found.append(f"{constraint} {problem}")
            constraint = weaker(constraint, captain.subset) if setting in ("auto", "none") else "none"
        tried = "; ".join(found)
        if constraint == "none":
            message = f"{tried or f'the style {captain.style} has none'}; answers are not constrained"
            change = 'set constraint = "none"' if setting != "none" else ""
            return CheckFinding("constraint", False if found else None, message, change, needed=False)
        message = f"{constraint} works" + (f" ({tried})" if tried else "")
        if setting == "none":
            message += f', but is not used; set constraint = "{constraint}" to use it'
        return CheckFinding("constraint", True, message, needed=False)

    async def _constraint_problem(self, constraint: Constraint) -> str | None:
        """Return why a constraint does not work here; ``None`` if it does."""
        captain, more = self._captain, dict[str, Any]()
        if constraint == "json_schema":
            more["schema"] = answer_schema([_LEGAL], captain.subset, captain.actions_per_answer)
        elif constraint == "tools":
            more["tools"] = strict_tools([_LEGAL], captain.subset)
        words = "Write a short sentence about the sea, as JSON." if constraint == "json_object" else PROSE
        question: list[Message] = [_SYSTEM, {"role": "user", "content": words}]
        try:
            answer = await self._ask(question, constraint=constraint, **more)
        except EndpointError as error:
            kind = "is rejected" if error.status in REJECTED_STATUSES else "fails"
            return f"{kind}: {error}{_detail(error)}"
        if constraint == "json_object":
            return None if answer.text.strip().startswith("{") else "is accepted but ignored"
        try:
            check_call(find_calls(answer, [_LEGAL])[0], [_LEGAL])
        except (IndexError, CallRejected):
            return "is accepted but ignored"
        return None

    async def _long_prompt(self) -> CheckFinding:
        """Test a prompt of the longest allowed length."""
        captain = self._captain
        room = int((captain.context_tokens - captain.max_tokens) * 0.8)
        sentences = max(1, room * 4 // len(FILLER))
        content = f"Remember this: {WORD}. {FILLER * sentences}Say only what you were told to remember."
        need = (self._provider.context_needs if self._provider else "") or "set a smaller context_tokens"
        try:
            answer = await self._ask([_SYSTEM, {"role": "user", "content": content}])
        except EndpointError as error:
            return CheckFinding(
                "context", False, f"a prompt of about {room} tokens: {error}{_detail(error)}", need
            )
        counted = 0 if answer.usage is None else answer.usage.tokens_in
        if 0 < counted < room // 2 or WORD not in answer.text.casefold():
            message = f"a prompt of about {room} tokens was cut or not read; the endpoint counted {counted}"
            return CheckFinding("context", False, message, need, needed=0 < counted < room // 2)
        return CheckFinding("context", True, f"a prompt of about {room} tokens was read from its beginning")

    def _stated_limits(self) -> CheckFinding:
        captain = self._captain
        own = {
            "requests_per_minute": captain.requests_per_minute,
            "tokens_per_minute": captain.tokens_per_minute,
            "concurrency": captain.concurrency,
        }
        set_here = ", ".join(f"{name} = {value}" for name, value in own.items() if value is not None)
        stated = ", ".join(f"{name}: {value}" for name, value in self._limits.items())
        message = f"the endpoint states {stated}" if stated else "the endpoint states none"
        return CheckFinding("limits", None, f"{message}; this captain sets {set_here or 'none'}")


def _thoughts(answer: ChatAnswer) -> CheckFinding:
    if answer.thought:
        sent_back = ", sent back unchanged" if answer.verbatim else ""
        return CheckFinding("thoughts", True, f"{len(answer.thought)} characters{sent_back}")
    return CheckFinding("thoughts", None, "none were shown")


def _usage(answer: ChatAnswer, captain: ModelCaptain) -> CheckFinding:
    price = f"price {captain.price}" if captain.price else "the price is unknown, so its cost has no cap"
    if answer.usage is None or not answer.usage.tokens_in:
        return CheckFinding(
            "usage", False, f"the endpoint does not count tokens; they are estimated; {price}", needed=False
        )
    used = answer.usage
    return CheckFinding("usage", True, f"{used.tokens_in} in, {used.tokens_out} out; {price}")


def _detail(error: EndpointError) -> str:
    return f" ({error.detail.strip()[:200]})" if error.detail.strip() else ""

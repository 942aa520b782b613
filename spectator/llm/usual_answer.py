"""The answer in a whole completion of the usual shape, at one go.

:class:`~spectator.llm.assembly.Assembly` reads whatever an endpoint may send, piece by piece. Most
completions hold one message with a text or a few calls; those need none of its care, and come out the same.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, Final

from spectator.llm.chat import ChatAnswer, ToolCall, Usage
from spectator.llm.token_ids import token_ids

MOST_CALLS: Final = 64
"""Calls of one answer that are looked at."""

MOST_TOKENS: Final = 2**53

Clean = Callable[[str], str]
"""Makes a text fit to be kept: without the key, encodable."""

_OF_COMPLETION: Final = frozenset({
    "id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier", "provider",
    "prompt_token_ids",
})  # fmt: skip
_OF_CHOICE: Final = frozenset({"index", "message", "finish_reason", "logprobs", "token_ids", "stop_reason"})
_OF_MESSAGE: Final = frozenset({"role", "content", "tool_calls"})
_EMPTY_OF_MESSAGE: Final = frozenset({"refusal", "reasoning_content", "reasoning"})
"""Members that many endpoints send along, and that say nothing where they are null."""

_OF_CALL: Final = frozenset({"id", "index", "type", "function"})
_OF_FUNCTION: Final = frozenset({"name", "arguments"})
_OF_USAGE: Final = frozenset({"prompt_tokens", "completion_tokens", "total_tokens"})
_DETAILS: Final = ("prompt_tokens_details", "completion_tokens_details")


def usual_answer(completion: Any, clean: Clean, *, latency_s: float, attempts: int) -> ChatAnswer | None:
    """The answer in ``completion``; ``None`` where it is not of the usual shape.

    Args:
        completion: The decoded body.
        clean: Applied to every text.
        latency_s: See :class:`ChatAnswer`.
        attempts: See :class:`ChatAnswer`.
    """
    choice = _choice_of(completion)
    message = None if choice is None else choice["message"]
    if choice is None or type(message) is not dict:
        return None
    for name in message.keys() - _OF_MESSAGE:
        if name not in _EMPTY_OF_MESSAGE or message[name] is not None:
            return None
    text, calls = message.get("content"), message.get("tool_calls")
    model, finish = completion.get("model"), choice.get("finish_reason")
    usage, made = _usage(completion.get("usage")), _calls(calls, clean) if calls else ()
    tokens = _tokens(choice, completion.get("prompt_token_ids"))
    if text is None:
        text = ""
    elif type(text) is not str or "<" in text:
        return None
    if usage is None or made is None or tokens is None or type(model) is not str or type(finish) is not str:
        return None
    return ChatAnswer(
        text=clean(text.strip()),
        tool_calls=made,
        finish_reason=clean(finish) or None,
        model=clean(model) or None,
        usage=usage,
        logprobs=tokens[0],
        token_ids=tokens[1],
        prompt_token_ids=tokens[2],
        latency_s=latency_s,
        attempts=attempts,
    )


def _choice_of(completion: Any) -> dict[str, Any] | None:
    if type(completion) is not dict or not _OF_COMPLETION.issuperset(completion):
        return None
    choices = completion.get("choices")
    if type(choices) is not list or len(choices) != 1:
        return None
    choice = choices[0]
    usual = type(choice) is dict and _OF_CHOICE.issuperset(choice) and "message" in choice
    return choice if usual else None


def _calls(calls: Any, clean: Clean) -> tuple[ToolCall, ...] | None:
    if type(calls) is not list or len(calls) > MOST_CALLS:
        return None
    made = []
    for place, call in enumerate(calls):
        if type(call) is not dict or not _OF_CALL.issuperset(call) or call.get("index", place) != place:
            return None
        function, name = call.get("function"), call.get("id")
        if type(function) is not dict or not _OF_FUNCTION.issuperset(function) or type(name) is not str:
            return None
        tool, arguments = function.get("name"), function.get("arguments")
        if type(tool) is not str or type(arguments) is not str:
            return None
        made.append(ToolCall(clean(name), clean(tool), clean(arguments), {}))
    return tuple(made)


def _usage(usage: Any) -> Usage | None:
    if type(usage) is not dict:
        return None
    for name in usage.keys() - _OF_USAGE:
        if name not in _DETAILS or usage[name] is not None:
            return None
    tokens_in, tokens_out = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if type(tokens_in) is not int or type(tokens_out) is not int:
        return None
    if not (0 <= tokens_in < MOST_TOKENS and 0 <= tokens_out < MOST_TOKENS):
        return None
    return Usage(tokens_in, tokens_out)


Tokens = tuple["array[float] | None", "array[int] | None", "array[int] | None"]


def _tokens(choice: dict[str, Any], prompt: Any) -> Tokens | None:
    """Log probabilities and ids of the answer, and ids of the prompt, straight into arrays."""
    ids, logprobs = choice.get("token_ids"), choice.get("logprobs")
    try:
        content = [] if logprobs is None else logprobs["content"]
        if type(content) is not list:
            return None
        return (
            array("d", [token["logprob"] for token in content]) if content else None,
            token_ids(ids) if ids else None,
            token_ids(prompt) if prompt else None,
        )
    except (KeyError, TypeError, ValueError):
        return None

"""Every way in which a request to a model can end: whose fault it is, and what happens next.

`docs/failures.md` shows this table. Signs are those of OpenAI, Azure, Anthropic, Gemini, Groq, Mistral,
DeepSeek, Together, Fireworks, OpenRouter, Hugging Face's router, vLLM, SGLang, llama.cpp, Ollama and TGI;
they are compared in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from spectator.errors import (
    EndpointBusy,
    EndpointError,
    EndpointMalformed,
    EndpointOverflow,
    EndpointRefused,
    EndpointResting,
    EndpointTimeout,
    EndpointUnavailable,
    FailureClass,
)

Owner = Literal["none", "model", "provider", "network", "configuration", "our limits", "budget"]
Reaction = Literal["accepted", "asked again", "sent again", "waited for", "ends"]
"""What follows: the answer is accepted; the model is asked again, with the rule that it broke; the same
request is sent again, after a random delay, or after the delay that the endpoint asks for; or nothing."""

Kind = Literal["finish reason", "code", "type", "text", "status", "event"]
"""Where a sign stands. A ``code`` decides over the HTTP status; a ``type`` only within an answer."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One way in which a request can end.

    Args:
        owner: Whose fault it is.
        reaction: What happens next.
        failure_class: The class of the decision if that does not help.
        message: Message of the error; ``{}`` is the status.
        error: The error; ``None`` if the answer is judged as the model's.
        finish: The finish reason of such an answer, in the words of chat completions.
    """

    owner: Owner
    reaction: Reaction
    failure_class: FailureClass | None
    message: str = ""
    error: type[EndpointError] | None = None
    finish: str = ""


MALFORMED_CALL: Final = "malformed_call"
"""Finish reason of an answer whose tool call the endpoint could not read."""

CUT_REASONS: Final = frozenset({"length", "content_filter"})
"""Finish reasons of answers that are not whole, and so are never repaired."""

_COMPLETE: Final = Fault("none", "accepted", None, finish="stop")
_CALLED: Final = Fault("none", "accepted", None, finish="tool_calls")
_CUT: Final = Fault("model", "asked again", "truncated", finish="length")
_FILTERED: Final = Fault("model", "asked again", "declined", finish="content_filter")
_UNREADABLE: Final = Fault("model", "asked again", "unparsable", finish=MALFORMED_CALL)
_ILLEGAL: Final = Fault("model", "asked again", "illegal_action")
_ABORTED: Final = Fault(
    "provider", "sent again", "model_infra", "the endpoint broke off its answer", EndpointUnavailable
)
_FAILED: Final = Fault(
    "provider", "sent again", "model_infra", "the endpoint failed with status {}", EndpointUnavailable
)
_BUSY: Final = Fault("provider", "waited for", "rate_limited", "the endpoint asks to wait", EndpointBusy)
_UNPAID: Final = Fault("budget", "ends", "model_rejected", "the endpoint requires payment", EndpointRefused)
_USED_UP: Final = Fault(
    "budget", "ends", "rate_limited", "the endpoint's daily quota is used up", EndpointRefused
)
_OVERFLOW: Final = Fault(
    "our limits", "ends", "context_exceeded",
    "the prompt is too large for the endpoint; lower context_tokens or max_tokens", EndpointOverflow,
)  # fmt: skip


def _rejected(message: str) -> Fault:
    return Fault("configuration", "ends", "model_rejected", message, EndpointRefused)


_STALE: Final = Fault("network", "sent again", None)
_KEY: Final = _rejected("the endpoint does not accept the key")
_FORBIDDEN: Final = _rejected("the endpoint does not permit this")
_UNKNOWN: Final = _rejected("the endpoint does not know this address or model")
_REJECTED: Final = _rejected("the endpoint rejected the request with status {}")
_UNSIGNED: Final = _rejected("the signature of a thought is missing; set send_back")
_REDIRECTED: Final = _rejected("the endpoint redirects the request, and redirects are not followed")


def _lost(failure: type[EndpointError], owner: Owner = "network", reaction: Reaction = "sent again") -> Fault:
    return Fault(owner, reaction, failure.failure_class, error=failure)


@dataclass(frozen=True, slots=True)
class Sign:
    """What an endpoint says or does, and the fault that it is a sign of.

    Args:
        kind: Where it stands.
        words: The signs, as they are written.
        by: Who writes them.
        status: The HTTP status that a ``code`` or ``type`` stands for in a stream.
        within: HTTP statuses whose message is searched for a ``text``.
    """

    kind: Kind
    words: tuple[str, ...]
    fault: Fault
    by: str = "all"
    status: int = 400
    within: tuple[int, ...] = (400, 403, 413, 422, 500)


FAULTS: Final = (
    Sign("finish reason", ("stop",), _COMPLETE),
    Sign("finish reason", ("end_turn", "stop_sequence", "pause_turn"), _COMPLETE, "Anthropic"),
    Sign("finish reason", ("eos", "eos_token"), _COMPLETE, "Together, TGI"),
    Sign("finish reason", ("tool_calls", "function_call", "tool_use"), _CALLED, "all, Anthropic"),
    Sign("finish reason", ("length", "max_tokens"), _CUT, "all, Anthropic, Gemini"),
    Sign("finish reason", ("model_length", "model_context_window_exceeded"), _CUT, "Mistral, Anthropic"),
    Sign("finish reason", ("repetition",), _CUT, "vLLM"),
    Sign("finish reason", ("content_filter", "refusal"), _FILTERED, "OpenAI, Azure, DeepSeek, Anthropic"),
    Sign(
        "finish reason",
        ("safety", "recitation", "language", "blocklist", "prohibited_content", "spii", "image_safety"),
        _FILTERED, "Gemini",
    ),
    Sign(
        "finish reason",
        ("malformed_function_call", "malformed_response", "unexpected_tool_call", "too_many_tool_calls"),
        _UNREADABLE, "Gemini",
    ),
    Sign("finish reason", (MALFORMED_CALL,), _UNREADABLE, "Spectator's record"),
    Sign("finish reason", ("error",), _ABORTED, "OpenRouter, Mistral, Fireworks, vLLM"),
    Sign("finish reason", ("abort", "aborted", "cancelled"), _ABORTED, "vLLM, SGLang"),
    Sign("finish reason", ("insufficient_system_resource",), _ABORTED, "DeepSeek"),
    Sign("finish reason", ("network_error",), _ABORTED, "GLM by OpenRouter"),
    Sign("finish reason", ("load", "unload"), _ABORTED, "Ollama"),
    Sign("finish reason", ("other", "finish_reason_unspecified"), _ABORTED, "Gemini"),
    Sign("finish reason", ("missing_thought_signature",), _UNSIGNED, "Gemini"),
    Sign("code", ("tool_use_failed", "json_validate_failed", "output_parse_failed"), _UNREADABLE, "Groq"),
    Sign("code", ("content_filter",), _FILTERED, "Azure"),
    Sign("code", ("content_policy_violation", "invalid_prompt"), _FILTERED, "OpenAI"),
    Sign("code", ("data_inspection_failed",), _FILTERED, "Qwen by OpenRouter"),
    Sign("code", ("context_length_exceeded", "string_above_max_length"), _OVERFLOW, "OpenAI, Azure, Groq"),
    Sign("code", ("exceed_context_size_error",), _OVERFLOW, "llama.cpp"),
    Sign("code", ("request_too_large",), _OVERFLOW, "Anthropic"),
    Sign("code", ("overflow",), _OVERFLOW, "Spectator's record"),
    Sign(
        "code",
        ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_credits"),
        _UNPAID, "OpenAI, Azure, OpenRouter", 429,
    ),
    Sign("code", ("billing_error",), _UNPAID, "Anthropic", 402),
    Sign("type", ("invalid_request_error", "not_supported_error"), _REJECTED, "OpenAI, Anthropic, llama.cpp"),
    Sign("type", ("invalid_argument", "failed_precondition"), _REJECTED, "Gemini"),
    Sign("type", ("badrequesterror", "validation", "template_error"), _REJECTED, "vLLM, SGLang, TGI"),
    Sign("type", ("authentication_error", "invalid_api_key", "unauthenticated"), _KEY, "all", 401),
    Sign("type", ("permission_error", "permission_denied"), _FORBIDDEN, "Anthropic, llama.cpp, Gemini", 403),
    Sign(
        "type",
        ("not_found_error", "not_found", "model_not_found", "notfounderror", "deploymentnotfound"),
        _UNKNOWN, "Anthropic, Gemini, OpenAI, vLLM, Azure", 404,
    ),
    Sign("type", ("rate_limit_exceeded", "rate_limit_error"), _BUSY, "OpenAI, Groq, Anthropic", 429),
    Sign("type", ("resource_exhausted",), _BUSY, "Gemini", 429),
    Sign("type", ("service_tier_capacity_exceeded", "capacity_exceeded"), _BUSY, "Mistral, Groq", 429),
    Sign(
        "type",
        ("overloaded_error", "overloaded", "engine_overloaded", "server_overloaded", "slow_down"),
        _BUSY, "Anthropic, TGI, Together, OpenAI", 529,
    ),
    Sign("type", ("unavailable_error", "unavailable", "unhealthy"), _FAILED, "llama.cpp, Gemini, TGI", 503),
    Sign("type", ("timeout_error", "deadline_exceeded", "timeout"), _FAILED, "Anthropic, Gemini", 504),
    Sign("type", ("server_error", "api_error", "internal"), _FAILED, "OpenAI, Anthropic, Gemini", 500),
    Sign("type", ("internalservererror",), _FAILED, "vLLM, SGLang", 500),
    Sign("type", ("generation", "incomplete_generation"), _FAILED, "TGI", 500),
    Sign("text", ("failed to parse input", "error parsing tool call"), _UNREADABLE, "llama.cpp, Ollama"),
    Sign("text", ("content management policy", "content filtering policy"), _FILTERED, "Azure, Anthropic"),
    Sign("text", ("content exists risk",), _FILTERED, "DeepSeek"),
    Sign("text", ("requires moderation", "was flagged"), _FILTERED, "OpenRouter, OpenAI"),
    Sign(
        "text",
        (
            "context length", "context window", "context size", "prompt is too long", "input is too long",
            "input token count", "reduce the length of the messages", "max_new_tokens",
        ),
        _OVERFLOW, "vLLM, SGLang, llama.cpp, Together, Anthropic, Gemini, TGI",
    ),
    Sign(
        "text",
        ("insufficient_quota", "credit balance", "credits are depleted", "insufficient balance"),
        _UNPAID, "Anthropic, Gemini, DeepSeek", within=(400, 403, 429),
    ),
    Sign("text", ("api_key_invalid", "api key not valid"), _KEY, "Gemini", within=(400,)),
    Sign("status", ("300 to 399",), _REDIRECTED),
    Sign("status", ("401",), _KEY),
    Sign("status", ("402",), _UNPAID),
    Sign("status", ("403",), _FORBIDDEN),
    Sign("status", ("404",), _UNKNOWN),
    Sign("status", ("413",), _OVERFLOW),
    Sign("status", ("408", "409", "424", "425", "499"), _FAILED, "OpenRouter, Groq, TGI, Gemini"),
    Sign("status", ("429", "498", "529"), _BUSY, "all, Groq, Anthropic"),
    Sign("status", ("429 for a daily quota",), _USED_UP, "Gemini"),
    Sign("status", ("503 with Retry-After",), _BUSY),
    Sign("status", ("400 to 499",), _REJECTED),
    Sign("status", ("500 to 599",), _FAILED),
    Sign("event", ("a stream ends with [DONE] but no finish reason",), _CUT),
    Sign("event", ("a call that is illegal now, or whose arguments break their schema",), _ILLEGAL),
    Sign("event", ("a whole answer without an action",), Fault("model", "asked again", "unparsable")),
    Sign("event", ("a kept connection closes before any byte of an answer",), _STALE),
    Sign("event", ("no connection", "the connection closes within an answer"), _lost(EndpointUnavailable)),
    Sign("event", ("an answer that is not a completion, or too long",), _lost(EndpointMalformed, "provider")),
    Sign("event", ("silence, or an endless answer",), _lost(EndpointTimeout)),
    Sign("event", ("the endpoint rests after failures",), _lost(EndpointResting, "provider", "ends")),
    Sign("event", ("a cap does not cover a further request",), Fault("budget", "ends", "spent")),
)  # fmt: skip
"""The table; of several signs that fit, the first decides."""


def _by_word(kind: Kind) -> dict[str, Sign]:
    return {word: sign for sign in FAULTS if sign.kind == kind for word in sign.words}


_FINISH: Final = _by_word("finish reason")
_CODES: Final = _by_word("code")
_TYPES: Final = _by_word("type")
_STATUSES: Final = _by_word("status")
_TEXTS: Final = [sign for sign in FAULTS if sign.kind == "text"]


def finish_of(reason: str) -> Fault:
    """Return what a finish reason means; an unknown one is accepted as it is.

    >>> finish_of("MAX_TOKENS").finish, finish_of("abort").failure_class, finish_of("new").finish
    ('length', 'model_infra', 'new')
    """
    sign = _FINISH.get(reason.lower())
    return Fault("none", "accepted", None, finish=reason) if sign is None else sign.fault


def fault_of(status: int, error: Mapping[str, Any], text: str, wait: float | None) -> tuple[Fault, int]:
    """Return what an error means, and its HTTP status.

    Args:
        status: The HTTP status; 200 for an error within an answer.
        error: The error's members.
        text: The error in lower case.
        wait: How long the endpoint asks to wait, seconds.
    """
    words = [str(error.get(name)).lower() for name in ("code", "type", "status", "error_type")]
    if status == 200:
        status = next(_statuses(words), 500)
    for word in words:
        if word in _CODES:
            return _CODES[word].fault, status
    for sign in _TEXTS:
        if status in sign.within and any(word in text for word in sign.words):
            if sign.fault is not _UNPAID or wait is None:
                return sign.fault, status
    if status == 429 and any("perday" in quota.lower() for quota in _quotas(error)):
        return _USED_UP, status
    if status == 503 and wait is not None:
        return _BUSY, status
    ranges = (_REDIRECTED, _REJECTED, _FAILED)[min(max(status // 100 - 3, 0), 2)]
    return (_STATUSES[str(status)].fault if str(status) in _STATUSES else ranges), status


def _statuses(words: list[str]) -> Iterator[int]:
    """Yield the HTTP statuses that an error within an answer stands for."""
    yield from (int(word) for word in words if re.fullmatch(r"[345][0-9]{2}", word))
    for word in words:
        if (sign := _CODES.get(word) or _TYPES.get(word)) is not None:
            yield sign.status


def error_details(error: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield Google's details of an error."""
    details = error.get("details")
    yield from (one for one in (details if isinstance(details, list) else ()) if isinstance(one, dict))


def _quotas(error: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of exceeded quotas in Google's error details."""
    for detail in error_details(error):
        violations = detail.get("violations")
        for one in violations if isinstance(violations, list) else ():
            yield str(one.get("quotaId", "")) if isinstance(one, dict) else ""
        metadata = detail.get("metadata")
        yield str(metadata.get("quota_limit", "")) if isinstance(metadata, dict) else ""


def fault_table() -> str:
    """Return the table as Markdown, for ``docs/failures.md``."""
    rows = [
        "| sign | where | written by | whose fault | then | `failure_class` |",
        "|---|---|---|---|---|---|",
    ]
    for sign in FAULTS:
        fault = sign.fault
        words = ", ".join(sign.words if sign.kind == "event" else [f"`{word}`" for word in sign.words])
        failure = "" if fault.failure_class is None else f"`{fault.failure_class}`"
        rows.append(f"| {words} | {sign.kind} | {sign.by} | {fault.owner} | {fault.reaction} | {failure} |")
    return "\n".join(rows)

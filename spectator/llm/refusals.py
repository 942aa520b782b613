"""What a response means whose status is not 200: wait, pay, try again, or give up."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from spectator.errors import EndpointBusy, EndpointError, EndpointRefused, EndpointUnavailable

_EXCERPT: Final = 300
_NO_MONEY: Final = frozenset(
    {
        "insufficient_quota",
        "billing_hard_limit_reached",
        "billing_not_active",
        "billing_error",
        "insufficient_credits",
    }
)
"""Codes and types of errors that no waiting helps against."""

_POOR: Final = ("insufficient_quota", "credit balance", "credits are depleted", "insufficient balance")
"""What such an error says where it has no code; quotas of a minute speak of billing, too."""

_BAD_KEY: Final = ("api_key_invalid", "api key not valid")
_DELAY: Final = re.compile(r"(\d+(?:\.\d+)?)s")
_SENTENCES: Final[Mapping[int, str]] = {
    401: "the endpoint does not accept the key",
    403: "the endpoint does not permit this",
    404: "the endpoint knows no such address or model",
    413: "the prompt is too large for the endpoint",
}


def error_of(status: int, body: bytes, *, retry_after_s: float | None = None) -> EndpointError:
    """The error that a response means.

    Args:
        status: Its status.
        body: Its body, in whichever form: OpenAI's, Anthropic's, Gemini's.
        retry_after_s: What its head asks to wait; else its body is read for that.

    >>> error_of(429, b'{"error": {"details": [{"retryDelay": "21.5s"}]}}').retry_after_s
    21.5
    """
    error = _read(body)
    text = body[: 4 * _EXCERPT].decode(errors="replace").lower()
    wait = retry_after_s if retry_after_s is not None else _delay(error)
    answered: dict[str, Any] = {"status": status, "retry_after_s": wait, "detail": _excerpt(body)}
    if _means_no_money(status, error, text, wait):
        return EndpointRefused("the endpoint wants to be paid first", **answered)
    if status == 429 and any("perday" in quota.lower() for quota in _quotas(error)):
        used_up = EndpointRefused("the endpoint's quota of the day is used up", **answered)
        used_up.failure_class = EndpointBusy.failure_class
        return used_up
    if status == 429 or status == 529 or (status == 503 and wait is not None):
        return EndpointBusy("the endpoint asks to wait", **answered)
    if status >= 500 or status in (408, 409, 425):
        return EndpointUnavailable(f"the endpoint failed with status {status}", **answered)
    if status == 400 and any(mark in text for mark in _BAD_KEY):
        return EndpointRefused(_SENTENCES[401], **answered)
    return EndpointRefused(_sentence(status), **answered)


def error_within(status: int, error: Any) -> EndpointError:
    """The error that an answer reports although its own status is 200.

    Args:
        status: The status that it means.
        error: The decoded member ``error``.
    """
    return error_of(status, json.dumps({"error": error}, default=str).encode())


def _sentence(status: int) -> str:
    if 300 <= status < 400:
        return "the endpoint sends us elsewhere, and redirects are not followed"
    return _SENTENCES.get(status, f"the endpoint refuses the request with status {status}")


def _means_no_money(status: int, error: Mapping[str, Any], text: str, wait: float | None) -> bool:
    if status == 402:
        return True
    if status not in (400, 403, 429):
        return False
    if {str(error.get("code")), str(error.get("type"))} & _NO_MONEY:
        return True
    return wait is None and any(mark in text for mark in _POOR)


def _read(body: bytes) -> Mapping[str, Any]:
    """The member ``error`` of the body; empty where there is none."""
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    said = said[0] if isinstance(said, list) and said else said
    error = said.get("error", said) if isinstance(said, dict) else {}
    return error if isinstance(error, dict) else {}


def _details(error: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    details = error.get("details")
    yield from (one for one in (details if isinstance(details, list) else ()) if isinstance(one, dict))


def _delay(error: Mapping[str, Any]) -> float | None:
    """What Google's ``RetryInfo`` asks to wait, seconds."""
    for detail in _details(error):
        if found := _DELAY.fullmatch(str(detail.get("retryDelay", ""))):
            return float(found[1])
    return None


def _quotas(error: Mapping[str, Any]) -> Iterator[str]:
    """Names of the quotas that were exceeded, as Google tells them."""
    for detail in _details(error):
        violations = detail.get("violations")
        for one in violations if isinstance(violations, list) else ():
            yield str(one.get("quotaId", "")) if isinstance(one, dict) else ""
        metadata = detail.get("metadata")
        yield str(metadata.get("quota_limit", "")) if isinstance(metadata, dict) else ""


def _excerpt(body: bytes) -> str:
    return body[:_EXCERPT].decode(errors="replace")

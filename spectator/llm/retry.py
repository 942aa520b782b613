"""What a failed request means: wait, pay, retry, give up; and a circuit breaker."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Final, Self

import orjson

from spectator.clock import Clock
from spectator.errors import (
    EndpointBusy,
    EndpointError,
    EndpointRefused,
    EndpointResting,
    EndpointUnavailable,
)

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


FOREVER: Final = -1
"""As a number of retries: until the deadline."""

_LARGEST_EXPONENT: Final = 40


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How stubborn a client is. A deadline always wins over it.

    Waits have full jitter: they are drawn evenly from 0 to ``base_s * 2**n``, at most ``longest_s``, so that
    clients that failed together do not come back together.

    Args:
        busy: Retries after the endpoint asked to wait; :data:`FOREVER` allowed.
        unavailable: Retries after everything else that can pass; counted apart.
        base_s: Longest first wait, seconds.
        longest_s: Longest wait of our own choosing; one that the endpoint asks for may be longer.
    """

    busy: int = 6
    unavailable: int = 3
    base_s: float = 0.5
    longest_s: float = 30.0

    def __post_init__(self) -> None:
        if self.busy < FOREVER or self.unavailable < FOREVER:
            raise ValueError("a number of retries is 0 or more, or -1 for as long as the deadline allows")
        if not (0 <= self.base_s <= self.longest_s < math.inf):
            raise ValueError("waits must satisfy 0 <= base_s <= longest_s")

    @classmethod
    def patient(cls) -> Self:
        """The stubbornness of a fleet that outlives restarts of its endpoint: until the deadline."""
        return cls(busy=FOREVER, unavailable=FOREVER, base_s=2.0, longest_s=30.0)


class Attempts:
    """How often one request has failed, by kind.

    Args:
        policy: How often it may.
        rng: Draws the waits.
    """

    def __init__(self, policy: RetryPolicy, rng: random.Random) -> None:
        self._policy = policy
        self._rng = rng
        self._busy = self._unavailable = 0
        self.failed = 0
        """Failed attempts so far that may be made again."""

    def wait_after(self, error: EndpointError) -> float | None:
        """Seconds to wait before the next attempt; ``None`` when there is to be none."""
        if not error.retryable:
            return None
        self.failed += 1
        policy = self._policy
        if isinstance(error, EndpointBusy):
            self._busy, failures, allowed = self._busy + 1, self._busy, policy.busy
        else:
            self._unavailable, failures, allowed = (
                self._unavailable + 1,
                self._unavailable,
                policy.unavailable,
            )
        if allowed != FOREVER and failures >= allowed:
            return None
        longest = min(policy.longest_s, policy.base_s * 2.0 ** min(failures, _LARGEST_EXPONENT))
        return (error.retry_after_s or 0.0) + self._rng.uniform(0.0, longest)


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds that a ``Retry-After`` header asks for (RFC 9110, section 10.2.3); ``None`` for none.

    Args:
        value: Seconds, or a date.
        now: The wall clock, aware.

    >>> parse_retry_after("30", datetime(2026, 11, 21, tzinfo=UTC))
    30.0
    >>> parse_retry_after("Sat, 21 Nov 2026 00:01:00 GMT", datetime(2026, 11, 21, tzinfo=UTC))
    60.0
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        return _seconds_until(value, now)
    return seconds if 0 <= seconds < math.inf else None


def _seconds_until(date: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


PERMANENT_STATUSES: Final = frozenset({401, 402, 403, 404})
"""Statuses that no other request to this endpoint will escape: key, payment, permission, address."""


class CircuitBreaker:
    """Lets requests through until the endpoint failed ``failures`` times in a row; then it rests.

    After the rest one request is let through: its success ends the matter, its failure doubles the rest. A
    request that is asked to wait is neither success nor failure; one that is refused by a status in
    :data:`PERMANENT_STATUSES` starts the rest at once. One event loop uses it; many clients may share it.

    Args:
        clock: Measures the rest.
        failures: Failures in a row that are borne, at least 1.
        rest_s: The first rest, seconds.
        longest_rest_s: The longest.
    """

    def __init__(
        self, clock: Clock, *, failures: int = 5, rest_s: float = 30.0, longest_rest_s: float = 300.0
    ) -> None:
        if failures < 1 or not 0 < rest_s <= longest_rest_s:
            raise ValueError("a breaker needs failures >= 1 and 0 < rest_s <= longest_rest_s")
        self._clock = clock
        self._allowed = failures
        self._first_rest_s = rest_s
        self._longest_rest_s = longest_rest_s
        self._failed = 0
        self._rest_s = rest_s
        self._until: float | None = None
        self._probing = False
        self._why = ""
        self._status: int | None = None

    def request(self) -> BreakerRequest:
        """Around one request, which it has let through.

        Raises:
            EndpointResting: It is turned away.
        """
        if self._until is None:
            return BreakerRequest(self, False)
        left = self._until - self._clock.monotonic()
        if left > 0 or self._probing:
            raise EndpointResting(
                f"the endpoint is left alone after failing: {self._why}",
                status=self._status,
                retry_after_s=max(0.0, left),
            )
        self._probing = True
        return BreakerRequest(self, True)

    def settle(self, error: BaseException | None, probe: bool) -> None:
        """Take in how a request ended that was let through; ``probe``: whether it tried the endpoint."""
        if error is not None:
            self._judge(error, probe)
        elif self._failed or self._until is not None:
            self._close()

    def _judge(self, error: BaseException, probe: bool) -> None:
        """Take in how a request failed; ``probe``: whether it was the one that tried the endpoint."""
        if not isinstance(error, EndpointError):
            self._probing = self._probing and not probe
        elif isinstance(error, EndpointRefused):
            if error.status in PERMANENT_STATUSES:
                self._rest(error, probe)
            else:
                self._close()
        elif isinstance(error, EndpointBusy):
            self._probing = self._probing and not probe
        else:
            self._failed += 1
            if probe or (self._until is None and self._failed >= self._allowed):
                self._rest(error, probe)

    def _rest(self, error: EndpointError, probe: bool) -> None:
        self._rest_s = min(2 * self._rest_s, self._longest_rest_s) if probe else self._first_rest_s
        self._until = self._clock.monotonic() + self._rest_s
        self._probing = False
        self._why = str(error)
        self._status = error.status if error.status in PERMANENT_STATUSES else None

    def _close(self) -> None:
        self._failed = 0
        self._until = None
        self._probing = False
        self._rest_s = self._first_rest_s


@dataclass(frozen=True, slots=True)
class BreakerRequest(AbstractContextManager[None]):
    """One request that a breaker has let through.

    Args:
        breaker: It hears how the request ends.
        probe: Whether it is the one that tries the endpoint.
    """

    breaker: CircuitBreaker
    probe: bool

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.breaker.settle(error, self.probe)

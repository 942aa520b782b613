"""Failed requests: read errors, compute retry delays, break the circuit."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Self

import orjson

from spectator.backoff import Backoff
from spectator.clock import Clock
from spectator.errors import EndpointBusy, EndpointError, EndpointOverflow, EndpointRefused, EndpointResting
from spectator.llm.faults import Fault, error_details, fault_of

_EXCERPT: Final = 300
_DELAY: Final = re.compile(r"(\d+(?:\.\d+)?)s")

MAX_REJECTED: Final = 4_000
"""Characters kept of an answer that the endpoint rejected."""


def error_of(status: int, body: bytes, retry_after_s: float | None = None) -> EndpointError:
    """Return the error for a response with an error status, by the table in :mod:`spectator.llm.faults`.

    Args:
        status: HTTP status; 200 for an error within an answer.
        body: The body, in OpenAI's, Anthropic's or Gemini's form.
        retry_after_s: Delay from the response's headers, seconds; if ``None``, the body's delay is used.

    >>> error_of(429, b'{"error": {"details": [{"retryDelay": "21.5s"}]}}').retry_after_s
    21.5
    """
    fault, status, wait = _judged(status, body, retry_after_s)
    kind = fault.error or EndpointRefused
    error = kind(
        (fault.message or "the endpoint rejected the answer").format(status),
        status=status,
        retry_after_s=wait,
        detail=body[:_EXCERPT].decode(errors="replace"),
    )
    error.failure_class = fault.failure_class or error.failure_class
    return error


def rejected_answer(status: int, body: bytes) -> dict[str, Any] | None:
    """Return the completion that an error stands for, where the fault is the model's; else ``None``.

    Args:
        status: HTTP status; 200 for an error within an answer.

    >>> said = rejected_answer(400, b'{"error": {"code": "tool_use_failed", "failed_generation": "<say"}}')
    >>> said["choices"][0]["finish_reason"], said["choices"][0]["message"]
    ('malformed_call', {'content': '<say'})
    """
    fault, _, _ = _judged(status, body, None)
    if fault.error is not None:
        return None
    written = str(_read(body).get("failed_generation") or "")[:MAX_REJECTED]
    return {"choices": [{"message": {"content": written}, "finish_reason": fault.finish}]}


def _judged(status: int, body: bytes, wait: float | None) -> tuple[Fault, int, float | None]:
    error = _read(body)
    text = body[: 4 * _EXCERPT].decode(errors="replace").lower()
    wait = _delay(error) if wait is None else wait
    return *fault_of(status, error, text, wait), wait


def _read(body: bytes) -> Mapping[str, Any]:
    """Return the body's member ``error``, or the body itself; empty if not an object."""
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    decoded = decoded[0] if isinstance(decoded, list) and decoded else decoded
    decoded = decoded if isinstance(decoded, dict) else {}
    error = decoded.get("error")
    return error if isinstance(error, dict) else decoded


def _delay(error: Mapping[str, Any]) -> float | None:
    """Return the delay of Google's ``RetryInfo``, seconds."""
    for detail in error_details(error):
        if found := _DELAY.fullmatch(str(detail.get("retryDelay", ""))):
            return float(found[1])
    return None


FOREVER: Final = -1
"""As a number of retries: retry until the deadline."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how soon a client retries. A deadline always takes precedence.

    Delays are those of :class:`~spectator.backoff.Backoff`.

    Args:
        busy: Retries after the endpoint asked to wait; :data:`FOREVER` allowed.
        unavailable: Retries after other temporary failures, counted separately; :data:`FOREVER` allowed.
        base_s: Upper bound of the first delay, seconds.
        longest_s: Upper bound of later delays, seconds; the endpoint may ask for a longer delay.
    """

    busy: int = 6
    unavailable: int = 3
    base_s: float = 0.5
    longest_s: float = 30.0

    def __post_init__(self) -> None:
        if self.busy < FOREVER or self.unavailable < FOREVER:
            raise ValueError("busy and unavailable must be 0 or more, or -1 to retry until the deadline")
        if not (0 <= self.base_s <= self.longest_s < math.inf):
            raise ValueError("delays must satisfy 0 <= base_s <= longest_s")

    @classmethod
    def patient(cls) -> Self:
        """Return a policy that retries until the deadline, to survive restarts."""
        return cls(busy=FOREVER, unavailable=FOREVER, base_s=2.0, longest_s=30.0)


class Attempts:
    """Counts the failures of one request, and decides on retries.

    Args:
        policy: Allowed retries and delays.
        rng: Draws the delays.
    """

    def __init__(self, policy: RetryPolicy, rng: random.Random) -> None:
        self._policy = policy
        self._rng = rng
        self._busy = self._unavailable = 0
        self.failed = 0
        """Failed attempts so far, without those that cannot be retried."""

    def wait_after(self, error: EndpointError) -> float | None:
        """Return the seconds before the next attempt; ``None`` for no further attempt."""
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
        backoff = Backoff(policy.base_s, policy.longest_s)
        return (error.retry_after_s or 0.0) + backoff.draw(failures, self._rng)


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds of a ``Retry-After`` header (RFC 9110, section 10.2.3).

    Args:
        value: Seconds, or a date; ``None`` gives ``None``.
        now: The current time, timezone-aware.

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
"""Statuses that every request to the endpoint would get: key, payment, permission, address."""


class CircuitBreaker:
    """Pauses requests to an endpoint after ``failures`` failures in a row.

    After the pause, one request probes the endpoint: success ends the pause, failure doubles it. A request
    that is asked to wait counts as neither; a status in :data:`PERMANENT_STATUSES` starts the pause at once.
    Used from one event loop; clients may share it.

    Args:
        clock: Measures the pause.
        failures: Failures in a row that start a pause, at least 1.
        rest_s: The first pause, seconds.
        longest_rest_s: The longest pause, seconds.
    """

    def __init__(
        self, clock: Clock, *, failures: int = 5, rest_s: float = 30.0, longest_rest_s: float = 300.0
    ) -> None:
        if failures < 1 or not 0 < rest_s <= longest_rest_s:
            raise ValueError("failures must be at least 1, and 0 < rest_s <= longest_rest_s")
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
        """Return the context manager for one request.

        Raises:
            EndpointResting: The endpoint is paused.
        """
        if self._until is None:
            return BreakerRequest(self, False)
        left = self._until - self._clock.monotonic()
        if left > 0 or self._probing:
            raise EndpointResting(
                f"requests to the endpoint are paused after failures: {self._why}",
                status=self._status,
                retry_after_s=max(0.0, left),
            )
        self._probing = True
        return BreakerRequest(self, True)

    def settle(self, error: BaseException | None, probe: bool) -> None:
        """Count the end of a request; ``probe``: whether it probed the endpoint."""
        if error is not None:
            self._failure(error, probe)
        elif self._failed or self._until is not None:
            self._close()

    def _failure(self, error: BaseException, probe: bool) -> None:
        if not isinstance(error, EndpointError):
            self._probing = self._probing and not probe
        elif isinstance(error, EndpointRefused):
            if error.status in PERMANENT_STATUSES and not isinstance(error, EndpointOverflow):
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
    """One request through a breaker; its exit reports success or failure.

    Args:
        probe: Whether the request probes the endpoint after a pause.
    """

    breaker: CircuitBreaker
    probe: bool

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.breaker.settle(error, self.probe)

"""The retry policy: how often a request is sent again, and after how long."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Self

from spectator.backoff import Backoff
from spectator.errors import EndpointBusy, EndpointError

FOREVER: Final = -1
"""As a number of retries: until the deadline."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How stubborn a client is. A deadline always wins over it.

    Waits are those of :class:`~spectator.backoff.Backoff`.

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
        backoff = Backoff(policy.base_s, policy.longest_s)
        return (error.retry_after_s or 0.0) + backoff.draw(failures, self._rng)


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

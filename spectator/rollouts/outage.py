"""Outlasting a restart of the model's endpoint: all episodes of a run wait for it together."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from spectator.backoff import Backoff
from spectator.clock import Clock, first_of
from spectator.errors import (
    EndpointBusy,
    EndpointError,
    EndpointMalformed,
    EndpointRefused,
    EndpointResting,
    EndpointUnavailable,
)
from spectator.llm.retry import PERMANENT_STATUSES
from spectator.text import clean_text

PAUSES: Final = Backoff(1.0, 10.0)
"""The pauses between attempts, where the endpoint does not ask for a longer one."""

REFUSED_S: Final = 60.0
"""Seconds for which requests may be refused before the first answer; by then the command is wrong."""

PASSING: Final = (EndpointUnavailable, EndpointMalformed, EndpointBusy, EndpointResting)
"""Failures that a restart shows. No answer in time is none of them: that is one slow answer."""


class ModelOutage:
    """Whether the endpoint of a run is gone, since when, and how long it is waited for.

    One that has not answered in this run yet may be a mistake in the command: it is waited for only until it
    is left alone (:class:`~spectator.llm.retry.CircuitBreaker`), or has refused every request for
    :data:`REFUSED_S` seconds, so that the run halts soon and costs no attempt. A request that fails while
    others are answered is not waited for either.

    Args:
        clock: Time.
        rng: Draws the pauses.
        patience_s: Seconds that it may be gone.
    """

    def __init__(self, clock: Clock, rng: random.Random, patience_s: float) -> None:
        self._clock = clock
        self._rng = rng
        self._patience_s = patience_s
        self._given_up = asyncio.Event()
        self.answers = 0
        """Answers in this run so far; 1 stands for all of earlier commands."""
        self.since_s: float | None = None
        """When the first request failed that no answer followed, by the clock."""
        self.reason = ""
        """How the last one failed."""

    def answered(self) -> None:
        """Note an answer: it is there."""
        self.answers += 1
        self.since_s = None

    def pause_after(self, error: EndpointError, answers: int, failures: int) -> float | None:
        """Seconds to wait before a request is made again; ``None`` where waiting cannot help.

        Args:
            error: How it failed.
            answers: How many answers there were when it failed first.
            failures: How often it failed before, in a row.

        Raises:
            EndpointResting: The endpoint has been gone for longer than it is waited for.
        """
        if isinstance(error, EndpointRefused) and error.status in PERMANENT_STATUSES:
            self._given_up.set()
        refused = isinstance(error, EndpointRefused) and not self.answers
        passing = refused or isinstance(error, PASSING)
        if not passing or self._given_up.is_set() or self.answers != answers:
            return None
        if not self.answers and isinstance(error, EndpointResting):
            return None
        now = self._clock.monotonic()
        since = self.since_s = now if self.since_s is None else self.since_s
        self.reason = str(error)
        patience_s = min(self._patience_s, REFUSED_S) if refused else self._patience_s
        if now - since >= patience_s:
            what = "refused every request" if refused else "been gone"
            said = f" ({clean_text(error.detail, 200)})" if refused and error.detail else ""
            gone = f"the endpoint has {what} for {now - since:.0f} s: {error}{said}"
            raise EndpointResting(gone, detail=error.detail) from error
        pause = max(error.retry_after_s or 0.0, PAUSES.draw(failures, self._rng))
        return min(pause, since + patience_s - now)

    async def wait(self, seconds: float) -> None:
        """Wait so long, or until it is known that waiting cannot help."""
        await first_of(self._clock.sleep(seconds), self._given_up.wait())

"""How fast one endpoint is asked by everybody: requests and tokens a minute, and at once."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from spectator.clock import Clock
from spectator.errors import EndpointBusy
from spectator.llm.adaptive_limit import AdaptiveLimit
from spectator.llm.shared_limits import SPAN_S, UNAVAILABLE, SharedLimits, SharedPlace

logger = logging.getLogger(__name__)

LOOK_AGAIN_S: Final = 0.05
"""How often whoever waits for a place that another process holds looks again, seconds."""

START: Final = 16
"""Requests at once to begin with where nobody says how many an endpoint bears."""

TELL_AGAIN_S: Final = 60.0
"""How often the log says that limits are not shared, seconds."""


@dataclass(slots=True, eq=False)
class Slot:
    """One request's place in time.

    Args:
        at: When it may be sent, by the clock's ``monotonic``.
        tokens: How many it takes: estimated first, then as the endpoint counted.
        held: Whether it still counts.
        shared: Its number in the ledger that all processes share; ``None`` where it stands in none.
    """

    at: float
    tokens: int
    held: bool = False
    shared: int | None = None


class Pacing:
    """Keeps all requests of one captain within its limits, in whichever episode they are made.

    In no span of a minute are more requests sent, or tokens spent, than may be; who has to wait goes in the
    order in which they came. When the endpoint asks one of them to wait, none is sent before that is over.
    How many it bears at once is found out by asking. One event loop uses it at a time.

    Args:
        clock: Time.
        requests_per_minute: Most requests that are sent in a minute; ``None`` for no limit.
        tokens_per_minute: Most tokens of prompts and answers in a minute; ``None`` for no limit.
        concurrency: Most requests at once; found out, from :data:`START` on, where ``None``.
        shared: Keeps the limits over all processes of the machine; only this one's requests count when left
            out, and while it cannot be written.

    Raises:
        ValueError: A limit is less than 1.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        concurrency: int | None = None,
        shared: SharedLimits | None = None,
    ) -> None:
        for limit in (requests_per_minute, tokens_per_minute, concurrency):
            if limit is not None and limit < 1:
                raise ValueError("a limit is at least 1")
        self._clock = clock
        self._requests = requests_per_minute
        self._tokens = tokens_per_minute
        self._slots: list[Slot] = []
        self._spent = 0
        self._not_before = 0.0
        self._concurrency = concurrency
        self._shared = shared
        self._told_at = float("-inf")
        self.places = (
            AdaptiveLimit(clock, start=START, slow_start=True)
            if concurrency is None
            else AdaptiveLimit(clock, start=concurrency, highest=concurrency)
        )
        """How many requests may be under way at once."""

    def reserve(self, tokens: int, until: float) -> Slot:
        """The next slot for a request of so many tokens; taken, unless it is given back.

        Raises:
            EndpointBusy: There is none before ``until``.
        """
        now = self._clock.monotonic()
        at = max(now, self._not_before)
        if self._slots:
            at = max(at, self._slots[-1].at)
            self._forget(now)
            at = self._free_from(at, tokens)
        if at > now and at >= until:
            message = "the next request that its limits allow comes too late"
            raise EndpointBusy(message, retry_after_s=at - now)
        slot = Slot(at, tokens)
        if self._shared is not None:
            self._reserve_everywhere(self._shared, slot, until)
        if self._requests is not None or self._tokens is not None:
            slot.held = True
            self._slots.append(slot)
            self._spent += tokens
        return slot

    def settle(self, slot: Slot, tokens: int) -> None:
        """Count what a request really took; 0 where it was never sent."""
        if slot.shared is not None and self._shared is not None:
            try:
                self._shared.settle(slot.shared, tokens)
            except UNAVAILABLE as error:
                self._alone(error)
        if slot.held:
            self._spent += tokens - slot.tokens
            slot.tokens = tokens
            if not tokens:
                self._slots.remove(slot)
                slot.held = False

    def rest(self, seconds: float) -> None:
        """Send nothing for so long: the endpoint asked for it."""
        self._not_before = max(self._not_before, self._clock.monotonic() + seconds)
        if self._shared is not None:
            try:
                self._shared.rest(seconds)
            except UNAVAILABLE as error:
                self._alone(error)

    async def shared_place(self, until: float) -> SharedPlace | None:
        """A place among the requests of all processes, to be released; ``None`` where none is needed.

        Raises:
            EndpointBusy: None came free before ``until``.
        """
        if self._shared is None or self._concurrency is None:
            return None
        while True:
            try:
                place = self._shared.take_place(self._concurrency)
            except UNAVAILABLE as error:
                self._alone(error)
                return None
            if place is not None:
                return place
            if self._clock.monotonic() + LOOK_AGAIN_S >= until:
                raise EndpointBusy("no place among the requests of all processes came free in time")
            await self._clock.sleep(LOOK_AGAIN_S)

    def _reserve_everywhere(self, shared: SharedLimits, slot: Slot, until: float) -> None:
        try:
            slot.shared, slot.at = shared.reserve(
                slot.at, until, slot.tokens, requests=self._requests, tokens_limit=self._tokens
            )
        except UNAVAILABLE as error:
            self._alone(error)

    def _free_from(self, at: float, tokens: int) -> float:
        """The first moment from ``at`` on at which one more request is within the limits."""
        first, spent = 0, self._spent
        while True:
            while first < len(self._slots) and self._slots[first].at + SPAN_S <= at:
                spent -= self._slots[first].tokens
                first += 1
            if first == len(self._slots) or not self._full(len(self._slots) - first, spent + tokens):
                return at
            at = self._slots[first].at + SPAN_S

    def _full(self, requests: int, tokens: int) -> bool:
        if self._requests is not None and requests >= self._requests:
            return True
        return self._tokens is not None and tokens > self._tokens

    def _forget(self, now: float) -> None:
        """Forget the slots of more than a minute ago."""
        old = 0
        while old < len(self._slots) and self._slots[old].at + SPAN_S <= now:
            self._slots[old].held = False
            self._spent -= self._slots[old].tokens
            old += 1
        del self._slots[:old]

    def _alone(self, error: Exception) -> None:
        now = self._clock.monotonic()
        if now >= self._told_at + TELL_AGAIN_S:
            self._told_at = now
            logger.warning("limits are kept by this process alone, for their files cannot be: %s", error)

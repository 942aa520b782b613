"""Publish recorded events to subscribers in this process, without waiting."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from enum import Enum
from typing import Protocol

from spectator.events import RecordedEvent


class Overflow(Enum):
    """What to do when a listener does not keep up."""

    CLOSE = "close"
    """End its subscription with ``overflowed`` set; it may resume from the journal. For viewers."""

    DROP_OLDEST = "drop_oldest"
    """Drop and count the oldest waiting events. For listeners who need only the newest, such as speech."""


class Subscription(Protocol):
    """One listener's bounded queue; iterate it for batches of published events."""

    overflowed: bool
    """Whether it ended because the listener was too slow."""

    dropped: int
    """How many events were dropped."""

    def __aiter__(self) -> AsyncIterator[Sequence[RecordedEvent]]:
        """Yield batches of events, in order, until the subscription ends."""

    def close(self) -> None:
        """End the subscription; safe to call twice."""


class Bus(Protocol):
    """Delivers each recorded event to its current listeners; stores nothing."""

    def publish(self, events: Sequence[RecordedEvent]) -> None:
        """Deliver ``events`` of one episode, in order, without waiting."""

    def subscribe(self, episode_id: str, overflow: Overflow, *, capacity: int = 256) -> Subscription:
        """Listen to one episode from the next publication on.

        Args:
            overflow: What to do when ``capacity`` events wait.
            capacity: Maximum number of waiting events, at least 1.
        """

    def listeners(self, episode_id: str) -> int:
        """Count the current listeners of an episode."""

    def finish(self, episode_id: str) -> None:
        """End every subscription to an episode after the events already published."""


class MemorySubscription:
    """One listener's bounded queue, for one event loop.

    Args:
        overflow: What to do when ``capacity`` events wait.
        capacity: Maximum number of waiting events.
        forget: Called once, when the subscription ends.
    """

    def __init__(
        self, overflow: Overflow, capacity: int, *, forget: Callable[[MemorySubscription], None]
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        self.overflowed = False
        self.dropped = 0
        self._overflow = overflow
        self._capacity = capacity
        self._forget = forget
        self._waiting: deque[RecordedEvent] = deque()
        self._wake = asyncio.Event()
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether the subscription has ended; waiting events can still be read."""
        return self._closed

    def offer(self, events: Sequence[RecordedEvent]) -> None:
        """Queue ``events`` or apply the overflow rule."""
        if self._closed:
            return
        excess = len(self._waiting) + len(events) - self._capacity
        if excess > 0 and self._overflow is Overflow.CLOSE:
            self.overflowed = True
            self._waiting.clear()
            self.close()
            return
        self._waiting.extend(events)
        for _ in range(max(0, excess)):
            self._waiting.popleft()
            self.dropped += 1
        self._wake.set()

    def close(self) -> None:
        """End the subscription after the waiting events; safe to call twice."""
        if not self._closed:
            self._closed = True
            self._wake.set()
            self._forget(self)

    async def __aiter__(self) -> AsyncIterator[Sequence[RecordedEvent]]:
        """Yield all waiting events as one batch, each time there are some."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._waiting:
                batch = tuple(self._waiting)
                self._waiting.clear()
                yield batch
            if self._closed and not self._waiting:
                self._wake.set()
                return


class MemoryBus:
    """Delivers recorded events to the listeners in this process."""

    def __init__(self) -> None:
        self._subscriptions: dict[str, dict[MemorySubscription, None]] = {}

    def publish(self, events: Sequence[RecordedEvent]) -> None:
        """Deliver ``events`` of one episode."""
        if events:
            for subscription in tuple(self._subscriptions.get(events[0].episode_id, ())):
                subscription.offer(events)

    def subscribe(self, episode_id: str, overflow: Overflow, *, capacity: int = 256) -> MemorySubscription:
        """Listen to one episode from the next publication on."""

        def forget(ended: MemorySubscription) -> None:
            others = self._subscriptions.get(episode_id, {})
            others.pop(ended, None)
            if not others:
                self._subscriptions.pop(episode_id, None)

        subscription = MemorySubscription(overflow, capacity, forget=forget)
        self._subscriptions.setdefault(episode_id, {})[subscription] = None
        return subscription

    def listeners(self, episode_id: str) -> int:
        """Count the current listeners of an episode."""
        return len(self._subscriptions.get(episode_id, ()))

    def finish(self, episode_id: str) -> None:
        """End every subscription to an episode after the events already published."""
        for subscription in tuple(self._subscriptions.get(episode_id, ())):
            subscription.close()

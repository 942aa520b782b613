"""The bus contract: one publisher, many listeners, and publishing never waits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from enum import Enum
from typing import Protocol

from spectator.events import RecordedEvent


class Overflow(Enum):
    """What happens when a listener does not keep up."""

    CLOSE = "close"
    """Its subscription ends with ``overflowed`` set; it may resume from the journal. For viewers."""

    DROP_OLDEST = "drop_oldest"
    """The oldest waiting events give way and are counted. For those who want the present, such as speech."""


class Subscription(Protocol):
    """One listener's bounded queue. Iterate it for batches of events as they were published."""

    overflowed: bool
    """Whether it was ended because the listener was too slow."""

    dropped: int
    """How many events gave way."""

    def __aiter__(self) -> AsyncIterator[Sequence[RecordedEvent]]:
        """Batches of events in order, until the subscription ends."""
        ...

    def close(self) -> None:
        """End it; safe to call twice."""
        ...


class Bus(Protocol):
    """Hands each recorded event to whoever listens now; owns nothing."""

    def publish(self, events: Sequence[RecordedEvent]) -> None:
        """Hand over ``events`` of one episode, in order, without waiting."""
        ...

    def subscribe(self, episode_id: str, overflow: Overflow, *, capacity: int = 256) -> Subscription:
        """Listen to one episode from the next publication on.

        Args:
            episode_id: Whose events.
            overflow: What to do when ``capacity`` events wait.
            capacity: Most events that may wait, at least 1.
        """
        ...

    def listeners(self, episode_id: str) -> int:
        """How many listen to an episode now."""
        ...

    def finish(self, episode_id: str) -> None:
        """End every subscription to an episode after what was published; no more will come."""
        ...

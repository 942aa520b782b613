"""Owns the knowledge of what is on: it watches the bus for beginnings and ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from spectator.bus.base import Bus, Overflow, Subscription
from spectator.events import RecordedEvent


class Stage:
    """The bus of this process, seen by whoever waits for the next episode.

    Args:
        bus: The bus that does the work.
    """

    def __init__(self, bus: Bus) -> None:
        self.started = 0
        self.ended: Counter[str] = Counter()
        self.published: Counter[str] = Counter()
        self._bus = bus
        self._begun = asyncio.Event()
        self._on_end: list[Callable[[str], None]] = []

    def on_end(self, tell: Callable[[str], None]) -> None:
        """Have ``tell`` called with the id of every episode that ends."""
        self._on_end.append(tell)

    async def next_beginning(self) -> None:
        """Wait until another episode begins."""
        await self._begun.wait()

    def beginning(self) -> asyncio.Event:
        """Set when another episode begins."""
        return self._begun

    def publish(self, events: Sequence[RecordedEvent]) -> None:
        """Hand over ``events``; see :class:`Bus`."""
        self._bus.publish(events)
        for recorded in events:
            self._note(recorded)

    def subscribe(self, episode_id: str, overflow: Overflow, *, capacity: int = 256) -> Subscription:
        """Listen to one episode; see :class:`Bus`."""
        return self._bus.subscribe(episode_id, overflow, capacity=capacity)

    def listeners(self, episode_id: str) -> int:
        """How many listen to an episode now."""
        return self._bus.listeners(episode_id)

    def finish(self, episode_id: str) -> None:
        """End every subscription to an episode; see :class:`Bus`."""
        self._bus.finish(episode_id)

    def _note(self, recorded: RecordedEvent) -> None:
        event = recorded.event
        self.published[event.type] += 1
        if event.type == "episode.started":
            self.started += 1
            begun, self._begun = self._begun, asyncio.Event()
            begun.set()
        elif event.type == "episode.ended":
            self.ended[event.data["reason"]] += 1
            for tell in self._on_end:
                tell(event.episode_id)

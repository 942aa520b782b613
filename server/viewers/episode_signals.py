"""The bus of this process, with signals for starts and ends of episodes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from spectator.bus.base import Bus
from spectator.events import RecordedEvent


def _ignore(recorded: RecordedEvent) -> None:
    """Nobody takes the events."""


class EpisodeSignals:
    """A bus that counts what it publishes and signals every start and end.

    Args:
        bus: The bus that does the work.
        note: Takes every event that is published.
    """

    def __init__(self, bus: Bus, note: Callable[[RecordedEvent], None] = _ignore) -> None:
        self.started = 0
        self.ended: Counter[str] = Counter()
        self.published: Counter[str] = Counter()
        self._bus = bus
        self.subscribe, self.listeners = bus.subscribe, bus.listeners
        self._note_event = note
        self._start = asyncio.Event()
        self._on_end: list[Callable[[str], None]] = []
        self._on_finish: list[Callable[[], None]] = []

    def on_end(self, call: Callable[[str], None]) -> None:
        """Call ``call`` with the id of every episode that ends."""
        self._on_end.append(call)

    def on_finish(self, call: Callable[[], None]) -> None:
        """Call ``call`` whenever an episode is let go of, and its slot with it."""
        self._on_finish.append(call)

    def next_start(self) -> asyncio.Event:
        """The event that is set when another episode starts, or is played on."""
        return self._start

    def wake(self) -> None:
        """Set that event: another episode runs."""
        start, self._start = self._start, asyncio.Event()
        start.set()

    def publish(self, events: Sequence[RecordedEvent]) -> None:
        """Hand over ``events``; see :class:`Bus`."""
        self._bus.publish(events)
        for recorded in events:
            self.published[recorded.type] += 1
            self._note_event(recorded)
            if recorded.type == "episode.started":
                self.started += 1
                self.wake()
            elif recorded.type == "episode.ended":
                self.ended[recorded.event.data["reason"]] += 1
                for call in self._on_end:
                    call(recorded.episode_id)

    def finish(self, episode_id: str) -> None:
        """End every subscription to an episode; see :class:`Bus`."""
        self._bus.finish(episode_id)
        for call in self._on_finish:
            call()

"""All viewers of this process, and the bus that signals starts and ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from spectator.bus import Bus, Overflow
from spectator.clock import Clock
from spectator.episodes.episode_view import EpisodeView
from spectator.events import RecordedEvent

from ..security.faults import Close
from ..security.masking import NameMaskSource
from .broadcast import Broadcaster, Relay, in_turns
from .viewer import Viewer, ViewerTransport

RELAY_CAPACITY: Final = 8192
"""Events that may wait for a relay, which lags only within one iteration of the event loop."""

LEAVING_POLL_S: Final = 0.02
"""Seconds between two checks whether all viewers have left."""


@dataclass(frozen=True, slots=True)
class AudienceLimits:
    """How many viewers are admitted, and how far each may fall behind.

    Args:
        per_address: The same per address; 0 = no limit.
        backlog_bytes: Backlog beyond which a viewer is closed as too slow.
    """

    viewers: int = 10_000
    per_address: int = 0
    backlog_bytes: int = 1024 * 1024


class Audience:
    """All viewers of this process.

    Args:
        observe: Called with the seconds that writing events to all viewers of an episode took.
    """

    def __init__(
        self,
        *,
        tasks: asyncio.TaskGroup,
        clock: Clock,
        limits: AudienceLimits,
        broadcaster: Broadcaster,
        observe: Callable[[float], None] = lambda seconds: None,
        names: NameMaskSource,
    ) -> None:
        self.closed: Counter[Close] = Counter()
        """Connections that this server closed, by reason."""
        self.elsewhere: Callable[[str], int] = Counter[str]().__getitem__
        """Returns the viewers of an episode at other servers; set if there are other servers."""
        self._tasks = tasks
        self._clock = clock
        self._limits = limits
        self._broadcaster = broadcaster
        self._observe = observe
        self._names = names
        self._viewers: dict[Viewer, str] = {}
        self._addresses: Counter[str] = Counter()
        self._relays: dict[str, Relay] = {}
        self._closing = False

    def __len__(self) -> int:
        return len(self._viewers)

    def relay(self, episode_id: str) -> Relay | None:
        """Return the relay of an episode, if it has viewers here."""
        return self._relays.get(episode_id)

    def count(self, episode_id: str) -> int:
        """Return the viewers of an episode here."""
        relay = self._relays.get(episode_id)
        return 0 if relay is None else len(relay.viewers)

    def counts(self) -> dict[str, int]:
        """Return the viewers here of each episode that has any."""
        return {name: len(relay.viewers) for name, relay in self._relays.items() if len(relay.viewers)}

    def total(self, episode_id: str) -> int:
        """Return the viewers of an episode at all servers."""
        return self.count(episode_id) + self.elsewhere(episode_id)

    def recount(self, episode_id: str) -> None:
        """Send the viewer count, which may have changed, to an episode's viewers."""
        if (relay := self._relays.get(episode_id)) is not None:
            relay.count_changed.set()

    def admit(self, address: str, transport: ViewerTransport) -> Viewer | None:
        """Admit a viewer; ``None`` if there is no room, see :meth:`refusal`."""
        limits = self._limits
        full = len(self._viewers) >= limits.viewers
        crowded = 0 < limits.per_address <= self._addresses[address]
        if full or crowded or self._closing:
            return None
        viewer = Viewer(transport, limits.backlog_bytes)
        self._viewers[viewer] = address
        self._addresses[address] += 1
        return viewer

    def address_of(self, viewer: Viewer) -> str:
        """Return the address of an admitted viewer."""
        return self._viewers[viewer]

    def refusal(self) -> Close:
        """Return why viewers are not admitted."""
        return Close.RESTARTING if self._closing else Close.FULL

    def leave(self, viewer: Viewer) -> None:
        """Remove a viewer that disconnected."""
        address = self._viewers.pop(viewer)
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]

    def watch(self, viewer: Viewer, live: EpisodeView) -> Relay:
        """Send ``viewer`` every event of ``live`` that is published from now on."""
        viewer.over = False
        relay = self._relays.get(live.episode_id)
        if relay is None:
            subscription = live.subscribe(Overflow.CLOSE, capacity=RELAY_CAPACITY)
            relay = Relay(
                live, subscription, self._clock, self._broadcaster, self._observe, self._names, self.elsewhere
            )
            self._relays[live.episode_id] = relay
            self._tasks.create_task(relay.run(), name=f"relay {live.episode_id}")
        relay.viewers.add(viewer)
        relay.count_changed.set()
        return relay

    def unwatch(self, viewer: Viewer, relay: Relay) -> None:
        """Stop sending events of an episode to ``viewer``."""
        relay.viewers.discard(viewer)
        relay.count_changed.set()
        if not relay.viewers and self._relays.get(relay.live.episode_id) is relay:
            del self._relays[relay.live.episode_id]
            relay.close()

    async def show_again(self) -> None:
        """Send all viewers a new snapshot, since the hidden names have changed."""
        for relay in tuple(self._relays.values()):
            await relay.show_again()

    async def close_all(self, within_s: float) -> None:
        """Close all connections, and wait at most ``within_s`` for viewers to leave.

        No viewers are admitted afterwards.
        """
        self._closing = True
        await in_turns(self._viewers, lambda viewer: viewer.evict(Close.RESTARTING))
        until = self._clock.monotonic() + within_s
        while self._viewers and self._clock.monotonic() < until:
            await self._clock.sleep(LEAVING_POLL_S)


class EpisodeSignals:
    """A bus that counts events and signals every start and end of an episode."""

    def __init__(self, bus: Bus, note: Callable[[RecordedEvent], None] = lambda recorded: None) -> None:
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
        """Call ``call`` whenever an episode is released, and its slot with it."""
        self._on_finish.append(call)

    def next_start(self) -> asyncio.Event:
        """Return the event that is set when another episode starts or resumes."""
        return self._start

    def wake(self) -> None:
        """Signal that another episode runs."""
        start, self._start = self._start, asyncio.Event()
        start.set()

    def publish(self, events: Sequence[RecordedEvent]) -> None:
        """Publish ``events``; see :class:`Bus`."""
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

"""The queue for episode slots, fair between addresses.

Each waiting client has a ticket. Clients whose address holds fewer slots come first, then those whose
address was served longer ago, then those that came first.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import ClientDisconnect

from spectator.clock import Clock, first_of
from spectator.episodes.controls import EndRequest
from spectator.episodes.handle import EpisodeHandle
from spectator.episodes.supervisor import Supervisor
from spectator.errors import EpisodeBusy

from .rate_limits import MAX_TRACKED

logger = logging.getLogger(__name__)

KEPT_S: Final = 5.0
"""Seconds that a ticket is kept after its answer, so that its client can ask again."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How many clients may wait, and how long an episode keeps its slot meanwhile.

    Args:
        total: Clients in all; 0 means that clients cannot wait.
        by_address: Clients per address; 0 means no limit per address.
        hold_s: Seconds after which an episode gives its slot to an address that holds fewer; 0 means never.
    """

    total: int
    by_address: int = 0
    hold_s: float = 0.0


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """A client's position in the queue.

    Args:
        place: 1 is next; ``None`` if the queue is full.
        waiting: Number of waiting clients.
        ticket: Keeps the place for :data:`KEPT_S`; ``None`` for clients that do not wait.
        within_s: Seconds within which that place gets a slot, if episodes give way.
    """

    place: int | None = None
    waiting: int = 0
    ticket: str | None = None
    within_s: float | None = None


class NoFreeSlot(Exception):
    """No slot became free in time."""

    def __init__(self, position: QueuePosition) -> None:
        self.position = position
        super().__init__(f"no slot became free in time; {position.waiting} clients wait")


@dataclass(eq=False, slots=True)
class Ticket:
    """A client's place in the queue.

    Args:
        leaves_at: When the ticket expires, by the monotonic clock; ``None`` while its client waits.
    """

    address: str
    name: str
    leaves_at: float | None = None
    turn: asyncio.Event = field(default_factory=asyncio.Event)


OPERATOR: Final = "operator"
"""Used instead of an address for requests with the operator's token."""

LOOK_S: Final = 1.0
"""Seconds between checks of tickets and slots, in addition to each freed slot."""


class SlotQueue:
    """Gives slots that become free to waiting clients.

    Args:
        starters: The addresses that started episodes, by episode id, newest last.
    """

    def __init__(
        self,
        slots: Supervisor,
        limits: QueueLimits,
        starters: Mapping[str, str],
        clock: Clock,
        new_name: Callable[[], str] = lambda: secrets.token_urlsafe(12),
    ) -> None:
        self.limits = limits
        self._slots = slots
        self._starters = starters
        self._clock = clock
        self._new_name = new_name
        self._tickets: dict[str, Ticket] = {}
        self._served: dict[str, int] = {}
        self._since: dict[str, float] = {}
        self._asked: set[str] = set()
        self._closing = False

    @property
    def waiting(self) -> int:
        """Clients that wait for a slot."""
        return sum(not one.turn.is_set() for one in self._tickets.values())

    async def take(
        self, address: str, wait_s: float, name: str | None, gone: Callable[[], Awaitable[object]]
    ) -> None:
        """Wait for a slot; the caller must use it before it awaits anything.

        Args:
            wait_s: Seconds to wait; 0 without a ticket only reports the position.
            name: The ticket of an earlier answer; ignored if expired or another client's.
            gone: Returns once the client has disconnected.

        Raises:
            NoFreeSlot: No slot became free in time, or the queue is full.
            EpisodeBusy: The server is shutting down.
            ClientDisconnect: The client disconnected; it has left the queue.
        """
        if self._closing:
            raise EpisodeBusy([], self._slots.slots)
        ticket = self._ticket(address, wait_s, name)
        ticket.leaves_at = None
        self.look()
        try:
            left = await self._wait(ticket, wait_s, gone)
        except BaseException:
            self._forget(ticket)
            raise
        if left or self._closing:
            self._forget(ticket)
            raise ClientDisconnect if left else EpisodeBusy([], self._slots.slots)
        if not ticket.turn.is_set():
            ticket.leaves_at = self._clock.monotonic() + KEPT_S
            raise NoFreeSlot(self._position(ticket))
        del self._tickets[ticket.name]
        self._slots.promised -= 1
        self._note_served(address)

    def look(self) -> None:
        """Drop expired tickets, and reserve free slots for the next clients."""
        now = self._clock.monotonic()
        for one in list(self._tickets.values()):
            if one.leaves_at is not None and one.leaves_at <= now:
                del self._tickets[one.name]
                self._slots.promised -= one.turn.is_set()
        while self._slots.free_slots > 0 and (order := self._order()):
            self._slots.promised += 1
            order[0].turn.set()

    async def run(self) -> None:
        """Check tickets and slots until cancelled."""
        while True:
            await self._clock.sleep(LOOK_S)
            self.look()
            self.give_way()

    def give_way(self) -> None:
        """End episodes that held a slot too long while others wait for one.

        Only an address with fewer slots takes one over.
        """
        now, running = self._clock.monotonic(), self._slots.running()
        self._since = {one.episode_id: self._since.get(one.episode_id, now) for one in running}
        self._asked &= self._since.keys()
        if not self.limits.hold_s:
            return
        held, wanted = self._held(), self._order()
        held.subtract(self._owner(one) for one in running if one.episode_id in self._asked)
        held.update(one.address for one in wanted[: len(self._asked)])
        for waiting in wanted[len(self._asked) :]:
            long = [one for one in running if self._may_end(one, now, held[waiting.address], held)]
            if not long:
                continue
            episode = max(long, key=lambda one: (held[self._owner(one)], now - self._since[one.episode_id]))
            held[self._owner(episode)] -= 1
            held[waiting.address] += 1
            self._asked.add(episode.episode_id)
            logger.info("episode %s gives its slot to a waiting client", episode.episode_id)
            detail = f"gave way after {self.limits.hold_s:g} s: others waited for a slot"
            episode.request_end(EndRequest("timeout", f"{detail} (SPECTATOR_SLOT_HOLD_S)"))

    def close(self) -> None:
        """Release all waiting clients, since the server shuts down."""
        self._closing = True
        for one in self._tickets.values():
            self._slots.promised += not one.turn.is_set()
            one.turn.set()

    def _ticket(self, address: str, wait_s: float, name: str | None) -> Ticket:
        """Return the ticket of that name, or a new one."""
        found = self._tickets.get(name or "")
        if found is not None and found.address == address and found.leaves_at is not None:
            return found
        own = sum(one.address == address for one in self._tickets.values())
        limited = self.limits.by_address and address != OPERATOR and own >= self.limits.by_address
        if limited or len(self._tickets) >= self.limits.total:
            raise NoFreeSlot(QueuePosition(None, self.waiting))
        ticket = Ticket(address, self._new_name())
        self._tickets[ticket.name] = ticket
        if not wait_s:
            position = self._position(ticket)
            del self._tickets[ticket.name]
            raise NoFreeSlot(QueuePosition(position.place, self.waiting, within_s=position.within_s))
        return ticket

    async def _wait(self, ticket: Ticket, wait_s: float, gone: Callable[[], Awaitable[object]]) -> bool:
        """Wait for the ticket's turn; return whether the client disconnected."""
        left = False

        async def leave() -> None:
            nonlocal left
            await gone()
            left = True

        if wait_s and not ticket.turn.is_set():
            await first_of(ticket.turn.wait(), self._clock.sleep(wait_s), leave())
        return left

    def _note_served(self, address: str) -> None:
        newest = next(reversed(self._served.values()), 0)
        self._served.pop(address, None)
        self._served[address] = newest + 1
        if len(self._served) > MAX_TRACKED:
            del self._served[next(iter(self._served))]

    def _forget(self, ticket: Ticket) -> None:
        del self._tickets[ticket.name]
        self._slots.promised -= ticket.turn.is_set()
        self.look()

    def _owner(self, episode: EpisodeHandle) -> str:
        """Return the address that holds the slot; the episode's id if unknown."""
        return self._starters.get(episode.episode_id, episode.episode_id)

    def _held(self) -> Counter[str]:
        held = Counter(map(self._owner, self._slots.running()))
        held.update(one.address for one in self._tickets.values() if one.turn.is_set())
        return held

    def _order(self) -> list[Ticket]:
        waiting = [one for one in self._tickets.values() if not one.turn.is_set()]
        if not waiting:
            return []
        started = {address: number for number, address in enumerate(self._starters.values(), 1)}
        holding, ranks = self._held(), dict[Ticket, tuple[bool, int, int, int]]()
        for one in waiting:
            served = self._served.get(one.address, 0)
            ranks[one] = (
                one.address != OPERATOR, holding[one.address], served, started.get(one.address, 0)
            )  # fmt: skip
            holding[one.address] += 1
        return sorted(waiting, key=ranks.__getitem__)

    def _position(self, ticket: Ticket) -> QueuePosition:
        order = self._order()
        place = order.index(ticket) + 1
        return QueuePosition(place, len(order), ticket.name, self._within_s(place))

    def _within_s(self, place: int) -> float | None:
        """Return the seconds within which giving way frees a slot for that place."""
        if not self.limits.hold_s:
            return None
        now, hold_s = self._clock.monotonic(), self.limits.hold_s
        held_s = (now - self._since.get(one.episode_id, now) for one in self._slots.running())
        left = sorted(max(0.0, hold_s - seconds) for seconds in held_s)
        rounds, among = divmod(place - 1, self._slots.slots)
        return rounds * hold_s + (left[min(among, len(left) - 1)] if left else hold_s)

    def _may_end(self, one: EpisodeHandle, now: float, has: int, held: Counter[str]) -> bool:
        """Whether an episode must make room for an address that holds ``has`` slots."""
        owner = self._owner(one)
        return (
            not one.ended
            and owner != OPERATOR
            and one.episode_id not in self._asked
            and now - self._since[one.episode_id] >= self.limits.hold_s
            and held[owner] > has
        )

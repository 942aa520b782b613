"""What the queue for slots is made of: who holds slots, limits, tickets, and how somebody stands."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from spectator.episodes.run.controls import EndRequest

KEPT_S: Final = 5.0
"""How long a ticket lives after its answer, for its client to ask again."""


class Holder(Protocol):
    """An episode that holds a slot."""

    @property
    def episode_id(self) -> str:
        """Its id."""
        ...

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        ...

    def request_end(self, request: EndRequest) -> None:
        """Ask for its end and do not wait."""
        ...


class Slots(Protocol):
    """Who has the slots; the supervisor."""

    slots: int
    promised: int

    @property
    def free_slots(self) -> int:
        """How many nobody holds."""
        ...

    def running(self) -> Sequence[Holder]:
        """Who holds the others."""
        ...


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How many may wait, and how long a slot may be held meanwhile.

    Args:
        total: Of all together; 0 lets nobody wait.
        by_address: Of one address; 0 means no limit of its own.
        hold_s: Seconds after which an episode gives its slot to an address that holds fewer; 0 means never.
    """

    total: int
    by_address: int = 0
    hold_s: float = 0.0


@dataclass(frozen=True, slots=True)
class QueueStanding:
    """How somebody stands in the queue.

    Args:
        place: 1 is next; ``None`` where no more may wait.
        waiting: How many wait.
        ticket: Keeps the place for :data:`KEPT_S`; ``None`` for those who do not wait.
        within_s: Seconds within which a slot is free for that place, where episodes give way.
    """

    place: int | None = None
    waiting: int = 0
    ticket: str | None = None
    within_s: float | None = None


class NoSlot(Exception):
    """There was no slot in time.

    Args:
        standing: How whoever asked stands in the queue.
    """

    def __init__(self, standing: QueueStanding) -> None:
        self.standing = standing
        super().__init__(f"no slot became free in time; {standing.waiting} wait")


@dataclass(eq=False, slots=True)
class Ticket:
    """Somebody's place.

    Args:
        address: Whose.
        name: What the client is told.
        leaves_at: When it is forgotten, by the monotonic clock; ``None`` while its client waits.
        turn: Set once a slot is kept for it.
    """

    address: str
    name: str
    leaves_at: float | None = None
    turn: asyncio.Event = field(default_factory=asyncio.Event)

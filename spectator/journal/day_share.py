"""Reserve this process's share of a daily cap before using it.

The cap is shared by all processes on one database.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Final, Protocol

from spectator.clock import Clock
from spectator.errors import JournalError

if TYPE_CHECKING:
    from spectator.journal.coordination import Reserved


logger = logging.getLogger(__name__)

PARTS: Final = 64
"""Parts into which a cap is split; one is reserved at a time.

So a day's cap takes about this many queries, and a process that dies withholds little from the others."""

AGAIN_S: Final = 5.0
"""Seconds before reserving is retried after nothing was left."""


class ReservationStore(Protocol):
    """Where all processes reserve; see :class:`spectator.journal.coordination.Reservations`."""

    async def open_day(self, used: Mapping[str, float]) -> None:
        """Initialize today's usage if nothing is reserved yet."""

    async def reserve(self, what: str, *, cap: float, amount: float, overdrawn: float = 0.0) -> Reserved:
        """Reserve a part of today's cap."""

    async def settle(self, what: str, day: date, unused: float) -> None:
        """Return the unused part."""


class DayShare:
    """This process's reserved share of a daily cap.

    More is reserved while half a part is left, so that requests in progress, which are counted when they are
    answered, are covered too. The database decides when a day ends; no wall clock is read here.

    Args:
        what: Name of the cap, the same in all processes.
        cap: What all processes may use per day, greater than 0.
        clock: Measures the rest of the day.
        parts: Parts of the cap; see :data:`PARTS`.
    """

    def __init__(
        self, what: str, cap: float, reservations: ReservationStore, clock: Clock, parts: int = PARTS
    ) -> None:
        self.cap = cap
        """What all processes may use per day."""
        self._what = what
        self._part = cap / parts
        self._reservations = reservations
        self._clock = clock
        self._day: date | None = None
        self._left = 0.0  # negative if more was used than reserved
        self._over_at = math.inf
        self._again_at = -math.inf
        self._asking = asyncio.Lock()
        self._low = asyncio.Event()

    @property
    def used_up(self) -> bool:
        """Whether nothing is left, here and, at the last attempt, in the database."""
        self._begin_day()
        return self._left <= 0 and self._again_at > -math.inf

    def lacks(self, amount: float) -> bool:
        """Return whether less than ``amount`` is left, here and, at the last attempt, in the database."""
        self._begin_day()
        return self._left < amount and self._again_at > -math.inf

    @property
    def overdrawn(self) -> bool:
        """Whether more was used than reserved."""
        self._begin_day()
        return self._left < 0

    def until_over_s(self) -> float | None:
        """Return the seconds until the database's day ends; ``None`` before the first query."""
        return None if self._day is None else max(0.0, self._over_at - self._clock.monotonic())

    def draw(self, amount: float) -> None:
        """Use ``amount`` of the share."""
        self._begin_day()
        self._left -= amount
        if self._left <= self._part / 2:
            self._low.set()

    def has(self, amount: float = 0.0) -> bool:
        """Return whether ``amount`` (if 0, anything) is left without reserving more first."""
        self._begin_day()
        spare = self._left - amount
        if self._again_at > self._clock.monotonic():  # nothing more to reserve, so use up the rest
            return spare >= 0 < self._left
        return spare > self._part / 2

    async def need(self, amount: float = 0.0) -> bool:
        """Reserve more if :meth:`has` is false; return whether ``amount`` is left then.

        Raises:
            JournalError: The database is unavailable.
        """
        async with self._asking:
            self._begin_day()
            patient = self._again_at > self._clock.monotonic() and self._left >= 0
            if not self.has(amount) and not patient:
                await self._reserve(max(self._part, amount))
            return self._left >= amount and self._left > 0

    async def keep_up(self) -> None:
        """Reserve more whenever little is left, and report overdrafts, until cancelled."""
        while True:
            await self._low.wait()
            self._low.clear()
            try:
                await self.need()
            except JournalError as error:
                logger.warning("usage of %s will be synced later: %s", self._what, error)
                await self._clock.sleep(AGAIN_S)
                self._low.set()

    async def give_back(self) -> None:
        """Return the rest to the other processes; call it once nothing is used any more.

        Raises:
            JournalError: The database cannot be written now; it stays counted.
        """
        self._begin_day()
        if self._day is not None and self._left:
            unused, self._left = self._left, 0.0
            await self._reservations.settle(self._what, self._day, unused)

    async def _reserve(self, amount: float) -> None:
        overdrawn = max(0.0, -self._left)
        asked_at = self._clock.monotonic()
        part = await self._reservations.reserve(self._what, cap=self.cap, amount=amount, overdrawn=overdrawn)
        if part.day != self._day:  # a reservation of another day is void
            self._left = min(0.0, self._left)
        self._day, self._over_at = part.day, asked_at + part.left_s
        self._left += overdrawn + part.amount
        self._again_at = -math.inf if part.amount >= amount else self._clock.monotonic() + AGAIN_S

    def _begin_day(self) -> None:
        if self._clock.monotonic() >= self._over_at:
            self._day, self._over_at, self._again_at = None, math.inf, -math.inf
            self._left = min(0.0, self._left)

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
"""Parts of a cap, of which one at a time is reserved: a day's cap takes about so many queries, and a process
that dies keeps little from the others."""

AGAIN_S: Final = 5.0
"""Seconds after which more is asked for again, where there was no more."""


class ReservationStore(Protocol):
    """Where all reserve; see :class:`spectator.journal.coordination.Reservations`."""

    async def open_day(self, used: Mapping[str, float]) -> None:
        """Let today begin with what was used, where nobody has reserved anything yet."""
        ...

    async def reserve(self, what: str, *, cap: float, amount: float, owed: float = 0.0) -> Reserved:
        """Reserve a part of what may be used today."""
        ...

    async def settle(self, what: str, day: date, unused: float) -> None:
        """Give back what is left of it."""
        ...


class DayShare:
    """What this process may use of a day's cap without asking, and the way to more.

    More is reserved while half of a part is left, so that questions under way, which are paid once they are
    answered, are covered too. A day is over when the database says so; no wall clock is read here.

    Args:
        what: Of what, as all processes call it.
        cap: What all may use in a day, greater than 0.
        reservations: Where it is reserved.
        clock: Measures how long the day lasts yet.
        parts: Parts of the cap; see :data:`PARTS`.
    """

    def __init__(
        self, what: str, cap: float, reservations: ReservationStore, clock: Clock, parts: int = PARTS
    ) -> None:
        self.cap = cap
        """What all may use in a day."""
        self._what = what
        self._part = cap / parts
        self._reservations = reservations
        self._clock = clock
        self._day: date | None = None
        self._left = 0.0  # below 0 where more was used than reserved
        self._over_at = math.inf
        self._again_at = -math.inf
        self._asking = asyncio.Lock()
        self._low = asyncio.Event()

    @property
    def used_up(self) -> bool:
        """Whether nothing is left here, and nothing was when more was asked for last."""
        self._begin_day()
        return self._left <= 0 and self._again_at > -math.inf

    def until_over_s(self) -> float | None:
        """Seconds until the day is over, as the database has it; ``None`` before it was asked."""
        return None if self._day is None else max(0.0, self._over_at - self._clock.monotonic())

    def draw(self, amount: float) -> None:
        """Use ``amount`` of it."""
        self._begin_day()
        self._left -= amount
        if self._left <= self._part / 2:
            self._low.set()

    def has(self, amount: float = 0.0) -> bool:
        """Whether ``amount`` is left, or anything where it is 0, and no more should be reserved first."""
        self._begin_day()
        spare = self._left - amount
        if self._again_at > self._clock.monotonic():  # there is no more, so that all of it is for use
            return spare >= 0 < self._left
        return spare > self._part / 2

    async def need(self, amount: float = 0.0) -> bool:
        """Reserve more where :meth:`has` asks for it; whether ``amount`` is left then.

        Raises:
            JournalError: The database cannot be asked now.
        """
        async with self._asking:
            self._begin_day()
            patient = self._again_at > self._clock.monotonic() and self._left >= 0
            if not self.has(amount) and not patient:
                await self._reserve(max(self._part, amount))
            return self._left >= amount and self._left > 0

    async def keep_up(self) -> None:
        """Reserve more as soon as little is left, and tell what was used beyond, until cancelled."""
        while True:
            await self._low.wait()
            self._low.clear()
            try:
                await self.need()
            except JournalError as error:
                logger.warning("what was used of %s is told to the others later: %s", self._what, error)
                await self._clock.sleep(AGAIN_S)
                self._low.set()

    async def give_back(self) -> None:
        """Let others have what is left; to be called once nothing is used any more.

        Raises:
            JournalError: The database cannot be written now; it stays counted.
        """
        self._begin_day()
        if self._day is not None and self._left:
            unused, self._left = self._left, 0.0
            await self._reservations.settle(self._what, self._day, unused)

    async def _reserve(self, amount: float) -> None:
        owed = max(0.0, -self._left)
        asked_at = self._clock.monotonic()
        part = await self._reservations.reserve(self._what, cap=self.cap, amount=amount, owed=owed)
        if part.day != self._day:  # what was reserved of another day is not used in this one
            self._left = min(0.0, self._left)
        self._day, self._over_at = part.day, asked_at + part.left_s
        self._left += owed + part.amount
        self._again_at = -math.inf if part.amount >= amount else self._clock.monotonic() + AGAIN_S

    def _begin_day(self) -> None:
        if self._clock.monotonic() >= self._over_at:
            self._day, self._over_at, self._again_at = None, math.inf, -math.inf
            self._left = min(0.0, self._left)

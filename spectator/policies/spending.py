"""Spending caps for an episode and for a day: ledger and budgets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final, Protocol, runtime_checkable

from spectator.clock import Clock
from spectator.errors import JournalError
from spectator.journal.day_share import PARTS, DayShare, ReservationStore

logger = logging.getLogger(__name__)

UNCOVERED: Final = ": the rest does not cover another request"
"""End of the message that a cap is reached, if something is left of it."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Spending on models.

    Args:
        tokens: Tokens of prompts and answers.
        cost: Cost in the currency of the captains' prices, US dollars by default.
        seconds: Time spent waiting for answers.
    """

    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.tokens + other.tokens, self.cost + other.cost, self.seconds + other.seconds)

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.tokens - other.tokens, self.cost - other.cost, self.seconds - other.seconds)

    def times(self, number: float) -> Spent:
        """Return the spending multiplied by ``number``."""
        return Spent(round(self.tokens * number), self.cost * number, self.seconds * number)


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits of spending; 0 means no limit.

    Args:
        tokens: See :class:`Spent`.
        cost: See :class:`Spent`.
        seconds: See :class:`Spent`.

    >>> Caps(tokens=1_000_000, cost=5.0).reached(Spent(tokens=20_000, cost=5.2))
    'US$5'
    """

    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0

    def shared_by(self, seats: int) -> Caps:
        """Return the share of one of ``seats``; it never becomes 0, which is no limit.

        >>> Caps(tokens=1001, cost=5.0).shared_by(2)
        Caps(tokens=500, cost=2.5, seconds=0.0)
        """
        tokens = max(1, self.tokens // seats) if self.tokens else 0
        return Caps(tokens, self.cost / seats, self.seconds / seats)

    def exceeded(self, spent: Spent) -> bool:
        """Return whether ``spent`` is more than a cap."""
        pairs = ((self.tokens, spent.tokens), (self.cost, spent.cost), (self.seconds, spent.seconds))
        return any(0 < cap < value for cap, value in pairs)

    def reached(self, spent: Spent) -> str | None:
        """Return the cap that is reached, as text; ``None`` if none is."""
        if 0 < self.tokens <= spent.tokens:
            return f"{self.tokens:,} tokens"
        if 0 < self.cost <= spent.cost:
            return f"US${self.cost:g}"
        if 0 < self.seconds <= spent.seconds:
            return f"{self.seconds:g} s of asking"
        return None


@dataclass(frozen=True, slots=True)
class SharedCaps:
    """Reservations of several processes that share caps.

    Args:
        prefix: Prefix of the caps' names in the store, before ``tokens``, ``cost`` and ``seconds``.
        parts: Number of parts of a cap; a process reserves one at a time.
        by: Text to append to the message that a cap is reached.
    """

    reserves: ReservationStore
    prefix: str = ""
    parts: int = PARTS
    by: str = ""


class _Limit:
    """Caps of a day or a whole run, checked against own spending or reservations."""

    def __init__(self, caps: Caps, message: str, clock: Clock, shared: SharedCaps | None) -> None:
        self.caps = caps
        self.shared = shared
        self.parts: dict[str, DayShare] = {}
        self._message = message
        self._capped = caps != Caps()
        self._held = Spent()
        if shared is not None:
            amounts = {"tokens": caps.tokens, "cost": caps.cost, "seconds": caps.seconds}
            self.parts = {
                what: DayShare(shared.prefix + what, cap, shared.reserves, clock, shared.parts)
                for what, cap in amounts.items()
                if cap
            }

    def reached(self, spent: Spent, over: Callable[[DayShare], bool]) -> str | None:
        """Return why nothing more may be spent; ``over`` checks a reserved part."""
        if not self._capped:
            return None
        if self.shared is None:
            reached = self.caps.reached(spent)
            return None if reached is None else self._message.format(reached)
        return self._of_part(lambda what, part: over(part))

    async def hold(self, most: Spent, spent: Spent) -> str | None:
        """Set ``most`` aside for a request; return why that is impossible, or ``None``.

        Raises:
            JournalError: The shared caps cannot be read now.
        """
        for what, part in self.parts.items():
            await part.need(getattr(most, what))
        if (uncovered := self.uncovered(most, spent + self._held)) is not None:
            return uncovered
        if self.shared is None:
            self._held += most
        self.pay(most)
        return None

    def uncovered(self, most: Spent, spent: Spent) -> str | None:
        """Return why a request of at most ``most`` is not covered, as far as known; ``None`` if it is."""
        if self.shared is None:
            if not self.caps.exceeded(spent + most):
                return None
            end = "" if self.caps.reached(spent) else UNCOVERED
            return self._message.format(self.caps.reached(spent + most)) + end
        return self._of_part(lambda what, part: part.lacks(getattr(most, what)), UNCOVERED)

    def _of_part(self, over: Callable[[str, DayShare], bool], end: str = "") -> str | None:
        """Return the message for the first shared part that is ``over``."""
        for what, part in self.parts.items():
            if over(what, part):
                reached = Caps(**{what: part.cap}).reached(Spent(**{what: part.cap}))  # type: ignore[arg-type]
                return self._message.format(reached) + ("" if self.shared is None else self.shared.by) + end
        return None

    def overdrawn(self, spent: Spent) -> bool:
        """Return whether the caps no longer cover what is set aside."""
        if self.shared is None:
            return self.caps.exceeded(spent + self._held)
        return any(part.overdrawn for part in self.parts.values())

    def release(self, most: Spent) -> None:
        """Return what :meth:`hold` set aside."""
        if self.shared is None:
            self._held -= most
        else:
            self.pay(Spent() - most)

    async def open(self, spent: Spent) -> None:
        """Make sure that the shared caps count at least ``spent``."""
        if self.shared is not None and self.parts:
            used = {self.shared.prefix + what: getattr(spent, what) for what in self.parts}
            await self.shared.reserves.open_day(used)

    def pay(self, spent: Spent) -> None:
        """Take ``spent`` from the reserved parts."""
        for what, part in self.parts.items():
            part.draw(getattr(spent, what))


class SpendLedger:
    """Spending caps of a day (UTC), of an episode, and of a whole run.

    Caps that several processes share are reserved before they are spent. ``spent`` and ``whole`` are the
    spending of this process.

    Args:
        clock: Determines the day.
        whole: Caps of the whole run, over all days; default: none.
        day_shared: Reservations of the day's caps, if other processes share them.
        whole_shared: Reservations of the whole run's caps, if other processes share them.
    """

    def __init__(
        self,
        day: Caps,
        episode: Caps,
        clock: Clock,
        *,
        whole: Caps | None = None,
        day_shared: SharedCaps | None = None,
        whole_shared: SharedCaps | None = None,
    ) -> None:
        self._of_day = _Limit(day, "the day's cap of {} is reached", clock, day_shared)
        self._of_whole = _Limit(
            whole or Caps(), "the cap of {} for all of it is reached", clock, whole_shared
        )
        self.parts = [*self._of_day.parts.values(), *self._of_whole.parts.values()]
        """This process's reserved parts of the shared caps."""
        self.episode_caps = episode
        """The caps of an episode."""
        self.whole = Spent()
        """Spending that counts against the caps of the whole run."""
        self._clock = clock
        self._day = clock.now().date()
        self._spent = Spent()
        self._unasked: str | None = None
        self._rejected: Spent | None = None  # the smallest request that the caps did not cover
        self._holding = 0
        self._released = asyncio.Event()

    @property
    def caps(self) -> tuple[Caps, Caps, Caps]:
        """The caps of a day, of an episode, and of the whole run."""
        return self._of_day.caps, self.episode_caps, self._of_whole.caps

    @property
    def today(self) -> date:
        """The current day."""
        return self._clock.now().astimezone(UTC).date()

    @property
    def spent(self) -> Spent:
        """Spending of today."""
        moment = self._clock.now()
        today = (moment if moment.tzinfo is UTC else moment.astimezone(UTC)).date()
        if self._day != today:
            self._day, self._spent = today, Spent()
        return self._spent

    @property
    def limits_whole(self) -> bool:
        """Whether the whole run has any cap."""
        return self._of_whole.caps != Caps()

    def add(self, spent: Spent) -> None:
        """Count ``spent`` for today only."""
        self._spent = self.spent + spent

    def begin(self, today: Spent, whole: Spent) -> None:
        """Add earlier spending: of today, and of the whole run."""
        self.add(today)
        self.whole += whole

    async def begin_shared(self, today: Spent, whole: Spent | None = None) -> None:
        """Add earlier spending here and to the shared caps.

        Raises:
            JournalError: The reservations cannot be written now.
        """
        await self._of_day.open(today)
        await self._of_whole.open(whole or Spent())
        self.begin(today, whole or Spent())

    def pay(self, spent: Spent) -> None:
        """Count ``spent`` for today and for the whole run."""
        self._spent = self.spent + spent
        self.whole = self.whole + spent
        self._of_day.pay(spent)
        self._of_whole.pay(spent)

    def refusal(self) -> str | None:
        """Return why nothing may be spent before :meth:`reserve`, or ``None``."""
        return self._reached(lambda part: not part.has()) or self._uncovered()

    def known_refusal(self) -> str | None:
        """Return why nothing may be spent, as far as known without a new reservation."""
        return self._unasked or self._reached(lambda part: part.used_up) or self._uncovered()

    def _uncovered(self) -> str | None:
        """Return why a request as small as the smallest rejected one would be rejected again."""
        if self._rejected is None:
            return None
        return self._of_day.uncovered(self._rejected, self.spent) or self._of_whole.uncovered(
            self._rejected, self.whole
        )

    async def reserve(self) -> str | None:
        """Reserve something to spend; return why nothing may be spent, or ``None``."""
        try:
            for part in self.parts:
                await part.need()
            self._unasked = None
        except JournalError as error:
            self._unasked = f"the shared cap cannot be checked now: {error}"
        return self.known_refusal()

    async def hold(self, most: Spent, patience_s: float) -> str | None:
        """Set aside the most that a request may take; return why that is impossible, or ``None``.

        While other requests hold so much that this one is not covered, it waits for one of them to end.

        Args:
            most: The most that the request may take.
            patience_s: Longest wait, seconds.
        """
        reached = await self._hold(most)
        if reached is not None and self._holding:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    while reached is not None and self._holding:
                        self._released.clear()
                        await self._released.wait()
                        reached = await self._hold(most)
        if reached is not None and (self._rejected is None or most.tokens < self._rejected.tokens):
            self._rejected = most
        return reached

    async def _hold(self, most: Spent) -> str | None:
        self._unasked = None
        try:
            reached = await self._of_day.hold(most, self.spent)
            if reached is None and (reached := await self._of_whole.hold(most, self.whole)) is not None:
                self._of_day.release(most)
        except JournalError as error:
            reached = self._unasked = f"the shared cap cannot be checked now: {error}"
        self._holding += reached is None
        return reached

    @property
    def overdrawn(self) -> bool:
        """Whether the caps no longer cover what is set aside."""
        return self._of_day.overdrawn(self.spent) or self._of_whole.overdrawn(self.whole)

    def release(self, most: Spent) -> None:
        """Return what :meth:`hold` set aside; call :meth:`pay` for what was spent."""
        self._holding -= 1
        self._of_day.release(most)
        self._of_whole.release(most)
        self._released.set()

    async def keep_up(self) -> None:
        """Reserve more of the shared caps whenever little is left, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in self.parts:
                tasks.create_task(part.keep_up())

    async def give_back(self) -> None:
        """Return unspent reservations to other processes, at the end."""
        try:
            for part in self.parts:
                await part.give_back()
        except JournalError as error:
            logger.warning("unspent reservations of shared caps could not be returned: %s", error)

    def affords(self, more: Spent) -> bool:
        """Whether ``more`` can be spent without exceeding a cap of the whole run."""
        return not self._of_whole.caps.exceeded(self.whole + more)

    def until_tomorrow_s(self) -> float:
        """Return the seconds until the next day, by the database's clock if known."""
        for part in self._of_day.parts.values():
            if (left_s := part.until_over_s()) is not None:
                return left_s
        tomorrow = datetime.combine(self.today + timedelta(days=1), datetime.min.time(), UTC)
        return (tomorrow - self._clock.now()).total_seconds()

    def _reached(self, over: Callable[[DayShare], bool]) -> str | None:
        return self._of_day.reached(self.spent, over) or self._of_whole.reached(self.whole, over)


@dataclass(frozen=True, slots=True)
class EpisodeBudget:
    """Budget of one episode, split equally among its seats.

    Args:
        ledger: The ledger, with the episode's caps.
        spent: Earlier spending of each seat, by actor; already counted in the ledger.
    """

    ledger: SpendLedger
    spent: Mapping[str, Spent] = field(default_factory=dict)

    def for_seat(self, actor: str, among: int) -> SeatBudget:
        """Return the budget of one seat, so that no seat can use another's share.

        Args:
            actor: The seat's actor.
            among: Number of seats that spend.
        """
        share = self.ledger.episode_caps.shared_by(among)
        return SeatBudget(self.ledger, share, self.spent.get(actor, Spent()), among)


class SeatBudget:
    """Budget of one seat of an episode.

    Args:
        caps: The seat's share of the episode's caps.
        spent: Its spending so far.
        among: Number of seats that share the episode's caps.
    """

    def __init__(self, ledger: SpendLedger, caps: Caps, spent: Spent, among: int) -> None:
        self._ledger = ledger
        self._caps = caps
        self._among = among
        self.spent = spent

    def refusal(self) -> str | None:
        """Return why nothing more may be spent; ``None`` if it may."""
        return self._message(self.spent) or self._ledger.refusal()

    def _message(self, spent: Spent) -> str | None:
        reached = self._caps.reached(spent)
        if reached is None or self._among == 1:
            return reached and f"the episode's cap of {reached} is reached"
        return f"this seat's share of the episode's cap, {reached}, is reached"

    async def hold(self, most: Spent, patience_s: float) -> str | None:
        """Set aside the most that a request may take; see :meth:`SpendLedger.hold`."""
        if (refusal := self._message(self.spent)) is not None:
            return refusal
        if self._caps.exceeded(self.spent + most):
            return f"{self._message(self.spent + most)}{UNCOVERED}"
        return await self._ledger.hold(most, patience_s)

    def release(self, most: Spent) -> None:
        """Return what :meth:`hold` set aside."""
        self._ledger.release(most)

    def overdrawn(self, most: Spent) -> bool:
        """Return whether the caps no longer cover ``most``, which is set aside."""
        return self._caps.exceeded(self.spent + most) or self._ledger.overdrawn

    def pay(self, spent: Spent) -> None:
        """Count ``spent``."""
        self.spent += spent
        self._ledger.pay(spent)


class SpendLimit(Protocol):
    """Limits spending, and counts it."""

    async def hold(self, most: Spent, patience_s: float) -> str | None:
        """See :meth:`SeatBudget.hold`."""
        ...

    def overdrawn(self, most: Spent) -> bool:
        """See :meth:`SeatBudget.overdrawn`."""
        ...

    def release(self, most: Spent) -> None:
        """See :meth:`SeatBudget.release`."""
        ...

    def pay(self, spent: Spent) -> None:
        """See :meth:`SeatBudget.pay`."""
        ...


@runtime_checkable
class Spends(Protocol):
    """A policy whose decisions cost money."""

    def spend_from(self, budget: SpendLimit) -> None:
        """Send requests only while ``budget`` allows it, and count them there."""
        ...

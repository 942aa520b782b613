"""Spending caps for an episode and for a day, and what was spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Protocol, runtime_checkable

from spectator.checked_dataclass import checked_dataclass
from spectator.clock import Clock
from spectator.errors import JournalError


@checked_dataclass(frozen=True, slots=True)
class Spent:
    """What asking models took.

    Args:
        tokens: Prompt and answer together.
        cost: In the unit of the prices in the captains' catalogue.
        seconds: Time of waiting for answers.
    """

    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.tokens + other.tokens, self.cost + other.cost, self.seconds + other.seconds)

    def times(self, number: float) -> Spent:
        """So much of it."""
        return Spent(round(self.tokens * number), self.cost * number, self.seconds * number)


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that may be spent; 0 means no limit.

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
        """The share of one of ``seats``; none is left without a limit by it.

        >>> Caps(tokens=1001, cost=5.0).shared_by(2)
        Caps(tokens=500, cost=2.5, seconds=0.0)
        """
        tokens = max(1, self.tokens // seats) if self.tokens else 0
        return Caps(tokens, self.cost / seats, self.seconds / seats)

    def reached(self, spent: Spent) -> str | None:
        """The cap that is reached, in words; ``None`` when none is."""
        if 0 < self.tokens <= spent.tokens:
            return f"{self.tokens:,} tokens"
        if 0 < self.cost <= spent.cost:
            return f"US${self.cost:g}"
        if 0 < self.seconds <= spent.seconds:
            return f"{self.seconds:g} s of asking"
        return None


class SpendLedger:
    """What all episodes of a day may spend together. Days are UTC.

    Args:
        day: The caps of a day.
        episode: The caps of an episode.
        clock: Tells the day.
        whole: The caps of everything that is asked here, however many days it takes; none when left out.
    """

    def __init__(self, day: Caps, episode: Caps, clock: Clock, *, whole: Caps | None = None) -> None:
        self._day_caps = day
        self.episode_caps = episode
        """The caps of an episode."""
        self._whole_caps = whole or Caps()
        self.whole = Spent()
        """What was spent in all, as far as the caps of the whole are concerned."""
        self._capped = day != Caps(), self._whole_caps != Caps()
        self._clock = clock
        self._day = clock.now().date()
        self._spent = Spent()

    @property
    def caps(self) -> tuple[Caps, Caps, Caps]:
        """The caps of a day, of an episode, and of the whole."""
        return self._day_caps, self.episode_caps, self._whole_caps

    @property
    def today(self) -> date:
        """The present day."""
        return self._clock.now().astimezone(UTC).date()

    @property
    def spent(self) -> Spent:
        """What was spent today."""
        moment = self._clock.now()
        today = (moment if moment.tzinfo is UTC else moment.astimezone(UTC)).date()
        if self._day != today:
            self._day, self._spent = today, Spent()
        return self._spent

    @property
    def limits_whole(self) -> bool:
        """Whether the whole has any cap."""
        return self._whole_caps != Caps()

    def add(self, spent: Spent) -> None:
        """Count ``spent`` today."""
        self._spent = self.spent + spent

    def begin(self, today: Spent, whole: Spent) -> None:
        """Take over what was spent before: today, and in all."""
        self.add(today)
        self.whole += whole

    async def begin_day(self, spent: Spent) -> None:
        """Take over what the record says was spent today.

        Raises:
            JournalError: Several processes share the caps, and the others cannot be told now.
        """
        self.add(spent)

    def pay(self, spent: Spent) -> None:
        """Count ``spent`` today and in all."""
        self._spent = self.spent + spent
        self.whole = self.whole + spent

    def refusal(self) -> str | None:
        """Why nothing more may be spent; ``None`` when something may."""
        of_day, of_whole = self._capped
        if of_day and (reached := self._day_caps.reached(self.spent)) is not None:
            return f"the day's cap of {reached} is reached"
        if of_whole and (reached := self._whole_caps.reached(self.whole)) is not None:
            return f"the cap of {reached} for all of it is reached"
        return None

    def known_refusal(self) -> str | None:
        """The same as far as it is known here; says ``None`` where it would have to be asked for."""
        return self.refusal()

    async def reserve(self) -> str | None:
        """Make sure that something may be spent; why not, in words, where nothing may.

        Raises:
            JournalError: Several processes share the caps, and what is left cannot be asked for now.
        """
        return self.refusal()

    def affords(self, more: Spent) -> bool:
        """Whether ``more`` can be spent before a cap of the whole is passed."""
        caps, then = self._whole_caps, self.whole + more
        pairs = ((caps.tokens, then.tokens), (caps.cost, then.cost), (caps.seconds, then.seconds))
        return all(not cap or spent <= cap for cap, spent in pairs)

    def until_tomorrow_s(self) -> float:
        """Seconds until the next day begins."""
        tomorrow = datetime.combine(self.today + timedelta(days=1), datetime.min.time(), UTC)
        return (tomorrow - self._clock.now()).total_seconds()


@dataclass(frozen=True, slots=True)
class EpisodeBudget:
    """What one episode may spend; each of its seats has a purse of its own, with an equal share.

    Args:
        ledger: The day's, which has the episode's caps too.
        spent: What each seat spent before, by actor; counted in the day's sum already.
    """

    ledger: SpendLedger
    spent: Mapping[str, Spent] = field(default_factory=dict)

    def purse(self, actor: str, among: int) -> Purse:
        """What ``actor`` may spend, so that no seat can take what is another's.

        Args:
            actor: Whose seat.
            among: How many seats have a purse.
        """
        share = self.ledger.episode_caps.shared_by(among)
        return Purse(self.ledger, share, self.spent.get(actor, Spent()), among)


class Purse:
    """What one seat of an episode may spend.

    Args:
        ledger: The day's.
        caps: The seat's share of the episode's.
        spent: What it spent so far.
        among: How many seats share the episode's caps.
    """

    def __init__(self, ledger: SpendLedger, caps: Caps, spent: Spent, among: int) -> None:
        self._ledger = ledger
        self._caps = caps
        self._among = among
        self.spent = spent

    def refusal(self) -> str | None:
        """Why nothing more may be spent; ``None`` when something may."""
        reached = self._caps.reached(self.spent)
        if reached is None:
            return self._ledger.refusal()
        if self._among > 1:
            return f"this seat's share of the episode's cap, {reached}, is reached"
        return f"the episode's cap of {reached} is reached"

    async def reserve(self) -> str | None:
        """Make sure that something may be spent; why not, in words, where nothing may."""
        if self._caps.reached(self.spent) is not None:
            return self.refusal()
        try:
            return await self._ledger.reserve()
        except JournalError as error:
            return f"what is left of the day's cap cannot be asked for now: {error}"

    def pay(self, spent: Spent) -> None:
        """Count ``spent``."""
        self.spent += spent
        self._ledger.pay(spent)


class SpendLimit(Protocol):
    """Says whether anything may be spent, and is told what was."""

    def refusal(self) -> str | None:
        """See :meth:`Purse.refusal`."""
        ...

    async def reserve(self) -> str | None:
        """See :meth:`Purse.reserve`; asked where there is a refusal."""
        ...

    def pay(self, spent: Spent) -> None:
        """See :meth:`Purse.pay`."""
        ...


@runtime_checkable
class Spends(Protocol):
    """A policy whose decisions cost something."""

    def spend_from(self, budget: SpendLimit) -> None:
        """Ask only while ``budget`` allows it, and pay from it."""
        ...

"""Spending caps for an episode and for a day: settings, ledger, budgets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from spectator.clock import Clock
from spectator.errors import JournalError
from spectator.journal.day_share import PARTS, DayShare, ReservationStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class SharedCaps:
    """Where the processes that share caps reserve what they are about to spend.

    Args:
        reserves: Where all reserve.
        prefix: What the names of the caps begin with there, before ``tokens``, ``cost`` and ``seconds``.
        parts: How many parts a cap has, of which a process reserves one at a time.
        by: Added to the sentence that says that a cap is reached.
    """

    reserves: ReservationStore
    prefix: str = ""
    parts: int = PARTS
    by: str = ""


class _Limit:
    """Caps of a day or of the whole: checked against what was spent here, or reserved if they are shared."""

    def __init__(self, caps: Caps, sentence: str, clock: Clock, shared: SharedCaps | None) -> None:
        self.caps = caps
        self.shared = shared
        self.parts: dict[str, DayShare] = {}
        self._sentence = sentence
        self._capped = caps != Caps()
        if shared is not None:
            amounts = {"tokens": caps.tokens, "cost": caps.cost, "seconds": caps.seconds}
            self.parts = {
                what: DayShare(shared.prefix + what, cap, shared.reserves, clock, shared.parts)
                for what, cap in amounts.items()
                if cap
            }

    def reached(self, spent: Spent, over: Callable[[DayShare], bool]) -> str | None:
        """Why nothing more may be spent; ``over`` tells of a part that was reserved."""
        if not self._capped:
            return None
        if self.shared is None:
            reached = self.caps.reached(spent)
            return None if reached is None else self._sentence.format(reached)
        for what, part in self.parts.items():
            if over(part):
                words = Caps(**{what: part.cap}).reached(Spent(**{what: part.cap}))  # type: ignore[arg-type]
                return self._sentence.format(words) + self.shared.by
        return None

    async def open(self, spent: Spent) -> None:
        """Let the shared caps count at least ``spent``."""
        if self.shared is not None and self.parts:
            used = {self.shared.prefix + what: getattr(spent, what) for what in self.parts}
            await self.shared.reserves.open_day(used)

    def pay(self, spent: Spent) -> None:
        """Take ``spent`` of what was reserved."""
        for what, part in self.parts.items():
            part.draw(getattr(spent, what))


class SpendLedger:
    """What all episodes of a day, and of everything that is asked, may spend together. Days are UTC.

    Caps that several processes share are reserved before they are spent. ``spent`` and ``whole`` are what
    this process counted in any case.

    Args:
        day: The caps of a day.
        episode: The caps of an episode.
        clock: Tells the day.
        whole: The caps of everything that is asked, however many days it takes; none when left out.
        day_shared: Where the caps of a day are reserved, if other processes share them.
        whole_shared: The same of the caps of the whole.
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
        """What this process reserved of each cap that is shared."""
        self.episode_caps = episode
        """The caps of an episode."""
        self.whole = Spent()
        """What was spent in all, as far as the caps of the whole are concerned."""
        self._clock = clock
        self._day = clock.now().date()
        self._spent = Spent()
        self._unasked: str | None = None

    @property
    def caps(self) -> tuple[Caps, Caps, Caps]:
        """The caps of a day, of an episode, and of the whole."""
        return self._of_day.caps, self.episode_caps, self._of_whole.caps

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
        return self._of_whole.caps != Caps()

    def add(self, spent: Spent) -> None:
        """Count ``spent`` today."""
        self._spent = self.spent + spent

    def begin(self, today: Spent, whole: Spent) -> None:
        """Take over what was spent before: today, and in all."""
        self.add(today)
        self.whole += whole

    async def begin_shared(self, today: Spent, whole: Spent | None = None) -> None:
        """The same where other processes share the caps, which count at least as much from now on.

        Raises:
            JournalError: They cannot be told now.
        """
        await self._of_day.open(today)
        await self._of_whole.open(whole or Spent())
        self.begin(today, whole or Spent())

    def pay(self, spent: Spent) -> None:
        """Count ``spent`` today and in all."""
        self._spent = self.spent + spent
        self.whole = self.whole + spent
        self._of_day.pay(spent)
        self._of_whole.pay(spent)

    def refusal(self) -> str | None:
        """Why nothing may be spent, or not before more is reserved; ``None`` when something may."""
        return self._reached(lambda part: not part.has())

    def known_refusal(self) -> str | None:
        """Why nothing may be spent, as far as it is known here without asking."""
        return self._unasked or self._reached(lambda part: part.used_up)

    async def reserve(self) -> str | None:
        """Make sure that something may be spent; why not, in words, where nothing may."""
        try:
            for part in self.parts:
                await part.need()
            self._unasked = None
        except JournalError as error:
            self._unasked = f"what is left of the cap cannot be asked for now: {error}"
        return self.known_refusal()

    async def keep_up(self) -> None:
        """Reserve more of shared caps as soon as little is left, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in self.parts:
                tasks.create_task(part.keep_up())

    async def give_back(self) -> None:
        """Let other processes have what was reserved here and not spent; nothing more is spent."""
        try:
            for part in self.parts:
                await part.give_back()
        except JournalError as error:
            logger.warning("what was reserved here of shared caps stays counted: %s", error)

    def affords(self, more: Spent) -> bool:
        """Whether ``more`` can be spent before a cap of the whole is passed."""
        caps, then = self._of_whole.caps, self.whole + more
        pairs = ((caps.tokens, then.tokens), (caps.cost, then.cost), (caps.seconds, then.seconds))
        return all(not cap or spent <= cap for cap, spent in pairs)

    def until_tomorrow_s(self) -> float:
        """Seconds until the next day begins, by the database's clock where a shared cap was asked for."""
        for part in self._of_day.parts.values():
            if (left_s := part.until_over_s()) is not None:
                return left_s
        tomorrow = datetime.combine(self.today + timedelta(days=1), datetime.min.time(), UTC)
        return (tomorrow - self._clock.now()).total_seconds()

    def _reached(self, over: Callable[[DayShare], bool]) -> str | None:
        return self._of_day.reached(self.spent, over) or self._of_whole.reached(self.whole, over)


@dataclass(frozen=True, slots=True)
class EpisodeBudget:
    """What one episode may spend; each of its seats has a purse of its own, with an equal share.

    Args:
        ledger: The day's, which has the episode's caps too.
        spent: What each seat spent before, by actor; counted in the day's sum already.
    """

    ledger: SpendLedger
    spent: Mapping[str, Spent] = field(default_factory=dict)

    def for_seat(self, actor: str, among: int) -> SeatBudget:
        """What ``actor`` may spend, so that no seat can take what is another's.

        Args:
            actor: Whose seat.
            among: How many seats have a purse.
        """
        share = self.ledger.episode_caps.shared_by(among)
        return SeatBudget(self.ledger, share, self.spent.get(actor, Spent()), among)


class SeatBudget:
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
        return await self._ledger.reserve()

    def pay(self, spent: Spent) -> None:
        """Count ``spent``."""
        self.spent += spent
        self._ledger.pay(spent)


class SpendLimit(Protocol):
    """Says whether anything may be spent, and is told what was."""

    def refusal(self) -> str | None:
        """See :meth:`SeatBudget.refusal`."""
        ...

    async def reserve(self) -> str | None:
        """See :meth:`SeatBudget.reserve`; asked where there is a refusal."""
        ...

    def pay(self, spent: Spent) -> None:
        """See :meth:`SeatBudget.pay`."""
        ...


@runtime_checkable
class Spends(Protocol):
    """A policy whose decisions cost something."""

    def spend_from(self, budget: SpendLimit) -> None:
        """Ask only while ``budget`` allows it, and pay from it."""
        ...


class CapSettings(BaseModel):
    """The caps of an episode and of a day, each with its default."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model_episode_tokens: int = Field(
        default=10_000_000,
        ge=0,
        description="Tokens that the models of one episode may use, in equal shares; beyond it scripted "
        "captains decide for them; 0 = no limit",
    )
    model_episode_cost: float = Field(
        default=10.0, ge=0, description="The same in US dollars, by the prices of the captains' catalogue"
    )
    model_episode_s: float = Field(
        default=0.0, ge=0, description="The same in seconds of waiting for their answers"
    )
    model_day_tokens: int = Field(
        default=100_000_000,
        ge=0,
        description="Tokens that all models may use in a day (UTC); beyond it no episode with a model starts "
        "until the next; 0 = no limit",
    )
    model_day_cost: float = Field(
        default=50.0, ge=0, description="The same in US dollars, by the prices of the captains' catalogue"
    )
    model_day_s: float = Field(default=0.0, ge=0, description="The same in seconds of waiting for answers")

    def cannot_bind(self, unpriced: Sequence[str]) -> tuple[str, bool] | None:
        """What is wrong with the caps of money where models have no known price.

        Args:
            unpriced: Models that somebody is paid for, by no known price, as presets are called.

        Returns:
            The sentence, which names captains and settings, and whether such a cap was set by somebody
            rather than being the default; ``None`` where every cap limits what it should.

        >>> CapSettings(model_day_cost=5).cannot_bind(["llm:mine"])[1]
        True
        >>> CapSettings(model_day_cost=5).cannot_bind([]) is None
        True
        """
        caps = ("model_episode_cost", "model_day_cost")
        given = [name for name in caps if getattr(self, name) and name in self.model_fields_set]
        names = given or [name for name in caps if getattr(self, name)]
        if not unpriced or not names:
            return None
        settings = ", ".join(f"SPECTATOR_{name.upper()}" for name in names)
        sentence = (
            f"{settings}: no cap of money can limit {', '.join(unpriced)}: no price is known. Set price_in "
            "and price_out in its table, take its key away, or set the cap to 0 and limit tokens"
        )
        return sentence, bool(given)

    def ledger(self, clock: Clock, *, whole: Caps | None = None) -> SpendLedger:
        """What asking models may take, nothing spent yet.

        Args:
            clock: Tells the day.
            whole: See :class:`SpendLedger`.
        """
        return SpendLedger(
            Caps(self.model_day_tokens, self.model_day_cost, self.model_day_s),
            Caps(self.model_episode_tokens, self.model_episode_cost, self.model_episode_s),
            clock,
            whole=whole,
        )

"""What models and paid voices may take in a day over all servers on one database."""

from __future__ import annotations

import logging

from spectator.clock import Clock
from spectator.errors import JournalError
from spectator.journal.stores.day_part import DayPart, Reserves
from spectator.journal.stores.leases import Transacting
from spectator.journal.stores.reservations import Reservations
from spectator.narration.paid_voice import CharacterBudget
from spectator.policies.spending import Caps, SpendLedger, Spent

from ..settings import Settings

logger = logging.getLogger(__name__)


class ReservedLedger(SpendLedger):
    """What the episodes of all servers on one database may spend together in a day.

    ``spent`` is what the record said when this server started and what it spent itself since; what may be
    spent is decided by what all reserved.

    Args:
        day: The caps of a day.
        episode: The caps of an episode.
        clock: See :class:`DayPart`.
        reservations: Where all servers reserve.
    """

    def __init__(self, day: Caps, episode: Caps, clock: Clock, reservations: Reserves) -> None:
        super().__init__(day, episode, clock)
        self._reservations = reservations
        caps = {"tokens": day.tokens, "cost": day.cost, "seconds": day.seconds}
        self.parts = {
            name: DayPart(f"model {name}", cap, reservations, clock) for name, cap in caps.items() if cap
        }
        """This server's parts, by field of :class:`Spent`."""

    async def begin_day(self, spent: Spent) -> None:
        """See :meth:`SpendLedger.begin_day`; for all servers where nothing was reserved today yet."""
        await self._reservations.open_day({f"model {name}": getattr(spent, name) for name in self.parts})
        await super().begin_day(spent)

    def pay(self, spent: Spent) -> None:
        """Count ``spent``, and take it of what this server reserved."""
        super().pay(spent)
        for name, part in self.parts.items():
            part.draw(getattr(spent, name))

    def refusal(self) -> str | None:
        """Why nothing may be spent before more is reserved; ``None`` when something may."""
        return next((self._reached(name) for name, part in self.parts.items() if not part.has()), None)

    def known_refusal(self) -> str | None:
        """Why nothing may be spent, as the database said last."""
        return next((self._reached(name) for name, part in self.parts.items() if part.used_up), None)

    async def reserve(self) -> str | None:
        """See :meth:`SpendLedger.reserve`."""
        for name, part in self.parts.items():
            if not await part.need():
                return self._reached(name)
        return None

    def until_tomorrow_s(self) -> float:
        """Seconds until the next day begins, by the database's clock where it told."""
        told = [left for part in self.parts.values() if (left := part.until_over_s()) is not None]
        return told[0] if told else super().until_tomorrow_s()

    def _reached(self, name: str) -> str:
        cap = self.parts[name].cap
        words = Caps(**{name: cap}).reached(Spent(**{name: cap}))  # type: ignore[arg-type]
        return f"the day's cap of {words} is reached, by all servers together"


class ReservedCharacters(CharacterBudget):
    """Characters that the paid voices of all servers on one database may be sent.

    Args:
        day: Most characters of a day, greater than 0.
        episode: Most characters of an episode; 0 = no limit.
        clock: See :class:`DayPart`.
        reservations: Where all servers reserve.
    """

    def __init__(self, day: int, episode: int, clock: Clock, reservations: Reserves) -> None:
        super().__init__(0, episode, clock)
        self.part = DayPart("voice characters", day, reservations, clock)
        """This server's part."""

    async def take(self, characters: int) -> str | None:
        """Take ``characters`` of today's; why not, in words, where they are not to be had."""
        try:
            had = self.part.has(characters) or await self.part.need(characters)
        except JournalError as error:
            return f"what is left of the day's characters cannot be asked for now: {error}"
        if not had:
            return (
                f"the day's {self.part.cap:,} characters are spoken, by all servers together "
                "(SPECTATOR_VOICE_DAY_CHARACTERS)"
            )
        self.part.draw(characters)
        return await super().take(characters)


class SharedSpending:
    """The ledger and the characters of a server that shares them.

    Args:
        settings: The caps.
        clock: Time.
        journal: On a database server.
    """

    def __init__(self, settings: Settings, clock: Clock, journal: Transacting) -> None:
        self.reservations = reservations = Reservations(journal)
        """Where all servers reserve."""
        day, episode, _ = settings.ledger(clock).caps
        self.ledger = ReservedLedger(day, episode, clock, reservations)
        limit, of_episode = settings.voice_day_characters, settings.voice_episode_characters
        self.characters: CharacterBudget = (
            ReservedCharacters(limit, of_episode, clock, reservations)
            if limit
            else CharacterBudget(0, of_episode, clock)
        )

    @property
    def parts(self) -> list[DayPart]:
        """This server's parts of all caps of a day."""
        voice = [self.characters.part] if isinstance(self.characters, ReservedCharacters) else []
        return [*self.ledger.parts.values(), *voice]

    async def give_back(self) -> None:
        """Let the other servers have what is left; nothing is spent any more."""
        try:
            for part in self.parts:
                await part.give_back()
        except JournalError as error:
            logger.warning("what this server reserved of the day's caps stays counted: %s", error)

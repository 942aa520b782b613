"""Limits shared by all servers on one database: daily spending and rates."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from spectator.clock import Clock
from spectator.errors import JournalError
from spectator.journal.coordination import BeginLimit, Reservations, Transactor
from spectator.journal.day_share import DayShare, ReservationStore
from spectator.narration.voices import CharacterBudget
from spectator.policies.spending import SharedCaps, SpendLedger

from ..settings import Settings
from .faults import Refused
from .permissions import SeatKeys
from .rate_limits import MAX_TRACKED

logger = logging.getLogger(__name__)


class ReservedCharacters(CharacterBudget):
    """Daily characters for the paid voices of all servers on one database.

    Args:
        day: Most characters per day, greater than 0.
        episode: Most characters per episode; 0 = no limit.
    """

    def __init__(self, day: int, episode: int, clock: Clock, reservations: ReservationStore) -> None:
        super().__init__(0, episode, clock)
        self.part = DayShare("voice characters", day, reservations, clock)
        """This server's share."""

    async def take(self, characters: int) -> str | None:
        """Take ``characters`` of today's budget; return the reason if impossible."""
        try:
            had = self.part.has(characters) or await self.part.need(characters)
        except JournalError as error:
            return f"cannot reserve characters for today: {error}"
        if not had:
            return (
                f"today's {self.part.cap:,} characters are used up by all servers together "
                "(SPECTATOR_VOICE_DAY_CHARACTERS)"
            )
        self.part.draw(characters)
        return await super().take(characters)


class SharedSpending:
    """The model ledger and voice characters of a server that shares them."""

    def __init__(self, settings: Settings, clock: Clock, journal: Transactor) -> None:
        self.reservations = reservations = Reservations(journal)
        """Reservations of all servers."""
        day, episode, _ = settings.ledger(clock).caps
        shared = SharedCaps(reservations, "model ", by=", by all servers together")
        self.ledger = SpendLedger(day, episode, clock, day_shared=shared)
        limit, of_episode = settings.voice_day_characters, settings.voice_episode_characters
        self.characters: CharacterBudget = (
            ReservedCharacters(limit, of_episode, clock, reservations)
            if limit
            else CharacterBudget(0, of_episode, clock)
        )

    @property
    def parts(self) -> list[DayShare]:
        """This server's shares of all daily caps."""
        voice = [self.characters.part] if isinstance(self.characters, ReservedCharacters) else []
        return [*self.ledger.parts, *voice]

    async def give_back(self) -> None:
        """Return what is left to the other servers; spend nothing afterwards."""
        try:
            for part in self.parts:
                await part.give_back()
        except JournalError as error:
            logger.warning("cannot return reserved parts of the daily caps; they stay counted: %s", error)


EVERYWHERE = "on all servers together"


class SharedRates:
    """Rates of all servers together, counted in the database before each action.

    Args:
        keys: Makes digests of addresses; the database holds no addresses.
        refuse: Makes a rejection from the limit's name, the seconds to wait, and what there was too much of.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        reservations: Reservations,
        keys: SeatKeys,
        refuse: Callable[[str, float, str], Refused],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._reservations = reservations
        self._keys = keys
        self._refuse = refuse
        self._until: dict[tuple[str, str], float] = {}
        """Earliest retry after a rejection, by action and digest of the address; ``""`` for all addresses."""

    @asynccontextmanager
    async def one_of(self, what: str, words: str, address: str) -> AsyncIterator[None]:
        """Count one ``what``; undone if the ``with`` block fails.

        Does nothing if neither limit is set.

        Args:
            what: The action, the prefix of its settings' names.
        """
        of_one = BeginLimit(getattr(self._settings, f"{what}_per_minute"), 60.0)
        of_all = BeginLimit(getattr(self._settings, f"{what}_per_hour"), 3600.0)
        if not (of_one.count or of_all.count):
            yield
            return
        digest = self._keys.digest(what, address)
        self._require_waited(what, words, digest)
        begun = await self._reservations.begin(what, digest, of_one=of_one, of_all=of_all)
        if begun.number is None:
            self._note_refused(what, digest if begun.own else "", begun.wait_s)
            raise self._refused(what, words, begun.wait_s, own=begun.own)
        try:
            yield
        except BaseException:
            await self._undo(begun.number, words)
            raise

    def _require_waited(self, what: str, words: str, digest: str) -> None:
        """Reject a client that was rejected and has not waited, without a database query."""
        now = self._clock.monotonic()
        for name in (digest, ""):
            if (wait_s := self._until.get((what, name), -math.inf) - now) > 0:
                raise self._refused(what, words, wait_s, own=bool(name))

    def _note_refused(self, what: str, name: str, wait_s: float) -> None:
        self._until.pop((what, name), None)
        self._until[what, name] = self._clock.monotonic() + wait_s
        if len(self._until) > MAX_TRACKED:
            del self._until[next(iter(self._until))]

    def _refused(self, what: str, words: str, wait_s: float, *, own: bool) -> Refused:
        if own:
            return self._refuse(f"{what}_per_minute", wait_s, f"{words} from this address, {EVERYWHERE}")
        return self._refuse(f"{what}_per_hour", wait_s, f"{words}, {EVERYWHERE}")

    async def _undo(self, number: int, words: str) -> None:
        try:
            await self._reservations.undo(number)
        except JournalError as error:
            logger.warning("cannot undo one of %s that failed; it stays counted: %s", words, error)

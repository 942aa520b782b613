"""How often something may be done at all servers on one database together, by one address and by all."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from spectator.clock import Clock
from spectator.errors import JournalError
from spectator.journal.stores.reservations import Often, Reservations

from ..settings import Settings
from .faults import Refused
from .rate_limit import MAX_TRACKED
from .seat_keys import SeatKeys

logger = logging.getLogger(__name__)

EVERYWHERE = "at all servers together"


class SharedRates:
    """How often each thing may be done, as the settings say; counted in the database before it is done.

    Args:
        settings: The limits.
        clock: Measures how long whoever was refused has to wait.
        reservations: Where all servers count.
        keys: Makes digests of addresses; the database has no address.
        refuse: Makes a refusal by the name of the limit, the seconds to wait, and what there was too much of.
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
        """When whoever was refused may ask again, by what and a digest of whose; ``""`` for everybody."""

    @asynccontextmanager
    async def one_of(self, what: str, words: str, address: str) -> AsyncIterator[None]:
        """Count one of ``what`` for the time of the ``with``; given back if that fails.

        Nothing is asked where neither limit is set.

        Args:
            what: The beginning of its settings' names.
            words: The same for people.
            address: Whose it is.

        Raises:
            Refused: There were too many lately.
            JournalError: The database cannot be asked now.
        """
        of_one = Often(getattr(self._settings, f"{what}_per_minute"), 60.0)
        of_all = Often(getattr(self._settings, f"{what}_per_hour"), 3600.0)
        if not (of_one.count or of_all.count):
            yield
            return
        digest = self._keys.digest(what, address)
        self._need_patience(what, words, digest)
        begun = await self._reservations.begin(what, digest, of_one=of_one, of_all=of_all)
        if begun.number is None:
            self._note_refused(what, digest if begun.own else "", begun.wait_s)
            raise self._refused(what, words, begun.wait_s, own=begun.own)
        try:
            yield
        except BaseException:
            await self._undo(begun.number, words)
            raise

    def _need_patience(self, what: str, words: str, digest: str) -> None:
        """Refuse whoever was refused and has not waited, without asking the database."""
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
            logger.warning("one of %s that did not come about stays counted: %s", words, error)

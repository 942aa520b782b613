"""What asking the model of a run may take, whoever plays it: each tells the others what it spent."""

from __future__ import annotations

import asyncio
import logging

from spectator.clock import Clock
from spectator.episodes.record.usage import spent_on
from spectator.errors import JournalError
from spectator.journal.stores.fleet_runs import FleetRuns
from spectator.journal.stores.signs import INTERVAL_S
from spectator.journal.stores.sqlite import SqlJournal
from spectator.policies.spending import Caps, SpendLedger, Spent

logger = logging.getLogger(__name__)


class FleetLedger(SpendLedger):
    """A ledger that others know of within seconds.

    A cap of the whole may be passed by what all of them spend meanwhile.

    Args:
        caps: The caps of a day, of an episode, and of the whole.
        clock: Tells the day.
        name: The run.
        journal: Where it is kept.
    """

    def __init__(self, caps: tuple[Caps, Caps, Caps], clock: Clock, name: str, journal: SqlJournal) -> None:
        super().__init__(caps[0], caps[1], clock, whole=caps[2])
        self._name = name
        self._journal = journal
        self._runs = FleetRuns(journal)
        self._untold = Spent()
        self._sums = Spent()

    async def join(self) -> None:
        """Take over what the record says was spent, as far as a cap asks for it.

        Raises:
            JournalError: The database cannot be reached.
        """
        day, _, whole = self.caps
        self._sums = Spent(*await self._runs.spend(self._name, 0, 0.0, 0.0))  # before the record is read
        none = Spent()
        today = none if day == Caps() else await spent_on(self._journal, self.today, run_id=self._name)
        before = none if whole == Caps() else await spent_on(self._journal, None, run_id=self._name)
        self.begin(today, before)

    def pay(self, spent: Spent) -> None:
        """Count ``spent`` here, and for the others."""
        super().pay(spent)
        self._untold += spent

    async def exchange(self) -> None:
        """Tell the others what was spent here, and count what they spent.

        Raises:
            JournalError: The database cannot be reached now; it is told the next time.
        """
        told, self._untold = self._untold, Spent()
        try:
            sums = Spent(*await self._runs.spend(self._name, told.tokens, told.cost, told.seconds))
        except JournalError:
            self._untold += told
            raise
        elsewhere = sums + (self._sums + told).times(-1)
        self._sums = sums
        self.begin(elsewhere, elsewhere)

    async def keep_exchanging(self, clock: Clock) -> None:
        """Tell and be told every :data:`INTERVAL_S` until cancelled."""
        while True:
            await clock.sleep(INTERVAL_S)
            try:
                await self.exchange()
            except JournalError as error:
                logger.warning("what is spent cannot be told to others: %s", error)

    async def finish(self) -> None:
        """Tell what is left, where that can be."""
        try:
            await self.exchange()
        except (JournalError, asyncio.CancelledError) as error:
            logger.warning("what was spent at last is not told to others: %r", error)

"""What asking the model of a run may take, whoever plays it: reserved in the database before it is spent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from spectator.clock import Clock
from spectator.episodes.record.usage import spent_on
from spectator.errors import JournalError
from spectator.journal.stores.day_part import DayPart
from spectator.journal.stores.fleet_runs import RunReservations
from spectator.journal.stores.sqlite import SqlJournal
from spectator.policies.spending import Caps, SpendLedger, Spent
from spectator.rollouts.joint.held_log import HeldLog

logger = logging.getLogger(__name__)

PARTS: Final = 1024
"""Parts of a cap, of which each process has one at a time: so little is lost with each that dies."""


class FleetLedger(SpendLedger):
    """A ledger whose caps of the whole are those of all who play a run.

    Each reserves a part, draws on it, and reserves the next; what one that dies had left stays counted. So a
    cap is passed by no more than what is under way when it is reached.

    Args:
        caps: The caps of a day and of an episode, which are this process's own, and of the whole.
        clock: Tells the day.
        name: The run.
        journal: Where it is kept.
        log: Is as patient with the database as whoever plays.
    """

    def __init__(
        self, caps: tuple[Caps, Caps, Caps], clock: Clock, name: str, journal: SqlJournal, log: HeldLog
    ) -> None:
        super().__init__(caps[0], caps[1], clock)
        self._name = name
        self._journal = journal
        self._log = log
        self._reservations = reserved = RunReservations(journal, name)
        whole = {"tokens": caps[2].tokens, "cost": caps[2].cost}
        self._parts = {what: DayPart(what, cap, reserved, clock, PARTS) for what, cap in whole.items() if cap}
        self._unasked: str | None = None

    async def join(self) -> None:
        """Take over what the record says was spent, as far as a cap asks for it.

        Raises:
            JournalError: The database cannot be reached.
        """
        if self.caps[0] != Caps():
            self.add(await spent_on(self._journal, self.today, run_id=self._name))
        if self._parts:
            before = await spent_on(self._journal, None, run_id=self._name)
            await self._reservations.open_day({"tokens": before.tokens, "cost": before.cost})

    def pay(self, spent: Spent) -> None:
        """Count ``spent``, and take it of what was reserved here."""
        super().pay(spent)
        for what, part in self._parts.items():
            part.draw(getattr(spent, what))

    def refusal(self) -> str | None:
        """Why nothing may be spent before more is reserved; ``None`` when something may."""
        return super().refusal() or self._reached(lambda part: not part.has())

    def known_refusal(self) -> str | None:
        """Why nothing may be spent, as the database said last, or because it could not be asked."""
        return super().refusal() or self._unasked or self._reached(lambda part: part.used_up)

    async def reserve(self) -> str | None:
        """See :meth:`SpendLedger.reserve`; waits for the database as long as whoever plays."""
        try:
            for part in self._parts.values():
                await self._log.patiently(part.need)
        except JournalError as error:
            self._unasked = f"what is left of the run's cap cannot be asked for: {error}"
        return self.known_refusal()

    async def keep_up(self) -> None:
        """Reserve more as soon as little is left, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in self._parts.values():
                tasks.create_task(part.keep_up())

    async def finish(self) -> None:
        """Let the others have what is left here."""
        try:
            for part in self._parts.values():
                await part.give_back()
        except (JournalError, asyncio.CancelledError) as error:
            logger.warning("what was reserved here of the run's caps stays counted: %r", error)

    def _reached(self, over: Callable[[DayPart], bool]) -> str | None:
        """The first cap of which this part is ``over``, in words."""
        for what, part in self._parts.items():
            if over(part):
                words = f"{part.cap:,.0f} tokens" if what == "tokens" else f"US${part.cap:g}"
                return f"the cap of {words} for all of it is reached"
        return None

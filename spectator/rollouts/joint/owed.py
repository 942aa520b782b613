"""What a run still owes, taken by leases: every process takes some, and none what another one has."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from typing import Final

from spectator.clock import Clock
from spectator.errors import JournalError
from spectator.journal.stores.fleet_leases import FlightLimit
from spectator.journal.stores.ownership import Ownership
from spectator.journal.stores.sqlite import SqlJournal
from spectator.rollouts.joint.held_log import HeldLog
from spectator.rollouts.progress import FleetState
from spectator.runs.jobs import RunPlan
from spectator.runs.owed import Attempt, progress

logger = logging.getLogger(__name__)

WINDOW: Final = 512
"""Attempts that one statement looks through for some that are free."""

PAUSE_S: Final = 1.0
"""Least seconds between two looks at what is owed, where all of it is held by others."""

SHARE: Final = 0.1
"""Of the time, what looking may take: a look that took long is followed by a longer pause."""

LONGEST_PAUSE_S: Final = 30.0
"""Most seconds between two looks: one that waited for the database took long, too."""


class Owed:
    """Takes leases of what a run owes, in the order of its jobs.

    Args:
        run: The run; its name is known.
        journal: Its record.
        ownership: The leases of that journal.
        log: Records under them.
        state: Is told how far the run is.
        clock: Measures looks.
        most: Episodes of the run that all may play at once; 0 means no limit.
    """

    def __init__(
        self,
        run: RunPlan,
        journal: SqlJournal,
        ownership: Ownership,
        log: HeldLog,
        state: FleetState,
        clock: Clock,
        most: int = 0,
    ) -> None:
        self._run = run
        self._within = FlightLimit(run.run_id or "", most)
        self._journal = journal
        self._ownership = ownership
        self._log = log
        self._state = state
        self._clock = clock
        self._ahead: deque[Attempt] = deque()
        self._unplayable: set[str] = set()
        self._busy: set[str] = set()
        self.over = False
        """Whether nothing is owed any more that could be played here."""
        self.pause_s = PAUSE_S
        """Seconds until the next look is due, where nothing was free."""
        self.stirred = asyncio.Event()
        """Set where there is room again."""
        self.renewed = asyncio.Event()
        """Set where another attempt is to be taken at once."""

    def put_first(self, attempt: Attempt) -> None:
        """Have another attempt taken before all others."""
        self._ahead.appendleft(attempt)
        self.renewed.set()

    def leave_out(self, episode_id: str) -> None:
        """Take an episode no more, which cannot be played here though nothing is wrong with the run."""
        self._unplayable.add(episode_id)

    @property
    def busy(self) -> int:
        """Attempts that were taken and not settled."""
        return len(self._busy)

    async def look(self) -> None:
        """Find out from the record what is owed.

        Raises:
            JournalError: It cannot be read.
        """
        began_s = self._clock.monotonic()
        due = await self._log.patiently(lambda: progress(self._journal, self._run, run_id=self._run.run_id))
        took_s = self._clock.monotonic() - began_s
        self.pause_s = min(max(PAUSE_S, took_s / SHARE), LONGEST_PAUSE_S)
        self._state.over = len(due.over)
        owed = [one for one in due.owed if one.episode_id not in self._unplayable]
        self.over = not owed
        self._ahead = deque(one for one in owed if one.episode_id not in self._busy)

    async def take(self, limit: int) -> list[Attempt]:
        """Take the leases of at most ``limit`` attempts; none where others have all that is owed, or as many
        as all may play at once.

        Raises:
            JournalError: The database is away for too long.
        """
        self.renewed.clear()
        if not self._ahead:
            await self.look()
        while self._ahead:
            window = [self._ahead.popleft() for _ in range(min(WINDOW, len(self._ahead)))]
            free = {one.episode_id: one for one in window if one.episode_id not in self._busy}
            taken = await self._claim(list(free), limit)
            if taken is None:
                self._ahead.extendleft(reversed(window))
                return []
            if taken:
                self._ahead.extendleft(reversed([one for one in window if one.episode_id not in taken]))
                self._busy.update(taken)
                self._log.held.update(taken)
                self._log.lost.difference_update(taken)
                return [
                    Attempt(free[one].number, free[one].attempt, one, begun) for one, begun in taken.items()
                ]
        return []

    async def settle(self, episode_id: str) -> None:
        """An attempt that was taken is played here no more: others may play on what has not ended."""
        if episode_id in self._log.held:
            self._log.held.discard(episode_id)
            try:
                await self._ownership.release(episode_id)
            except JournalError as error:
                logger.warning("the lease of %s is kept until this process leaves: %s", episode_id, error)
        self._busy.discard(episode_id)
        self.stirred.set()

    async def _claim(self, episode_ids: list[str], limit: int) -> Mapping[str, bool] | None:
        return await self._log.patiently(lambda: self._ownership.claim_owed(episode_ids, limit, self._within))

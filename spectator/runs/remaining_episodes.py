"""Take leases of the remaining episodes of a run."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

from spectator.clock import Clock
from spectator.errors import FailureClass, JournalError
from spectator.journal.held_leases import FlightLimit
from spectator.journal.ownership import Ownership
from spectator.journal.sql_journal import SqlJournal
from spectator.runs.interactor import RunState
from spectator.runs.leased_log import LeasedLog
from spectator.runs.run_plan import Attempt, RunPlan, progress

logger = logging.getLogger(__name__)

WINDOW: Final = 512
"""Attempts among which one SQL statement looks for free ones."""

PAUSE_S: Final = 1.0
"""Least seconds between two looks at what remains while others hold all of it."""

SHARE: Final = 0.1
"""Largest share of time spent on looking: a slow look is followed by a longer pause."""

LONGEST_PAUSE_S: Final = 30.0
"""Most seconds between two looks: a look is also slow when it waits for the database."""


class Window(Protocol):
    """Limits which attempts this process may begin now."""

    on_room: Callable[[], None]
    """Called when more may begin."""

    def admit(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """Return those of ``attempts`` that may begin, in the same order."""

    def took(self, attempts: Sequence[Attempt]) -> None:
        """Note that attempts were leased here."""

    def waits_for_others(self, busy: Collection[str]) -> bool:
        """Return whether it waits for an episode that is not among ``busy``, those played here."""

    def saw(self, over: Mapping[int, str]) -> None:
        """Note episodes that are over: by position of the job, the episode that counts for it."""

    def leave_out(self, attempt: Attempt) -> None:
        """Note that an attempt cannot be played here."""


class RemainingEpisodes:
    """Takes leases of the remaining episodes of a run, in the order of its jobs.

    Args:
        run: The run, which has a name.
        most: Episodes of the run that all workers together may play at once; 0 means no limit.
        window: Limits what may begin now; no limit if omitted.
    """

    def __init__(
        self,
        run: RunPlan,
        journal: SqlJournal,
        ownership: Ownership,
        log: LeasedLog,
        state: RunState,
        clock: Clock,
        most: int = 0,
        window: Window | None = None,
    ) -> None:
        self._run = run
        self._within = FlightLimit(run.run_id or "", most)
        self._journal = journal
        self._ownership = ownership
        self._log = log
        self._state = state
        self._clock = clock
        self._window = window
        self._shut = False
        if window is not None:
            window.on_room = self._reopen
        self._ahead: deque[Attempt] = deque()
        self._unplayable: set[str] = set()
        self._busy: set[str] = set()
        self.failed: Mapping[str, FailureClass] = {}
        """Episodes that are over without a verdict, as of the last look, and why."""
        self.over = False
        """Whether nothing remains that this process could play."""
        self.pause_s = PAUSE_S
        """Seconds until the next look if nothing was free."""
        self.freed = asyncio.Event()
        """Set when a place is free again."""
        self.renewed = asyncio.Event()
        """Set when another attempt should be taken at once."""
        self.idle = asyncio.Event()
        """Set when all attempts taken here are settled."""

    def put_first(self, attempt: Attempt) -> None:
        """Put an attempt before all others."""
        self._ahead.appendleft(attempt)
        self.renewed.set()

    def leave_out(self, attempt: Attempt) -> None:
        """Leave an episode to other workers, because this process cannot play it."""
        self._unplayable.add(attempt.episode_id)
        if self._window is not None:
            self._window.leave_out(attempt)

    @property
    def busy(self) -> int:
        """Attempts that were taken and are not settled."""
        return len(self._busy)

    @property
    def ahead(self) -> int:
        """Attempts that were free at the last look and have not been taken here since."""
        return len(self._ahead)

    async def look(self) -> None:
        """Read from the record what remains.

        Raises:
            JournalError: It cannot be read.
        """
        began_s = self._clock.monotonic()
        found = await self._log.patiently(lambda: progress(self._journal, self._run, run_id=self._run.run_id))
        took_s = self._clock.monotonic() - began_s
        self.pause_s = min(max(PAUSE_S, took_s / SHARE), LONGEST_PAUSE_S)
        self._state.over = len(found.over)
        if self._window is not None:
            self._window.saw(found.over)
        self.failed = {found.over[number]: failure for number, failure in found.failed.items()}
        left = [one for one in found.remaining if one.episode_id not in self._unplayable]
        self.over = not left
        self._ahead = deque(one for one in left if one.episode_id not in self._busy)

    async def take(self, limit: int) -> list[Attempt]:
        """Lease at most ``limit`` attempts; none if others hold all, or a limit is reached.

        Raises:
            JournalError: The database is unreachable for too long.
        """
        self.renewed.clear()
        elsewhere = self._shut and self._window is not None and self._window.waits_for_others(self._busy)
        if elsewhere or not self._ahead:
            await self.look()
        while self._ahead:
            window = self._admitted([self._ahead.popleft() for _ in range(min(WINDOW, len(self._ahead)))])
            if self._shut:
                return []
            free = {one.episode_id: one for one in window if one.episode_id not in self._busy}
            taken = await self._claim(list(free), limit)
            if taken is None:
                self._ahead.extendleft(reversed(window))
                return []
            if taken:
                self._ahead.extendleft(reversed([one for one in window if one.episode_id not in taken]))
                self._busy.update(taken)
                self.idle.clear()
                self._log.held.update(taken)
                self._log.lost.difference_update(taken)
                leased = [
                    Attempt(free[one].number, free[one].attempt, one, begun) for one, begun in taken.items()
                ]
                if self._window is not None:
                    self._window.took(leased)
                return leased
        return []

    def _admitted(self, attempts: list[Attempt]) -> list[Attempt]:
        """Return the attempts that may begin, and put the others back."""
        admitted = attempts if self._window is None else self._window.admit(attempts)
        self._shut = not admitted
        if len(admitted) < len(attempts):
            chosen = {one.episode_id for one in admitted}
            self._ahead.extendleft(reversed([one for one in attempts if one.episode_id not in chosen]))
        return admitted

    def _reopen(self) -> None:
        self._shut = False
        self.renewed.set()

    async def settle(self, episode_id: str) -> None:
        """Note that an attempt stopped here: others may resume it unless it has ended."""
        if episode_id in self._log.held:
            self._log.held.discard(episode_id)
            try:
                await self._ownership.release(episode_id)
            except JournalError as error:
                logger.warning("the lease of %s is kept until this process ends: %s", episode_id, error)
        self._busy.discard(episode_id)
        self.freed.set()
        if not self._busy:
            self.idle.set()

    async def _claim(self, episode_ids: list[str], limit: int) -> Mapping[str, bool] | None:
        return await self._log.patiently(
            lambda: self._ownership.claim_remaining(episode_ids, limit, self._within)
        )

"""Keeps what has not ended within half of the journal's room, so that it cannot push out all the rest."""

from __future__ import annotations

import logging
from typing import Final

from spectator.clock import Clock
from spectator.episodes.host.supervisor import Supervisor
from spectator.episodes.run.controls import EndRequest
from spectator.errors import EpisodeError, JournalError

from ..metrics.timed_journal import TimedJournal

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0

SHARE: Final = 0.5
"""Of the journal's limit, what has not ended may take."""


class UnendedRoom:
    """Cuts the largest running episode short while those without an end take too much.

    Args:
        journal: Knows what they take.
        keep_mb: Million bytes that the journal may take; 0 means no limit.
        supervisor: Ends them.
        clock: Waits.
    """

    def __init__(self, journal: TimedJournal, keep_mb: float, supervisor: Supervisor, clock: Clock) -> None:
        self._journal = journal
        self._most = keep_mb * 1e6 * SHARE
        self._supervisor = supervisor
        self._clock = clock

    @property
    def bytes(self) -> int:
        """About what the episodes without an end take."""
        return sum(self._journal.unended.values())

    async def run(self) -> None:
        """Look every second until cancelled; first count what an earlier process left."""
        if not self._most:
            return
        try:
            for episode_id, size in (await self._journal.unended_bytes()).items():
                self._journal.unended[episode_id] += size
        except JournalError as error:
            logger.warning("what has not ended could not be counted: %s", error)
        while True:
            await self._clock.sleep(INTERVAL_S)
            await self.check()

    async def check(self) -> None:
        """Cut the largest short, if need be."""
        taken = self._journal.unended
        if self.bytes <= self._most:
            return
        live = max(self._supervisor.showing(), key=lambda one: taken[one.episode_id], default=None)
        if live is None or live.ended:
            return
        room = f"cut short: episodes without an end took {self._most / 1e6:g} MB, half of SPECTATOR_KEEP_MB"
        logger.warning("episode %s is %s", live.episode_id, room)
        try:
            await live.end(EndRequest("step_cap", room))
        except EpisodeError as error:
            logger.warning("episode %s could not be ended: %s", live.episode_id, error)

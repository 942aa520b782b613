"""The journal of a run as its workers reach it: under leases, and waiting while the database is away."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from spectator.backoff import Backoff
from spectator.clock import Clock
from spectator.errors import JournalError, JournalUnavailable, LeaseLost
from spectator.events import RecordedEvent
from spectator.journal.contract import Attachments, RecordedCall
from spectator.journal.sql_journal import SqlJournal

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 60.0
"""Seconds that a database server may be away before a worker gives up. Play stands still meanwhile."""

PAUSES: Final = Backoff(0.25, 2.0)
"""The pauses between attempts."""

_Result = TypeVar("_Result")


class LeasedLog:
    """Records the episodes that this process has leases of; see :class:`EpisodeLog`.

    Args:
        journal: Written by several processes.
        clock: Measures and waits.
        patience_s: See :data:`PATIENCE_S`.
        recorded: Called with each episode of which something was committed; must return at once.
    """

    def __init__(
        self,
        journal: SqlJournal,
        clock: Clock,
        patience_s: float = PATIENCE_S,
        recorded: Callable[[str], None] = lambda episode_id: None,
    ) -> None:
        self._recorded = recorded
        self._journal = journal
        self._clock = clock
        self._patience_s = patience_s
        self._given_up: str | None = None
        self.held: set[str] = set()
        """Episodes that this process has a lease of."""
        self.lost: set[str] = set()
        """Those of which it had one that was taken away."""

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        """Record events of an episode that is held."""
        if not events:
            return
        episode_id = events[0].episode_id
        if episode_id not in self.held:
            raise LeaseLost(f"this process has no lease of {episode_id}: it is played elsewhere")
        try:
            await self.patiently(lambda: self._journal.append(events, attachments=attachments))
        except LeaseLost:
            self.lose(episode_id)
            raise
        self._recorded(episode_id)
        if events[-1].type == "episode.ended":
            self.held.discard(episode_id)

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None, checked: bool = True
    ) -> list[RecordedEvent]:
        """Events of an episode with ``seq > after_seq``, in order."""
        return await self.patiently(
            lambda: self._journal.read(episode_id, after_seq=after_seq, limit=limit, checked=checked)
        )

    def calls(self, episode_id: str) -> AsyncIterator[RecordedCall]:
        """Its calls to models, in order."""
        return self._journal.calls(episode_id)

    async def transact(self, work: Any) -> Any:
        """See :meth:`.SqlJournal.transact`."""
        return await self.patiently(lambda: self._journal.transact(work))

    def lose(self, episode_id: str) -> None:
        """Note that the lease of an episode was taken away."""
        self.held.discard(episode_id)
        self.lost.add(episode_id)

    async def patiently(self, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Do ``work``, again and again while the database is away.

        Raises:
            JournalError: It could not be done in time.
        """
        failures, began = 0, self._clock.monotonic()
        while True:
            try:
                return await work()
            except JournalError as error:
                away_s = self._clock.monotonic() - began
                if type(error) not in (JournalError, JournalUnavailable) or not self._patience_s:
                    raise
                if self._given_up is None and away_s >= self._patience_s:
                    self._given_up = f"{error}; given up after {away_s:.0f} s"
                if self._given_up is not None:
                    raise JournalUnavailable(self._given_up) from error
                if not failures:
                    logger.warning("waiting for the database: %s", error)
            await self._clock.sleep(PAUSES.limit(failures))
            failures += 1

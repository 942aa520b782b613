"""Record episodes under leases, and keep the leases alive with a heartbeat."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, Self, TypeVar

from spectator.clock import Clock
from spectator.errors import JournalError, JournalUnavailable, LeaseLost, typed_as
from spectator.events import RecordedEvent
from spectator.journal.contract import Attachments, RecordedCall
from spectator.journal.outage import retried
from spectator.journal.ownership import INTERVAL_S, SILENT_CHECKS, LivenessCheck, Ownership
from spectator.journal.sql_journal import SqlJournal

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 60.0
"""Seconds that a database server may be unreachable before a worker gives up; play pauses meanwhile."""

PASSING: Final = (JournalError, JournalUnavailable)
"""Errors after which another attempt can succeed; not what derives from them, such as a lost lease."""

_Result = TypeVar("_Result")


class LeasedLog:
    """Records the episodes that this process holds leases for; see :class:`EpisodeLog`.

    Args:
        patience_s: See :data:`PATIENCE_S`.
        recorded: Called with an episode's id after each commit; must return at once.
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
        """Episodes that this process holds a lease for."""
        self.lost: set[str] = set()
        """Episodes whose lease was taken away from this process."""

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        """Record events of an episode whose lease this process holds."""
        if not events:
            return
        episode_id = events[0].episode_id
        if episode_id not in self.held:
            raise LeaseLost(f"this process has no lease for {episode_id}: another process plays it")
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
        """Read the events of an episode with ``seq > after_seq``, in order."""
        return await self.patiently(
            lambda: self._journal.read(episode_id, after_seq=after_seq, limit=limit, checked=checked)
        )

    def calls(self, episode_id: str) -> AsyncIterator[RecordedCall]:
        """Read its calls to models, in order."""
        return self._journal.calls(episode_id)

    async def transact(self, work: Any) -> Any:
        """See :meth:`.SqlJournal.transact`."""
        return await self.patiently(lambda: self._journal.transact(work))

    def lose(self, episode_id: str) -> None:
        """Note that the lease of an episode was taken away."""
        self.held.discard(episode_id)
        self.lost.add(episode_id)

    async def patiently(self, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Do ``work``, and repeat it while the database cannot be reached.

        Raises:
            JournalError: It could not be done in time.
        """
        if not self._patience_s:
            return await work()
        try:
            return await retried(work, self._clock, self._limit_s, waiting=_log_first, passing=PASSING)
        except JournalUnavailable as error:
            self._given_up = self._given_up or str(error)
            raise JournalUnavailable(self._given_up) from error

    def _limit_s(self) -> float:
        return self._patience_s if self._given_up is None else 0.0


def _log_first(error: JournalError, failures: int) -> None:
    if not failures:
        logger.warning("waiting for the database: %s", error)


SHOWN_BEATS: Final = SILENT_CHECKS + 1
"""Beats for which readers still show the leases of a process that has gone silent."""


class Heartbeat:
    """Sends heartbeats while the context lives, and deposes each process whose heartbeat stops.

    It has a separate event loop, so that a process in a long computation of a world does not look dead.

    Args:
        clock: The wall clock by which readers judge leases.
        interval_s: Seconds between two beats.
    """

    def __init__(self, ownership: Ownership, clock: Clock, interval_s: float = INTERVAL_S) -> None:
        self._ownership = ownership
        self._clock = clock
        self._interval_s = interval_s
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._beat())
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        finally:
            self._loop.close()

    async def _beat(self) -> None:
        signs, failing = LivenessCheck(), False
        while True:
            try:
                with typed_as(JournalError):
                    await self._look(signs)
                failing = False
            except JournalError as error:
                if not failing:
                    logger.warning("the heartbeat cannot be recorded: %s", error)
                failing = True
            await asyncio.sleep(self._interval_s)

    async def _look(self, signs: LivenessCheck) -> None:
        shown_until = self._clock.now().timestamp() + SHOWN_BEATS * self._interval_s
        others = await self._ownership.beat(expires_ms=int(1000 * shown_until))
        for name in signs.missing(others, SILENT_CHECKS):
            freed = await self._ownership.depose(name)
            logger.warning(
                "process %s stopped responding; %d episodes are free to be resumed", name, len(freed)
            )

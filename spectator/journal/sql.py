"""Owns the journal in a SQL database: SQLite with a write-ahead log where it is embedded.

One thread writes; appends that wait are committed together. ``synchronous=NORMAL``: with a write-ahead
log a commit survives the death of this process at any moment and the database is never corrupt, while
a power cut may lose the last commits; that spares an fsync for every ball.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Self, TypeVar

from filelock import FileLock
from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DatabaseError

from spectator.errors import JournalError
from spectator.events import RecordedEvent, decode
from spectator.journal.base import EpisodeFilter, EpisodeSummary
from spectator.journal.database import open_database, prove_writable, reason
from spectator.journal.schema import episodes, events, schema
from spectator.journal.writer import Writer

READ_BATCH: Final = 500
"""Events that a stream reads at once."""

_Result = TypeVar("_Result")


class SqlJournal:
    """The journal in a SQL database; see :class:`spectator.journal.base.Journal`.

    Use :meth:`open`. All methods belong to one event loop; the work is done on threads.
    """

    def __init__(self, engine: Engine, lock: FileLock | None, *, writable: bool) -> None:
        self._engine = engine
        self._lock = lock
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="journal-read")
        self._writer = Writer(engine) if writable else None
        self._closed = False

    @classmethod
    async def open(cls, url: str, *, writable: bool = True) -> Self:
        """Open the journal at ``url``; one that is to be written is made first where there is none.

        Args:
            url: As SQLAlchemy takes it, such as ``sqlite:///data/journal.db``.
            writable: Whether this process appends; one process at a time may, for an embedded journal.

        Raises:
            ConfigurationError: The URL is not one of a durable database that can be used here, another
                process writes it, or it has another schema version.
            JournalError: It cannot be opened, or not be written though it should.
        """
        return await asyncio.to_thread(cls._open, url, writable)

    @classmethod
    def _open(cls, url: str, writable: bool) -> Self:
        engine, lock = open_database(url, writable=writable)
        return cls(engine, lock, writable=writable)

    async def append(self, events: Sequence[RecordedEvent]) -> None:
        """Record ``events`` of one episode, all or none."""
        if not events:
            return
        if self._writer is None:
            raise JournalError("the journal was opened to be read only")
        if self._closed:
            raise JournalError("the journal is closed")
        await self._writer.append(events)

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None
    ) -> list[RecordedEvent]:
        """Events of an episode with ``seq > after_seq``, in order."""
        wanted = (
            select(events.c.text)
            .where(events.c.episode_id == episode_id, events.c.seq > after_seq)
            .order_by(events.c.seq)
            .limit(limit)
        )
        texts = await self._query(lambda connection: connection.scalars(wanted).all())
        try:
            return [decode(text) for text in texts]
        except ValueError as error:
            raise JournalError(f"an event of {episode_id} cannot be read: {error}") from error

    async def stream(self, episode_id: str, *, after_seq: int = 0) -> AsyncIterator[RecordedEvent]:
        """The same, a batch at a time."""
        while batch := await self.read(episode_id, after_seq=after_seq, limit=READ_BATCH):
            for recorded in batch:
                yield recorded
            after_seq = batch[-1].event.seq

    async def episode(self, episode_id: str) -> EpisodeSummary | None:
        """Summary of one episode."""
        wanted = _summaries().where(episodes.c.episode_id == episode_id)
        found = await self._query(lambda connection: connection.execute(wanted).mappings().first())
        return None if found is None else _summary(found)

    async def episodes(self, wanted: EpisodeFilter) -> list[EpisodeSummary]:
        """Summaries, newest first."""
        query = _summaries().order_by(episodes.c.episode_id.desc()).limit(wanted.limit)
        if wanted.environment is not None:
            query = query.where(episodes.c.environment == wanted.environment)
        if wanted.captain is not None:
            query = query.where(episodes.c.captain == wanted.captain)
        if wanted.ended is not None:
            query = query.where(
                episodes.c.ended_at.is_not(None) if wanted.ended else episodes.c.ended_at.is_(None)
            )
        if wanted.before is not None:
            query = query.where(episodes.c.episode_id < wanted.before)
        return await self._query(
            lambda connection: [_summary(row) for row in connection.execute(query).mappings()]
        )

    async def check(self) -> None:
        """Prove that the journal can be read, and written when this process writes it."""
        if self._writer is not None and not self._writer.alive:
            raise JournalError("the journal is closed")
        await self._query(
            prove_writable
            if self._writer is not None
            else lambda connection: connection.scalar(select(schema.c.version))
        )

    async def aclose(self) -> None:
        """Commit what waits and let go. Safe to call twice."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._readers.shutdown()
        self._engine.dispose()
        if self._lock is not None:
            self._lock.release()

    async def _query(self, work: Callable[[Connection], _Result]) -> _Result:
        def run() -> _Result:
            with self._engine.connect() as connection:
                return work(connection)

        if self._closed:
            raise JournalError("the journal is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, run)
        except DatabaseError as error:
            raise JournalError(f"the journal cannot be read: {reason(error)}") from error


def _summaries() -> Any:
    head = (
        select(func.max(events.c.seq))
        .where(events.c.episode_id == episodes.c.episode_id)
        .scalar_subquery()
        .label("head_seq")
    )
    return select(*episodes.c, head)


def _summary(row: Any) -> EpisodeSummary:
    return EpisodeSummary(**{**row, "seed": int(row["seed"])})

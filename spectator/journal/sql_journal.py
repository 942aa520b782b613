"""The journal in a SQL database: embedded SQLite, or PostgreSQL.

One thread writes; waiting appends are committed together. SQLite runs with ``synchronous=NORMAL`` by default:
with a write-ahead log commits survive a crash of this process and the database is never corrupted, but a
power cut may lose the last commits. That saves an fsync per step.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Final, Self, TypeVar

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from spectator.errors import (
    EpisodeDamaged,
    EpisodeNotFound,
    JournalDamaged,
    JournalError,
    JournalUnavailable,
    TruthSealed,
)
from spectator.events import RecordedEvent, decode
from spectator.journal import incarnation, queries, retention
from spectator.journal.contract import (
    Attachments,
    Checkpoint,
    EpisodeFilter,
    EpisodeSummary,
    Link,
    RecordedCall,
    Synchronous,
)
from spectator.journal.coordination import Lease, held
from spectator.journal.database import (
    Database,
    is_corrupt,
    is_damage,
    open_database,
    prove_writable,
    reason,
    run_to_its_end,
)
from spectator.journal.encoding import expanded
from spectator.journal.incarnation import KEPT_CHARACTERS
from spectator.journal.ownership import Ownership
from spectator.journal.postgres import vacuum
from spectator.journal.queries import (
    READ_BATCH,
    READ_CHARACTERS,
    READ_FIRST,
    CallReader,
    News,
    heads,
    held_by_others,
    links_after,
    news,
    summaries,
    summary,
    texts_after,
)
from spectator.journal.retention import Figures, Keep, Surplus
from spectator.journal.schema import episodes, schema, truths
from spectator.journal.staging import StagedAppends, last_within
from spectator.journal.writer import Writer

READ_ONLY: Final = "the journal was opened read-only"
"""Why nothing can be written, for people."""

_Result = TypeVar("_Result")


class SqlJournal:
    """The journal in a SQL database; see :class:`spectator.journal.contract.Journal`.

    Use :meth:`open`. All methods belong to one event loop; the work is done on threads.

    >>> import asyncio, tempfile
    >>> from spectator.events import Event, record
    >>> async def write_and_read(folder):
    ...     journal = await SqlJournal.open(f"sqlite:///{folder}/journal.db")
    ...     said = Event("ep-1", "e", 1, "2026-11-21T05:00:00.000Z", 0, "counting.said", {})
    ...     await journal.append([record(said)])
    ...     found = await journal.read("ep-1")
    ...     await journal.aclose()
    ...     return [one.event.type for one in found]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(write_and_read(folder))
    ['counting.said']
    """

    def __init__(self, database: Database, *, writable: bool) -> None:
        self._database = database
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="journal-read")
        self._writer = Writer(database) if writable else None
        self._staged = StagedAppends()
        self._closed = False
        self.ownership = None if database.fences is None else Ownership(self, database.fences)
        """Leases of this process; ``None`` if no other process writes this journal."""

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        writable: bool = True,
        synchronous: Synchronous = "normal",
        shared_as: str | None = None,
    ) -> Self:
        """Open the journal at ``url``; creates a writable one if there is none.

        Args:
            url: SQLAlchemy URL, such as ``sqlite:///data/journal.db``.
            writable: Whether this process appends; only one process may write an unshared embedded journal.
            synchronous: Whether a commit of an embedded journal waits for the disk.
            shared_as: Unique name of this process if other processes of this machine write the same embedded
                journal; a journal on a database server is always shared.

        Raises:
            ConfigurationError: The URL is unsupported or invalid, another process writes the journal, or it
                has another schema version.
            JournalDamaged: Its file is not a journal, or is incomplete.
            JournalError: It cannot be opened, or not be written although ``writable``.
        """
        database = await asyncio.to_thread(
            open_database, url, writable=writable, synchronous=synchronous, shared_as=shared_as
        )
        return cls(database, writable=writable)

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        """Record ``events`` of one episode and their attachments, all or none."""
        if self._writer is None:
            raise JournalError(READ_ONLY)
        if events and not self._staged.episodes:
            await self._writer.append(events, attachments)
        elif events:
            await self._staged.append(self._writer, events, attachments)

    def begin_staging(self, episode_id: str) -> None:
        """Hide a new episode from readers."""
        self._staged.begin(episode_id)

    def end_staging(self, episode_id: str) -> None:
        """Make the next append publish the episode."""
        self._staged.end(episode_id)

    async def unstage(self, episode_id: str) -> None:
        """Remove an episode's staged events."""
        if self._staged.drop(episode_id):
            await self.remove(episode_id)

    async def last_within(self, episode_id: str, characters: int, *, until: int) -> int:
        """Return the last event up to which a record has at most ``characters``."""
        return await self._query(lambda connection: last_within(connection, episode_id, characters, until))

    async def transact(self, work: Callable[[Connection], _Result]) -> _Result:
        """Do a small job in one transaction, between two commits; appends wait meanwhile.

        Raises:
            JournalError: It failed and was rolled back.
        """
        return await self._writing().run(work)

    def keep_acknowledged(self) -> None:
        """Keep the acknowledged ends of records, in case that the database loses them; call after opening."""
        if self._database.fences is not None:
            self._database.fences.acknowledged.characters = KEPT_CHARACTERS

    async def restore(self) -> None:
        """Append again what the database has lost of the episodes of this process.

        Raises:
            JournalError: The database cannot be written now.
        """
        await self._writing().restore()

    async def lost_until(self, episode_id: str, head_seq: int) -> int | None:
        """See :meth:`spectator.journal.contract.Journal.lost_until`."""
        fences = self._database.fences

        def work(connection: Connection) -> int | None:
            if fences is not None and (last := fences.acknowledged.lost(episode_id, head_seq)):
                return last
            return head_seq if incarnation.is_new_since(connection, episode_id) else None

        return await self._writing().run(work)

    async def look(self, work: Callable[[Connection], _Result]) -> _Result:
        """Read data outside the records, such as the runs of fleets.

        Raises:
            JournalError: It cannot be read.
        """
        return await self._query(work)

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None, checked: bool = True
    ) -> list[RecordedEvent]:
        """Read the events with ``seq > after_seq``, in order."""
        texts = await self._query(
            lambda connection: texts_after(connection, episode_id, after_seq, limit, checked=checked),
            episode_id,
        )
        try:
            return [decode(text) for text in texts]
        except ValueError as error:
            raise EpisodeDamaged(f"an event of {episode_id} cannot be read: {error}") from error

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> list[str]:
        """Read the same events, not decoded."""
        return await self._query(
            lambda connection: texts_after(connection, episode_id, after_seq, limit), episode_id
        )

    async def stream(self, episode_id: str, *, after_seq: int = 0) -> AsyncIterator[RecordedEvent]:
        """Yield the same events, read in batches."""
        limit = READ_FIRST
        while batch := await self.read(episode_id, after_seq=after_seq, limit=limit):
            fitting = READ_CHARACTERS * len(batch) // sum(len(recorded.text) for recorded in batch)
            limit = max(1, min(4 * len(batch), READ_BATCH, fitting))
            after_seq = batch[-1].seq
            for recorded in batch:
                yield recorded

    async def calls(self, episode_id: str) -> AsyncIterator[RecordedCall]:
        """Yield an episode's model calls, in order."""
        reader = CallReader(episode_id)
        try:
            while batch := await self._query(reader.read):
                for call in batch:
                    yield call
        except ValueError as error:
            raise JournalError(f"the calls of {episode_id} cannot be read: {error}") from error

    async def truth(self, episode_id: str) -> str | None:
        """Return the sealed truth of an ended episode as JSON text."""
        wanted = (
            select(episodes.c.ended_at, truths.c.body)
            .join(truths, truths.c.episode_id == episodes.c.episode_id, isouter=True)
            .where(episodes.c.episode_id == episode_id)
        )
        found = await self._query(lambda connection: connection.execute(wanted).first())
        if found is None:
            raise EpisodeNotFound(episode_id)
        if found.ended_at is None:
            raise TruthSealed(episode_id)
        try:
            return None if found.body is None else expanded(found.body).decode()
        except ValueError as error:
            raise JournalError(f"the truth of {episode_id} cannot be read: {error}") from error

    async def links(self, episode_id: str) -> AsyncIterator[Sequence[Link]]:
        """Yield batches of an episode's rows, not decoded."""
        seq = 0
        while batch := await self._query(
            partial(links_after, episode_id=episode_id, after_seq=seq), episode_id
        ):
            yield batch
            seq = batch[-1].seq

    async def end(self, episode_id: str) -> tuple[int, bytes] | None:
        """Return the number and digest of an episode's end; ``None`` if it has not ended."""
        noted = select(episodes.c.end_seq, episodes.c.end_digest).where(
            episodes.c.episode_id == episode_id, episodes.c.end_seq.is_not(None)
        )
        found = await self._query(lambda connection: connection.execute(noted).first())
        return None if found is None else (found.end_seq, found.end_digest)

    async def episode(self, episode_id: str) -> EpisodeSummary | None:
        """Return the summary of one episode."""
        return await self._query(lambda connection: summary(connection, episode_id), episode_id)

    async def episodes(self, wanted: EpisodeFilter) -> list[EpisodeSummary]:
        """List summaries, newest first."""
        return await self._query(lambda connection: summaries(connection, wanted))

    async def heads(self, episode_ids: Collection[str]) -> dict[str, tuple[int, str]]:
        """Return the number and epoch of the last event of each existing episode in ``episode_ids``."""
        return await self._query(lambda connection: heads(connection, episode_ids))

    async def held_elsewhere(self) -> list[EpisodeSummary]:
        """List unended episodes leased by other processes, oldest first; none in an unshared journal."""
        if self.ownership is None:
            return []
        owner = self.ownership.name
        return await self._query(lambda connection: held_by_others(connection, owner))

    async def keep_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Save a checkpoint."""
        await self._writing().run(lambda connection: queries.keep(connection, checkpoint))

    async def checkpoints(self, episode_id: str) -> list[Checkpoint]:
        """Return an episode's checkpoints that match its record, newest first; logs damaged ones."""
        return await self._query(lambda connection: queries.kept(connection, episode_id))

    async def leases(self) -> list[Lease]:
        """List the current leases; see :mod:`.ownership`."""
        return await self._query(held)

    async def news(self, mark: int | None, run_id: str | None = None) -> News:
        """Return what is new since ``mark``; everything without one.

        Args:
            run_id: Only episodes of this run.

        Raises:
            JournalError: It cannot be read.
        """
        return await self._query(lambda connection: news(connection, mark, run_id))

    async def figures(self) -> Figures:
        """Measure the journal."""
        return await self._query(retention.figures)

    async def surplus(self, keep: Keep, now: datetime) -> list[Surplus]:
        """List the ended episodes to prune, oldest end first."""
        return await self._query(lambda connection: retention.surplus(connection, keep, now))

    async def unended_bytes(self) -> dict[str, int]:
        """Return the approximate size of each unended episode's events."""
        return await self._query(retention.unended_bytes)

    async def remove(self, episode_id: str) -> None:
        """Remove an ended episode, in batches between the appends of others.

        Does nothing if it is gone, has not ended, or is being staged. After a crash :meth:`tidy` finishes
        the removal.

        Raises:
            JournalError: It could not be removed completely.
        """
        writer = self._writing()
        if episode_id in self._staged.episodes:
            return
        if (fences := self._database.fences) is not None:
            await writer.run(lambda connection: fences.acknowledged.forget(episode_id))
        await writer.run(lambda connection: retention.begin_removal(connection, episode_id))
        while await writer.run(lambda connection: retention.continue_removal(connection, episode_id)):
            continue

    async def tidy(self) -> None:
        """Finish interrupted removals, delete obsolete checkpoints, and free unused space.

        Raises:
            JournalError: It could not be done.
        """
        writer = self._writing()
        await writer.run(queries.forget_older_of_ended)
        for episode_id in await self._query(retention.unfinished):
            await self.remove(episode_id)
        while await writer.run(retention.give_back):
            continue

    async def compact(self) -> None:
        """Rewrite the whole file, which needs as much free space again; everything else waits.

        Raises:
            JournalError: It could not be done.
        """
        await self._writing().run(_rewrite, within=False)

    def _writing(self) -> Writer:
        if self._writer is None:
            raise JournalError(READ_ONLY)
        if self._closed:
            raise JournalError("the journal is closed")
        return self._writer

    async def check(self) -> None:
        """Check that the journal can be read and, if this process writes it, written."""
        if self._writer is not None and not self._writer.alive:
            raise JournalError("the journal is closed")
        try:
            await self._query(
                self._prove_writable
                if self._writer is not None
                else lambda connection: connection.scalar(select(schema.c.version))
            )
        except OSError as error:
            raise JournalUnavailable(f"the journal cannot be written: {error}") from error

    def _prove_writable(self, connection: Connection) -> None:
        if self._database.anchor is not None:
            self._database.anchor.hold(connection)
            connection.rollback()  # start a new snapshot, as the writer may commit meanwhile
        if self._database.fences is None:
            return prove_writable(connection)
        self._database.fences.register(connection)
        connection.commit()

    async def aclose(self) -> None:
        """Commit waiting appends and close the journal. Safe to call twice."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._readers.shutdown()
        self._database.close()

    async def _query(self, work: Callable[[Connection], _Result], episode_id: str | None = None) -> _Result:
        """Read on a thread; damage is named as that of ``episode_id``, if only its record is read."""

        def run() -> _Result:
            with self._database.engine.connect() as connection:
                return work(connection)

        if self._closed:
            raise JournalError("the journal is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, run)
        except (DBAPIError, UnicodeDecodeError) as error:
            if is_corrupt(error) and episode_id is not None:
                raise EpisodeDamaged(f"the record of {episode_id} is damaged: {reason(error)}") from error
            kind = JournalDamaged if is_damage(error) else JournalError
            raise kind(f"the journal cannot be read: {reason(error)}") from error


def _rewrite(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        vacuum(connection.engine)
        return
    for statement in ("PRAGMA auto_vacuum=INCREMENTAL", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
        run_to_its_end(connection, statement)

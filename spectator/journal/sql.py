"""Owns the journal in a SQL database: SQLite with a write-ahead log where it is embedded.

One thread writes; appends that wait are committed together. ``synchronous=NORMAL``: with a write-ahead
log a commit survives the death of this process at any moment and the database is never corrupt, while
a power cut may lose the last commits; that spares an fsync for every ball.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Self, TypeVar

from filelock import FileLock, Timeout
from sqlalchemy import (
    Connection,
    Engine,
    create_engine,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import DatabaseError, IntegrityError

from spectator.errors import ConfigurationError, JournalError, SequenceConflict
from spectator.events import Event, RecordedEvent, decode
from spectator.journal.base import EpisodeFilter, EpisodeSummary
from spectator.journal.schema import SCHEMA_VERSION, episodes, events, metadata, schema

MAX_GROUP: Final = 256
"""Most appends that share a commit."""

READ_BATCH: Final = 500
"""Events that a stream reads at once."""

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _Append:
    events: Sequence[RecordedEvent]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]


class SqlJournal:
    """The journal in a SQL database; see :class:`spectator.journal.base.Journal`.

    Use :meth:`open`. All methods belong to one event loop; the work is done on threads.
    """

    def __init__(self, engine: Engine, lock: FileLock | None) -> None:
        self._engine = engine
        self._lock = lock
        self._appends: SimpleQueue[_Append | None] = SimpleQueue()
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="journal-read")
        self._writer = threading.Thread(target=self._write, name="journal-write", daemon=True)
        self._writer.start()
        self._closed = False

    @classmethod
    async def open(cls, url: str, *, writable: bool = True) -> Self:
        """Open the journal at ``url``, making it first where there is none.

        Args:
            url: As SQLAlchemy takes it, such as ``sqlite:///data/journal.db``.
            writable: Whether this process appends; one process at a time may, for an embedded journal.

        Raises:
            ConfigurationError: Another process writes it, or it has another schema version.
            JournalError: It cannot be opened.
        """
        return await asyncio.to_thread(cls._open, url, writable)

    @classmethod
    def _open(cls, url: str, writable: bool) -> Self:
        lock = _lock_file(url) if writable else None
        try:
            engine = create_engine(url)
            if engine.dialect.name == "sqlite":
                event.listen(engine, "connect", _prepare_sqlite)
            _prepare_schema(engine)
        except (DatabaseError, OSError) as error:
            if lock is not None:
                lock.release()
            raise JournalError(f"the journal at {url} cannot be opened: {_reason(error)}") from error
        except ConfigurationError:
            if lock is not None:
                lock.release()
            raise
        return cls(engine, lock)

    async def append(self, events: Sequence[RecordedEvent]) -> None:
        """Record ``events`` of one episode, all or none."""
        if not events:
            return
        if self._closed:
            raise JournalError("the journal is closed")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._appends.put(_Append(events, loop, done))
        await done

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
        return await self._query(lambda connection: [decode(text) for text in connection.scalars(wanted)])

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

        def probe(connection: Connection) -> None:
            version = connection.scalar(select(schema.c.version))
            connection.execute(update(schema).values(version=version))
            connection.rollback()

        if self._closed or not self._writer.is_alive():
            raise JournalError("the journal is closed")
        await self._query(probe)

    async def aclose(self) -> None:
        """Commit what waits and let go. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._appends.put(None)
        await asyncio.to_thread(self._writer.join)
        self._readers.shutdown()
        self._engine.dispose()
        if self._lock is not None:
            self._lock.release()

    async def _query(self, work: Callable[[Connection], _Result]) -> _Result:
        def run() -> _Result:
            with self._engine.connect() as connection:
                return work(connection)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._readers, run)
        except DatabaseError as error:
            raise JournalError(f"the journal cannot be read: {_reason(error)}") from error

    def _write(self) -> None:
        while (first := self._appends.get()) is not None:
            group, last = [first], False
            while len(group) < MAX_GROUP and not last:
                try:
                    following = self._appends.get_nowait()
                except Empty:
                    break
                if following is None:
                    last = True
                else:
                    group.append(following)
            self._commit(group)
            if last:
                break

    def _commit(self, group: Sequence[_Append]) -> None:
        try:
            with self._engine.begin() as connection:
                for append in group:
                    _insert(connection, append.events)
            error: JournalError | None = None
        except IntegrityError as conflict:
            if len(group) > 1:
                for append in group:
                    self._commit([append])
                return
            taken = group[0].events[0].event
            error = SequenceConflict(
                f"event {taken.seq} of {taken.episode_id} or a later one is taken: {_reason(conflict)}"
            )
        except (DatabaseError, OSError) as failure:
            error = JournalError(f"the journal cannot be written: {_reason(failure)}")
        for append in group:
            _answer(append, error)


def _answer(append: _Append, error: JournalError | None) -> None:
    def deliver() -> None:
        if append.done.done():
            return
        if error is None:
            append.done.set_result(None)
        else:
            append.done.set_exception(error)

    try:
        append.loop.call_soon_threadsafe(deliver)
    except RuntimeError:  # the loop is closed: nobody waits any more
        return


def _insert(connection: Connection, batch: Sequence[RecordedEvent]) -> None:
    connection.execute(
        insert(events),
        [{"episode_id": one.event.episode_id, "seq": one.event.seq, "text": one.text} for one in batch],
    )
    for recorded in batch:
        if recorded.event.type == "episode.started":
            connection.execute(insert(episodes).values(_index_row(recorded.event)))
        elif recorded.event.type == "episode.ended":
            connection.execute(_index_end(recorded.event))


def _index_row(started: Event) -> dict[str, Any]:
    data = started.data
    agent = data["seats"][data["agent"]]
    others = [seat["policy"] for actor, seat in data["seats"].items() if actor != data["agent"]]
    return {
        "episode_id": started.episode_id,
        "epoch": started.epoch,
        "environment": data["environment"],
        "title": data["title"],
        "captain": agent["policy"],
        "captain_label": agent["label"],
        "opponent": others[0] if others else "",
        "pack": data["pack"],
        "seed": str(data["seed"]),
        "started_at": started.at,
    }


def _index_end(ended: Event) -> Any:
    data = ended.data
    return (
        update(episodes)
        .where(episodes.c.episode_id == ended.episode_id)
        .values(
            ended_at=ended.at,
            reason=data["reason"],
            score=data["score"],
            result=data["result"],
            turns=data["turns"],
        )
    )


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


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=5000", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _prepare_schema(engine: Engine) -> None:
    with engine.begin() as connection:
        if not inspect(connection).has_table(schema.name):
            metadata.create_all(connection)
            connection.execute(insert(schema).values(version=SCHEMA_VERSION))
            return
        version = connection.scalar(select(schema.c.version))
    if version != SCHEMA_VERSION:
        raise ConfigurationError(
            f"the journal has schema version {version} and this software writes {SCHEMA_VERSION}; "
            "use the version that wrote it, or another SPECTATOR_DATA_DIR"
        )


def _lock_file(url: str) -> FileLock | None:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        return None
    path = Path(parsed.database)
    lock = FileLock(path.with_name(path.name + ".lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ConfigurationError(
            f"another process writes the journal {path}; stop it or choose another SPECTATOR_DATA_DIR"
        ) from error
    except OSError as error:
        raise ConfigurationError(f"the journal {path} cannot be written here: {error}") from error
    return lock


def _reason(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error)

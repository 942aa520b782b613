"""Owns the one thread that writes the journal; appends that wait are committed together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Final

from sqlalchemy import Connection, Engine, insert, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from spectator.errors import JournalError, SequenceConflict
from spectator.events import Event, RecordedEvent
from spectator.journal.database import reason
from spectator.journal.schema import episodes, events

MAX_GROUP: Final = 256
"""Most appends that share a commit."""

_UNWRITABLE: Final = (SQLAlchemyError, OSError, ArithmeticError, LookupError, TypeError, ValueError)
"""What a database and its driver raise about a statement or about its values."""


@dataclass(frozen=True, slots=True)
class _Append:
    events: Sequence[RecordedEvent]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]


class Writer:
    """Writes events on a thread of its own, many appends to a commit.

    An append that cannot be written fails alone; those beside it are written.

    Args:
        engine: The database.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._statement = insert(events).compile(dialect=engine.dialect)
        self._appends: SimpleQueue[_Append | None] = SimpleQueue()
        self._over = False
        self._thread = threading.Thread(target=self._work, name="journal-write", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it still writes."""
        return not self._over and self._thread.is_alive()

    async def append(self, events: Sequence[RecordedEvent]) -> None:
        """Record ``events`` of one episode, all or none.

        Raises:
            SequenceConflict: One of the numbers is taken.
            JournalError: They could not be written.
        """
        loop = asyncio.get_running_loop()
        append = _Append(events, loop, loop.create_future())
        self._appends.put(append)  # before the look: the thread says that it is over, then empties the queue
        if not self.alive:
            _deliver(append.done, JournalError("the journal is closed"))
        await append.done

    def close(self) -> None:
        """Commit what waits and end the thread; blocks until then."""
        self._appends.put(None)
        self._thread.join()

    def _work(self) -> None:
        group: Sequence[_Append] = ()
        try:
            with self._engine.connect() as connection:
                for group in self._groups():
                    self._commit(connection, group)
        finally:
            self._over = True
            for append in (*group, *self._left()):
                _answer(append, JournalError("the journal is closed"))

    def _groups(self) -> Iterator[list[_Append]]:
        while (first := self._appends.get()) is not None:
            group = [first]
            group.extend(self._left(MAX_GROUP - 1))
            yield group

    def _left(self, limit: int | None = None) -> Iterator[_Append]:
        """Appends that wait already, up to ``limit`` or the mark of the end, which stays."""
        while limit is None or limit > 0:
            try:
                append = self._appends.get_nowait()
            except Empty:
                return
            if append is None:
                self._appends.put(None)
                return
            limit = None if limit is None else limit - 1
            yield append

    def _commit(self, connection: Connection, group: Sequence[_Append]) -> None:
        try:
            with connection.begin():
                for append in group:
                    self._insert(connection, append.events)
            error: JournalError | None = None
        except _UNWRITABLE as failure:
            if len(group) > 1:
                for append in group:
                    self._commit(connection, [append])
                return
            error = _failed(group[0], failure)
        for append in group:
            _answer(append, error)

    def _insert(self, connection: Connection, batch: Sequence[RecordedEvent]) -> None:
        rows = [{"episode_id": one.event.episode_id, "seq": one.event.seq, "text": one.text} for one in batch]
        order = self._statement.positiontup
        connection.exec_driver_sql(
            str(self._statement),
            rows if order is None else [tuple(row[name] for name in order) for row in rows],
        )
        for recorded in batch:
            if recorded.event.type == "episode.started":
                connection.execute(insert(episodes).values(_index_row(recorded.event)))
            elif recorded.event.type == "episode.ended":
                connection.execute(_index_end(recorded.event))


def _failed(append: _Append, failure: Exception) -> JournalError:
    if isinstance(failure, IntegrityError):
        first = append.events[0].event
        return SequenceConflict(
            f"event {first.seq} of {first.episode_id} or a later one is taken: {reason(failure)}"
        )
    return JournalError(f"the journal cannot be written: {reason(failure)}")


def _answer(append: _Append, error: JournalError | None) -> None:
    try:
        append.loop.call_soon_threadsafe(_deliver, append.done, error)
    except RuntimeError:  # the loop is closed: nobody waits any more
        return


def _deliver(done: asyncio.Future[None], error: JournalError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


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

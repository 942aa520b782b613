"""Write the journal on one thread; waiting appends are committed together.

If the database has lost acknowledged events (:mod:`.incarnation`), they are written again first.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError

from spectator.clock import answer, answer_all, settle
from spectator.core_events import CALLS_BEHIND
from spectator.errors import (
    JournalError,
    JournalUnavailable,
    LeaseLost,
    SequenceConflict,
    SpectatorError,
    typed_as,
)
from spectator.events import RecordedEvent
from spectator.journal.contract import GENESIS, Attachments, extend
from spectator.journal.coordination import LeaseNotHeld, release_lease
from spectator.journal.database import Database, is_damage, reason
from spectator.journal.encoding import Blob
from spectator.journal.held_leases import CommitLeases
from spectator.journal.incarnation import RESTART, AcknowledgedAppend, RolledBack
from spectator.journal.inserts import (
    ArrayInsertion,
    EventRow,
    Prompt,
    Rows,
    embedded_insertion,
    row_of_end,
    row_of_start,
    texts_between,
)
from spectator.journal.ownership import depose
from spectator.journal.postgres import is_transient
from spectator.journal.staging import begin_staging, end_staging

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")

MAX_GROUP: Final = 256
"""Maximum appends that share a commit."""

KEPT_HEADS: Final = 4096
"""Episodes whose last number and digest are cached."""

_EPOCH: Final = text("UPDATE episodes SET epoch = :epoch WHERE episode_id = :episode AND epoch <> :epoch")


class _Append(NamedTuple):
    events: Sequence[RecordedEvent]
    attachments: Attachments | None
    done: asyncio.Future[None]
    staged: bool = False
    first: RecordedEvent | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    work: Callable[[Connection], Any]
    within: bool
    done: asyncio.Future[Any]


class _Head(NamedTuple):
    """The end of an episode: last number, digest, and last prompt of each actor."""

    seq: int = 0
    digest: bytes = GENESIS
    prompts: Mapping[str, Prompt] = MappingProxyType({})


class Writer:
    """Writes events on its own thread, many appends per commit.

    An append that cannot be written fails alone; the others of its commit are written.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._fences = database.fences
        self._on_server = database.engine.dialect.name == "postgresql"
        self._insertion = ArrayInsertion() if self._on_server else embedded_insertion()
        self._hold: Callable[[Connection], None] = (
            (lambda connection: None) if database.anchor is None else database.anchor.hold
        )
        self._appends: SimpleQueue[_Append | _Job | None] = SimpleQueue()
        self._heads: OrderedDict[str, _Head] = OrderedDict()
        self._holding: CommitLeases | None = None
        self._before: dict[str, _Head] = {}  # the ends of the commit's episodes before it
        self._unsure: set[str] = set()  # episodes of failed commits, which a server may have carried out
        self._over = False
        self._thread = threading.Thread(target=self._work, name="journal-write", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread is running."""
        return not self._over

    async def append(
        self,
        events: Sequence[RecordedEvent],
        attachments: Attachments | None = None,
        *,
        staged: bool = False,
        first: RecordedEvent | None = None,
    ) -> None:
        """Record ``events`` of one episode and their attachments, all or none.

        Args:
            staged: Whether the episode is hidden from readers.
            first: The episode's first event, if this append publishes a staged episode.

        Raises:
            LeaseLost: Another process plays the episode.
            SequenceConflict: One of the numbers is taken.
            JournalUnavailable: The database cannot be written now.
            JournalError: They could not be written.
        """
        done = asyncio.get_running_loop().create_future()
        await self._hand_over(_Append(events, attachments, done, staged, first))

    async def run(self, work: Callable[[Connection], _Result], *, within: bool = True) -> _Result:
        """Do a small job between two commits; appends wait meanwhile.

        Args:
            work: Called with the connection; its result is returned.
            within: Whether to run it in a transaction.

        Raises:
            JournalUnavailable: The database cannot be written now.
            JournalError: The job failed.
        """
        job = _Job(work, within, asyncio.get_running_loop().create_future())
        result: _Result = await self._hand_over(job)
        return result

    def _hand_over(self, item: _Append | _Job) -> asyncio.Future[Any]:
        self._appends.put(item)  # before the check, as the thread sets _over before it empties the queue
        if self._over:
            settle([item.done], None, JournalError("the journal is closed"))
        return item.done

    def close(self) -> None:
        """Commit waiting appends and end the thread; blocks until then."""
        self._appends.put(None)
        self._thread.join()

    def _work(self) -> None:
        group: Sequence[_Append | _Job] = ()
        try:
            with self._database.engine.connect().execution_options(immediate=True) as connection:
                self._database.mark(connection, written=True)
                while (first := self._appends.get()) is not None:
                    group = [first, *self._left(MAX_GROUP - 1)] if isinstance(first, _Append) else [first]
                    self._commit(connection, [one for one in group if isinstance(one, _Append)])
                    for job in group:
                        if isinstance(job, _Job):
                            self._run(connection, job)
                    group = ()  # all answered
                if self._fences is not None:
                    self._leave(connection, self._fences.name)
                self._database.mark(connection, written=False)
        finally:
            self._over = True
            for item in (*group, *self._left()):
                answer(item.done, None, JournalError("the journal is closed"))

    def _left(self, limit: int | None = None) -> Iterator[_Append | _Job]:
        """Yield waiting items up to ``limit``, the first job, or the end mark, which stays in the queue."""
        while limit is None or limit > 0:
            try:
                item = self._appends.get_nowait()
            except Empty:
                return
            if item is None:
                self._appends.put(None)
                return
            yield item
            if limit is not None:
                limit = 0 if isinstance(item, _Job) else limit - 1

    def _run(self, connection: Connection, job: _Job) -> None:
        """Do a job; its exception goes to its caller, and the thread continues."""
        try:
            with typed_as(_unwritten):
                if job.within:
                    with connection.begin():
                        self._hold(connection)
                        result = job.work(connection)
                else:
                    result = job.work(connection)
        except SpectatorError as failure:
            answer(job.done, None, failure)
        else:
            answer(job.done, result)

    def _commit(self, connection: Connection, group: Sequence[_Append]) -> None:
        if not group:
            return
        heads: dict[str, _Head] = {}
        error: SpectatorError | None = None
        try:
            with typed_as(partial(_failed, group[0]), passing=()), connection.begin():
                self._hold(connection)
                self._write(connection, group, heads)
        except SpectatorError as failure:
            if len(group) > 1:
                if self._on_server and isinstance(failure, JournalUnavailable):
                    self._unsure.update(append.events[0].episode_id for append in group)
                for append in group:
                    self._commit(connection, [append])
                return
            error = failure
            episode_id = group[0].events[0].episode_id
            self._heads.pop(episode_id, None)
            if self._on_server and isinstance(failure, JournalUnavailable):
                self._unsure.add(episode_id)
            if isinstance(failure, LeaseLost):
                try:
                    if self._restore(connection, episode_id):
                        return self._commit(connection, group)
                except SpectatorError as other:
                    error = other
        else:
            if self._holding is not None:
                self._holding.committed()
                self._unsure.difference_update(heads)
                self._acknowledge(group, heads)
            for append in group:
                episode_id = append.events[0].episode_id
                head = self._heads[episode_id] = heads[episode_id]
                self._heads.move_to_end(episode_id)
                if append.events[-1].type == "episode.ended":
                    message = "episode %s is recorded: %d events, digest %s"
                    logger.info(message, episode_id, head.seq, head.digest.hex())
                    self._heads[episode_id] = _Head(head.seq, head.digest)  # its prompts are not needed
            while len(self._heads) > KEPT_HEADS:
                self._heads.popitem(last=False)
        answer_all([append.done for append in group], error)

    def _acknowledge(self, group: Sequence[_Append], heads: Mapping[str, _Head]) -> None:
        """Keep the appends of a commit in case that the database loses them."""
        assert self._fences is not None
        for append in group:
            episode_id = append.events[0].episode_id
            known, head = self._before.get(episode_id), heads[episode_id]
            whole = known is not None and not append.staged and append.first is None
            self._fences.acknowledged.note(
                append.events,
                append.attachments,
                before=(known.seq, known.digest) if known is not None and whole else None,
                after=(head.seq, head.digest),
            )

    def _restore(self, connection: Connection, episode_id: str) -> bool:
        """Append again what the database has lost of an episode; return whether it had lost anything.

        Raises:
            LeaseLost: Another process plays the episode, or its record cannot be continued.
            JournalUnavailable: The database cannot be written now.
        """
        fences, heads = self._fences, dict[str, _Head]()
        assert fences is not None
        acknowledged = fences.acknowledged
        try:
            with typed_as(_unrestored, passing=(RolledBack,)), connection.begin():
                if self._read_head(connection, episode_id).seq >= acknowledged.last(episode_id):
                    return False
                fence = fences.take(connection, episode_id)
                head = heads[episode_id] = self._read_head(connection, episode_id)
                missing = acknowledged.after(episode_id, head.seq, head.digest)
                self._insert(connection, missing, heads, None)
                ended = missing[-1].events[-1].type == "episode.ended"
                if ended:
                    release_lease(connection, fence)
        except RolledBack as error:
            self._heads.pop(episode_id, None)
            acknowledged.give_up(episode_id)
            with typed_as(_unrestored), connection.begin():
                fences.release_row(connection, episode_id)
            raise LeaseLost(str(error)) from error
        fences.committed((), {episode_id: fence}, [episode_id] if ended else ())
        self._heads[episode_id] = heads[episode_id]
        logger.warning(
            "the database had lost events %d to %d of %s; they are recorded again",
            head.seq + 1,
            heads[episode_id].seq,
            episode_id,
        )
        return True

    async def restore(self) -> None:
        """Append again what the database has lost of the episodes of this process.

        Raises:
            JournalError: The database cannot be written now.
        """
        await self.run(self._restore_all, within=False)

    def _restore_all(self, connection: Connection) -> None:
        assert self._fences is not None
        with connection.begin():
            behind = self._fences.acknowledged.behind(connection)
        for episode_id in behind:
            try:
                self._restore(connection, episode_id)
            except LeaseLost as error:
                logger.warning("episode %s is left: %s", episode_id, error)

    def _write(self, connection: Connection, group: Sequence[_Append], heads: dict[str, _Head]) -> None:
        """Write the appends of a commit, with one statement per table.

        Args:
            connection: A connection within the commit's transaction.
            heads: Filled with the ends of the episodes afterwards.
        """
        if self._fences is not None:
            if self._unsure:
                group = self._unrecorded(connection, group, heads)
            episode_ids = {append.events[0].episode_id for append in group}
            self._holding = CommitLeases(self._fences, connection, episode_ids)
        self._insert(connection, group, heads, self._holding)

    def _insert(
        self,
        connection: Connection,
        group: Sequence[_Append | AcknowledgedAppend],
        heads: dict[str, _Head],
        holding: CommitLeases | None,
    ) -> None:
        """Insert the rows of ``group``; ``holding`` checks the leases, if given."""
        rows, epochs, self._before = Rows(), list[dict[str, str]](), {}
        for append in group:
            batch = append.events
            episode_id = batch[0].episode_id
            known = self._heads.get(episode_id)
            if holding is not None:
                new = holding.prove(episode_id)
                known = None if new else known  # another process may have recorded it before
            head = heads.get(episode_id) or known
            if head is None:  # the table's key rejects a second beginning
                head = _Head() if batch[0].seq == 1 else self._read_head(connection, episode_id)
            self._before.setdefault(episode_id, head)
            seq, digest = _follow(rows.events, head, batch)
            prompts = head.prompts
            if append.staged and batch[0].seq == 1:
                begin_staging(connection, episode_id)
            if append.first is not None:
                end_staging(connection, episode_id)
                rows.started.append(row_of_start(append.first.event))
            if append.attachments is not None:
                prompts = _attach(rows, append.attachments, batch, prompts)
            for recorded in batch:
                if recorded.type == "episode.started" and not append.staged:
                    rows.started.append(row_of_start(recorded.event))
                elif recorded.type == "episode.recovered":
                    epochs.append({"episode": episode_id, "epoch": recorded.event.epoch})
                elif recorded.type == "episode.ended":
                    rows.ended.append(row_of_end(recorded.event, seq, digest))
                    if holding is not None:
                        holding.let_go(episode_id)
            heads[episode_id] = _Head(seq, digest, {} if batch[-1].type == "episode.ended" else prompts)
        self._insertion.add(connection, rows)
        if epochs:
            connection.execute(_EPOCH, epochs)

    def _unrecorded(
        self, connection: Connection, group: Sequence[_Append], heads: dict[str, _Head]
    ) -> Sequence[_Append]:
        """Return the appends that are not recorded yet, as a commit may succeed and its answer be lost."""
        left = []
        for append in group:
            batch = append.events
            episode_id, first, last = batch[0].episode_id, batch[0].seq, batch[-1].seq
            if episode_id in self._unsure and texts_between(connection, episode_id, first, last) == [
                recorded.text for recorded in batch
            ]:
                heads[episode_id] = self._read_head(connection, episode_id)
            else:
                left.append(append)
        return left

    def _read_head(self, connection: Connection, episode_id: str) -> _Head:
        found = self._insertion.last_of(connection, episode_id)
        return _Head() if found is None else _Head(found.seq, found.digest or GENESIS)

    def _leave(self, connection: Connection, name: str) -> None:
        """Release the leases of this process, so that others need not wait until it counts as dead."""
        try:
            with connection.begin():
                depose(connection, name)
        except SQLAlchemyError as error:
            logger.warning(
                "the leases of this server could not be released; others will take them over later: %s",
                reason(error),
            )


def _attach(
    rows: Rows, attachments: Attachments, batch: Sequence[RecordedEvent], prompts: Mapping[str, Prompt]
) -> Mapping[str, Prompt]:
    """Add the attachments of ``batch`` to ``rows``; return the last prompts afterwards.

    Raises:
        ValueError: They do not match the events.
    """
    decided = [recorded for recorded in batch if recorded.type in CALLS_BEHIND]
    if len(attachments.calls) > len(decided):
        raise ValueError(
            f"there are calls of {len(attachments.calls)} decisions but {len(decided)} decisions"
        )
    for recorded, calls in zip(decided, attachments.calls, strict=False):
        prompts = rows.calls.add(recorded.event, calls, prompts)
    if attachments.truth is not None:
        rows.add_truth(batch[-1].event, attachments.truth)
    return prompts


def _follow(rows: list[EventRow], head: _Head, batch: Sequence[RecordedEvent]) -> tuple[int, bytes]:
    """Add the rows of ``batch``, which follows ``head``; return its last number and digest.

    Raises:
        _Taken: A number is taken.
        ValueError: A number is not the next one, or a text has no UTF-8 encoding.
        TypeError: A text is not a string.
    """
    episode_id, last, digest = batch[0].episode_id, head.seq, head.digest
    for recorded in batch:
        seq, text = recorded.seq, recorded.text
        if recorded.episode_id != episode_id:
            raise ValueError(f"the append also contains event {seq} of {recorded.episode_id}")
        if seq <= last:
            raise _Taken(f"the last one is {last}")
        if seq != last + 1:
            raise ValueError(f"event {seq} does not follow event {last}")
        if not isinstance(text, str):
            raise TypeError(f"the text of event {seq} is {type(text).__name__}")
        last, digest = seq, extend(digest, text)
        rows.append((episode_id, seq, text, Blob(digest)))
    return last, digest


class _Taken(ValueError):
    """A number is taken."""


def _failed(append: _Append, failure: Exception) -> JournalError:
    if isinstance(failure, IntegrityError | _Taken):
        first = append.events[0]
        return SequenceConflict(
            f"event {first.seq} of {first.episode_id} or a later one is taken: {reason(failure)}"
        )
    return _unrestored(failure)


def _unrestored(failure: Exception) -> JournalError:
    return LeaseLost(str(failure)) if isinstance(failure, LeaseNotHeld) else _unwritten(failure)


def _unwritten(failure: Exception) -> JournalError:
    says = f"the journal cannot be written: {reason(failure)}"
    if is_damage(failure):
        return JournalUnavailable(f"{says}; {RESTART}")
    passing = isinstance(failure, OperationalError | OSError) or is_transient(failure)
    return JournalUnavailable(says) if passing else JournalError(says)

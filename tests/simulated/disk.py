"""A journal whose writer is a part of the simulation: it commits when it is scheduled, fails when it is told.

The database is a real SQLite file and the code that writes it is the journal's own. Only the thread is not:
what it would do next becomes a callback, which the simulated event loop schedules among all others.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from spectator.clock import answer, answer_all, settle
from spectator.errors import JournalError
from spectator.journal import writer as writing
from spectator.journal.database import open_database
from spectator.journal.sql_journal import SqlJournal
from spectator.journal.writer import Writer

LATENCIES_S: Final = (0.0, 0.0, 0.05, 0.7)
"""How long a write may take."""

GONE: Final = JournalError("the power is gone")


@dataclass
class Faults:
    """What goes wrong with the disk, by the number of the write, 1 the first.

    Args:
        failing: Writes that the disk refuses.
        cut_at: The write at which the power goes; 0 for none.
        cut_after: Whether that write reaches the disk first, though nobody is told.
        cut: Called when the power goes.
        writes: How many there were.
        dead: Whether the power has gone.
    """

    failing: range = range(0)
    cut_at: int = 0
    cut_after: bool = False
    cut: Callable[[], None] = lambda: None
    writes: int = 0
    dead: bool = False

    def go(self) -> None:
        """Let the power go."""
        self.dead = True
        self.cut()


class _NoThread:
    def __init__(self, *, target: Callable[[], None], name: str, daemon: bool) -> None:
        self.work = target

    def start(self) -> None:
        return

    def join(self) -> None:
        self.work()


class SimulatedWriter(Writer):
    """The journal's writer without its thread.

    Args:
        database: Where to.
        faults: What goes wrong.
    """

    def __init__(self, database: Any, faults: Faults) -> None:
        with patch("spectator.journal.writer.threading.Thread", _NoThread):
            super().__init__(database)
        self.faults = faults
        self.unanswered: list[asyncio.Future[Any]] = []
        self._connection = database.engine.connect().execution_options(immediate=True)
        held = self._hold

        def hold(connection: Connection) -> None:
            held(connection)
            if self._at_job:
                self._fail()

        self._hold = hold
        self._at_job = False

    def _fail(self) -> None:
        """Refuse the write under way, if it is one of those."""
        if self.faults.writes in self.faults.failing:
            raise OperationalError("COMMIT", None, sqlite3.OperationalError("disk I/O error"))

    def _write(self, connection: Connection, group: Any, heads: Any) -> None:
        super()._write(connection, group, heads)
        self._fail()  # when all is written but for the commit, which takes it back

    def _run(self, connection: Connection, job: Any) -> None:
        self._at_job = True
        super()._run(connection, job)
        self._at_job = False

    def _hand_over(self, item: Any) -> asyncio.Future[Any]:
        if self.faults.dead:  # nobody lives to hear it; the tasks are let go when the universe ends
            settle([item.done], None, GONE)
        done = super()._hand_over(item)
        self.unanswered.append(done)
        asyncio.get_running_loop().call_later(random.choice(LATENCIES_S), self._take_turn)
        return done

    def _take_turn(self) -> None:
        """What the thread does between two looks at its queue."""
        group = list(self._left(writing.MAX_GROUP))
        if self.faults.dead or not group:
            return
        self.faults.writes += 1
        cut = self.faults.writes == self.faults.cut_at
        if cut and not self.faults.cut_after:
            self.faults.go()
            return
        with (
            patch("spectator.journal.writer.answer", (lambda *told: True) if cut else answer),
            patch("spectator.journal.writer.answer_all", (lambda *told: None) if cut else answer_all),
        ):
            self._commit(self._connection, [one for one in group if isinstance(one, writing._Append)])
            for job in group:
                if isinstance(job, writing._Job):
                    self._run(self._connection, job)
        if cut:
            self.faults.go()

    def close(self) -> None:
        """Commit what waits."""
        while not self._appends.empty() and not self.faults.dead:
            self._take_turn()
        self._over = True
        self._connection.close()


class SimulatedJournal(SqlJournal):
    """The journal, its writer simulated."""

    @classmethod
    def at(cls, path: Path, faults: Faults) -> SimulatedJournal:
        """Open the journal at ``path``."""
        database = open_database(f"sqlite:///{path}", writable=True, synchronous="normal")
        with patch(
            "spectator.journal.sql_journal.Writer", lambda database: SimulatedWriter(database, faults)
        ):
            return cls(database, writable=True)

    def drop(self) -> None:
        """Let go of the files as a process does that dies: what was not committed is gone."""
        assert isinstance(self._writer, SimulatedWriter)
        self._writer.faults.dead = True
        for done in self._writer.unanswered:
            settle([done], None, GONE)
        self._writer._connection.close()
        self._database.engine.dispose()
        self._readers.shutdown(wait=False)
        if self._database.lock is not None:
            self._database.lock.release()

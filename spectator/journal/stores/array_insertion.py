"""The statements that write the journal's tables in PostgreSQL: each takes any number of rows as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Float, Integer, LargeBinary, Row, String, Table

from spectator.journal.packing import compressed
from spectator.journal.stores.call_rows import CALL_COLUMNS
from spectator.journal.stores.insertion import ENDED, STARTED, Rows
from spectator.journal.stores.schema import calls, episodes, events, messages, truths

ARRAYS: Final = ((LargeBinary, "bytea"), (Float, "float8"), (Integer, "bigint"), (String, "text"))
"""The types of arrays, by those of columns."""

NULLS: Final = (None,) * len(CALL_COLUMNS)

_LAST: Final = "SELECT seq, digest FROM events WHERE episode_id = %s ORDER BY seq DESC LIMIT 1"

_RECORDED: Final = "SELECT seq, text FROM events WHERE episode_id = %s AND seq BETWEEN %s AND %s ORDER BY seq"


class ArrayInsertion:
    """Adds rows; see :class:`.insertion.Insertion`."""

    def __init__(self) -> None:
        self._events = insertion_of(events, list(events.c.keys()))
        self._messages = insertion_of(messages, list(messages.c.keys())) + " ON CONFLICT DO NOTHING"
        self._calls = insertion_of(calls, CALL_COLUMNS)
        self._truths = insertion_of(truths, list(truths.c.keys()))
        self._started = insertion_of(episodes, STARTED)
        set_to = ", ".join(f"{name} = %({name})s" for name in ENDED)
        self._ended = f"UPDATE episodes SET {set_to} WHERE episode_id = %(episode)s"

    def add(self, connection: Connection, rows: Rows) -> None:
        """Add ``rows``, a statement for each table; messages that are there already are passed over."""
        started = [tuple(storable(row[name]) for name in STARTED) for row in rows.started]
        said = [(*key, compressed(text)) for key, text in rows.calls.messages.items()]
        for statement, tuples in (
            (self._events, rows.events),
            (self._messages, said),
            (self._calls, [row + NULLS[len(row) :] for row in rows.calls.calls]),
            (self._truths, rows.truths),
            (self._started, started),
        ):
            if tuples:
                connection.exec_driver_sql(statement, tuple(columns_of(tuples)))
        for row in rows.ended:
            values = {name: storable(row[name]) for name in (*ENDED, "episode")}
            connection.exec_driver_sql(self._ended, values)

    def last_of(self, connection: Connection, episode_id: str) -> Row[Any] | None:
        """Number and digest of the last event of an episode."""
        return connection.exec_driver_sql(_LAST, (episode_id,)).first()


def recorded_between(connection: Connection, episode_id: str, first: int, last: int) -> list[str]:
    """The texts of the events of an episode from number ``first`` to ``last``, as far as they are there."""
    return [row.text for row in connection.exec_driver_sql(_RECORDED, (episode_id, first, last))]


def insertion_of(table: Table, names: Sequence[str]) -> str:
    """An insertion of rows that are given as an array for each of the columns ``names``."""
    arrays = ", ".join(f"%b::{_kind(table, name)}[]" for name in names)
    return f"INSERT INTO {table.name} ({', '.join(names)}) SELECT * FROM unnest({arrays})"


def _kind(table: Table, name: str) -> str:
    return next(array for kind, array in ARRAYS if isinstance(table.c[name].type, kind))


def columns_of(rows: Iterable[Sequence[Any]]) -> Iterable[list[Any]]:
    """Rows as the arrays that an insertion takes."""
    return (list(column) for column in zip(*rows, strict=True))


def storable(value: Any) -> Any:
    """``value`` without zero characters, which PostgreSQL's text cannot hold; the event itself has them."""
    return value.replace("\x00", "\ufffd") if isinstance(value, str) else value

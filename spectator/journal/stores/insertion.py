"""The statements that add rows to the journal's tables, compiled once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Dialect, Table, insert
from sqlalchemy.dialects import postgresql, sqlite

from spectator.events import Event
from spectator.journal.attachments import truth_digest
from spectator.journal.packing import compressed
from spectator.journal.stores.call_rows import CallRows
from spectator.journal.stores.schema import calls, events, messages, truths


class Insertion:
    """Adds rows; what is compiled once costs less than half of what SQLAlchemy's own way does.

    Args:
        dialect: The database's.
    """

    def __init__(self, dialect: Dialect) -> None:
        own: Any = postgresql.insert if dialect.name == "postgresql" else sqlite.insert
        self._events = _Statement(insert(events), dialect)
        self._calls = _Statement(insert(calls), dialect)
        self._truths = _Statement(insert(truths), dialect)
        self._messages = _Statement(own(messages).on_conflict_do_nothing(), dialect)

    def events(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add events."""
        self._events.run(connection, rows)

    def calls(self, connection: Connection, rows: CallRows) -> None:
        """Add calls, and those of their messages that are not there yet."""
        if rows.messages:
            self._messages.run(connection, rows.message_rows())
        if rows.calls:
            self._calls.run(connection, rows.calls)

    def truth(self, connection: Connection, ended: Event, truth: str) -> None:
        """Add the sealed truth of an episode.

        Raises:
            ValueError: ``ended`` is not its end, or states another truth.
        """
        if ended.type != "episode.ended" or ended.data.get("truth") != truth_digest(truth):
            raise ValueError(f"event {ended.seq} is not the end that states this truth")
        self._truths.run(connection, [{"episode_id": ended.episode_id, "body": compressed(truth.encode())}])


class _Statement:
    def __init__(self, statement: Any, dialect: Dialect) -> None:
        table: Table = statement.table
        compiled = statement.compile(dialect=dialect, column_keys=[column.name for column in table.c])
        self._text = str(compiled)
        self._order = compiled.positiontup

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add ``rows``."""
        order = self._order
        values: Any = rows if order is None else [tuple(row[name] for name in order) for row in rows]
        connection.exec_driver_sql(self._text, values)

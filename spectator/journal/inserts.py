"""Build rows and insert them: events, the episode index, model calls.

Each message of a model call is stored once per episode, and each prompt as the difference from the previous
one. Statements are compiled once. On PostgreSQL each takes any number of rows as arrays.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Connection,
    Dialect,
    Float,
    Integer,
    LargeBinary,
    Row,
    String,
    Table,
    bindparam,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import sqlite

from spectator.events import Event, encode_json
from spectator.journal.contract import truth_digest
from spectator.journal.encoding import Blob, compressed, json_bytes, pack_integers, pack_reals
from spectator.journal.schema import calls, episodes, events, messages, truths
from spectator.llm.chat import common_frozen
from spectator.model_calls import ModelCall
from spectator.text import common_length


def row_of_start(started: Event) -> dict[str, Any]:
    """Make the index row of an episode that begins with ``started``."""
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
        "parent": (data.get("parent") or {}).get("episode_id"),
        "run_id": data.get("run_id"),
        "group_id": data.get("group_id"),
        "attempt": data.get("attempt"),
    }


def row_of_end(ended: Event, seq: int, digest: bytes) -> dict[str, Any]:
    """Make the values that update an episode's row at its end, with its last event's number and digest."""
    data = ended.data
    return {
        "episode": ended.episode_id,
        "ended_at": ended.at,
        "reason": data["reason"],
        "score": data["score"],
        "result": data["result"],
        "turns": data["turns"],
        "detail": data.get("detail"),
        "end_seq": seq,
        "end_digest": digest,
    }


DIGEST_BYTES: Final = 32

CALL_COLUMNS: Final = (
    "episode_id", "seq", "place", "kept", "messages", "prompt_kept", "beside",
    "token_ids", "logprobs", "prompt_token_ids", "tools", "reply",
)  # fmt: skip
"""The columns of a call's row, in order. A row ends with its last non-null value, because each null costs
Python's SQLite driver as much as a value."""

REQUIRED: Final = 7
"""Number of columns that are never null."""

NO_TOKENS: Final = array("q")


class Prompt(NamedTuple):
    """An actor's last prompt; the common beginning of the next one is not stored again.

    Args:
        messages: The messages; the next prompt usually contains the same objects.
        refs: Their digests, 32 bytes each.
        tokens: Ids of the tokens of prompt and reply; empty if unknown.
    """

    messages: Sequence[Mapping[str, Any]] = ()
    refs: bytes = b""
    tools: Sequence[Mapping[str, Any]] = ()
    tool_refs: bytes | None = None
    tokens: array[int] = NO_TOKENS


@dataclass(slots=True)
class CallRows:
    """The rows of the calls of one commit.

    Args:
        messages: Messages and tools by episode and digest; existing ones are skipped on insertion.
        calls: The calls, each with the first columns of :data:`CALL_COLUMNS`.
    """

    messages: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def message_rows(self) -> list[tuple[str, Blob, Blob]]:
        """Return the rows of the messages, with compressed texts."""
        return [
            (episode, Blob(digest), Blob(compressed(text)))
            for (episode, digest), text in self.messages.items()
        ]

    def by_length(self) -> dict[int, list[tuple[Any, ...]]]:
        """Group the calls by the number of columns of their rows."""
        found: dict[int, list[tuple[Any, ...]]] = {}
        for row in self.calls:
            found.setdefault(len(row), []).append(row)
        return found

    def add(
        self, decided: Event, calls: Sequence[ModelCall], prompts: Mapping[str, Prompt]
    ) -> Mapping[str, Prompt]:
        """Add the calls behind one decision.

        Args:
            decided: Its ``decision.made``, or the event of the failed decision.
            calls: One for each of its exchanges.
            prompts: The episode's last prompt of each actor.

        Returns:
            The last prompt of each actor afterwards.

        Raises:
            ValueError: The number of calls differs from that of the exchanges.
        """
        stated = decided.data.get("undecided", decided.data)
        exchanges = stated.get("exchanges") or ()
        if len(exchanges) != len(calls):
            raise ValueError(f"event {decided.seq} has {len(exchanges)} exchanges but {len(calls)} calls")
        if not calls:
            return prompts
        episode_id, seq, actor = decided.episode_id, decided.seq, stated["actor"]
        prompt = prompts.get(actor) or Prompt()
        for place, (exchange, call) in enumerate(zip(exchanges, calls, strict=True)):
            row, prompt = self._row(episode_id, prompt, call, whole=exchange["reply"] is None)
            self.calls.append((episode_id, seq, place, *row))
        return {**prompts, actor: prompt}

    def _row(
        self, episode_id: str, before: Prompt, call: ModelCall, *, whole: bool
    ) -> tuple[tuple[Any, ...], Prompt]:
        """Return the columns of a call after its key, and the prompt to compare the next one with."""
        refs, kept = self._refs(episode_id, before, call.messages)
        tool_refs = before.tool_refs if call.tools is before.tools else None
        tool_refs = self._stored(episode_id, call.tools) if tool_refs is None else tool_refs
        prompt = call.prompt_token_ids
        known = 0 if prompt is None else common_length(before.tokens, prompt)
        beside = {
            "weight_versions": [list(run) for run in call.weight_versions],
            "about": call.about,
            "measured": call.measured,
        }
        tokens = before.tokens if prompt is None else prompt + (call.token_ids or NO_TOKENS)
        nullable: tuple[Blob | None, ...] = (
            None if call.token_ids is None else Blob(pack_integers(call.token_ids)),
            None if call.logprobs is None else Blob(pack_reals(call.logprobs)),
            None if prompt is None else Blob(pack_integers(prompt[known:])),
            None if tool_refs == before.tool_refs else Blob(tool_refs),
            Blob(compressed(json_bytes(call.reply))) if whole and call.reply is not None else None,
        )
        while nullable and nullable[-1] is None:
            nullable = nullable[:-1]
        row = (kept, Blob(refs[kept * DIGEST_BYTES :]), known, encode_json(beside), *nullable)
        return row, Prompt(call.messages, refs, call.tools, tool_refs, tokens)

    def _refs(
        self, episode_id: str, before: Prompt, messages: Sequence[Mapping[str, Any]]
    ) -> tuple[bytes, int]:
        """Return the digests of ``messages``, and how many of them the previous prompt began with.

        Messages that are the same objects as in the previous prompt are not hashed again, and a growing
        conversation is not even scanned: otherwise long ones would cost more with every call.
        """
        same = common_frozen(before.messages, messages)
        for old, new in zip(before.messages[same:], messages[same:], strict=False):
            if old is not new:
                break
            same += 1
        fresh = self._stored(episode_id, messages[same:])
        known = same * DIGEST_BYTES
        if rest := before.refs[known:]:
            same += common_length(rest, fresh) // DIGEST_BYTES
        return before.refs[:known] + fresh, same

    def _stored(self, episode_id: str, items: Sequence[Mapping[str, Any]]) -> bytes:
        refs = []
        for item in items:
            text = json_bytes(item)
            digest = sha256(text).digest()
            self.messages[episode_id, digest] = text
            refs.append(digest)
        return b"".join(refs)


EventRow = tuple[str, int, str, Blob]
"""Episode id, number, text and digest of an event."""

EVENT_COLUMNS: Final = ("episode_id", "seq", "text", "digest")
"""The columns of an :data:`EventRow`."""

ENDED: Final = (
    "ended_at", "reason", "score", "result", "turns", "detail", "end_seq", "end_digest",
)  # fmt: skip
"""Columns of an episode's row that are set at its end."""

STARTED: Final = tuple(column.name for column in episodes.c if column.name not in ENDED)
"""Columns of an episode's row that are set at its start."""


@dataclass(slots=True)
class Rows:
    """The rows that one commit adds, from any number of appends.

    Args:
        events: Events, in order.
        ended: Updates of the rows of episodes that end.
        calls: Calls, with their messages and tools.
        truths: Compressed sealed truths, each with its episode id.
    """

    events: list[EventRow] = field(default_factory=list)
    started: list[Mapping[str, Any]] = field(default_factory=list)
    ended: list[Mapping[str, Any]] = field(default_factory=list)
    calls: CallRows = field(default_factory=CallRows)
    truths: list[tuple[str, bytes]] = field(default_factory=list)

    def add_truth(self, ended: Event, truth: str) -> None:
        """Add the sealed truth of an episode.

        Raises:
            ValueError: ``ended`` is not an end with the digest of this truth.
        """
        if ended.type != "episode.ended" or ended.data.get("truth") != truth_digest(truth):
            raise ValueError(f"event {ended.seq} is not an end with the digest of this truth")
        self.truths.append((ended.episode_id, compressed(truth.encode())))


class Insertion:
    """Adds rows to an embedded journal; compiled once, at less than half the cost of SQLAlchemy."""

    def __init__(self, dialect: Dialect) -> None:
        whose: Any = bindparam("episode")
        newest = select(func.max(events.c.seq)).where(events.c.episode_id == whose).scalar_subquery()
        last = select(events.c.seq, events.c.digest).where(
            events.c.episode_id == whose, events.c.seq == newest
        )
        end = update(episodes).where(episodes.c.episode_id == whose)
        self._events = _Statement(insert(events), dialect, EVENT_COLUMNS)
        self._start = _Statement(insert(episodes), dialect, STARTED)
        self._end = _Statement(end.values({name: bindparam(name) for name in ENDED}), dialect)
        self._last = _Statement(last, dialect)
        self._calls = {
            length: _Statement(insert(calls), dialect, CALL_COLUMNS[:length])
            for length in range(REQUIRED, len(CALL_COLUMNS) + 1)
        }
        self._truths = _Statement(insert(truths), dialect, tuple(truths.c.keys()))
        self._messages = _Statement(
            sqlite.insert(messages).on_conflict_do_nothing(), dialect, tuple(messages.c.keys())
        )

    def add(self, connection: Connection, rows: Rows) -> None:
        """Add ``rows`` with one statement per table; skips existing messages."""
        self._events(connection, rows.events)
        if rows.calls.messages:
            self._messages(connection, rows.calls.message_rows())
        if rows.calls.calls:
            for length, alike in rows.calls.by_length().items():
                self._calls[length](connection, alike)
        if rows.truths:
            self._truths(connection, rows.truths)
        if rows.started:
            self._start(connection, [tuple(row[name] for name in STARTED) for row in rows.started])
        if rows.ended:
            self._end(connection, rows.ended)

    def last_of(self, connection: Connection, episode_id: str) -> Row[Any] | None:
        """Return the number and the digest of an episode's last event."""
        return self._last.found(connection, {"episode": episode_id})


@cache
def embedded_insertion() -> Insertion:
    """Return what all embedded journals of this process add rows with."""
    return Insertion(sqlite.dialect())


class _Statement:
    """A compiled statement with at least two values, and the order in which the driver takes them.

    Args:
        columns: The columns that an insertion sets.
    """

    def __init__(self, statement: Any, dialect: Dialect, columns: Sequence[str] | None = None) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=columns)
        order = compiled.positiontup
        self._text = str(compiled)
        self._order = None if order is None else tuple(order)  # None: the driver takes values by name
        self._in_order: Callable[[Mapping[str, Any]], Any] = dict if order is None else itemgetter(*order)
        self._columns = columns

    def __call__(self, connection: Connection, rows: Sequence[tuple[Any, ...] | Mapping[str, Any]]) -> None:
        """Run it for each of ``rows``: values in the order of its columns, or by name without columns."""
        if self._columns is None or self._order != self._columns:
            named = [
                row if isinstance(row, Mapping) else dict(zip(self._columns or (), row, strict=True))
                for row in rows
            ]
            rows = [self._in_order(row) for row in named]
        connection.exec_driver_sql(self._text, rows if isinstance(rows, list) else list(rows))

    def found(self, connection: Connection, row: Mapping[str, Any]) -> Row[Any] | None:
        """Return the first result row for the values of ``row``."""
        return connection.exec_driver_sql(self._text, self._in_order(row)).first()


ARRAYS: Final = ((LargeBinary, "bytea"), (Float, "float8"), (Integer, "bigint"), (String, "text"))
"""PostgreSQL's array types by column type."""

NULLS: Final = (None,) * len(CALL_COLUMNS)

_LAST: Final = "SELECT seq, digest FROM events WHERE episode_id = %s ORDER BY seq DESC LIMIT 1"

_RECORDED: Final = "SELECT seq, text FROM events WHERE episode_id = %s AND seq BETWEEN %s AND %s ORDER BY seq"


class ArrayInsertion:
    """Adds rows to a journal in PostgreSQL; see :class:`Insertion`."""

    def __init__(self) -> None:
        self._events = insertion_of(events, list(events.c.keys()))
        self._messages = insertion_of(messages, list(messages.c.keys())) + " ON CONFLICT DO NOTHING"
        self._calls = insertion_of(calls, CALL_COLUMNS)
        self._truths = insertion_of(truths, list(truths.c.keys()))
        self._started = insertion_of(episodes, STARTED)
        set_to = ", ".join(f"{name} = %({name})s" for name in ENDED)
        self._ended = f"UPDATE episodes SET {set_to} WHERE episode_id = %(episode)s"

    def add(self, connection: Connection, rows: Rows) -> None:
        """Add ``rows`` with one statement per table; skips existing messages."""
        started = [tuple(storable(row[name]) for name in STARTED) for row in rows.started]
        message_rows = [(*key, compressed(text)) for key, text in rows.calls.messages.items()]
        for statement, tuples in (
            (self._events, rows.events),
            (self._messages, message_rows),
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
        """Return the number and the digest of an episode's last event."""
        return connection.exec_driver_sql(_LAST, (episode_id,)).first()


def texts_between(connection: Connection, episode_id: str, first: int, last: int) -> list[str]:
    """Return the texts of an episode's existing events from number ``first`` to ``last``."""
    return [row.text for row in connection.exec_driver_sql(_RECORDED, (episode_id, first, last))]


def insertion_of(table: Table, names: Sequence[str]) -> str:
    """Make an insertion that takes an array for each of the columns ``names``."""
    arrays = ", ".join(f"%b::{_kind(table, name)}[]" for name in names)
    return f"INSERT INTO {table.name} ({', '.join(names)}) SELECT * FROM unnest({arrays})"


def _kind(table: Table, name: str) -> str:
    return next(array for kind, array in ARRAYS if isinstance(table.c[name].type, kind))


def columns_of(rows: Iterable[Sequence[Any]]) -> Iterable[list[Any]]:
    """Transpose rows to the arrays of an insertion."""
    return (list(column) for column in zip(*rows, strict=True))


def storable(value: Any) -> Any:
    """Replace zero characters, which PostgreSQL's text cannot contain; the event itself keeps them."""
    return value.replace("\x00", "\ufffd") if isinstance(value, str) else value

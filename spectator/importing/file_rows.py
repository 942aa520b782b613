"""Read files row by row in bounded memory: JSON Lines, JSON texts, Parquet tables.

Unreadable rows are reported; the other rows are read.
"""

from __future__ import annotations

import io
import math
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

from spectator.errors import ConfigurationError
from spectator.importing.finite_json import BOM, MAX_BYTES, FiniteNumbers, finite_number, parsed
from spectator.importing.foreign import ForeignEpisode, UnreadableEntry, digest_of
from spectator.journal.encoding import BadLine

SKIP_BYTES: Final = 1024 * 1024

MAX_DEPTH: Final = 500
_DEEPER: Final = "..."

DETECTION_LINES: Final = 20
"""Lines read to detect the format of a file."""

DESCRIBED: Final = 1 << 20
"""Bytes read to describe a JSON text that is larger than one entry."""

UNEXPECTED = (TypeError, ValueError, LookupError, AttributeError, RecursionError, OverflowError)
"""Errors raised while reading members with an unexpected form."""

_ENDINGS: Final = re.compile(r"(\.(jsonl?|ndjson|traj|parquet|gz|zst))+$")

MISSING: Final = "pip install 'openenv-spectator[import]'"


@dataclass(frozen=True, slots=True)
class SkippedEntry:
    """A part of a file that is not imported.

    Args:
        place: Its position, such as ``line 7``.
        reason: Why it is skipped, as a sentence.
    """

    place: str
    reason: str


Entries = Iterator[ForeignEpisode | SkippedEntry]
"""The entries of a file, in order."""


@dataclass(slots=True)
class Source:
    """A file to import.

    Args:
        rewards: The reward columns, for formats that do not define them.
        scratch: Folder for rows of compressed files whose episodes are not contiguous.
        warnings: What the user should know of the file, one sentence each.
    """

    path: Path
    rewards: tuple[str, ...] = ()
    scratch: Path | None = None
    done: int = 0
    warnings: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Size of the file, bytes."""
        return self.path.stat().st_size


@dataclass(frozen=True, slots=True)
class FileRow:
    """One row of a file.

    Args:
        number: Number of the row, from 1.
        place: Its position, as text.
        start: Byte of the file at which its line begins.
    """

    number: int
    value: Mapping[str, Any]
    place: str
    start: int = 0

    @property
    def digest(self) -> str:
        """Digest of the object, see :func:`~spectator.importing.foreign.digest_of`."""
        return digest_of(self.value)


@dataclass(slots=True)
class Document:
    """A file, a decompressed file or a member of an archive: text in JSON, or a table.

    Args:
        source: The file.
        stream: Reads it; seekable.
        member: Name of the member of an archive.
        plain: Whether offsets of the stream are offsets of the file.
        kind: ``lines``, ``text`` (JSON over several lines), ``table``, or what it is instead.
    """

    source: Source
    stream: IO[bytes]
    member: str = ""
    plain: bool = True
    kind: str = ""

    def __post_init__(self) -> None:
        self.kind = _kind(self.stream)

    @property
    def readable(self) -> bool:
        """Whether its rows can be read."""
        return self.kind in ("lines", "text", "table")

    @property
    def stem(self) -> str:
        """Its name without endings."""
        return _ENDINGS.sub("", (self.member or self.source.path.name).rsplit("/", 1)[-1])

    def place(self, named: str) -> str:
        """Return the position of a row in the file."""
        return f"{self.member}, {named}" if self.member else named

    def pass_by(self, read: int) -> None:
        """Advance the progress."""
        if self.plain:
            self.source.done = max(self.source.done, read)

    def rows(
        self,
        streamed: str = "",
        unread: Iterable[str] = (),
        enough: Callable[[Mapping[str, Any]], bool] = bool,
    ) -> Iterator[FileRow | SkippedEntry]:
        """Yield the objects.

        Args:
            streamed: Member of an object over several lines whose items are read one by one; each becomes a
                row with the other members.
            unread: Members of these items that are not needed.
            enough: Whether the members before the streamed one describe the object.
        """
        self.stream.seek(0)
        if not self.member:
            self.source.done = 0
        try:
            if self.kind == "table":
                yield from _table_rows(self)
            elif self.kind == "text":
                yield from _text_rows(self, streamed, frozenset(unread), enough)
            else:
                yield from _line_rows(self)
        except (EOFError, OSError, zlib.error, UnreadableEntry) as error:
            if self.plain and isinstance(error, OSError):
                raise
            yield SkippedEntry(self.place("the rest"), f"it cannot be decompressed: {error}")

    def beginning(self) -> Iterator[Mapping[str, Any]]:
        """Yield the first objects, to detect the format; of a large one, the members at its beginning."""
        found = False
        if self.kind != "text" or not _longer(self.stream, DESCRIBED):
            for row in islice(self.rows(), DETECTION_LINES):
                if isinstance(row, FileRow):
                    found = True
                    yield row.value
        if self.kind == "text" and not found:
            yield _partial(self.stream)


def row_at(file: IO[bytes], row: FileRow) -> FileRow | SkippedEntry:
    """Read a line again."""
    file.seek(row.start)
    return _row(row.number, file.readline(MAX_BYTES + 1), row.start, row.place)


def _kind(stream: IO[bytes]) -> str:
    stream.seek(0)
    try:
        first = stream.readline(MAX_BYTES + 1)
        if first[:4] == b"PAR1":
            return "table"
        if b"\x00" in first[:4096]:
            return "binary data"
        begins = first.removeprefix(BOM).strip()
        lines = 1
        while not begins and first and lines < 1000:
            first, lines = stream.readline(MAX_BYTES + 1), lines + 1
            begins = first.strip()
        if not begins:
            return "nothing"
        if begins[:1] not in b"[{":
            return "lines" if _holds_object(stream, b"") else "text that is not JSON"
        if len(first) > MAX_BYTES:
            return "text"
        value = parsed(begins)
        if begins[:1] == b"[":
            return "lines" if _conversation(value) else "text" if _parses(stream) else "text that is not JSON"
        if isinstance(value, dict) or _holds_object(stream, first):
            return "lines"
        return "text" if _parses(stream) else "text that is not JSON"
    except (EOFError, OSError, zlib.error, UnreadableEntry) as error:
        return f"data that cannot be decompressed ({error})"


def _holds_object(stream: IO[bytes], first: bytes) -> bool:
    """Whether one of the next lines is a whole object, as if the first were damaged."""
    for line in islice(iter(lambda: stream.readline(MAX_BYTES + 1), b""), DETECTION_LINES):
        if line.startswith(b"{") and len(line) <= MAX_BYTES and isinstance(parsed(line), dict):
            return True
    return bool(first) and b'":' in first.lstrip()[:4096] and not _spread(stream)


def _parses(stream: IO[bytes]) -> bool:
    """Whether a text begins as JSON."""
    stream.seek(0)
    try:
        events = islice(_events(io.BytesIO(stream.read(DESCRIBED))), 3)
        return len(list(events)) == 3
    except (_parser().JSONError, UnreadableEntry):
        return False


def _spread(stream: IO[bytes]) -> bool:
    """Whether more than one line follows each other as one JSON text."""
    stream.seek(0)
    lines = list(islice(iter(lambda: stream.readline(4096), b""), 3))
    return len(lines) > 1 and not any(line.startswith(b"{") for line in lines[1:])


def _conversation(value: object) -> bool:
    """Whether a list is a conversation, not a list of rows."""
    return (
        isinstance(value, list)
        and bool(value)
        and isinstance(value[0], dict)
        and bool({"role", "from"} & value[0].keys())
        and bool({"content", "value", "parts", "tool_calls"} & value[0].keys())
    )


def _line_rows(document: Document) -> Iterator[FileRow | SkippedEntry]:
    stream, start = document.stream, 0
    for number, line in enumerate(iter(lambda: stream.readline(MAX_BYTES + 1), b""), 1):
        place = document.place(f"line {number}")
        begins, start = start, start + len(line)
        if len(line) > MAX_BYTES:
            while line and not line.endswith(b"\n"):
                line = stream.readline(SKIP_BYTES)
                start += len(line)
            yield SkippedEntry(place, f"it is longer than {MAX_BYTES >> 20} MiB")
        elif line.removeprefix(BOM).strip():
            yield _row(number, line, begins, place)
        document.pass_by(start)


def _row(number: int, line: bytes, start: int, place: str) -> FileRow | SkippedEntry:
    value = parsed(line.removeprefix(BOM) if number == 1 else line)
    if isinstance(value, BadLine):
        incomplete = "" if line.endswith(b"\n") else "; the last line is incomplete"
        return SkippedEntry(place, value.reason + incomplete)
    return _as_row(number, value, place, start)


def _as_row(number: int, value: Any, place: str, start: int = 0) -> FileRow | SkippedEntry:
    if _conversation(value):
        value = {"messages": value}
    if not isinstance(value, dict):
        return SkippedEntry(place, f"not a JSON object but a {type(value).__name__}")
    return FileRow(number, value, place, start)


def _longer(stream: IO[bytes], size: int) -> bool:
    """Whether a stream has more bytes than ``size``."""
    stream.seek(0)
    return len(stream.read(size + 1)) > size


def _text_rows(
    document: Document, streamed: str, unread: frozenset[str], enough: Callable[[Mapping[str, Any]], bool]
) -> Iterator[FileRow | SkippedEntry]:
    """Yield the items of an array, or one or more objects, each over several lines."""
    stream = document.stream
    if not streamed and not _longer(stream, MAX_BYTES):
        stream.seek(0)
        value = parsed(stream.read().removeprefix(BOM))
        if not isinstance(value, BadLine):
            document.pass_by(document.source.size)
            listed = isinstance(value, list) and not _conversation(value)
            for number, one in enumerate(value if listed else [value], 1):
                yield _as_row(number, one, document.place(f"item {number}" if listed else "the object"))
            return
    head = _head(stream, streamed, enough) if streamed else {}
    number = 0
    try:
        for path, value in _values(stream, streamed, unread, lambda: document.pass_by(stream.tell())):
            number += 1
            place = document.place(f"{streamed}[{number - 1}]" if path == streamed else f"item {number}")
            if value is _TOO_LONG:
                yield SkippedEntry(place, f"it is longer than {MAX_BYTES >> 20} MiB")
            elif path == streamed and streamed:
                yield FileRow(number, {**head, streamed: [value]}, place)
            else:
                yield _as_row(number, value, place)
    except (_parser().JSONError, UnreadableEntry) as error:
        where = f"after {streamed}[{number - 1}]" if streamed else f"after item {number}"
        reason = str(error).splitlines()[0]
        reason = reason if isinstance(error, UnreadableEntry) else f"invalid JSON: {reason}"
        yield SkippedEntry(document.place(where if number else "its items"), reason)
        return
    if streamed and not number and head:
        yield FileRow(1, head, document.place("the object"))


_TOO_LONG: Final = object()


def _parser() -> Any:
    try:
        import ijson
    except ImportError as error:
        raise ConfigurationError(f"JSON over several lines needs ijson: {MISSING}") from error
    return ijson


def _events(stream: IO[bytes]) -> Iterator[tuple[str, str, Any]]:
    """Yield the events of a JSON text, each with where it is, as ijson names it; null for infinite numbers.

    Raises:
        UnreadableEntry: It is nested too deeply.
    """
    text, outer = FiniteNumbers(stream), list[list[str]]()
    for event, value in _parser().basic_parse(text, multiple_values=True):
        text.quiet = 0
        if event == "map_key":
            outer[-1][1] = value
            yield outer[-1][0], event, value
        elif event in ("end_map", "end_array"):
            yield outer.pop()[0], event, value
        else:
            place = "" if not outer else ".".join(filter(None, outer[-1])) if len(outer) < 5 else _DEEPER
            if isinstance(value, Decimal):
                value = finite_number(str(value))
                event = "null" if value is None else event
            yield place, event, value
            if event in ("start_map", "start_array"):
                outer.append([place, "item" if event == "start_array" else ""])
                if len(outer) > MAX_DEPTH:
                    raise UnreadableEntry(f"it is nested more than {MAX_DEPTH} deep")


def _values(
    stream: IO[bytes], streamed: str, unread: frozenset[str], on_item: Any
) -> Iterator[tuple[str, Any]]:
    """Yield the items of an outer array, of the streamed member, or else whole objects."""
    builder, begun, at, long, skipped = None, 0, "", False, ""
    for prefix, event, value in _events(stream):
        if builder is None and not long:
            if prefix == "" and event == "start_map" and streamed:
                continue
            item = f"{streamed}.item"
            opens = event.startswith("start_") and prefix in ("item", item)
            if not (opens or (prefix == "" and event == "start_map" and not streamed)):
                if prefix in ("item", item) and event in ("string", "number", "boolean", "null"):
                    yield (streamed if prefix == item else "", value)
                continue
            builder, at, begun = _parser().ObjectBuilder(), prefix, stream.tell()
        if skipped:
            if prefix == skipped and event in ("end_map", "end_array", "string", "number", "boolean", "null"):
                skipped = ""
            continue
        if event == "map_key" and prefix == at and value in unread and at:
            skipped = f"{prefix}.{value}"
            continue
        if builder is not None:
            builder.event(event, value)
            if stream.tell() - begun > MAX_BYTES + 2 * FiniteNumbers.CHUNK:
                builder, long = None, True
        if prefix == at and event in ("end_map", "end_array"):
            whole = _TOO_LONG if builder is None else builder.value
            yield (streamed if streamed and at == f"{streamed}.item" else "", whole)
            builder, long = None, False
            on_item()


def _head(stream: IO[bytes], streamed: str, enough: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any]:
    """Return the members of an object but one, whose items are many."""
    head: dict[str, Any] = {}
    builder, name = None, ""
    try:
        for prefix, event, value in _events(stream):
            if prefix == "" and event == "map_key":
                name, builder = value, None if value == streamed else _parser().ObjectBuilder()
                if value == streamed:
                    if enough(head):
                        return head
                    head[streamed] = []
            elif builder is not None and prefix:
                builder.event(event, value)
                if prefix == name and event not in ("start_map", "start_array", "map_key"):
                    head[name], builder = builder.value, None
    except (_parser().JSONError, UnreadableEntry):
        pass  # reported where the items are read
    return head


def _partial(stream: IO[bytes]) -> Mapping[str, Any]:
    """Return the members at the beginning of a large JSON text, or of the first item of its array."""
    stream.seek(0)
    builder = _parser().ObjectBuilder()
    try:
        for prefix, event, value in _events(io.BytesIO(stream.read(DESCRIBED))):
            builder.event(event, value)
            if (prefix, event) == ("item", "end_map"):
                break
    except (_parser().JSONError, UnreadableEntry):
        pass
    value = getattr(builder, "value", None)
    value = value[0] if isinstance(value, list) and value else value
    return value if isinstance(value, dict) else {}


BATCH: Final = 64
"""Rows of a table per read."""


def _table_rows(document: Document) -> Iterator[FileRow]:
    """Yield the rows of a table; numbers that are not finite become ``None``.

    Raises:
        ConfigurationError: The table cannot be read, or pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ConfigurationError(f"tables need pyarrow: {MISSING}") from error
    source = document.source
    try:
        with parquet.ParquetFile(document.stream if document.member else source.path) as table:
            count, number = max(1, table.metadata.num_rows), 0
            for batch in table.iter_batches(batch_size=BATCH):
                for value in batch.to_pylist():
                    number += 1
                    source.done = max(source.done, source.size * number // count)
                    yield FileRow(number, _plain(value), document.place(f"row {number}"))
    except (pyarrow.ArrowException, ValueError, OSError) as error:
        raise ConfigurationError(f"{source.path} is not a readable Parquet table: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value if isinstance(value, str | int | bool | None) else str(type(value).__name__)

"""Read files row by row in bounded memory: JSON Lines, Parquet tables.

Unreadable lines are reported; the other lines are read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from spectator.errors import ConfigurationError
from spectator.importing.foreign import ForeignEpisode, UnreadableEntry, digest_of
from spectator.journal.encoding import BadLine

MAX_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of one entry; longer ones are skipped."""

BOM: Final = b"\xef\xbb\xbf"

SKIP_BYTES: Final = 1024 * 1024


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
    """

    path: Path
    rewards: tuple[str, ...] = ()
    done: int = 0

    @property
    def size(self) -> int:
        """Size of the file, bytes."""
        return self.path.stat().st_size


@dataclass(frozen=True, slots=True)
class FileRow:
    """One row of a file.

    Args:
        number: Number of the row, from 1.
        start: Byte of the file at which its line begins.
    """

    number: int
    value: Mapping[str, Any]
    start: int = 0

    @property
    def digest(self) -> str:
        """Digest of the object, see :func:`~spectator.importing.foreign.digest_of`."""
        return digest_of(self.value)


def rows(source: Source) -> Iterator[FileRow | SkippedEntry]:
    """Yield the objects in a JSON Lines file, without blank lines.

    Other lines are yielded as :class:`SkippedEntry`. ``NaN`` and infinities, which some programs write,
    become ``None``.
    """
    with source.path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_BYTES + 1), b""), 1):
            start = source.done
            source.done += len(line)
            if len(line) > MAX_BYTES:
                _skip_line(file, source, line)
                yield SkippedEntry(f"line {number}", f"it is longer than {MAX_BYTES >> 20} MiB")
                continue
            if line.removeprefix(BOM).strip():
                yield _row(number, line, start)


def row_at(file: BinaryIO, number: int, start: int) -> FileRow | SkippedEntry:
    """Read again the row of :func:`rows` that begins at ``start``."""
    file.seek(start)
    return _row(number, file.readline(MAX_BYTES + 1), start)


def _skip_line(file: BinaryIO, source: Source, read: bytes) -> None:
    """Skip the rest of a line."""
    while read and not read.endswith(b"\n"):
        read = file.readline(SKIP_BYTES)
        source.done += len(read)


def _row(number: int, line: bytes, start: int) -> FileRow | SkippedEntry:
    value = parsed(line.removeprefix(BOM) if number == 1 else line)
    if isinstance(value, BadLine):
        incomplete = "" if line.endswith(b"\n") else "; the last line is incomplete"
        return SkippedEntry(f"line {number}", value.reason + incomplete)
    if not isinstance(value, dict):
        return SkippedEntry(f"line {number}", f"not a JSON object but a {type(value).__name__}")
    return FileRow(number, value, start)


def parsed(line: bytes) -> Any:
    """Parse JSON, with ``None`` for NaN and infinities, or return a `BadLine`."""
    try:
        return orjson.loads(line)
    except ValueError:
        pass
    try:
        return finite_json(line)
    except UnicodeDecodeError as error:
        return BadLine(0, f"invalid UTF-8: {error.reason} at byte {error.start}")
    except (ValueError, RecursionError) as error:
        return BadLine(0, f"invalid JSON: {error}")


UNEXPECTED = (TypeError, ValueError, LookupError, AttributeError, RecursionError, OverflowError)
"""Errors raised while reading members with an unexpected form."""


def each_row(source: Source, episodes: Callable[[FileRow, Source], Iterator[ForeignEpisode]]) -> Entries:
    """Yield the episodes that ``episodes`` reads from each line."""
    for row in rows(source):
        if isinstance(row, SkippedEntry):
            yield row
            continue
        yield from guarded(f"line {row.number}", lambda row=row: episodes(row, source))  # type: ignore[misc]


def guarded(place: str, episodes: Callable[[], Iterator[ForeignEpisode]]) -> Entries:
    """Yield what ``episodes`` reads; errors become a :class:`SkippedEntry`."""
    try:
        yield from episodes()
    except UnreadableEntry as error:
        yield SkippedEntry(place, str(error))
    except UNEXPECTED as error:
        yield SkippedEntry(place, f"it does not fit the format: {error!r}"[:300])


MAGIC: Final = b"PAR1"

BATCH: Final = 64
"""Rows per read."""


def is_table(path: Path) -> bool:
    """Whether a file is a Parquet file."""
    with path.open("rb") as file:
        return file.read(4) == MAGIC


def table_rows(source: Source) -> Iterator[FileRow]:
    """Yield the rows of a table; numbers that are not finite become ``None``.

    Raises:
        ConfigurationError: The table cannot be read, or pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise ConfigurationError("tables need pyarrow: pip install 'openenv-spectator[import]'") from error
    try:
        with parquet.ParquetFile(source.path) as table:
            size, count = source.size, max(1, table.metadata.num_rows)
            number = 0
            for batch in table.iter_batches(batch_size=BATCH):
                for value in batch.to_pylist():
                    number += 1
                    source.done = size * number // count
                    yield FileRow(number, _plain(value))
    except (pyarrow.ArrowException, ValueError) as error:
        raise ConfigurationError(f"{source.path} is not a readable Parquet table: {error}") from error


def finite_json(text: str | bytes) -> Any:
    """Parse JSON, with ``None`` for NaN, infinities, and numbers that no float can hold, such as 1e400.

    Raises:
        ValueError: It is not JSON.
        RecursionError: It is nested too deeply.
    """
    return json.loads(text, parse_constant=lambda name: None, parse_float=_finite)


def _finite(digits: str) -> float | None:
    known = float(digits)
    return known if math.isfinite(known) else None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, str | int | bool | None) else str(type(value).__name__)

"""Read files row by row in bounded memory: lines of JSON, Parquet tables.

An unreadable line is reported, and the others are read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from spectator.errors import ConfigurationError
from spectator.events import encode_json
from spectator.importing.foreign import ForeignEpisode, UnreadableEntry
from spectator.journal.encoding import BadLine

MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of one entry that are read; a longer one is left out."""

SKIPPED_AT_ONCE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SkippedEntry:
    """Something in a file that is not imported.

    Args:
        place: Where, such as ``line 7``.
        reason: Why, in a sentence.
    """

    place: str
    reason: str


Entries = Iterator[ForeignEpisode | SkippedEntry]
"""What a file holds, in its order."""


@dataclass(slots=True)
class Source:
    """A file that is imported.

    Args:
        path: Where it is.
        rewards: The columns that are rewards, where the format does not say.
        done: How many of its bytes have been read.
    """

    path: Path
    rewards: tuple[str, ...] = ()
    done: int = 0

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.path.stat().st_size


@dataclass(frozen=True, slots=True)
class FileRow:
    """One line of a file of JSON Lines.

    Args:
        number: Its number, from 1.
        value: The object on it.
        digest: SHA-256 of the line, in hex.
    """

    number: int
    value: Mapping[str, Any]
    digest: str


def rows(source: Source) -> Iterator[FileRow | SkippedEntry]:
    """The lines of a file, blank ones passed over; what is no object comes as :class:`SkippedEntry`.

    ``NaN`` and the infinities, which some programs write, become ``null``.
    """
    with source.path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_BYTES + 1), b""), 1):
            source.done += len(line)
            if len(line) > MAX_BYTES:
                _skip_line(file, source, line)
                yield SkippedEntry(f"line {number}", f"it is longer than {MAX_BYTES >> 20} MiB")
                continue
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if line.strip():
                yield _row(number, line)


def _skip_line(file: BinaryIO, source: Source, read: bytes) -> None:
    """Pass over the rest of a line."""
    while read and not read.endswith(b"\n"):
        read = file.readline(SKIPPED_AT_ONCE)
        source.done += len(read)


def _row(number: int, line: bytes) -> FileRow | SkippedEntry:
    value = parsed(line)
    if isinstance(value, BadLine):
        torn = "" if line.endswith(b"\n") else "; the last line is torn"
        return SkippedEntry(f"line {number}", value.reason + torn)
    if not isinstance(value, dict):
        return SkippedEntry(f"line {number}", f"no object, but {type(value).__name__}")
    return FileRow(number, value, sha256(line.strip()).hexdigest())


def parsed(line: bytes) -> Any:
    """JSON in which no number is infinite or not a number; a :class:`BadLine` where it is no JSON."""
    try:
        return orjson.loads(line)
    except ValueError:
        pass
    try:
        return json.loads(line, parse_constant=lambda name: None)
    except UnicodeDecodeError as error:
        return BadLine(0, f"no UTF-8: {error.reason} at byte {error.start}")
    except (ValueError, RecursionError) as error:
        return BadLine(0, f"no JSON: {error}")


UNEXPECTED = (TypeError, ValueError, LookupError, AttributeError, RecursionError, OverflowError)
"""What reading a member comes to that has a shape nobody thought of."""


def each_row(source: Source, episodes: Callable[[FileRow, Source], Iterator[ForeignEpisode]]) -> Entries:
    """The episodes on each line of a file, as ``episodes`` reads them."""
    for row in rows(source):
        if isinstance(row, SkippedEntry):
            yield row
            continue
        yield from guarded(f"line {row.number}", lambda row=row: episodes(row, source))  # type: ignore[misc]


def guarded(place: str, episodes: Callable[[], Iterator[ForeignEpisode]]) -> Entries:
    """What ``episodes`` reads at one place of a file; what it cannot read comes as :class:`SkippedEntry`."""
    try:
        yield from episodes()
    except UnreadableEntry as error:
        yield SkippedEntry(place, str(error))
    except UNEXPECTED as error:
        yield SkippedEntry(place, f"it is not as its format has it: {error!r}"[:300])


MAGIC: Final = b"PAR1"

BATCH: Final = 64
"""Rows that are read at once."""


def is_table(path: Path) -> bool:
    """Whether a file is a Parquet file."""
    with path.open("rb") as file:
        return file.read(4) == MAGIC


def table_rows(source: Source) -> Iterator[FileRow]:
    """The rows of a table; numbers that are not finite become ``None``.

    Raises:
        ConfigurationError: It cannot be read, or the extra for tables is not installed.
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
                    plain = _plain(value)
                    yield FileRow(number, plain, sha256(encode_json(plain).encode()).hexdigest())
    except (pyarrow.ArrowException, ValueError) as error:
        raise ConfigurationError(f"{source.path} is no table that can be read: {error}") from error


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

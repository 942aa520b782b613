"""Reads files entry by entry in bounded memory: lines of JSON, rows of tables, members of archives."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from spectator.importing.foreign import ForeignEpisode
from spectator.journal.json_lines import BadLine

MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of one entry that are read; a longer one is left out."""

SKIPPED_AT_ONCE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something in a file that is not imported.

    Args:
        place: Where, such as ``line 7``.
        reason: Why, in a sentence.
    """

    place: str
    reason: str


Entries = Iterator[ForeignEpisode | LeftOut]
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


def rows(source: Source) -> Iterator[FileRow | LeftOut]:
    """The lines of a file, blank ones passed over; what is no object comes as :class:`LeftOut`.

    ``NaN`` and the infinities, which some programs write, become ``null``.
    """
    with source.path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MOST_BYTES + 1), b""), 1):
            source.done += len(line)
            if len(line) > MOST_BYTES:
                _skip_line(file, source, line)
                yield LeftOut(f"line {number}", f"it is longer than {MOST_BYTES >> 20} MiB")
                continue
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if line.strip():
                yield _row(number, line)


def _skip_line(file: BinaryIO, source: Source, read: bytes) -> None:
    """Pass over the rest of a line."""
    while read and not read.endswith(b"\n"):
        read = file.readline(SKIPPED_AT_ONCE)
        source.done += len(read)


def _row(number: int, line: bytes) -> FileRow | LeftOut:
    value = parsed(line)
    if isinstance(value, BadLine):
        torn = "" if line.endswith(b"\n") else "; the last line is torn"
        return LeftOut(f"line {number}", value.reason + torn)
    if not isinstance(value, dict):
        return LeftOut(f"line {number}", f"no object, but {type(value).__name__}")
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

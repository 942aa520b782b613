"""Recognises the format of a file by how it begins."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from spectator.errors import ConfigurationError
from spectator.importing.formats import (
    inspect_logs,
    nemo_gym,
    own_events,
    own_rows,
    sessions,
    trl,
    verifiers,
)
from spectator.importing.reading import Entries, LeftOut, Source, rows
from spectator.importing.tables import is_table, table_rows

LOOKED_AT: Final = 20
"""Lines of a file that are looked at."""

BEGINNING: Final = 4096


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format.

    Args:
        name: As ``--format`` takes it.
        known_by: Whether an object is a line, a row or a whole file of it.
        read: Reads its files; ``None`` for events, which are not translated.
    """

    name: str
    known_by: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Source], Entries] | None


FORMATS: Final = (
    FileFormat(own_events.NAME, own_events.known_by, None),
    FileFormat(sessions.NAME, sessions.known_by, sessions.read),
    FileFormat(nemo_gym.NAME, nemo_gym.known_by, nemo_gym.read),
    FileFormat(own_rows.CALLS, own_rows.is_call, own_rows.read_calls),
    FileFormat(own_rows.GROUPS, own_rows.is_group, own_rows.read_groups),
    FileFormat(own_rows.RECORDS, own_rows.is_record, own_rows.read_records),
    FileFormat(verifiers.NAME, verifiers.known_by, verifiers.read),
    FileFormat(trl.NAME, trl.known_by, trl.read),
    FileFormat(inspect_logs.NAME, inspect_logs.known_by, inspect_logs.read),
)
"""All formats; the first that knows a line has it."""

NAMES: Final = tuple(one.name for one in FORMATS)


def format_called(name: str) -> FileFormat:
    """The format with this name.

    Raises:
        ConfigurationError: There is none.
    """
    for one in FORMATS:
        if one.name == name:
            return one
    raise ConfigurationError(f"there is no format {name!r}; there are {', '.join(NAMES)}")


def sniff(path: Path) -> FileFormat:
    """The format of a file, by its beginning.

    Raises:
        ConfigurationError: It is none that is known; the sentence says what was found.
        OSError: It cannot be read.
    """
    if path.stat().st_size == 0:
        raise ConfigurationError(f"{path} is empty")
    if zipfile.is_zipfile(path):
        return format_called(inspect_logs.NAME)
    found = _table_formats(path) if is_table(path) else _line_formats(path)
    if isinstance(found, FileFormat):
        return found
    named = f"; it begins with {found}" if found else ""
    raise ConfigurationError(f"{path} is of no format that is known{named}; --format NAME says which it is")


def _table_formats(path: Path) -> FileFormat | str:
    row = next(table_rows(Source(path)), None)
    if row is None:
        return "a table without rows"
    return format_called(trl.NAME) if trl.known_by(row.value) else f"the columns {_names(row.value)}"


def _line_formats(path: Path) -> FileFormat | str:
    with path.open("rb") as file:
        beginning = file.read(BEGINNING)
    if b"\x00" in beginning:
        return "bytes that are no text"
    if _is_log(beginning):
        return format_called(inspect_logs.NAME)
    seen = ""
    for row in islice(rows(Source(path)), LOOKED_AT):
        if isinstance(row, LeftOut):
            continue
        known = next((one for one in FORMATS if one.known_by(row.value)), None)
        if known is not None:
            return known
        seen = seen or f"an object with {_names(row.value)}"
    return seen


def _is_log(beginning: bytes) -> bool:
    """Whether a text begins as a log of inspect_ai: one JSON text, on one line or on many."""
    head = beginning.lstrip()[:2000]
    return (
        head.startswith(b"{") and b'"version"' in head[:200] and b'"eval"' in head and b'"task"' in beginning
    )


def _names(row: Mapping[str, Any]) -> str:
    return ", ".join(map(str, list(row)[:8])) or "nothing"

"""File formats, and their detection from the beginning of a file."""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from spectator.errors import ConfigurationError
from spectator.importing import (
    collector_files,
    inspect_logs,
    nemo_gym,
    own_exports,
    pooled_steps,
    sessions,
    trl,
    verifiers,
)
from spectator.importing.file_rows import BOM, Entries, SkippedEntry, Source, is_table, rows, table_rows

DETECTION_LINES: Final = 20
"""Lines read to detect the format of a file."""

FIX: Final = "convert it to a format of docs/import.md, or set one with --format NAME"

BEGINNING: Final = 4096

DESCRIBED: Final = 1 << 20
"""Bytes read to describe a JSON text over several lines."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A file format.

    Args:
        name: Name for ``--format``.
        matches: Whether an object is a line, a row or a whole file of this format.
        read: Reads files of this format; ``None`` for events, which are not translated.
        members: Members of its lines, to compare with those of an unknown file.
    """

    name: str
    matches: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Source], Entries] | None
    members: tuple[str, ...]


FORMATS: Final = (
    FileFormat(
        own_exports.NAME, own_exports.matches, None, ("v", "episode_id", "epoch", "seq", "type", "data")
    ),
    FileFormat(sessions.NAME, sessions.matches, sessions.read, ("type", "harness")),
    FileFormat(nemo_gym.NAME, nemo_gym.matches, nemo_gym.read, ("responses_create_params", "response")),
    FileFormat(
        own_exports.CALLS,
        own_exports.is_call,
        own_exports.read_calls,
        ("episode_id", "seq", "call", "messages", "reply"),
    ),
    FileFormat(
        own_exports.GROUPS,
        own_exports.is_group,
        own_exports.read_groups,
        ("group_id", "completions", "rewards", "prompt"),
    ),
    FileFormat(
        own_exports.RECORDS,
        own_exports.is_record,
        own_exports.read_records,
        ("episode_id", "messages", "tool_trace", "reward"),
    ),
    FileFormat(
        collector_files.COLLECTOR,
        collector_files.is_collected,
        collector_files.read_collected,
        ("seed", "steps", "total_reward"),
    ),
    FileFormat(
        pooled_steps.STEPS,
        pooled_steps.is_step,
        pooled_steps.read_steps,
        ("session_id", "step_id", "messages", "response"),
    ),
    FileFormat(
        verifiers.NAME, verifiers.matches, verifiers.read, ("example_id", "prompt", "completion", "reward")
    ),
    FileFormat(trl.NAME, trl.matches, trl.read, ("step", "prompt", "completion")),
    FileFormat(inspect_logs.NAME, inspect_logs.matches, inspect_logs.read, ("version", "eval", "samples")),
)
"""All formats; the first that matches is used."""

NAMES: Final = tuple(one.name for one in FORMATS)


def format_named(name: str) -> FileFormat:
    """Return the format with this name.

    Raises:
        ConfigurationError: The name is unknown.
    """
    for one in FORMATS:
        if one.name == name:
            return one
    raise ConfigurationError(f"unknown format {name!r}; use {', '.join(NAMES)}")


def sniff(path: Path) -> FileFormat:
    """Detect the format of a file from its beginning.

    Raises:
        ConfigurationError: The format is unknown; the message says what was found.
        OSError: The file cannot be read.
    """
    if path.stat().st_size == 0:
        raise ConfigurationError(f"{path} is empty")
    if zipfile.is_zipfile(path):
        return format_named(inspect_logs.NAME)
    found = _table_formats(path) if is_table(path) else _line_formats(path)
    if isinstance(found, FileFormat):
        return found
    beginning = f" (it begins with {found})" if found else ""
    raise ConfigurationError(f"{path} has an unknown format{beginning}; {FIX}")


def _table_formats(path: Path) -> FileFormat | str:
    row = next(table_rows(Source(path)), None)
    if row is None:
        return "a table without rows"
    return format_named(trl.NAME) if trl.matches(row.value) else f"the columns {_described(row.value)}"


def _line_formats(path: Path) -> FileFormat | str:
    with path.open("rb") as file:
        beginning = file.read(BEGINNING)
    if b"\x00" in beginning:
        return "binary data"
    if _is_log(beginning):
        return format_named(inspect_logs.NAME)
    described = ""
    for row in islice(rows(Source(path)), DETECTION_LINES):
        if isinstance(row, SkippedEntry):
            continue
        known = next((one for one in FORMATS if one.matches(row.value)), None)
        if known is not None:
            return known
        described = described or f"an object with {_described(row.value)}"
    return described or _text_format(path)


def _text_format(path: Path) -> FileFormat | str:
    """Detect the format of a single JSON text over several lines, or describe it."""
    try:
        import ijson
    except ImportError:
        return "no JSON Lines"
    names: dict[str, None] = {}
    outer = ""
    with path.open("rb") as file, contextlib.suppress(ijson.JSONError):
        for prefix, event, value in ijson.parse(io.BytesIO(file.read(DESCRIBED).removeprefix(BOM))):
            outer = outer or event
            if event == "map_key" and prefix == ("item" if outer == "start_array" else ""):
                names[value] = None
            if (prefix, event) == ("item", "end_map"):
                break
    if outer == "start_map" and ("eval" in names or "samples" in names):
        return format_named(inspect_logs.NAME)
    if not names:
        return "an array" if outer == "start_array" else ""
    if outer == "start_array":
        return f"an array of objects with {_described(names)}; jq -c '.[]' writes a line for each"
    return f"one object over several lines with {_described(names)}; jq -c . writes it as a line"


def _is_log(beginning: bytes) -> bool:
    """Whether a text begins like a log of inspect_ai, a single JSON text."""
    head = beginning.lstrip()[:2000]
    return (
        head.startswith(b"{") and b'"version"' in head[:200] and b'"eval"' in head and b'"task"' in beginning
    )


def _described(row: Mapping[str, Any]) -> str:
    """Return the names of members and the format that has most of them, if it has half of its own."""
    names = ", ".join(map(str, list(row)[:8])) or "nothing"
    nearest = max(FORMATS, key=lambda one: sum(name in row for name in one.members) / len(one.members))
    missing = [name for name in nearest.members if name not in row]
    if 2 * len(missing) > len(nearest.members):
        return names
    return f"{names}; the nearest format, {nearest.name}, needs {' and '.join(missing) or 'other values'} too"

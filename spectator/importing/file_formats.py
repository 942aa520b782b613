"""Detect the format of a file from its beginning, and read the file."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from spectator.errors import ConfigurationError
from spectator.importing.archives import is_archive, member_named, members, single_document
from spectator.importing.declaration import FIELDS, DeclaredFormat
from spectator.importing.document_reader import entries, row_entries
from spectator.importing.file_rows import Document, Entries, FileRow, SkippedEntry, Source
from spectator.importing.finite_json import parsed
from spectator.importing.foreign import UnreadableEntry
from spectator.importing.formats import FORMATS
from spectator.importing.paths import path

NAMES: Final = tuple(dict.fromkeys(one.name for one in FORMATS))

EVENTS: Final = "ndjson"
"""The format of events, which are not translated."""

FIX: Final = (
    "convert it to a format of docs/import.md, set one with --format NAME, or say where everything is with "
    "--map messages=PATH,reward=PATH"
)


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format, with its declarations.

    Args:
        name: Name for ``--format``.
    """

    name: str
    declarations: tuple[DeclaredFormat, ...]

    def read(self, source: Source) -> Entries:
        """Yield the episodes of a file."""
        archive = next((one.archive for one in self.declarations if one.archive), None)
        if not is_archive(source):
            with _opened(source) as document:
                if document.kind == "nothing":
                    yield SkippedEntry("the file", "it has no entries")
                yield from entries(self.declarations, document)
        elif archive is not None and _head_of(source, archive[0]) is not None:
            yield from self._read_archive(source, *archive)
        else:
            yield from self._read_members(source)

    def _read_archive(self, source: Source, heads: Sequence[str], folder: str) -> Entries:
        head = _head_of(source, heads)
        for name, data in members(source):
            if not name.startswith(folder) or not name.endswith(".json"):
                continue
            value = data if isinstance(data, SkippedEntry) else parsed(data)
            if isinstance(value, SkippedEntry):
                yield value
                continue
            if not isinstance(value, Mapping):
                yield SkippedEntry(name, getattr(value, "reason", "it is not an object"))
                continue
            form = next(one for one in self.declarations if one.archive)
            yield from row_entries(
                form, source.path.stem, FileRow(0, {**(head or {}), form.each: [value]}, name)
            )

    def _read_members(self, source: Source) -> Entries:
        for name, data in members(source):
            if isinstance(data, SkippedEntry):
                yield data
                continue
            document = Document(source, io.BytesIO(data), name, plain=False)
            found = _recognised(document)
            if isinstance(found, str):
                yield SkippedEntry(name, f"it has an unknown format (it begins with {found})")
            else:
                yield from entries(found.declarations, document)


def format_named(name: str) -> FileFormat:
    """Return the format with this name.

    Raises:
        ConfigurationError: The name is unknown.
    """
    if name not in NAMES:
        raise ConfigurationError(f"unknown format {name!r}; use {', '.join(NAMES)}")
    return FileFormat(name, tuple(one for one in FORMATS if one.name == name))


def mapped(given: str) -> FileFormat:
    """Return the format that a user describes.

    Args:
        given: ``field=path`` pairs, separated by commas outside of brackets; ``each`` lists the episodes.

    Raises:
        ConfigurationError: A field is unknown, or a path invalid.

    >>> mapped("messages=chat.turns,reward=max_by(scores, &v).v").declarations[0].reads["reward"]
    'max_by(scores, &v).v'
    """
    reads, pairs, depth = {}, [""], 0
    for sign in given:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            pairs.append("")
        else:
            pairs[-1] += sign
    for pair in pairs:
        name, equals, expression = (one.strip() for one in pair.partition("="))
        if not equals or name not in (*FIELDS, "each"):
            raise ConfigurationError(
                f"--map {pair!r}: unknown field; use FIELD=PATH with each, {', '.join(FIELDS)}"
            )
        path(expression)
        reads[name] = expression
    if not {"messages", "turns"} & reads.keys():
        raise ConfigurationError("--map says nothing of messages; add messages=PATH or turns=PATH")
    each = reads.pop("each", "")
    label = reads.get("messages", "")
    return FileFormat(
        "mapped", (DeclaredFormat(name="mapped", match=("",), each=each, reads=reads, label=label),)
    )


def sniff(source: Source) -> FileFormat:
    """Detect the format of a file from its beginning.

    Raises:
        ConfigurationError: The format is unknown; the message says what was found.
        OSError: The file cannot be read.
    """
    if source.path.stat().st_size == 0:
        raise ConfigurationError(f"{source.path} is empty")
    if is_archive(source):
        found = _of_archive(source)
    else:
        with _opened(source) as document:
            found = _recognised(document)
    if isinstance(found, FileFormat):
        return found
    beginning = f" (it begins with {found})" if found else ""
    raise ConfigurationError(f"{source.path} has an unknown format{beginning}; {FIX}")


@contextmanager
def _opened(source: Source) -> Iterator[Document]:
    with single_document(source) as document:
        yield document


def _of_archive(source: Source) -> FileFormat | str:
    reason = ""
    for form in FORMATS:
        try:
            if form.archive and _head_of(source, form.archive[0]) is not None:
                return format_named(form.name)
        except UnreadableEntry as error:
            reason = str(error)
    found = ""
    for name, data in members(source):
        if isinstance(data, bytes):
            known = _recognised(Document(source, io.BytesIO(data), name, plain=False))
            if isinstance(known, FileFormat):
                return known
            found = found or f"an archive whose member {name} is {known}"
    return reason or found or "an archive without members that can be read"


def _head_of(source: Source, names: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the description in the first of these members that can be read.

    Raises:
        UnreadableEntry: None can be read.
    """
    problem: UnreadableEntry | None = None
    for name in names:
        try:
            data = member_named(source, name)
        except UnreadableEntry as error:
            problem = UnreadableEntry(f"{name}: {error}")
            continue
        value = None if data is None else parsed(data)
        if isinstance(value, dict):
            return value
    if problem is not None:
        raise problem
    return None


def _recognised(document: Document) -> FileFormat | str:
    """Return the format of a document, or what it is instead."""
    if not document.readable:
        return document.kind
    first: Mapping[str, Any] | None = None
    for row in document.beginning():
        known = next((one for one in FORMATS if one.matches(row)), None)
        if known is not None:
            return format_named(known.name)
        first = first or row
    if first is None:
        return "a table without rows" if document.kind == "table" else "no JSON object"
    kind = "the columns" if document.kind == "table" else "an object with"
    return f"{kind} {described(first)}"


def described(row: Mapping[str, Any]) -> str:
    """Return the names of members, and the nearest format with what it needs too.

    >>> described({"prompt": "2 + 2?", "completion": "4"}).partition(";")[2]
    ' the nearest format, trl, needs step too'
    """
    names = ", ".join(map(str, list(row)[:12])) or "nothing"

    nearest = max(FORMATS, key=lambda form: form.nearness(row)[0])
    share, lacks = nearest.nearness(row)
    if share < 0.5:
        return names
    return f"{names}; the nearest format, {nearest.name}, needs {' and '.join(lacks) or 'other values'} too"

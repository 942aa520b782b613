"""Read a document by the declarations of its format: rows, rows that share a key, or sessions of rows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import combinations, islice
from tempfile import TemporaryFile
from typing import IO, Any, Final

from spectator.events import encode_json
from spectator.importing.declaration import DeclaredFormat
from spectator.importing.episode_reader import DeclaredEpisode, listed, misfit
from spectator.importing.file_rows import UNEXPECTED, Document, Entries, FileRow, SkippedEntry, row_at
from spectator.importing.foreign import ForeignEpisode, digest_of, number, text
from spectator.importing.paths import path

MAX_ROWS: Final = 100_000
"""Maximum rows of one session."""

ROWS: Final = 256
"""Rows of a table that are compared to find its rewards."""

MOST: Final = 10
"""Columns of which all sums are tried."""


def entries(formats: Sequence[DeclaredFormat], document: Document) -> Entries:
    """Yield the episodes of a document.

    Args:
        formats: The declarations of its format; the first that matches a row is used.
    """
    lead = next((one for row in document.beginning() for one in formats if one.matches(row)), formats[0])
    reader = _Reader(formats, document, lead)
    if lead.key:
        yield from reader.joined()
    elif lead.begins:
        yield from reader.sessions()
    else:
        yield from reader.rows()
    if reader.aside:
        kinds = ", ".join(f"{many} {kind} (first {first})" for kind, (many, first) in reader.aside.items())
        many = sum(one for one, _ in reader.aside.values())
        said = (
            "1 entry that is not a message is" if many == 1 else f"{many} entries that are not messages are"
        )
        document.source.warnings.append(f"{document.source.path}: {said} not shown: {kinds}"[:500])


class _Reader:
    """Reads one document."""

    def __init__(self, formats: Sequence[DeclaredFormat], document: Document, lead: DeclaredFormat) -> None:
        self._formats = [
            one for one in formats if bool(one.key or one.begins) == bool(lead.key or lead.begins)
        ]
        self._document, self._lead = document, lead
        self.aside: dict[str, tuple[int, str]] = {}
        self._beside: dict[str, Mapping[str, Any]] = {}
        self._columns = _rewards_of(document, lead) if lead.not_rewards else ()

    def rows(self) -> Entries:
        """Yield the episodes of rows of which each has its own."""
        lead = self._lead
        for row in self._document.rows(
            lead.streamed, lead.unread, lambda head: not lead.missing({**head, lead.each: []})
        ):
            if isinstance(row, SkippedEntry):
                yield row
                continue
            form = next((one for one in self._formats if one.matches(row.value)), None)
            if form is None:
                yield SkippedEntry(row.place, self._unfit(row.value))
                continue
            yield from row_entries(form, self._document.stem, row, self._besides(form), self._columns)

    def _unfit(self, row: Mapping[str, Any]) -> str:
        nearest = max(self._formats, key=lambda one: one.nearness(row)[0])
        missing = nearest.missing(row)
        lacks = (
            f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} missing"
            if missing
            else "other values"
        )
        found = ", ".join(map(str, list(row)[:8])) or "nothing"
        return f"it does not fit {nearest.name}: {lacks} (found: {found})"

    def _besides(self, form: DeclaredFormat) -> Mapping[str, Any]:
        """Return the object in the file beside the document's, or nothing."""
        if form.beside and form.beside not in self._beside:
            self._beside[form.beside] = _beside(self._document, form.beside)
        return self._beside.get(form.beside, {})

    def joined(self) -> Entries:
        """Yield the episodes of rows that share a key, in any order."""
        form, found = self._lead, dict[str, dict[str, tuple[Any, FileRow, int]]]()
        plain = self._document.kind == "lines" and self._document.plain
        with TemporaryFile(dir=self._document.source.scratch) as spool:
            for row in self._document.rows():
                if isinstance(row, SkippedEntry):
                    yield row
                    continue
                try:
                    items = _items(form, row.value)
                except UNEXPECTED as error:
                    yield SkippedEntry(row.place, misfit(error))
                    continue
                if not items:
                    yield SkippedEntry(row.place, "it has no entries")
                start = row.start if plain else spool.tell()
                if not plain:
                    spool.write(encode_json(dict(row.value)).encode("utf-8", "replace") + b"\n")
                kept = FileRow(row.number, {}, row.place, start)
                for place, item in enumerate(items):
                    key, at = path(form.key)(item), path(form.sort)(item)
                    if key in (None, "", []) or at is None:
                        if kind := self._kind(item):
                            self._put_aside(kind, row.place)
                        else:
                            yield SkippedEntry(row.place, form.lacking or self._unfit(item))
                        continue
                    own = path(form.row_id)(item) if form.row_id else at
                    of = found.setdefault(digest_of(key), {})
                    of[digest_of(own)] = (at, kept, place)
            self._document.source.done = 0
            yield from self._joined_episodes(found, self._document.stream if plain else spool)

    def _joined_episodes(
        self, found: Mapping[str, Mapping[str, tuple[Any, FileRow, int]]], file: IO[bytes]
    ) -> Entries:
        form = self._lead
        for rows in found.values():
            kept: list[tuple[str, Mapping[str, Any]]] = []
            ordered = sorted(rows.values(), key=lambda one: _sortable(one[0]))
            for _, where, place in ordered[:MAX_ROWS]:
                row = row_at(file, where)
                if isinstance(row, FileRow):
                    kept.append((where.place, _items(form, row.value)[place]))
                    self._document.pass_by(where.start)
            if len(ordered) > MAX_ROWS:
                yield SkippedEntry(ordered[MAX_ROWS][1].place, f"more than {MAX_ROWS:,} rows of one episode")
            yield from self._of_rows(form, kept)
        self._document.source.done = self._document.source.size

    def sessions(self) -> Entries:
        """Yield the episodes of rows that follow each other."""
        kept: list[tuple[str, Mapping[str, Any]]] = []
        for row in self._document.rows():
            if isinstance(row, SkippedEntry):
                yield row
                continue
            form = next((one for one in self._formats if one.begins == self._lead.begins), self._lead)
            if path(form.begins)(row.value) and kept:
                yield from self._of_rows(form, kept)
                kept = []
            if len(kept) == MAX_ROWS:
                yield SkippedEntry(row.place, f"more than {MAX_ROWS:,} rows of one episode")
            if len(kept) < MAX_ROWS:
                kept.append((row.place, row.value))
        if kept:
            yield from self._of_rows(self._lead, kept)

    def _kind(self, row: Mapping[str, Any]) -> str:
        return text(path(self._lead.aside)(row))[:40] if self._lead.aside else ""

    def _put_aside(self, kind: str, place: str) -> None:
        many, first = self.aside.get(kind, (0, place))
        self.aside[kind] = (many + 1, first)

    def _of_rows(self, form: DeclaredFormat, rows: list[tuple[str, Mapping[str, Any]]]) -> Entries:
        """Yield the episode of some rows, and those that are no messages."""
        shown = []
        for place, row in rows:
            kind = self._kind(row)
            if kind and kind != "head":
                self._put_aside(kind, place)
            elif not kind:
                shown.append((place, row))
        values = [row for _, row in rows]
        given = {
            "rows": values, "first": values[0], "last": values[-1], "file": self._document.stem,
            "beside": self._besides(form),
        }  # fmt: skip
        skipped: list[SkippedEntry] = []
        yield guarded(rows[0][0], DeclaredEpisode(form, given, values, shown, skipped.append))
        yield from skipped


def row_entries(
    form: DeclaredFormat,
    stem: str,
    row: FileRow,
    beside: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
) -> Entries:
    """Yield the episodes of one row.

    Args:
        stem: Name of the file, without its endings.
        beside: What the file beside it says.
        columns: The columns that are rewards; by default all numbers but ``not_rewards``.
    """
    given = {**row.value, "file": stem, "beside": beside or {}, "columns": columns}
    if not form.each:
        yield guarded(row.place, DeclaredEpisode(form, given, row.value))
        return
    try:
        items = listed(path(form.each)(given), form.each)
    except UNEXPECTED as error:
        yield SkippedEntry(row.place, misfit(error))
        return
    if not items:
        yield SkippedEntry(row.place, f"{form.each} is empty: there is nothing to import")
    for place, one in enumerate(items):
        where = row.place if len(items) == 1 else f"{row.place}, {form.each}[{place}]"
        yield guarded(where, DeclaredEpisode(form, {**given, "it": one}, one))


def _rewards_of(document: Document, form: DeclaredFormat) -> Sequence[str] | None:
    """Return the columns that are rewards, and warn if that is not certain."""
    source = document.source
    if source.rewards:
        return source.rewards
    rows = [row.value for row in islice(document.rows(), ROWS) if isinstance(row, FileRow)]
    names = sorted(
        {
            name
            for row in rows
            for name in row
            if name not in form.not_rewards and number(row[name]) is not None
        }
    )
    if len(names) < 2 or any(number(row.get("reward")) is not None for row in rows):
        return None
    found = reward_columns(rows, names)
    others = [name for name in names if found is not None and name not in found]
    if others:
        source.warnings.append(
            f"{source.path}: {' and '.join(others)} {'are' if len(others) > 1 else 'is'} not added to the "
            f"reward: advantage follows from {' + '.join(found or ())} alone; name the rewards with --reward"
        )
    elif found is None:
        source.warnings.append(
            f"{source.path}: the reward is {' + '.join(names)}, but advantage does not follow from that sum "
            "or is 0; name the rewards with --reward"
        )
    return found


def guarded(place: str, episode: DeclaredEpisode) -> ForeignEpisode | SkippedEntry:
    """Read an episode; errors become a :class:`SkippedEntry`."""
    try:
        return episode.read()
    except UNEXPECTED as error:
        return SkippedEntry(place, misfit(error))


def _items(form: DeclaredFormat, row: Mapping[str, Any]) -> list[Any]:
    return listed(path(form.each)(row), form.each) if form.each else [row]


def _sortable(value: Any) -> tuple[Any, ...]:
    """Return a sort key of any JSON value."""
    if isinstance(value, list):
        return (3, *map(_sortable, value))
    known = number(value)
    return (1, known) if known is not None else (2, str(value))


def _beside(document: Document, name: str) -> Mapping[str, Any]:
    """Return the object in a file beside the document's, or nothing."""
    if document.member:
        return {}
    try:
        with (document.source.path.parent / name).open("rb") as file:
            value = json.loads(file.read(1 << 22))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, Mapping) else {}


def reward_columns(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the columns whose sum gives the advantage of each row; ``None`` if that is unknown.

    Within a group of equal prompts, the advantage is the sum less the mean of the group, divided by a
    positive number. Of several sets that fit, the one with the most columns is returned.

    >>> rows = [{"prompt": "q", "a": a, "n": n, "advantage": a - 0.5} for a, n in ((0, 9), (1, 4))]
    >>> reward_columns(rows, ("a", "n"))
    ('a',)
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows[:ROWS]:
        if number(row.get("advantage")) is not None:
            groups.setdefault(digest_of([row.get("step"), row.get("prompt")]), []).append(row)
    whole = [group for group in groups.values() if any(abs(row["advantage"]) > 1e-6 for row in group)]
    if not whole or len(names) > MOST:
        return None
    for size in range(len(names), 0, -1):
        for chosen in combinations(names, size):
            if all(_explains(group, chosen) for group in whole):
                return chosen
    return None


def _explains(group: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bool:
    """Whether the advantages of a group are proportional to its centred sums, with a positive factor."""
    sums = [math.fsum(number(row.get(name)) or 0.0 for name in names) for row in group]
    centred = [one - math.fsum(sums) / len(sums) for one in sums]
    given = [float(row["advantage"]) for row in group]
    norm = math.fsum(one * one for one in centred)
    factor = math.fsum(one * other for one, other in zip(centred, given, strict=True)) / norm if norm else 0.0
    worst = max(abs(other - factor * one) for one, other in zip(centred, given, strict=True))
    return factor > 0 and worst <= 1e-3 * max(1.0, *map(abs, given))

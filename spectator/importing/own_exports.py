"""Events that Spectator exports, which become the same episodes again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from spectator.events import RecordedEvent, decode, encode_json
from spectator.importing.archives import single_document
from spectator.importing.file_rows import FileRow, SkippedEntry, Source

BATCH: Final = 500
"""Maximum events per batch."""


@dataclass(slots=True)
class EventBatch:
    """Consecutive events of one episode.

    Args:
        line: Line of the first event.
    """

    line: int
    events: list[RecordedEvent] = field(default_factory=list)


def batches(source: Source) -> Iterator[EventBatch | SkippedEntry]:
    """Yield the events of a file in batches; other lines as :class:`SkippedEntry`."""
    with single_document(source) as document:
        yield from _batches(document.rows())


def _batches(rows: Iterator[FileRow | SkippedEntry]) -> Iterator[EventBatch | SkippedEntry]:
    batch: EventBatch | None = None
    for row in rows:
        event = row if isinstance(row, SkippedEntry) else _event(row)
        if isinstance(event, SkippedEntry):
            yield event
            continue
        assert isinstance(row, FileRow)
        full = batch is not None and not _fits(batch, event)
        if batch is not None and full:
            yield batch
            batch = None
        batch = batch or EventBatch(row.number)
        batch.events.append(event)
    if batch is not None:
        yield batch


def _fits(batch: EventBatch, event: RecordedEvent) -> bool:
    last = batch.events[-1]
    follows = (last.episode_id, last.seq + 1) == (event.episode_id, event.seq)
    return follows and len(batch.events) < BATCH


def _event(row: FileRow) -> RecordedEvent | SkippedEntry:
    if not isinstance(row.value.get("episode_id"), str) or type(row.value.get("seq")) is not int:
        return SkippedEntry(row.place, "an event needs an episode_id, a text, and a seq, a whole number")
    try:
        return decode(encode_json(dict(row.value)))
    except ValueError as error:
        return SkippedEntry(row.place, str(error)[:300])

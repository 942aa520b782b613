"""Events that this software exports, a line each: episodes that come back as they were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spectator.events import RecordedEvent, decode, encode_json
from spectator.importing.reading import FileRow, LeftOut, Source, rows

NAME: Final = "ndjson"

BATCH: Final = 500
"""Events of one episode that are recorded at once."""


@dataclass(slots=True)
class EventBatch:
    """Events of one episode that follow each other.

    Args:
        line: The line of the first.
        events: The events.
    """

    line: int
    events: list[RecordedEvent] = field(default_factory=list)


def known_by(row: Mapping[str, Any]) -> bool:
    """Whether a line is an event."""
    return {"v", "episode_id", "epoch", "seq", "type", "data"} <= row.keys()


def batches(source: Source) -> Any:
    """The events of a file, :data:`BATCH` at a time; what is no event comes as :class:`LeftOut`."""
    batch: EventBatch | None = None
    for row in rows(source):
        event = row if isinstance(row, LeftOut) else _event(row)
        if isinstance(event, LeftOut):
            yield event
            continue
        assert isinstance(row, FileRow)
        full = batch is not None and not _goes_on(batch, event)
        if batch is not None and full:
            yield batch
            batch = None
        batch = batch or EventBatch(row.number)
        batch.events.append(event)
    if batch is not None:
        yield batch


def _goes_on(batch: EventBatch, event: RecordedEvent) -> bool:
    last = batch.events[-1]
    follows = (last.episode_id, last.seq + 1) == (event.episode_id, event.seq)
    return follows and len(batch.events) < BATCH


def _event(row: FileRow) -> RecordedEvent | LeftOut:
    try:
        return decode(encode_json(dict(row.value)))
    except ValueError as error:
        return LeftOut(f"line {row.number}", str(error)[:300])

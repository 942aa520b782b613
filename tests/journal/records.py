"""Small records for tests of the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from spectator.events import Event, RecordedEvent, record

_Result = TypeVar("_Result")


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'journal.db'}"


def run(work: Coroutine[Any, Any, _Result]) -> _Result:
    return asyncio.run(work)


def started(episode_id: str, *, environment: str = "counting", captain: str = "heuristic") -> RecordedEvent:
    seat = {"policy": captain, "label": captain.title(), "source": "heuristic"}
    other = {"policy": "random", "label": "Random", "source": "random"}
    data = {
        "environment": environment,
        "title": environment.title(),
        "seats": {"home": seat, "away": other},
        "agent": "home",
        "pack": "default",
        "seed": 2**53 - 1,
    }
    return record(Event(episode_id, "e1", 1, "2026-11-21T05:00:00.000Z", 0, "episode.started", data))


def said(episode_id: str, seq: int, text: str = "x") -> RecordedEvent:
    return record(Event(episode_id, "e1", seq, "now", seq, "counting.number_said", {"text": text}))


def ended(episode_id: str, seq: int, reason: str = "finished") -> RecordedEvent:
    data = {"reason": reason, "score": 0.5, "result": "home won", "turns": seq - 2}
    return record(Event(episode_id, "e1", seq, "2026-11-21T06:00:00.000Z", seq, "episode.ended", data))


def seqs(events: Sequence[RecordedEvent]) -> list[int]:
    return [recorded.event.seq for recorded in events]

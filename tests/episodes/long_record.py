"""A long record of small events, made at once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from spectator import __version__
from spectator.clock import timestamp
from spectator.core_events import DecisionMade, EpisodeEnded, EpisodeStarted, Seat, StepTaken, core_fact
from spectator.episodes.view import ViewFold
from spectator.events import Event, EventData, RecordedEvent
from spectator.journal.contract import Journal
from spectator.journal.sql_journal import SqlJournal

EPISODE = "ep-01KB00000000000000000LONG"
BATCH = 2_000
BEGAN = datetime(2026, 11, 1, tzinfo=UTC)


def _shown(state: Mapping[str, Any], event: Event) -> Mapping[str, Any]:
    return {"headline": f"Turn {event.turn}", "glance": {"step": event.turn}}


async def record_long(journal: Journal, turns: int) -> int:
    """Record an ended episode of ``turns`` turns, two events each; returns how many events it has."""
    fold, waiting = ViewFold(_shown, lambda event, state: ()), list[RecordedEvent]()

    def add(turn: int, data: EventData) -> None:
        fact = core_fact(data)
        at = timestamp(BEGAN + timedelta(seconds=turn))
        waiting.extend(fold.add(Event(EPISODE, "e", 0, at, turn, fact.type, fact.data)))

    add(
        0,
        EpisodeStarted(
            environment="long_walk", environment_version="1", title="A long walk", options={}, seed=1,
            seats={"agent": Seat(policy="walker", label="Walker", source="heuristic")}, agent="agent",
            pack="default", pace="max", narration=False, spectator_version=__version__,
        ),
    )  # fmt: skip
    for turn in range(1, turns + 1):
        walked = {"tool": "walk", "arguments": {"to": turn}}
        add(turn, DecisionMade(actor="agent", source="heuristic", action=walked, reasoning="", latency_s=0.0))
        add(turn, StepTaken(actor="agent", next_actor="agent", reward=0.0, done=False, duration_s=0.0))
        if len(waiting) >= BATCH:
            await journal.append(waiting)
            waiting = []
    ended = EpisodeEnded(
        reason="finished", score=0.0, result="there", turns=turns, terminated=True, truncated=False
    )
    add(turns, ended)
    await journal.append(waiting)
    return fold.seq


async def long_journal(folder: Path, turns: int) -> int:
    """A journal in ``folder`` with such an episode; returns how many events it has."""
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}")
    try:
        return await record_long(journal, turns)
    finally:
        await journal.aclose()

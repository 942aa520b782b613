"""Events as a table for training and analysis: one row an event, in Parquet; see docs/journal.md."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from spectator.events import UNDECIDED_IN, Event, encode_json
from spectator.journal.base import EpisodeSummary
from spectator.journal.parquet import ParquetFile

COLUMNS: Final[Mapping[str, str]] = {
    "episode_id": "string",
    "epoch": "string",
    "environment": "string",
    "captain": "string",
    "opponent": "string",
    "pack": "string",
    "seed": "int64",
    "episode_reason": "string",
    "episode_score": "double",
    "seq": "int64",
    "at": "timestamp[ms, tz=UTC]",
    "turn": "int64",
    "type": "string",
    "actor": "string",
    "source": "string",
    "action": "string",
    "reasoning": "string",
    "raw_text": "string",
    "parse": "string",
    "fallback_reason": "string",
    "model": "string",
    "latency_s": "double",
    "tokens_in": "int64",
    "tokens_out": "int64",
    "cost": "double",
    "refused_rule": "string",
    "reward": "double",
    "done": "bool",
    "rubric": "string",
    "data": "string",
    "failure_class": "string",
    "run_id": "string",
    "group_id": "string",
    "attempt": "int64",
    "own": "bool",
}
"""Name and Arrow type of every column, in order; a new one is only ever added at the end."""

FROM_DATA: Final = (
    "actor",
    "source",
    "reasoning",
    "raw_text",
    "parse",
    "fallback_reason",
    "model",
    "latency_s",
    "tokens_in",
    "tokens_out",
    "cost",
    "reward",
    "done",
)
"""Columns that hold the field of the same name of a core event."""

OUTCOMES: Final = ("action.refused", "step.taken")
"""Event types that tell what came of a decision."""

CORE: Final = ("decision.made", *OUTCOMES)
"""Event types whose fields have columns of their own; those of every type are in ``data``."""


class Table(ParquetFile):
    """Writes the events of episodes into one Parquet file, which is there once all of them are.

    Args:
        path: The file.

    Raises:
        ConfigurationError: pyarrow is not installed.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, COLUMNS, name="spectator.table")

    async def add(self, summary: EpisodeSummary, events: AsyncIterator[Event]) -> None:
        """Write the events of one episode, in order."""
        decided: list[dict[str, Any]] = []
        async for event in events:
            row = row_of(summary, event)
            if event.type == "decision.made":
                self.extend(decided)
                decided = [row]
            elif decided and event.type in OUTCOMES:
                _add_outcome(decided[0], row)
                self.extend([*decided, row])
                decided = []
            elif decided:
                decided.append(row)
            else:
                self.extend([row])
        self.extend(decided)


def row_of(summary: EpisodeSummary, event: Event) -> dict[str, Any]:
    """The row of one event; columns that it has nothing for are left out."""
    row: dict[str, Any] = {
        "episode_id": summary.episode_id,
        "epoch": summary.epoch,
        "environment": summary.environment,
        "captain": summary.captain,
        "opponent": summary.opponent,
        "pack": summary.pack,
        "seed": summary.seed,
        "episode_reason": summary.reason,
        "episode_score": summary.score,
        "seq": event.seq,
        "at": _moment(event.at),
        "turn": event.turn,
        "type": event.type,
        "data": encode_json(event.data),
        "run_id": summary.run_id,
        "group_id": summary.group_id,
        "attempt": summary.attempt,
    }
    if event.type in UNDECIDED_IN and (asked := event.data.get("undecided")):
        return {**row, **{name: value for name, value in asked.items() if name in FROM_DATA}}
    return {**row, **dict(_core_fields(event))} if event.type in CORE else row


def _core_fields(event: Event) -> Iterator[tuple[str, Any]]:
    data = event.data
    for name in FROM_DATA:
        if name in data:
            yield name, data[name]
    if event.type == "decision.made":
        yield "failure_class", (failure_class := data.get("failure_class"))
        yield "own", failure_class is None
    for name in ("action", "rubric"):
        if name in data:
            yield name, encode_json(data[name])
    if event.type == "action.refused":
        yield "refused_rule", data["rule"]


def _add_outcome(decision: dict[str, Any], row: Mapping[str, Any]) -> None:
    """Put what came of a decision into the decision's own row."""
    for name in ("reward", "done", "rubric", "refused_rule"):
        if name in row:
            decision[name] = row[name]


def _moment(at: str) -> datetime | None:
    try:
        return datetime.fromisoformat(at)
    except ValueError:
        return None

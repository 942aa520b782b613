"""Imports files by the command and reads what came of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import Result

from spectator.events import Event
from spectator.journal.contract import EpisodeFilter, EpisodeSummary, RecordedCall
from spectator.journal.sql_journal import SqlJournal
from spectator.runs.run_folder import read_run
from spectator.runs.run_records import RunTail
from spectator.runs.run_summary import summarize_run
from tests.commands import spectator

DATA = Path(__file__).with_name("samples")


@dataclass(frozen=True)
class Imported:
    """An episode as it is recorded."""

    summary: EpisodeSummary
    events: list[Event]
    calls: list[RecordedCall]

    def of_type(self, kind: str) -> list[Mapping[str, Any]]:
        """The data of the events of a type."""
        return [event.data for event in self.events if event.type == kind]

    @property
    def end(self) -> Mapping[str, Any]:
        """How it ended."""
        return self.events[-1].data


def run_import(*files: Path, into: Path, form: str | None = None, options: Iterable[str] = ()) -> Result:
    """Import files by the command."""
    forced = [] if form is None else ["--format", form]
    return spectator("import", *files, "--into", into, *forced, *options)


def episodes_in(folder: Path) -> list[Imported]:
    """Every episode of a folder, oldest first."""

    async def read() -> list[Imported]:
        journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", writable=False)
        try:
            found = await journal.episodes(EpisodeFilter(limit=1000))
            return [
                Imported(
                    one,
                    [recorded.event for recorded in await journal.read(one.episode_id)],
                    [call async for call in journal.calls(one.episode_id)],
                )
                for one in reversed(found)
            ]
        finally:
            await journal.aclose()

    return asyncio.run(read())


def picture(folder: Path) -> dict[str, Any]:
    """The run as its page shows it."""

    async def look() -> dict[str, Any]:
        tail = await RunTail.open(read_run(folder.parent, folder.name))
        try:
            await tail.look()
            return summarize_run(tail.folder, list(tail.episodes.values()))
        finally:
            await tail.aclose()

    return asyncio.run(look())


def lines(path: Path, *rows: Mapping[str, Any] | str) -> Path:
    """A file of JSON Lines; a text is a line as it is."""
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in rows) + "\n")
    return path

"""Reads what a watched loop left in its folder."""

from __future__ import annotations

from pathlib import Path

from spectator.events import Event
from spectator.journal.contract import EpisodeFilter, EpisodeSummary, RecordedCall
from spectator.journal.sql_journal import SqlJournal


async def episodes_in(folder: Path) -> list[EpisodeSummary]:
    """What is recorded there, in the order in which it began."""
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", writable=False)
    found = await journal.episodes(EpisodeFilter(limit=1000))
    await journal.aclose()
    return sorted(found, key=lambda one: one.episode_id)


async def events_of(folder: Path, episode_id: str) -> list[Event]:
    """The events of one of them."""
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", writable=False)
    found = [one.event for one in await journal.read(episode_id)]
    await journal.aclose()
    return found


async def calls_of(folder: Path, episode_id: str) -> list[RecordedCall]:
    """The questions to a model behind its steps."""
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", writable=False)
    found = [one async for one in journal.calls(episode_id)]
    await journal.aclose()
    return found


def warnings_in(events: list[Event]) -> list[str]:
    """What was said to viewers of what went wrong."""
    return [one.data["message"] for one in events if one.type == "warning"]

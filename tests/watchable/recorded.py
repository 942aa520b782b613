"""Reads what a watched loop left in its folder."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

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


def judged(results: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Add to what :mod:`.real_packages` counted what was recorded, and whether it is the same."""
    recorded = asyncio.run(_recorded_in(folder))
    for one in results:
        one["recorded"] = sorted(recorded.get(one["recorded_as"], []), key=str)
        one["counted"] = sorted((_rounded(*counted) for counted in one.get("counted", ())), key=str)
        one["held"] = "refused" in one or (bool(one["counted"]) and one["counted"] == one["recorded"])
    return results


def _rounded(how: str, steps: int | None, total: float | None) -> list[Any]:
    """An episode, its rewards without the error of adding them in another order."""
    return [how, steps, None if total is None else round(total, 6)]


async def _recorded_in(folder: Path) -> dict[str, list[Any]]:
    """The episodes of each form, as they are recorded."""
    found: dict[str, list[Any]] = {}
    for one in await episodes_in(folder):
        end = (await events_of(folder, one.episode_id))[-1].data
        closed = one.detail is not None and "before its end" in one.detail
        reason = "open" if closed else str(one.reason)
        episode = _rounded(reason, one.turns, None if closed else end["total_reward"])
        found.setdefault(str(one.environment), []).append(episode)
    return found

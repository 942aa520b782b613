"""Puts collected episodes into a journal, where they are watched, replayed and exported as any others."""

from __future__ import annotations

from spectator.collector.collecting import CollectedEpisode
from spectator.events import encode_json, record
from spectator.journal.contract import Attachments, Journal


async def record_episode(collected: CollectedEpisode, journal: Journal) -> None:
    """Append a collected episode, its calls to the model and its sealed truth: all of it or nothing.

    Args:
        collected: The episode.
        journal: Where it goes, such as ``await SqlJournal.open("sqlite:///runs/first/journal.db")``.

    Raises:
        SequenceConflict: It is there already.
        JournalError: It could not be recorded.
    """
    truth = encode_json(dict(collected.truth)) if collected.events[-1].data.get("truth") else None
    attachments = Attachments(calls=collected.calls, truth=truth)
    await journal.append([record(event) for event in collected.events], attachments=attachments)

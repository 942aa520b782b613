"""Ends the episodes that a process left without an end in a folder of its own, when that is opened again."""

from __future__ import annotations

from typing import Final

from spectator.clock import Clock
from spectator.episodes.recovery import interrupted
from spectator.journal.contract import EpisodeFilter, Journal

WENT_AWAY: Final = "the process that played it went away"

PAGE: Final = 1000
"""Episodes that are looked up at once."""


async def end_what_was_left(journal: Journal, clock: Clock) -> set[str]:
    """End every episode without an end as interrupted; nobody may be playing any of them.

    Returns:
        The groups of all episodes that are there.

    Raises:
        JournalError: The journal cannot be read or written.
    """
    before, groups = None, set()
    while found := await journal.episodes(EpisodeFilter(before=before, limit=PAGE)):
        before = found[-1].episode_id
        for one in found:
            if one.group_id is not None:
                groups.add(one.group_id)
            if one.reason is None:
                (first,) = await journal.read(one.episode_id, limit=1, checked=False)
                (last,) = await journal.read(one.episode_id, after_seq=one.head_seq - 1, checked=False)
                await journal.append([interrupted(first.event, last.event, clock, WENT_AWAY)])
    return groups

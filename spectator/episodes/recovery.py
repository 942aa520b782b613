"""Owns what becomes of episodes that an earlier process left without an end."""

from __future__ import annotations

import logging
from dataclasses import replace

from spectator.clock import Clock, timestamp
from spectator.episodes.projection import replay_state, unchanged, with_patch
from spectator.errors import JournalError
from spectator.events import EpisodeEnded, RecordedEvent, core_fact, record
from spectator.journal.base import EpisodeFilter, Journal

logger = logging.getLogger(__name__)


async def close_unfinished(journal: Journal, clock: Clock) -> list[str]:
    """End as ``interrupted`` every episode that has no end. Call before any episode is started.

    One whose record is damaged is left as it is.

    Returns:
        Their ids.

    Raises:
        JournalError: The journal cannot be written.
    """
    closed: list[str] = []
    before: str | None = None
    while unended := await journal.episodes(EpisodeFilter(ended=False, before=before)):
        for summary in unended:
            before = summary.episode_id
            try:
                recorded = await journal.read(summary.episode_id)
            except JournalError:
                logger.exception("episode %s was left without an end and cannot be read", before)
                continue
            await journal.append([_end(recorded, clock)])
            logger.warning("episode %s was left without an end: interrupted", before)
            closed.append(before)
    return closed


def _end(recorded: list[RecordedEvent], clock: Clock) -> RecordedEvent:
    last = recorded[-1].event
    ended = EpisodeEnded(
        reason="interrupted",
        score=None,
        result=None,
        turns=last.turn,
        detail="the server went away before the end",
        terminated=False,
        truncated=True,
    )
    fact = core_fact(ended)
    draft = replace(
        last, seq=last.seq + 1, at=timestamp(clock.now()), type=fact.type, data=fact.data, patch={}
    )
    return record(with_patch(replay_state(recorded), draft, unchanged))

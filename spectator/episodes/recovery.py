"""Owns what becomes of episodes that an earlier process left without an end."""

from __future__ import annotations

import logging
from dataclasses import replace

from spectator.clock import Clock, timestamp
from spectator.episodes.projection import fold, replay_state
from spectator.events import EpisodeEnded, Event, RecordedEvent, core_fact, record
from spectator.journal.base import EpisodeFilter, EpisodeSummary, Journal

logger = logging.getLogger(__name__)


async def close_unfinished(journal: Journal, clock: Clock) -> list[str]:
    """End as ``interrupted`` every episode that has no end. Call before any episode is started.

    Returns:
        Their ids.
    """
    closed: list[str] = []
    while unended := await journal.episodes(EpisodeFilter(ended=False)):
        for summary in unended:
            await journal.append([_end(summary, await journal.read(summary.episode_id), clock)])
            logger.warning("episode %s was left without an end: interrupted", summary.episode_id)
            closed.append(summary.episode_id)
    return closed


def _end(summary: EpisodeSummary, recorded: list[RecordedEvent], clock: Clock) -> RecordedEvent:
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
    _, event = fold(replay_state(recorded), draft, _unchanged)
    return record(event)


def _unchanged(state: object, event: Event) -> dict[str, object]:
    return {}

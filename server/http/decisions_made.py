"""What was decided in ended episodes: read from their records once, and kept of those asked for last."""

from __future__ import annotations

from typing import Final

from starlette.concurrency import run_in_threadpool

from spectator.episodes.replay.alternatives import DecisionsMade
from spectator.errors import FieldError, InvalidRequest
from spectator.journal.base import EpisodeSummary

from ..recently_used import RecentlyUsed
from ..services import Services
from .downloads import lines_of

EPISODES: Final = 8
"""Episodes of which the decisions are kept, about 100 kB each."""


class DecisionReader:
    """Reads what was decided in ended episodes, which does not change any more."""

    def __init__(self) -> None:
        self._kept: RecentlyUsed[tuple[str, str], DecisionsMade] = RecentlyUsed(EPISODES)

    async def of(self, services: Services, summary: EpisodeSummary) -> DecisionsMade:
        """What was decided in an ended episode.

        Raises:
            InvalidRequest: It was played in another version of its world.
            JournalError: The record cannot be read.
        """
        key = summary.episode_id, summary.epoch
        if (kept := self._kept.get(key)) is not None:
            return kept
        made = DecisionsMade()
        async for piece in lines_of(services.records, summary.episode_id, 0, services.budget.reading):
            await run_in_threadpool(made.read, piece.splitlines())
        world = services.cast.load(summary.environment)
        if (played := made.started["environment_version"]) != world.version:
            rule = f"was played in version {played} of {world.name}; here is {world.version}"
            raise InvalidRequest([FieldError("episode_id", rule)])
        self._kept.keep(key, made)
        return made

"""Episodes that other servers record into the same journal, shown live here as they are recorded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Final, Protocol

from spectator.clock import Clock
from spectator.episodes.record.public_reader import PublicReader
from spectator.episodes.record.reader import ViewReader
from spectator.errors import EpisodeError, JournalError
from spectator.following.followed_view import FollowedView

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 0.25
"""Seconds between two looks at how far the episodes are that somebody watches; one query tells it of all."""

KEPT_S: Final = 15.0
"""How long an episode that nobody watches any more is followed still."""


class TellsHeads(Protocol):
    """A journal that tells how far episodes are."""

    async def heads(self, episode_ids: Collection[str]) -> dict[str, int]:
        """The number of the last event of each."""
        ...


class FollowedEpisodes:
    """Follows the episodes of other servers that somebody watches here, by one task for all of them.

    Args:
        journal: Tells how far they are recorded.
        views: Folds what is recorded.
        records: Reads what viewers may see.
        clock: Time.
        tasks: The group that the journal is looked at in.
    """

    def __init__(
        self,
        journal: TellsHeads,
        views: ViewReader,
        records: PublicReader,
        clock: Clock,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._journal = journal
        self._views = views
        self._records = records
        self._clock = clock
        self._tasks = tasks
        self._followed: dict[str, FollowedView] = {}
        self._heads: dict[str, int] = {}
        self._looking: asyncio.Task[None] | None = None

    def live(self, episode_id: str) -> FollowedView | None:
        """An episode that is followed now."""
        return self._followed.get(episode_id)

    async def follow(self, episode_id: str) -> None:
        """Follow an episode from now on, unless it has ended, or stands still until somebody resumes it.

        Raises:
            JournalError: Its record cannot be read.
        """
        if episode_id in self._followed:
            return
        summary = await self._records.episode(episode_id)
        if summary is None or summary.ended_at is not None or await self._records.suspended(episode_id):
            return
        view = FollowedView(summary, self._views, self._records, self._clock)
        self._followed.setdefault(episode_id, view)
        if self._looking is None:
            self._looking = self._tasks.create_task(self._look_on(), name="followed episodes")

    async def _look_on(self) -> None:
        try:
            while self._followed:
                await self._clock.sleep(INTERVAL_S)
                try:
                    await self.look()
                except JournalError as error:
                    logger.warning("episodes of other servers stand still for their viewers: %s", error)
        finally:
            self._looking = None

    async def look(self) -> None:
        """Hand on what was recorded since.

        Raises:
            JournalError: The journal cannot be read now.
        """
        heads = await self._journal.heads(list(self._followed))
        for episode_id, view in tuple(self._followed.items()):
            if heads.get(episode_id) != self._heads.get(episode_id):
                await self._advance(episode_id, view)
            idle = not view.watched and self._clock.monotonic() - view.opened_s > KEPT_S
            if view.ended or idle or episode_id not in heads:
                view.close()
                self._followed.pop(episode_id, None)
        self._heads = {one: head for one, head in heads.items() if one in self._followed}

    async def _advance(self, episode_id: str, view: FollowedView) -> None:
        try:
            await view.advance()
        except JournalError:
            raise
        except EpisodeError:
            logger.exception("episode %s of another server is shown no further", episode_id)
            view.close()
            self._followed.pop(episode_id, None)

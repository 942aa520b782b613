"""Episodes that other servers record into the same journal, shown live here as they are recorded."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from spectator.clock import Clock, first_of
from spectator.episodes.record.public_reader import PublicReader
from spectator.episodes.record.reader import ViewReader
from spectator.errors import EpisodeError, JournalError
from spectator.following.followed_view import FollowedView

from .thought_notices import ToldThoughts

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 0.25
"""Seconds between two looks at how far the episodes are that somebody watches; one query tells it of all."""

SLOW_INTERVAL_S: Final = 2.0
"""The same while notices of commits come, of which one may be lost."""

MOST_TRIES: Final = 3
"""Looks in a row at which an episode that stays behind one event is read: what is missing may be withheld, or
not be in the cache."""

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
        self._tried: dict[str, tuple[int, int]] = {}
        self._thoughts: dict[str, ToldThoughts] = {}
        self._woken: set[str] = set()
        self._wake = asyncio.Event()
        self._interval_s = INTERVAL_S
        self._looked_s = -math.inf
        self._looking: asyncio.Task[None] | None = None
        self._over = False
        self._on_end: list[Callable[[str], None]] = []

    def on_end(self, call: Callable[[str], None]) -> None:
        """Call ``call`` with the id of every episode whose end was handed on."""
        self._on_end.append(call)

    def live(self, episode_id: str) -> FollowedView | None:
        """An episode that is followed now."""
        return self._followed.get(episode_id)

    async def follow(self, episode_id: str) -> None:
        """Follow an episode from now on, unless it has ended, or stands still until somebody resumes it.

        One that is followed already costs nothing, and is followed for another :data:`KEPT_S`.

        Raises:
            JournalError: Its record cannot be read.
        """
        if (followed := self._followed.get(episode_id)) is not None:
            followed.wanted_s = self._clock.monotonic()
            return
        summary = await self._records.episode(episode_id)
        if summary is None or summary.ended_at is not None or await self._records.suspended(episode_id):
            return
        withholds = await self._records.last_seen(episode_id) is not None
        view = FollowedView(summary, self._views, self._records, self._clock, withholds=withholds)
        self._followed.setdefault(episode_id, view)
        if self._looking is None and not self._over:
            self._looking = self._tasks.create_task(self._look_on(), name="followed episodes")

    def stop(self) -> None:
        """Look at the journal no more, whoever still watches."""
        self._over = True
        if self._looking is not None:
            self._looking.cancel()

    async def reach(self, episode_id: str, seen_seq: int) -> None:
        """Bring what is followed up to an event that it has reached for sure, or a viewer who comes from
        another server would go back; at once where it is as far, or not followed.

        Args:
            episode_id: Which.
            seen_seq: The number of that event.

        Raises:
            JournalError: Its record cannot be read.
        """
        view = self._followed.get(episode_id)
        if view is not None and 0 < view.head_seq < seen_seq:
            await self._advance(episode_id, view, seen_seq)

    def thoughts_of(self, view: FollowedView) -> ToldThoughts:
        """Takes what its captains think, as whoever plays it tells."""
        known = self._thoughts.get(view.episode_id)
        if known is None or known.thinking is not view.thinking:
            known = self._thoughts[view.episode_id] = ToldThoughts(view.thinking, self._clock)
        return known

    def wake(self, episode_ids: Collection[str]) -> None:
        """Something was recorded of these episodes, as far as they are followed here; returns at once."""
        if woken := self._followed.keys() & episode_ids:
            self._woken |= woken
            self._wake.set()

    def expect_notices(self, come: bool) -> None:
        """Whether :meth:`wake` tells of commits from now on; what was missed before is looked up."""
        self._interval_s = SLOW_INTERVAL_S if come else INTERVAL_S
        self._looked_s = -math.inf
        self._wake.set()

    async def _look_on(self) -> None:
        self._looked_s = self._clock.monotonic()
        try:
            while self._followed:
                left_s = self._looked_s + self._interval_s - self._clock.monotonic()
                if left_s > 0:
                    await first_of(self._clock.sleep(left_s), self._wake.wait())
                self._wake.clear()
                woken, self._woken = self._woken, set()
                due = self._clock.monotonic() >= self._looked_s + self._interval_s
                try:
                    await (self.look() if due else self._go_on(woken))
                except JournalError as error:
                    logger.warning("episodes of other servers stand still for their viewers: %s", error)
        finally:
            self._looking = None

    async def look(self) -> None:
        """Hand on what was recorded since.

        Raises:
            JournalError: The journal cannot be read now.
        """
        self._looked_s = self._clock.monotonic()
        asked = tuple(self._followed.items())  # others may be added while the journal answers
        heads = await self._journal.heads([episode_id for episode_id, _ in asked])
        behind = {one: heads[one] for one, view in asked if view.head_seq < heads.get(one, 0)}
        tried = {one: self._tries(one, head) for one, head in behind.items()}
        await self._advance_all({one: head for one, head in behind.items() if tried[one] < MOST_TRIES})
        for episode_id, view in asked:
            idle = not view.watched and self._clock.monotonic() - view.wanted_s > KEPT_S
            if view.ended or idle or episode_id not in heads:
                view.close()
                if self._followed.get(episode_id) is view:
                    del self._followed[episode_id]
        self._thoughts = {one: told for one, told in self._thoughts.items() if one in self._followed}
        self._tried = {one: (head, tried[one] + 1) for one, head in behind.items() if one in self._followed}

    def _tries(self, episode_id: str, head: int) -> int:
        """How many looks in a row found an episode to be behind this very event."""
        before, tries = self._tried.get(episode_id, (0, 0))
        return tries if before == head else 0

    async def _go_on(self, woken: Collection[str]) -> None:
        """Hand on what was recorded of some episodes."""
        await self._advance_all(dict.fromkeys(woken))
        for episode_id in woken:
            if (view := self._followed.get(episode_id)) is not None and view.ended:
                self._followed.pop(episode_id, None)

    async def _advance_all(self, heads: Mapping[str, int | None]) -> None:
        """Advance some of what is followed, at once, so that none waits for the reading of all others.

        Args:
            heads: The episodes, each with the event up to which it is recorded, where that is known.
        """
        advancing = (
            self._advance(episode_id, self._followed[episode_id], head)
            for episode_id, head in heads.items()
            if episode_id in self._followed
        )
        for failure in await asyncio.gather(*advancing, return_exceptions=True):
            if failure is not None:
                raise failure

    async def _advance(self, episode_id: str, view: FollowedView, enough: int | None = None) -> None:
        try:
            await view.advance(enough)
            self.thoughts_of(view).over(view.turn)
            if view.ended:
                for call in self._on_end:
                    call(episode_id)
        except JournalError:
            raise
        except EpisodeError:
            logger.exception("episode %s of another server is shown no further", episode_id)
            view.close()
            self._followed.pop(episode_id, None)

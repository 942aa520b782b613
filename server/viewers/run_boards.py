"""Runs of rollouts as viewers see them: a record is read once for all of them, and only what is new in it."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from spectator.clock import Clock
from spectator.episodes.host.episode_view import EpisodeView
from spectator.episodes.record.public_reader import PublicReader
from spectator.episodes.record.reader import ViewReader
from spectator.errors import EpisodeError, JournalError, RunNotFound
from spectator.following.followed_view import FollowedView
from spectator.following.run_picture import picture_of
from spectator.following.run_records import RunRecords
from spectator.following.run_tail import RunTail

from ..security.masking import ShowsNames
from .paced_board import Lookouts, PacedBoard

logger = logging.getLogger(__name__)

KEPT_S: Final = 15.0
"""How long an episode that nobody watches any more is followed still."""


class RunBoard(PacedBoard):
    """One run, for any number of viewers; see :class:`.paced_board.PacedBoard`.

    Args:
        name: The run.
        records: Where its record is.
        clock: Time.
        names: Says which names are hidden.
    """

    def __init__(self, name: str, records: RunRecords, clock: Clock, names: ShowsNames) -> None:
        super().__init__("run", {"name": name}, clock, names)
        self.name = name
        self.views: dict[str, FollowedView] = {}
        """Its episodes that somebody watches, or did lately."""
        self._records = records
        self._tail: RunTail | None = None

    @property
    def idle(self) -> bool:
        """Whether nobody watches it or one of its episodes."""
        return super().idle and not self.views

    async def tail(self) -> RunTail:
        """The run's record, looked at not long ago.

        Raises:
            RunNotFound: It is gone, or of another version.
            JournalError: Nothing was played yet, or it cannot be read.
        """
        await self.look()
        if self._tail is None or "problem" in self.picture:
            self._tail = await self._records.tail(self.name)
        return self._tail

    async def _take(self) -> None:
        try:
            tail = await self._records.tail(self.name)
            changed = await tail.look()
        except (JournalError, RunNotFound) as error:
            return self._draw({**self.picture, "problem": str(error)})
        self._records.note(self.name, changed)
        if changed or tail is not self._tail or "problem" in self.picture:
            self._tail = tail
            episodes = list(tail.episodes.values())
            self._draw(await asyncio.to_thread(picture_of, tail.folder, episodes))
        await self._advance(changed)

    async def _advance(self, changed: list[str]) -> None:
        """Hand what came to whoever watches one of the episodes."""
        for episode_id in set(changed) & set(self.views):
            try:
                await self.views[episode_id].advance()
            except EpisodeError:
                logger.exception("episode %s of run %s is shown no further", episode_id, self.name)
                self.views[episode_id].close()
        now = self._clock.monotonic()
        for episode_id, view in tuple(self.views.items()):
            if view.ended or (not view.watched and now - view.wanted_s > KEPT_S):
                del self.views[episode_id]


class RunBoards:
    """The runs that are watched here, each by one task for all its viewers.

    Args:
        records: Where their records are.
        views: Folds what is recorded of episodes.
        shown: Reads what their viewers may see.
        clock: Time.
        lookouts: Looks at them.
        names: Says which names are hidden.
    """

    def __init__(
        self,
        records: RunRecords,
        views: ViewReader,
        shown: PublicReader,
        clock: Clock,
        lookouts: Lookouts,
        names: ShowsNames,
    ) -> None:
        self.records = records
        self._views = views
        self._shown = shown
        self._clock = clock
        self._lookouts = lookouts
        self._names = names
        self._boards: dict[str, RunBoard] = {}

    async def board(self, name: str) -> RunBoard:
        """A run as it is now.

        Raises:
            RunNotFound: There is no such run, or it is of another version.
            JournalError: It cannot be read.
        """
        board = self._boards.get(name)
        if board is None:
            try:
                await self.records.tail(name)
            except JournalError as error:
                logger.debug("run %s has no record yet: %s", name, error)
            board = self._boards.setdefault(name, RunBoard(name, self.records, self._clock, self._names))
        await board.look()
        return board

    def keep_up(self, board: RunBoard) -> None:
        """Look at a run from time to time from now on, as long as somebody watches."""
        self._lookouts.keep_up(board)

    def live(self, episode_id: str) -> EpisodeView | None:
        """An episode that is followed now."""
        name = self.records.run_of(episode_id)
        board = None if name is None else self._boards.get(name)
        return None if board is None else board.views.get(episode_id)

    async def in_folder(self, name: str) -> bool:
        """Whether a run lies in a folder, and not in the journal of many.

        Raises:
            RunNotFound: It is gone, or of another version.
            JournalError: It cannot be read.
        """
        return (await self.records.tail(name)).run_id is None

    async def is_played(self, episode_id: str) -> bool:
        """Whether a run that is watched here has it, and it has not ended."""
        if self.records.run_of(episode_id) is None:
            return False
        summary = await self._shown.episode(episode_id)
        return summary is not None and summary.ended_at is None

    async def follow(self, episode_id: str) -> None:
        """Follow an episode from now on, where a run that is watched here has it and it has not ended."""
        name = await self.records.find(episode_id)
        if name is None or self.live(episode_id) is not None:
            return
        summary = await self._shown.episode(episode_id)
        if summary is None or summary.ended_at is not None:
            return
        board = await self.board(name)
        view = FollowedView(summary, self._views, self._shown, self._clock)
        board.views.setdefault(episode_id, view)
        self.keep_up(board)

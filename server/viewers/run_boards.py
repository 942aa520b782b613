"""Boards of rollout runs and of groups, as viewers see them.

A record is read once for all viewers, and only what is new in it.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from spectator.clock import Clock
from spectator.episodes.embargo import PublicReader
from spectator.episodes.episode_view import EpisodeView
from spectator.episodes.past_states import Turn
from spectator.episodes.reader import ViewReader
from spectator.errors import EpisodeError, JournalError, RunNotFound
from spectator.journal.contract import Journal
from spectator.runs.run_records import FollowedView, RunRecords, RunTail
from spectator.runs.run_summary import RecordedGroup, group_in_journal, group_in_run, summarize_run

from ..security.masking import NameMaskSource
from .boards import BoardPoller, PolledBoard

logger = logging.getLogger(__name__)

KEPT_S: Final = 15.0
"""How long an episode that nobody watches any more is followed still."""


class RunBoard(PolledBoard):
    """One run, for any number of viewers; see :class:`.boards.PolledBoard`.

    Args:
        name: The run.
        records: Where its record is.
        clock: Time.
        names: Says which names are hidden.
    """

    def __init__(self, name: str, records: RunRecords, clock: Clock, names: NameMaskSource) -> None:
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
            self._draw(await asyncio.to_thread(summarize_run, tail.folder, episodes))
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
        lookouts: BoardPoller,
        names: NameMaskSource,
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


SEARCHED: Final = 12
"""Runs that are searched for a group where none is named."""


class GroupBoard(PolledBoard):
    """One group with the forks of it; see :class:`.boards.PolledBoard`.

    Args:
        group: Its name within its run.
        run: Its run; ``None`` for a group of the server's own journal without one.
        groups: Finds what is recorded of it.
        clock: Time.
        names: Says which names are hidden.
    """

    def __init__(
        self, group: str, run: str | None, groups: GroupBoards, clock: Clock, names: NameMaskSource
    ) -> None:
        super().__init__("group", {"group": group}, clock, names)
        self.key = (group, run)
        """Its name, and its run's."""
        self._groups = groups

    async def _take(self) -> None:
        try:
            async with self._groups.turn():
                found = await self._groups.find(*self.key)
                told = await found.told(self._groups.journal)
        except (JournalError, RunNotFound) as error:
            return self._draw({**self.picture, "problem": str(error)})
        self._draw(told)


class GroupBoards:
    """The groups that are watched here, each by one task for all its viewers.

    Args:
        runs: The runs that are watched here.
        journal: Where forks are recorded, and groups of this server's own.
        clock: Time.
        lookouts: Looks at them.
        names: Says which names are hidden.
        turn: What each look is taken within.
    """

    def __init__(
        self,
        runs: RunBoards,
        journal: Journal,
        clock: Clock,
        lookouts: BoardPoller,
        names: NameMaskSource,
        turn: Turn,
    ) -> None:
        self.journal = journal
        self.turn = turn
        self._runs = runs
        self._clock = clock
        self._lookouts = lookouts
        self._names = names
        self._boards: dict[tuple[str, str | None], GroupBoard] = {}

    async def find(self, group: str, run: str | None) -> RecordedGroup:
        """The group in the run that is named, else in the newest that has one.

        Raises:
            RunNotFound: There is none.
            JournalError: The record of the run that is named cannot be read.
        """
        names = await self._runs.records.names()
        searched = names[:SEARCHED] if run is None else [run] if run in names else []
        for name in searched:
            try:
                board = await self._runs.board(name)
                found = group_in_run(await board.tail(), group)
            except (RunNotFound, JournalError):
                if run is not None:
                    raise
                continue
            if found is not None:
                return found
        here = await group_in_journal(self.journal, group, run)
        if here is None:
            raise RunNotFound(f"there is no group {group} here" + (f" in run {run}" if run else ""))
        return here

    async def board(self, group: str, run: str | None) -> GroupBoard:
        """A group as it is now; raises as :meth:`find` does."""
        found = await self.find(group, run)
        made = GroupBoard(group, found.run, self, self._clock, self._names)
        board = self._boards.get(made.key, made)
        await board.look()
        return board

    def keep_up(self, board: GroupBoard) -> None:
        """Look at a group from time to time from now on, as long as somebody watches."""
        self._boards.setdefault(board.key, board)
        self._lookouts.keep_up(board, partial(self._forget, board))

    def _forget(self, board: GroupBoard) -> None:
        if self._boards.get(board.key) is board:
            del self._boards[board.key]

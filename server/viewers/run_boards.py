"""Boards of rollout runs and of groups.

A record is read once for all viewers, and only its new part.
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
"""Seconds that an episode is followed after its last viewer left."""


class RunBoard(PolledBoard):
    """The board of one run; see :class:`.boards.PolledBoard`."""

    def __init__(self, name: str, records: RunRecords, clock: Clock, names: NameMaskSource) -> None:
        super().__init__("run", {"name": name}, clock, names)
        self.name = name
        self.views: dict[str, FollowedView] = {}
        """Its episodes that have viewers, or had recently."""
        self._counts = False
        self._records = records
        self._tail: RunTail | None = None

    @property
    def idle(self) -> bool:
        """Whether neither it nor one of its episodes has viewers."""
        return super().idle and not self.views

    async def tail(self) -> RunTail:
        """Return the run's record, polled recently."""
        await self.look()
        if self._tail is None or "problem" in self.picture:
            self._tail = await self._records.tail(self.name)
        return self._tail

    def count_calls(self) -> None:
        """Read model calls from the next look on, which lists of runs do not need."""
        if not self._counts:
            self._counts, self._looked_s = True, None

    async def _take(self) -> None:
        try:
            tail = await self._records.tail(self.name)
            changed = await tail.look()
            counted = self._counts and await tail.count()
        except (JournalError, RunNotFound) as error:
            return self._draw({**self.picture, "problem": str(error)})
        self._records.note(self.name, changed)
        if changed or counted or tail is not self._tail or "problem" in self.picture:
            self._tail = tail
            episodes, uncounted = list(tail.episodes.values()), len(tail.uncounted) if self._counts else 0
            picture = partial(summarize_run, tail.folder, episodes, tail.played_with, uncounted)
            self._draw(await asyncio.to_thread(picture))
        await self._advance(changed)

    async def _advance(self, changed: list[str]) -> None:
        for episode_id in set(changed) & set(self.views):
            try:
                await self.views[episode_id].advance()
            except EpisodeError:
                logger.exception("stopping to show episode %s of run %s", episode_id, self.name)
                self.views[episode_id].close()
        now = self._clock.monotonic()
        for episode_id, view in tuple(self.views.items()):
            if view.ended or (not view.watched and now - view.wanted_s > KEPT_S):
                del self.views[episode_id]


class RunBoards:
    """Boards of the watched runs, one task per run."""

    def __init__(
        self,
        records: RunRecords,
        views: ViewReader,
        shown: PublicReader,
        clock: Clock,
        poller: BoardPoller,
        names: NameMaskSource,
    ) -> None:
        self.records = records
        self._views = views
        self._shown = shown
        self._clock = clock
        self._poller = poller
        self._names = names
        self._boards: dict[str, RunBoard] = {}

    async def board(self, name: str, *, calls: bool = False) -> RunBoard:
        """Return the up-to-date board of a run.

        Args:
            calls: Whether to read its model calls, for tokens, versions and cost.
        """
        board = self._boards.get(name)
        if board is None:
            try:
                await self.records.tail(name)
            except JournalError as error:
                logger.debug("run %s has no record yet: %s", name, error)
            board = self._boards.setdefault(name, RunBoard(name, self.records, self._clock, self._names))
        if calls:
            board.count_calls()
        await board.look()
        return board

    def keep_up(self, board: RunBoard) -> None:
        """Poll a run from now on, as long as it has viewers."""
        self._poller.keep_up(board)

    def live(self, episode_id: str) -> EpisodeView | None:
        """Return an episode that is followed now."""
        name = self.records.run_of(episode_id)
        board = None if name is None else self._boards.get(name)
        return None if board is None else board.views.get(episode_id)

    async def in_folder(self, name: str) -> bool:
        """Whether a run is stored in a folder, not in a database."""
        return (await self.records.tail(name)).run_id is None

    async def is_played(self, episode_id: str) -> bool:
        """Whether an episode belongs to a watched run and has not ended."""
        if self.records.run_of(episode_id) is None:
            return False
        summary = await self._shown.episode(episode_id)
        return summary is not None and summary.ended_at is None

    async def follow(self, episode_id: str) -> None:
        """Follow an unfinished episode of a watched run from now on."""
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
"""Newest runs searched for a group if no run is named."""


class GroupBoard(PolledBoard):
    """The board of one group and its forks; see :class:`.boards.PolledBoard`.

    Args:
        run: Its run; ``None`` for a group without one in the server's own journal.
    """

    def __init__(
        self, group: str, run: str | None, groups: GroupBoards, clock: Clock, names: NameMaskSource
    ) -> None:
        super().__init__("group", {"group": group}, clock, names)
        self.key = (group, run)
        """Names of the group and its run."""
        self._groups = groups

    async def _take(self) -> None:
        try:
            async with self._groups.turn():
                found = await self._groups.find(*self.key)
                picture = await found.state_json(self._groups.journal)
        except (JournalError, RunNotFound) as error:
            return self._draw({**self.picture, "problem": str(error)})
        self._draw(picture)


class GroupBoards:
    """Boards of the watched groups, one task per group.

    Args:
        turn: Each poll runs within it.
    """

    def __init__(
        self,
        runs: RunBoards,
        journal: Journal,
        clock: Clock,
        poller: BoardPoller,
        names: NameMaskSource,
        turn: Turn,
    ) -> None:
        self.journal = journal
        self.turn = turn
        self._runs = runs
        self._clock = clock
        self._poller = poller
        self._names = names
        self._boards: dict[tuple[str, str | None], GroupBoard] = {}

    async def find(self, group: str, run: str | None) -> RecordedGroup:
        """Return the group in the named run, or in the newest run that has one.

        Raises:
            RunNotFound: There is no such group.
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
                counted = await self._runs.board(name, calls=True)
                return group_in_run(await counted.tail(), group) or found
        here = await group_in_journal(self.journal, group, run)
        if here is None:
            raise RunNotFound(f"group {group} not found" + (f" in run {run}" if run else ""))
        return here

    async def board(self, group: str, run: str | None) -> GroupBoard:
        """Return the up-to-date board of a group; raises as :meth:`find` does."""
        found = await self.find(group, run)
        made = GroupBoard(group, found.run, self, self._clock, self._names)
        board = self._boards.get(made.key, made)
        await board.look()
        return board

    def keep_up(self, board: GroupBoard) -> None:
        """Poll a group from now on, as long as it has viewers."""
        self._boards.setdefault(board.key, board)
        self._poller.keep_up(board, partial(self._forget, board))

    def _forget(self, board: GroupBoard) -> None:
        if self._boards.get(board.key) is board:
            del self._boards[board.key]

"""Groups as viewers see them: the siblings of a prompt as they come along, read once for all who watch."""

from __future__ import annotations

from functools import partial
from typing import Final

from spectator.clock import Clock
from spectator.episodes.record.past_states import Turn
from spectator.errors import JournalError, RunNotFound
from spectator.following.groups import RecordedGroup, group_in_journal, group_in_run
from spectator.journal.base import Journal

from ..security.masking import ShowsNames
from .paced_board import Lookouts, PacedBoard
from .run_boards import RunBoards

SEARCHED: Final = 12
"""Runs that are searched for a group where none is named."""


class GroupBoard(PacedBoard):
    """One group with the forks of it; see :class:`.paced_board.PacedBoard`.

    Args:
        group: Its name within its run.
        run: Its run; ``None`` for a group of the server's own journal without one.
        groups: Finds what is recorded of it.
        clock: Time.
        names: Says which names are hidden.
    """

    def __init__(
        self, group: str, run: str | None, groups: GroupBoards, clock: Clock, names: ShowsNames
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
        lookouts: Lookouts,
        names: ShowsNames,
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

"""The records of the runs in one folder: opened when somebody wants one, and found by the ids of episodes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

from spectator.errors import ConfigurationError, JournalError, RunNotFound
from spectator.following.run_folder import RUN_NAME, RunFolder, described, read_run, run_names
from spectator.following.run_tail import RunTail
from spectator.journal.stores.fleet_runs import FleetRow, rows
from spectator.journal.stores.sqlite import SqlJournal

logger = logging.getLogger(__name__)

MOST_OPEN: Final = 24
"""Records that are open at once; the one that was wanted longest ago is closed for the next."""

MOST_SEARCHED: Final = 64
"""Runs that are searched for an episode, those that changed last."""

KNOWN: Final = 100_000
"""Episodes of which it is remembered in which run they are."""


class RunRecords:
    """The records of the runs in one folder.

    Args:
        root: The folder whose folders hold the runs; ``None`` where no runs are watched.
        shared: A journal on a database server, whose runs are watched too; one in the folder goes before one
            of the same name.
    """

    def __init__(self, root: Path | None, shared: SqlJournal | None = None) -> None:
        self._root = root
        self._shared = shared
        self._open: OrderedDict[str, RunTail] = OrderedDict()
        self._known: OrderedDict[str, str] = OrderedDict()
        self._order = asyncio.Lock()

    @property
    def watched(self) -> bool:
        """Whether there is a folder of runs at all."""
        return self._root is not None

    async def names(self) -> list[str]:
        """The runs, those that changed last first."""
        if self._root is None:
            return []
        names = await asyncio.to_thread(run_names, self._root)
        shared = [] if self._shared is None else await self._shared.look(rows)
        there = [one.name for one in reversed(shared) if RUN_NAME.fullmatch(one.name)]
        return [one for one in there if one not in names] + names

    async def tail(self, name: str) -> RunTail:
        """The record of a run, opened where it is not yet.

        Raises:
            RunNotFound: There is no such run, or it is of another version.
            JournalError: Nothing was played yet, or its record cannot be read.
        """
        if self._root is None:
            raise RunNotFound("no runs are watched here; SPECTATOR_RUNS_DIR names the folder that holds them")
        async with self._order:
            folder, is_shared = await self._described(self._root, name)
            tail = self._open.get(name)
            if tail is not None and (tail.lost or not tail.is_of(folder)):
                await self._close(name)
                tail = None
            if tail is None:
                try:
                    if is_shared and self._shared is not None:
                        tail = RunTail(folder, self._shared, name)
                    else:
                        tail = await RunTail.open(folder)
                    self._open[name] = tail
                except ConfigurationError as error:
                    raise RunNotFound(f"{name} cannot be read: {error}") from error
                while len(self._open) > MOST_OPEN:
                    await self._close(next(iter(self._open)))
            tail.folder = folder
            self._open.move_to_end(name)
            return tail

    async def _described(self, root: Path, name: str) -> tuple[RunFolder, bool]:
        """What a run is, and whether it lies in the journal of many."""
        try:
            return await asyncio.to_thread(read_run, root, name), False
        except RunNotFound:
            found = [] if self._shared is None else await self._shared.look(lambda one: rows(one, name))
            if not found:
                raise
            return described(name, root / name, _kept(found[0])), True

    def note(self, name: str, episode_ids: list[str]) -> None:
        """Remember that a run has these episodes."""
        for episode_id in episode_ids:
            self._known[episode_id] = name
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)

    async def find(self, episode_id: str) -> str | None:
        """The run that has this episode; ``None`` where none of the newest has."""
        if (name := self._known.get(episode_id)) is not None:
            return name
        for name in (await self.names())[:MOST_SEARCHED]:
            try:
                tail = await self.tail(name)
                if tail.run_id is not None:
                    continue  # its episodes are found in that journal before
                if await tail.journal.episode(episode_id) is not None:
                    self.note(name, [episode_id])
                    return name
            except (RunNotFound, JournalError) as error:
                logger.debug("run %s is not searched: %s", name, error)
        return None

    def run_of(self, episode_id: str) -> str | None:
        """The same as far as it is known already."""
        return self._known.get(episode_id)

    async def journal_of(self, episode_id: str) -> SqlJournal | None:
        """The record that has this episode, where :meth:`find` found it; none where it is the shared one.

        Raises:
            JournalError: The run is gone, or cannot be read any more.
        """
        name = self._known.get(episode_id)
        if name is None or ((known := self._open.get(name)) is not None and known.run_id is not None):
            return None
        try:
            tail = await self.tail(name)
            return None if tail.run_id is not None else tail.journal
        except RunNotFound as error:
            raise JournalError(str(error)) from error

    async def aclose(self) -> None:
        """Let go of all records."""
        async with self._order:
            for name in tuple(self._open):
                await self._close(name)

    async def _close(self, name: str) -> None:
        await self._open.pop(name).aclose()


def _kept(row: FleetRow) -> Any:
    """What is kept of a run in a database, as its manifest would have it."""
    try:
        plan = json.loads(row.plan)
    except ValueError:
        return None
    return {**plan, "began_ms": row.began_ms} if isinstance(plan, dict) else None

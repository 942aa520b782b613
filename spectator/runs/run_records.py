"""Follow runs and their episodes by their records while other processes play them.

Viewers see a followed episode like one that is played in this process.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from spectator.bus import MemoryBus, Overflow, Subscription
from spectator.clock import Clock
from spectator.core_events import EpisodeEnded
from spectator.episodes.decisions import Thinking
from spectator.episodes.reader import EpisodeReader, ViewReader
from spectator.episodes.stream import JournalTrouble
from spectator.episodes.view import State, replay_state
from spectator.errors import (
    RETRIED_FAILURES,
    ConfigurationError,
    EpisodeNotFound,
    FailureClass,
    JournalError,
    RunNotFound,
    failure_of_end,
    reward_of_end,
)
from spectator.journal.call_totals import CallTotals, CountedCalls, count_calls
from spectator.journal.contract import EpisodeSummary
from spectator.journal.coordination import FleetRow, rows
from spectator.journal.outline import OwnCount
from spectator.journal.queries import EpisodeNews, News
from spectator.journal.sql_journal import SqlJournal
from spectator.runs.run_folder import RUN_NAME, RunFolder, described, read_run, run_names
from spectator.runs.run_plan import FailurePolicy

READ_EVENTS: Final = 200
"""Events that are read per query."""


class FollowedView:
    """An episode that another process plays; an :class:`~spectator.episodes.episode_view.EpisodeView`.

    Args:
        records: Reads the events that its viewers may see.
        withholds: Whether viewers see the agent's reasoning only together with its result.
    """

    def __init__(
        self,
        summary: EpisodeSummary,
        views: ViewReader,
        records: EpisodeReader,
        clock: Clock,
        *,
        withholds: bool = False,
    ) -> None:
        self.withholds = withholds
        self.trouble: JournalTrouble | None = None
        self.episode_id = summary.episode_id
        self.epoch = summary.epoch
        self.started_at = datetime.fromisoformat(summary.started_at)
        self.thinking = Thinking(clock)
        self.head_seq = 0
        self.state: State = {}
        self.turn = 0
        self.ended = False
        self.wanted_s = clock.monotonic()
        """When a viewer last asked for it, by the clock."""
        self._bus = MemoryBus()
        self._troubled = asyncio.Event()
        self._views = views
        self._records = records
        self._order = asyncio.Lock()

    @property
    def end_recorded(self) -> bool:
        """Whether its end was read from the record."""
        return self.ended

    @property
    def watched(self) -> bool:
        """Whether it has subscribers."""
        return self._bus.listeners(self.episode_id) > 0

    def close(self) -> None:
        """Finish all subscriptions."""
        self._bus.finish(self.episode_id)

    def subscribe(self, overflow: Overflow, *, capacity: int = 256) -> Subscription:
        """Subscribe to every event after ``head_seq``, as it is read."""
        return self._bus.subscribe(self.episode_id, overflow, capacity=capacity)

    def show_trouble(self, trouble: JournalTrouble | None) -> None:
        """Show that its player cannot record now, or (``None``) can again; the next event clears it."""
        if trouble != self.trouble:
            self.trouble = trouble
            changed, self._troubled = self._troubled, asyncio.Event()
            changed.set()

    async def news(self) -> JournalTrouble | None:
        """Wait until the trouble shown changes, which may never happen."""
        await self._troubled.wait()
        return self.trouble

    async def wait(self) -> EpisodeEnded:
        """Not supported; see :attr:`ended`."""
        raise EpisodeNotFound(self.episode_id)

    async def open(self) -> None:
        """Load ``state`` and ``head_seq`` from the record, unless they were loaded before."""
        if self.head_seq:
            return
        async with self._order:
            if self.head_seq:  # loaded meanwhile; subscribers count on this state
                return
            summary = await self._records.episode(self.episode_id)
            if summary is None:
                raise EpisodeNotFound(self.episode_id)
            state = await self._views.state(summary)
            last = await self._records.read(self.episode_id, after_seq=summary.head_seq - 1, limit=1)
            self.turn = last[0].event.turn if last else 0
            self.epoch, self.state, self.head_seq = summary.epoch, state, summary.head_seq

    async def advance(self, enough: int | None = None) -> None:
        """Read newly recorded events and publish them to subscribers.

        Args:
            enough: Sequence number at which to stop, so that concurrent callers read the same events once.

        Raises:
            JournalError: The record cannot be read.
        """
        await self.open()
        async with self._order:
            goes_on = not self.ended and (enough is None or self.head_seq < enough)
            while goes_on and (
                batch := await self._records.read(self.episode_id, after_seq=self.head_seq, limit=READ_EVENTS)
            ):
                if batch[-1].event.epoch != self.epoch:  # another numbering: viewers connect again
                    return self.close()
                state = await asyncio.to_thread(replay_state, batch, self.state)
                self.state, self.head_seq = state, batch[-1].seq
                self.turn = batch[-1].event.turn
                self.ended = any(one.type == "episode.ended" for one in batch)
                short = enough is not None and self.head_seq < enough
                goes_on = not self.ended and (short or len(batch) == READ_EVENTS)
                self._bus.publish(batch)
                self.show_trouble(None)
        if self.ended:
            self.close()


MAX_COUNTED: Final = 5_000
"""Episodes whose model calls are read at once, newest first; those of the others follow."""

COUNTED_AT_ONCE: Final = 200
"""Episodes whose model calls one query reads."""

_HEAD: Final = re.compile(r'"seq":\d+,"at":"([^"]{1,40})","turn":(\d{1,12}),"type":"([a-z_.]{1,64})"')

VANISHED: Final = "its record is gone; the folder may have been moved, removed or replaced"


@dataclass(slots=True)
class FollowedEpisode:
    """An attempt at an episode of a run.

    Args:
        group_id: Its group; ``None`` for none.
        attempt: Which attempt it is, from 1.
        parent: The episode that it was forked from.
        started_at: When it began, RFC 3339.
        ended_at: When it ended, RFC 3339; ``None`` while it has not ended.
        head_seq: Number of its last recorded event.
        moved_at: When that was recorded, RFC 3339.
        reward: Its reward; ``None`` without a verdict, which is not 0.
        unfinished: Why it did not finish, with or without a verdict.
        again: Whether the run tries it again.
        own: How many decisions its captain made itself; ``None`` if not recorded, or before its end.
        penalised: Whether its reward is the penalty for an answer that was not an action.
        calls: Totals of its model calls; ``None`` without any, or until :meth:`RunTail.count`.
    """

    episode_id: str
    environment: str
    seed: int
    group_id: str | None
    attempt: int
    parent: str | None
    started_at: str
    ended_at: str | None = None
    reason: str | None = None
    result: str | None = None
    detail: str | None = None
    turns: int = 0
    head_seq: int = 0
    moved_at: str = ""
    last: str = "episode.started"
    reward: float | None = None
    failure: FailureClass | None = None
    unfinished: FailureClass | None = None
    again: bool = False
    own: OwnCount | None = None
    penalised: bool = False
    calls: CallTotals | None = None


class RunTail:
    """Follows the record of one run; use :meth:`open`.

    Args:
        journal: Its record, open for reading.
        run_id: Its name in a shared journal, which :meth:`aclose` leaves open; ``None`` for an own journal.
    """

    def __init__(self, folder: RunFolder, journal: SqlJournal, run_id: str | None = None) -> None:
        self.folder = folder
        self.journal = journal
        self.episodes: dict[str, FollowedEpisode] = {}
        """By id; ended episodes are in the order in which they ended."""
        self._policy = FailurePolicy(retry=RETRIED_FAILURES, attempts=folder.attempts)
        self._mark: int | None = None
        self.uncounted: dict[str, FollowedEpisode] = {}
        """Ended episodes whose model calls :meth:`count` did not read yet, by id."""
        self.played_with: Mapping[str, Any] = {}
        """Options and sampling parameters found in the record of a run whose folder states none."""
        self.run_id = run_id
        self._inode = None if run_id is not None else folder.journal.stat().st_ino

    @property
    def lost(self) -> bool:
        """Whether its record was removed or replaced since it was opened."""
        if self._inode is None:
            return False
        try:
            return self.folder.journal.stat().st_ino != self._inode
        except OSError:
            return True

    def is_of(self, folder: RunFolder) -> bool:
        """Whether this is still the record that the folder describes."""
        return folder.began_at == self.folder.began_at and folder.attempts == self.folder.attempts

    @classmethod
    async def open(cls, folder: RunFolder) -> Self:
        """Open a run's record without reading it.

        Raises:
            JournalError: It cannot be read, or does not exist yet.
            ConfigurationError: Its version is not supported.
        """
        if not folder.journal.is_file():
            raise JournalError("nothing was played yet")
        try:
            return cls(folder, await SqlJournal.open(f"sqlite:///{folder.journal}", writable=False))
        except OSError as error:
            raise JournalError(VANISHED) from error

    async def look(self) -> list[str]:
        """Read what came since the last look; return the ids of the episodes that changed.

        Raises:
            JournalError: The record is gone, or cannot be read.
        """
        if self.lost:
            raise JournalError(VANISHED)
        changed: dict[str, None] = {}
        while True:
            news = await self.journal.news(self._mark, self.run_id)
            changed |= dict.fromkeys(self._take(news))
            if not news.more:
                return list(changed)

    async def count(self) -> bool:
        """Add up the model calls of newly ended episodes, at most :data:`MAX_COUNTED` at once.

        Returns:
            Whether there were any.

        Raises:
            JournalError: The record cannot be read.
        """
        newest = list(self.uncounted)[-MAX_COUNTED:]
        for first in range(0, len(newest), COUNTED_AT_ONCE):
            some = newest[first : first + COUNTED_AT_ONCE]
            try:
                counted = await self.journal.look(partial(count_calls, episode_ids=some))
            except ValueError as error:
                logger.warning("run %s: model calls cannot be read: %s", self.folder.name, error)
                counted = CountedCalls({}, {}, {})
            for episode_id in some:
                episode = self.uncounted.pop(episode_id, None)
                if episode is not None:
                    episode.calls = counted.totals.get(episode_id)
            if not self.folder.configuration:
                self.played_with = {"options": counted.options, "sampling": counted.sampling}
        return bool(newest)

    async def aclose(self) -> None:
        """Close the record."""
        if self.run_id is None:
            await self.journal.aclose()

    def _take(self, news: News) -> list[str]:
        if news.whole:
            self.episodes.clear()
            self.uncounted.clear()
        self._mark = news.mark
        for one in news.episodes:
            self._note(one)
        return [one.row["episode_id"] for one in news.episodes]

    def _note(self, news: EpisodeNews) -> None:
        row = news.row
        episode = self.episodes.get(row["episode_id"])
        if episode is None:
            episode = FollowedEpisode(
                row["episode_id"], row["environment"], int(row["seed"]), row["group_id"], row["attempt"] or 1,
                row["parent"], row["started_at"], moved_at=row["started_at"],
            )  # fmt: skip
            self.episodes[episode.episode_id] = episode
        if (head := _HEAD.search(news.head)) is not None:
            episode.moved_at, episode.turns, episode.last = head[1], int(head[2]), head[3]
            episode.head_seq = news.head_seq
        looked_at_end = head is None or head[3] == "episode.ended"  # otherwise the next look has it
        if row["reason"] is not None and episode.reason is None and looked_at_end:
            self._end(episode, row, news.head)

    def _end(self, episode: FollowedEpisode, row: Mapping[str, Any], text: str) -> None:
        episode.ended_at = episode.moved_at = row["ended_at"]
        episode.reason, episode.result, episode.detail = row["reason"], row["result"], row["detail"]
        episode.turns, episode.last = row["turns"] or 0, "episode.ended"
        data = data_of_end(text) or {"reason": row["reason"], "score": row["score"], "total_reward": None}
        episode.reward, episode.penalised = reward_of_end(data), data.get("penalty") is not None
        episode.own = OwnCount(**data["own_decisions"]) if data.get("own_decisions") else None
        episode.unfinished = failure_of_end(data)
        if episode.reward is None and episode.reason != "finished":
            episode.failure = episode.unfinished or "unknown"
            episode.again = self._policy.after(episode.failure, episode.attempt) == "retry"
        self.episodes[episode.episode_id] = self.episodes.pop(episode.episode_id)  # now the last that ended
        self.uncounted[episode.episode_id] = episode


def data_of_end(text: str) -> Mapping[str, Any] | None:
    """Parse the data of an ``episode.ended``; ``None`` unless the text is a complete one."""
    try:
        data: Any = json.loads(text)["data"]
    except (ValueError, KeyError, TypeError):
        return None
    return data if isinstance(data, Mapping) and "reason" in data else None


logger = logging.getLogger(__name__)

MAX_OPEN: Final = 24
"""Records that are open at once; the least recently used one is closed for the next."""

MAX_SEARCHED: Final = 64
"""Runs that are searched for an episode: those that changed last."""

KNOWN: Final = 100_000
"""Episodes whose run is remembered."""


class RunRecords:
    """The records of the runs in one folder.

    Args:
        root: The folder whose subfolders hold the runs; ``None`` if no runs are watched.
        shared: A journal on a database server, whose runs are watched too; of two runs with the same name,
            the one in the folder is used.
    """

    def __init__(self, root: Path | None, shared: SqlJournal | None = None) -> None:
        self._root = root
        self._shared = shared
        self._open: OrderedDict[str, RunTail] = OrderedDict()
        self._known: OrderedDict[str, str] = OrderedDict()
        self._order = asyncio.Lock()

    @property
    def watched(self) -> bool:
        """Whether runs are watched at all."""
        return self._root is not None

    async def names(self) -> list[str]:
        """List the runs, newest change first."""
        if self._root is None:
            return []
        names = await asyncio.to_thread(run_names, self._root)
        shared = [] if self._shared is None else await self._shared.look(rows)
        there = [one.name for one in reversed(shared) if RUN_NAME.fullmatch(one.name)]
        return [one for one in there if one not in names] + names

    async def tail(self, name: str) -> RunTail:
        """Return the record of a run, and open it if necessary.

        Raises:
            RunNotFound: There is no such run, or it is of another version.
            JournalError: Nothing was played yet, or its record cannot be read.
        """
        if self._root is None:
            hint = "set SPECTATOR_RUNS_DIR to the folder that holds them"
            raise RunNotFound(f"no runs are watched here; {hint}")
        async with self._order:
            folder, shared = await self._described(self._root, name)
            tail = self._open.get(name)
            if tail is not None and (tail.lost or not tail.is_of(folder)):
                await self._close(name)
                tail = None
            if tail is None:
                try:
                    tail = RunTail(folder, shared, name) if shared else await RunTail.open(folder)
                    self._open[name] = tail
                except ConfigurationError as error:
                    raise RunNotFound(f"{name} cannot be read: {error}") from error
                while len(self._open) > MAX_OPEN:
                    await self._close(next(iter(self._open)))
            tail.folder = folder
            self._open.move_to_end(name)
            return tail

    async def _described(self, root: Path, name: str) -> tuple[RunFolder, SqlJournal | None]:
        """Describe a run; return the shared journal too if the run is in it."""
        try:
            return await asyncio.to_thread(read_run, root, name), None
        except RunNotFound:
            found = [] if self._shared is None else await self._shared.look(lambda one: rows(one, name))
            if not found:
                raise
            return described(name, root / name, _kept(found[0])), self._shared

    def note(self, name: str, episode_ids: list[str]) -> None:
        """Remember that a run has these episodes."""
        self._known.update(dict.fromkeys(episode_ids, name))
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)

    async def find(self, episode_id: str) -> str | None:
        """Return the run that has this episode; ``None`` if none of the newest has it."""
        if (name := self._known.get(episode_id)) is not None:
            return name
        for name in (await self.names())[:MAX_SEARCHED]:
            try:
                tail = await self.tail(name)
                if tail.run_id is not None:
                    continue  # callers search the shared journal first
                if await tail.journal.episode(episode_id) is not None:
                    self.note(name, [episode_id])
                    return name
            except (RunNotFound, JournalError) as error:
                logger.debug("run %s is not searched: %s", name, error)
        return None

    def run_of(self, episode_id: str) -> str | None:
        """Return the same if it is already known."""
        return self._known.get(episode_id)

    async def journal_of(self, episode_id: str) -> SqlJournal | None:
        """Return the record in which :meth:`find` found this episode; ``None`` for the shared journal.

        Raises:
            JournalError: The run is gone or unreadable.
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
        """Close all records."""
        async with self._order:
            for name in tuple(self._open):
                await self._close(name)

    async def _close(self, name: str) -> None:
        await self._open.pop(name).aclose()


def _kept(row: FleetRow) -> Any:
    """Return the plan of a run in a database in the form of a manifest."""
    try:
        plan = json.loads(row.plan)
    except ValueError:
        return None
    return {**plan, "began_ms": row.began_ms} if isinstance(plan, dict) else None

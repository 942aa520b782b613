"""The server's journal: opens it, times its commits, and reads watched runs.

A damaged journal is set aside and a new one created. ``JoinedJournal`` also reads the records of watched
runs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, TypeVar

from prometheus_client import Histogram
from sqlalchemy import Connection

from spectator.clock import Clock
from spectator.episodes.past_states import StateFile
from spectator.errors import ConfigurationError, EpisodeDamaged, JournalDamaged, JournalError
from spectator.events import RecordedEvent
from spectator.journal.contract import (
    Attachments,
    Checkpoint,
    EpisodeFilter,
    EpisodeSummary,
    Link,
    RecordedCall,
    Synchronous,
)
from spectator.journal.database import REPAIR, Database, set_aside
from spectator.journal.sql_journal import SqlJournal
from spectator.runs.run_records import RunRecords

from .settings import Settings

_Result = TypeVar("_Result")


ANSWER_S: Final = 2.0
"""Seconds that a check of the journal may take until it counts as not answering."""

MOST_DAMAGE: Final = 100
"""Most damaged records remembered."""


class TimedJournal(SqlJournal):
    """A journal that observes how long commits take, how long they wait, and what is damaged."""

    def __init__(self, database: Database, *, writable: bool) -> None:
        super().__init__(database, writable=writable)
        self.unended: Counter[str] = Counter()
        """Characters that this process recorded of each unfinished episode."""
        self.damage: Counter[str] = Counter()
        """What was found damaged, and how often it was read."""
        self._begun: dict[object, float] = {}  # commits without an answer, oldest first
        self._check: tuple[asyncio.Task[None], float] | None = None

    commit: Histogram | None = None
    """Histogram of commit durations in seconds; set after opening."""

    recorded: Callable[[str, int, bool], None] | None = None
    """Called with an episode, the characters recorded of it, and whether it ended, if that is limited."""

    traced: Callable[[Sequence[RecordedEvent], Attachments | None], None] | None = None
    """Called with recorded events, if traces are enabled."""

    appended: Callable[[Sequence[RecordedEvent]], None] | None = None
    """Called with committed events of visible episodes, if there are other servers."""

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        """See :meth:`SqlJournal.append`."""
        began = self._begun[key := object()] = time.perf_counter()
        try:
            await super().append(events, attachments=attachments)
        finally:
            del self._begun[key]
        if self.commit is not None:
            self.commit.observe(time.perf_counter() - began)
        if not events:
            return
        if self.appended is not None and events[0].episode_id not in self._staged.episodes:
            self.appended(events)
        if self.traced is not None:
            self.traced(events, attachments)
        episode_id, ended = events[-1].episode_id, events[-1].type == "episode.ended"
        size = sum(len(one.text) for one in events)
        if ended:
            self.unended.pop(episode_id, None)
        else:
            self.unended[episode_id] += size
        if self.recorded is not None:
            self.recorded(episode_id, size, ended)

    @property
    def commit_wait_s(self) -> float:
        """Seconds for which the oldest commit has had no answer; 0.0 if none waits."""
        return time.perf_counter() - next(iter(self._begun.values())) if self._begun else 0.0

    async def problem(self) -> str | None:
        """Return why the journal cannot be used now, within :data:`ANSWER_S`; ``None`` if it can.

        Concurrent callers share one check, so that a journal that does not answer gets no crowd.
        """
        task, began = self._check or (asyncio.create_task(self.check()), time.perf_counter())
        self._check = task, began
        await asyncio.wait([task], timeout=ANSWER_S)
        if not task.done():
            return f"the journal has not answered for {time.perf_counter() - began:.0f} s"
        self._check = None
        error = task.exception()
        return None if error is None else str(error)

    async def _query(self, work: Callable[[Connection], _Result], episode_id: str | None = None) -> _Result:
        try:
            return await super()._query(work, episode_id)
        except (JournalDamaged, EpisodeDamaged) as error:
            self.note_damage(error)
            raise

    def note_damage(self, error: JournalError) -> None:
        """Remember damage for the operator."""
        if len(self.damage) < MOST_DAMAGE or str(error) in self.damage:
            self.damage[str(error)] += 1

    async def unstage(self, episode_id: str) -> None:
        """See :meth:`SqlJournal.unstage`."""
        if episode_id in self._staged.episodes:
            self.unended.pop(episode_id, None)
        await super().unstage(episode_id)


logger = logging.getLogger(__name__)


class JoinedJournal(TimedJournal):
    """A journal that also reads episodes of watched runs; it writes only its own.

    Reading a summary finds the run of an episode. Lists contain only the server's own episodes.
    """

    runs: RunRecords = RunRecords(None)
    """The watched runs; set after opening."""

    states: StateFile | None = None
    """File with states of long records; set after opening."""

    async def remove(self, episode_id: str) -> None:
        """Remove an ended episode, after its stored states."""
        if self.states is not None:
            await asyncio.to_thread(self.states.forget, episode_id)
        await super().remove(episode_id)

    async def tidy(self) -> None:
        """Complete interrupted removals, and delete states of removed episodes."""
        await super().tidy()
        if self.states is not None:
            for episode_id in await asyncio.to_thread(self.states.episodes):
                if not await self._has(episode_id):
                    await asyncio.to_thread(self.states.forget, episode_id)

    async def _has(self, episode_id: str) -> bool:
        try:
            return await self.episode(episode_id) is not None
        except JournalError as error:  # such as of a run whose folder is gone
            logger.info("deleting the states of episode %s: %s", episode_id, error)
            return False

    async def run_of(self, episode_id: str) -> str | None:
        """Return the run of an episode; ``None`` if it is the server's own, or unknown."""
        if (known := self.runs.run_of(episode_id)) is not None:
            return known
        if not self.runs.watched or await super().episode(episode_id) is not None:
            return None
        return await self.runs.find(episode_id)

    async def episode(self, episode_id: str) -> EpisodeSummary | None:
        """Return the summary of one episode."""
        if (elsewhere := await self.runs.journal_of(episode_id)) is not None:
            return await elsewhere.episode(episode_id)
        summary = await super().episode(episode_id)
        if summary is None and await self.run_of(episode_id) is not None:
            elsewhere = await self.runs.journal_of(episode_id)
            return None if elsewhere is None else await elsewhere.episode(episode_id)
        return summary

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None, checked: bool = True
    ) -> list[RecordedEvent]:
        """Read the events of an episode with ``seq > after_seq``, in order."""
        elsewhere = await self.runs.journal_of(episode_id)
        if elsewhere is not None:
            return await elsewhere.read(episode_id, after_seq=after_seq, limit=limit, checked=checked)
        return await super().read(episode_id, after_seq=after_seq, limit=limit, checked=checked)

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> list[str]:
        """Read the same events, not decoded."""
        if (elsewhere := await self.runs.journal_of(episode_id)) is not None:
            return await elsewhere.texts(episode_id, after_seq=after_seq, limit=limit)
        return await super().texts(episode_id, after_seq=after_seq, limit=limit)

    async def calls(self, episode_id: str) -> AsyncIterator[RecordedCall]:
        """Yield the model calls of an episode, in order, reading a batch at a time."""
        elsewhere = await self.runs.journal_of(episode_id)
        async for call in super().calls(episode_id) if elsewhere is None else elsewhere.calls(episode_id):
            yield call

    async def truth(self, episode_id: str) -> str | None:
        """Read the sealed truth of an ended episode as JSON text."""
        if (elsewhere := await self.runs.journal_of(episode_id)) is not None:
            return await elsewhere.truth(episode_id)
        return await super().truth(episode_id)

    async def links(self, episode_id: str) -> AsyncIterator[Sequence[Link]]:
        """Yield the stored events of an episode, not decoded, a batch at a time."""
        elsewhere = await self.runs.journal_of(episode_id)
        async for batch in super().links(episode_id) if elsewhere is None else elsewhere.links(episode_id):
            yield batch

    async def last_within(self, episode_id: str, characters: int, *, until: int) -> int:
        """Return the number of the last event within the first ``characters`` of a record."""
        if (elsewhere := await self.runs.journal_of(episode_id)) is not None:
            return await elsewhere.last_within(episode_id, characters, until=until)
        return await super().last_within(episode_id, characters, until=until)

    async def checkpoints(self, episode_id: str) -> list[Checkpoint]:
        """Return the checkpoints that match an episode's record, newest first."""
        if (elsewhere := await self.runs.journal_of(episode_id)) is not None:
            return await elsewhere.checkpoints(episode_id)
        return await super().checkpoints(episode_id)

    async def keep_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint, except of a watched run, whose record has another writer."""
        if self.runs.run_of(checkpoint.episode_id) is None:
            await super().keep_checkpoint(checkpoint)


async def open_journal(settings: Settings, clock: Clock) -> JoinedJournal:
    """Open the journal; a damaged one is set aside, and a new one created.

    Raises:
        ConfigurationError: The data folder cannot be created.
        JournalError: The journal cannot be opened.
    """
    url, synchronous = journal_url(settings), settings.journal_synchronous
    if settings.journal_url is not None:  # SQLite's journal creates its own folder
        try:
            settings.data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"SPECTATOR_DATA_DIR: {error}") from error
    try:
        return await _read(url, synchronous)
    except JournalDamaged as error:
        place = await asyncio.to_thread(set_aside, url, clock.now())
        if place is None:
            raise JournalDamaged(f"{error}; {REPAIR}") from None
        logger.exception("the journal is damaged; it was set aside as %s, and a new one is created", place)
    return await _read(url, synchronous)


async def _read(url: str, synchronous: Synchronous) -> JoinedJournal:
    journal = await JoinedJournal.open(url, synchronous=synchronous)
    journal.keep_acknowledged()
    try:
        for ended in (False, None):  # what recovery and the lobby read; checks the index
            await journal.episodes(EpisodeFilter(ended=ended))
        return journal
    except JournalError:
        await journal.aclose()
        raise


def journal_url(settings: Settings) -> str:
    """Return the journal's URL; a path after ``sqlite:///`` is not escaped."""
    if settings.journal_url is not None:
        return settings.journal_url.get_secret_value()
    return f"sqlite:///{settings.data_dir / 'journal.db'}"

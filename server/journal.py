"""The server's journal: opening it, timing its commits, and reading watched runs.

A damaged journal is set aside and a new one begun. ``JoinedJournal`` reads the records of watched runs
as well.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from prometheus_client import Histogram
from sqlalchemy import URL

from spectator.clock import Clock
from spectator.episodes.past_states import StateFile
from spectator.errors import ConfigurationError, JournalDamaged, JournalError
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
from spectator.journal.database import Database, set_aside
from spectator.journal.sql_journal import SqlJournal
from spectator.runs.run_records import RunRecords

from .settings import Settings


class NoteRecorded(Protocol):
    """Takes note of what was recorded."""

    def __call__(self, episode_id: str, size: int, *, ended: bool) -> None:
        """So many characters of an episode; whether it has ended."""
        ...


class TimedJournal(SqlJournal):
    """A journal that observes how long each commit takes; those that fail are left out."""

    def __init__(self, database: Database, *, writable: bool) -> None:
        super().__init__(database, writable=writable)
        self.unended: Counter[str] = Counter()
        """Characters that this process recorded of each episode without an end."""

    commit: Histogram | None = None
    """Takes the seconds; set once it is open."""

    recorded: NoteRecorded | None = None
    """Is told what is recorded of which episode, where anybody counts it."""

    traced: Callable[[Sequence[RecordedEvent], Attachments | None], None] | None = None
    """Is told what was recorded, where it is traced."""

    appended: Callable[[Sequence[RecordedEvent]], None] | None = None
    """Is given what was committed of an episode that can be found, where other servers are to hear of it."""

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        """See :meth:`SqlJournal.append`."""
        began = time.perf_counter()
        await super().append(events, attachments=attachments)
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
            self.recorded(episode_id, size, ended=ended)

    async def unstage(self, episode_id: str) -> None:
        """See :meth:`SqlJournal.unstage`."""
        if episode_id in self._staged.episodes:
            self.unended.pop(episode_id, None)
        await super().unstage(episode_id)


logger = logging.getLogger(__name__)


class JoinedJournal(TimedJournal):
    """A journal that reads an episode of a watched run from that run's record; it writes only its own.

    An episode of a run is found once somebody asks for its summary. Lists hold the server's own episodes.
    """

    runs: RunRecords = RunRecords(None)
    """The runs; set once it is open."""

    states: StateFile | None = None
    """Where states of long records are kept beside it; set once it is open."""

    async def remove(self, episode_id: str) -> None:
        """Remove an ended episode, and what is kept of it beside the record before that."""
        if self.states is not None:
            await asyncio.to_thread(self.states.forget, episode_id)
        await super().remove(episode_id)

    async def tidy(self) -> None:
        """Finish what was interrupted, and forget states of episodes that are gone, whoever removed them."""
        await super().tidy()
        if self.states is not None:
            for episode_id in await asyncio.to_thread(self.states.episodes):
                if not await self._has(episode_id):
                    await asyncio.to_thread(self.states.forget, episode_id)

    async def _has(self, episode_id: str) -> bool:
        try:
            return await self.episode(episode_id) is not None
        except JournalError as error:  # as of a run whose folder is gone
            logger.info("states of episode %s are not kept: %s", episode_id, error)
            return False

    async def run_of(self, episode_id: str) -> str | None:
        """The run that has this episode; ``None`` where it is the server's own, or nobody's."""
        if (known := self.runs.run_of(episode_id)) is not None:
            return known
        if not self.runs.watched or await super().episode(episode_id) is not None:
            return None
        return await self.runs.find(episode_id)

    async def episode(self, episode_id: str) -> EpisodeSummary | None:
        """Summary of one episode."""
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
        """Events of an episode with ``seq > after_seq``, in order."""
        elsewhere = await self.runs.journal_of(episode_id)
        if elsewhere is not None:
            return await elsewhere.read(episode_id, after_seq=after_seq, limit=limit, checked=checked)
        return await super().read(episode_id, after_seq=after_seq, limit=limit, checked=checked)

    async def texts(self, episode_id: str, *, after_seq: int = 0, limit: int | None = None) -> list[str]:
        """The same, not decoded."""
        if (elsewhere := await self.runs.journal_of(episode_id)) is not None:
            return await elsewhere.texts(episode_id, after_seq=after_seq, limit=limit)
        return await super().texts(episode_id, after_seq=after_seq, limit=limit)

    async def calls(self, episode_id: str) -> AsyncIterator[RecordedCall]:
        """Its calls to models, in order, a batch at a time."""
        elsewhere = await self.runs.journal_of(episode_id)
        async for call in super().calls(episode_id) if elsewhere is None else elsewhere.calls(episode_id):
            yield call

    async def truth(self, episode_id: str) -> str | None:
        """The sealed truth of an ended episode as JSON text."""
        if (elsewhere := await self.runs.journal_of(episode_id)) is not None:
            return await elsewhere.truth(episode_id)
        return await super().truth(episode_id)

    async def links(self, episode_id: str) -> AsyncIterator[Sequence[Link]]:
        """Its events as they lie there, not decoded, a batch at a time."""
        elsewhere = await self.runs.journal_of(episode_id)
        async for batch in super().links(episode_id) if elsewhere is None else elsewhere.links(episode_id):
            yield batch

    async def last_within(self, episode_id: str, characters: int, *, until: int) -> int:
        """Number of the last event up to which a record takes no more than ``characters``."""
        if (elsewhere := await self.runs.journal_of(episode_id)) is not None:
            return await elsewhere.last_within(episode_id, characters, until=until)
        return await super().last_within(episode_id, characters, until=until)

    async def checkpoints(self, episode_id: str) -> list[Checkpoint]:
        """Those of an episode that fit its record, newest first."""
        if (elsewhere := await self.runs.journal_of(episode_id)) is not None:
            return await elsewhere.checkpoints(episode_id)
        return await super().checkpoints(episode_id)

    async def keep_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep where an episode stands; not of a run's, whose record belongs to whoever plays it."""
        if self.runs.run_of(checkpoint.episode_id) is None:
            await super().keep_checkpoint(checkpoint)


async def open_journal(settings: Settings, clock: Clock) -> JoinedJournal:
    """The journal; one that is damaged is set aside, and a new one begun.

    Raises:
        ConfigurationError: The folder of the data cannot be made.
        JournalError: It cannot be opened.
    """
    url, synchronous = journal_url(settings), settings.journal_synchronous
    if settings.journal_url is not None:  # an embedded one makes the folder that it lies in
        try:
            settings.data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"SPECTATOR_DATA_DIR: {error}") from error
    try:
        return await _read(url, synchronous)
    except JournalDamaged as error:
        place = await asyncio.to_thread(set_aside, url, clock.now())
        logger.exception("the journal is damaged; it was set aside as %s and a new one is begun", place)
        if place is None:
            raise error from None
    return await _read(url, synchronous)


async def _read(url: str, synchronous: Synchronous) -> JoinedJournal:
    journal = await JoinedJournal.open(url, synchronous=synchronous)
    try:
        for ended in (False, None):  # what recovery and the lobby read: its index is whole
            await journal.episodes(EpisodeFilter(ended=ended))
        return journal
    except JournalError:
        await journal.aclose()
        raise


def journal_url(settings: Settings) -> str:
    """Where the journal is, as SQLAlchemy takes it, whatever the folder is called."""
    if settings.journal_url is not None:
        return settings.journal_url.get_secret_value()
    return URL.create("sqlite", database=str(settings.data_dir / "journal.db")).render_as_string()

"""The server's own journal, and behind it the records of the runs that it watches, to be read alike."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence

from spectator.episodes.record.state_file import StateFile
from spectator.errors import JournalError
from spectator.events import RecordedEvent
from spectator.following.run_records import RunRecords
from spectator.journal.attachments import RecordedCall
from spectator.journal.base import Checkpoint, EpisodeSummary
from spectator.journal.chain import Link

from ..metrics.timed_journal import TimedJournal

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

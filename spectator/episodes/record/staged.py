"""The log of an episode whose beginning is long: it is written in batches, and found once it is whole."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence

from spectator.errors import JournalError
from spectator.events import RecordedEvent
from spectator.journal.attachments import Attachments, RecordedCall
from spectator.journal.base import Journal

logger = logging.getLogger(__name__)


class StagedLog:
    """Stages what is appended until :attr:`staging` is false; the next append makes it an episode.

    Args:
        journal: Where to.
        episode_id: The one episode that is appended to it.
    """

    def __init__(self, journal: Journal, episode_id: str) -> None:
        self.staging = True
        """Whether appends are only staged."""
        self._journal = journal
        self._episode_id = episode_id

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        """See :meth:`spectator.journal.base.EpisodeLog.append`."""
        write = self._journal.stage if self.staging else self._journal.append
        await write(events, attachments=attachments)

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None, checked: bool = True
    ) -> list[RecordedEvent]:
        """See :meth:`spectator.journal.base.EpisodeLog.read`."""
        return await self._journal.read(episode_id, after_seq=after_seq, limit=limit, checked=checked)

    def calls(self, episode_id: str) -> AsyncIterator[RecordedCall]:
        """See :meth:`spectator.journal.base.EpisodeLog.calls`."""
        return self._journal.calls(episode_id)

    async def give_up(self) -> None:
        """Remove what was staged, unless it became an episode; never fails, for the next start removes it."""
        try:
            await self._journal.unstage(self._episode_id)
        except JournalError as error:
            logger.warning("what was written of %s is removed later: %s", self._episode_id, error)

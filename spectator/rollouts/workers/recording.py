"""What workers may do to the journal through their desk: append under a lease, and read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from spectator.errors import JournalError, LeaseLost, SpectatorError
from spectator.events import RecordedEvent, decode
from spectator.journal.stores.sqlite import SqlJournal
from spectator.rollouts.workers.calls import CallsUnderLease
from spectator.rollouts.workers.members import Member
from spectator.rollouts.workers.wire import Append, DeskAnswer, Read

logger = logging.getLogger(__name__)


class LeasedRecording:
    """Records and reads for workers, and answers each of their questions.

    Args:
        journal: Where it is recorded.
        on_recorded: Hears of what was appended: whose, under which lease, the events.
    """

    def __init__(
        self, journal: SqlJournal, on_recorded: Callable[[Member, int, Sequence[RecordedEvent]], None]
    ) -> None:
        self._journal = journal
        self._on_recorded = on_recorded
        self.refused = 0
        """Appends that the database refused, for their lease was over."""

    async def answer(self, member: Member, question: Append | Read) -> None:
        """Do what ``question`` asks, and send its worker the answer, an error too."""
        try:
            if isinstance(question, Append):
                await self._append(member, question)
                answer = DeskAnswer(question.number)
            else:
                answer = DeskAnswer(question.number, await self._read(question))
        except SpectatorError as error:
            answer = DeskAnswer(question.number, None, (type(error).__name__, str(error)))
            if isinstance(error, LeaseLost):
                self.refused += 1
                logger.warning("worker %s was deposed, and is refused: %s", member.name, error)
        member.send(answer)

    async def _append(self, member: Member, append: Append) -> None:
        try:
            events = [decode(text) for text in append.texts]
        except ValueError as error:
            raise JournalError(f"worker {member.name} sent something that is no event: {error}") from error
        calls = member.calls.setdefault(append.fence, CallsUnderLease())
        await self._journal.append_held(append.fence, events, calls.unpacked(append.attachments))
        self._on_recorded(member, append.fence, events)

    async def _read(self, question: Read) -> Any:
        if question.what == "calls":
            return [call async for call in self._journal.calls(question.episode_id)]
        recorded = await self._journal.read(
            question.episode_id, after_seq=question.after_seq, limit=question.limit, checked=False
        )
        return [one.text for one in recorded]

"""What a worker reaches through its desk: the journal, leases to make actors for, and the ledger."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from spectator import errors
from spectator.clock import Clock
from spectator.errors import JournalError, SpectatorError
from spectator.events import RecordedEvent, decode
from spectator.failures import FailureClass
from spectator.journal.attachments import Attachments, RecordedCall
from spectator.policies.spending import SpendLedger, Spent
from spectator.rollouts.actors import RecyclingPool, unplayable
from spectator.rollouts.playing import AttemptPlayer, Handle, Result
from spectator.rollouts.workers.calls import CallsUnderLease
from spectator.rollouts.workers.desk_line import DeskLine
from spectator.rollouts.workers.wire import (
    Append,
    AttemptOver,
    DeskAnswer,
    Granted,
    HaltRun,
    NoEnvironment,
    Paid,
    Read,
    Want,
)
from spectator.runs.owed import Attempt

DEPOSED: Final = 71
"""Exit code of a worker whose episodes are played elsewhere."""


class LeasedLog:
    """The run's journal as a worker reaches it: by asking its desk.

    Args:
        line: To the desk.
    """

    def __init__(self, line: DeskLine) -> None:
        self._line = line
        self._fences: dict[str, tuple[int, CallsUnderLease]] = {}
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._number = 0

    def hold(self, granted: Granted) -> None:
        """Record the episode of ``granted`` under its lease from now on."""
        self._fences[granted.attempt.episode_id] = (granted.fence, CallsUnderLease())

    @property
    def held(self) -> set[str]:
        """Episodes that are recorded under a lease."""
        return set(self._fences)

    def let_go(self, episode_id: str) -> int | None:
        """Forget the lease of an episode; its number."""
        lease = self._fences.pop(episode_id, None)
        return None if lease is None else lease[0]

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        """See :meth:`spectator.journal.base.EpisodeLog.append`."""
        if not events:
            return
        lease = self._fences.get(events[0].episode_id)
        if lease is None:
            raise JournalError(f"there is no lease of {events[0].episode_id} here")
        fence, calls = lease
        texts = [recorded.text for recorded in events]
        await self._ask(Append(self._next(), fence, texts, calls.packed(attachments)))

    async def read(
        self, episode_id: str, *, after_seq: int = 0, limit: int | None = None, checked: bool = True
    ) -> list[RecordedEvent]:
        """See :meth:`spectator.journal.base.EpisodeLog.read`; nothing is checked on the way to a worker."""
        texts = await self._ask(Read(self._next(), episode_id, "events", after_seq, limit))
        return [decode(text) for text in texts]

    async def calls(self, episode_id: str) -> AsyncIterator[RecordedCall]:
        """See :meth:`spectator.journal.base.EpisodeLog.calls`."""
        for call in await self._ask(Read(self._next(), episode_id, "calls")):
            yield call

    def answered(self, answer: DeskAnswer) -> None:
        """Take an answer of the desk; one that says that a lease is lost ends the process."""
        asked = self._asked.pop(answer.number, None)
        if answer.error is None:
            if asked is not None and not asked.done():
                asked.set_result(answer.value)
            return
        kind, says = answer.error
        if kind == errors.LeaseLost.__name__:
            os._exit(DEPOSED)
        if asked is not None and not asked.done():
            asked.set_exception(_error(kind, says))

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _ask(self, question: Append | Read) -> Any:
        answer = self._asked[question.number] = asyncio.get_running_loop().create_future()
        self._line.send(question)
        return await answer


def _error(kind: str, says: str) -> JournalError:
    known = getattr(errors, kind, JournalError)
    return known(says) if issubclass(known, JournalError) else JournalError(says)


class LeasedPool(RecyclingPool[Attempt]):
    """Makes an actor for each lease that the desk grants, and asks it for another when one is given back.

    Args:
        size: Actors that may be leased at once.
        line: To the desk.
        log: Records under the leases.
        player: Makes the actors.
        clock: Waits between attempts to make one.
    """

    def __init__(
        self, size: int, line: DeskLine, log: LeasedLog, player: AttemptPlayer, clock: Clock
    ) -> None:
        super().__init__(
            (), player.open, size, clock=clock, on_failed=self._failed, spare_factor=1.0,
            patience_s=math.inf,  # the desk knows whether another worker plays there, and halts the run
            on_shortage=lambda short: line.send(NoEnvironment(None if short is None else short.reason)),
            fed=True,
        )  # fmt: skip
        self._line = line
        self._log = log

    async def start(self) -> None:
        """Ask for as many leases as can be played at once."""
        for _ in range(self.pool_size):
            self._line.send(Want())

    def grant(self, granted: Granted) -> None:
        """Take a lease."""
        self._log.hold(granted)
        self.feed(granted.attempt)

    def result(self, result: Result) -> None:
        """Tell the desk what became of an attempt; its end, where it has one, is recorded already."""
        ended = result.end_reason is not None
        self._let_go(
            result.episode_id, None if ended else result.failure_class, None if ended else result.detail
        )

    async def done(self, handle: Handle, *, again: Attempt | None = None) -> None:
        """Let go of an actor, and ask for another lease."""
        await super().done(handle)
        self._let_go(handle.env_id, None, None)
        self._line.send(Want())

    def drain(self) -> None:
        """Make no more actors, and take no more leases."""
        super().drain()
        self.no_more()

    async def aclose(self) -> None:
        """Let go of every actor, and of the leases for which none was made or played in."""
        unplayed = self._log.held.difference(self._leased)
        await super().aclose()
        for episode_id in unplayed:
            self._let_go(episode_id, None, None)

    def _failed(self, attempt: Attempt, error: SpectatorError) -> None:
        self._let_go(attempt.episode_id, getattr(error, "failure_class", "env_infra"), str(error))
        self._line.send(HaltRun(unplayable(str(error))))

    def _let_go(self, episode_id: str, failure_class: FailureClass | None, detail: str | None) -> None:
        fence = self._log.let_go(episode_id)
        if fence is not None:
            self._line.send(AttemptOver(fence, failure_class, detail))


class SharedLedger(SpendLedger):
    """What asking may take, told to the desk, which tells the others; see :class:`SpendLedger`."""

    line: DeskLine

    def pay(self, spent: Spent) -> None:
        """Count ``spent`` here and elsewhere."""
        super().pay(spent)
        self.line.send(Paid(spent))

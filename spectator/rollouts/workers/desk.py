"""The desk of a run: gives out leases, records for every worker, and knows what is still owed."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from spectator.clock import Clock
from spectator.errors import JournalError
from spectator.events import EpisodeEnded, RecordedEvent
from spectator.journal.stores.leases import Leases
from spectator.policies.spending import Spent
from spectator.rollouts.actors import Shortage, unplayable
from spectator.rollouts.in_flight import InFlight
from spectator.rollouts.interactor import EpisodeResult
from spectator.rollouts.opening import OpenRun
from spectator.rollouts.playing import OwnDecisions, Result, attempt_after, result_of
from spectator.rollouts.workers.members import LeasedAttempt, Member
from spectator.rollouts.workers.recording import LeasedRecording
from spectator.rollouts.workers.wire import (
    Append,
    AttemptOver,
    Beat,
    FlightsWaiting,
    Granted,
    HaltRun,
    LogLine,
    NoEnvironment,
    NoMore,
    Paid,
    Read,
    Want,
)
from spectator.runs.halting import Halt
from spectator.runs.owed import Attempt

logger = logging.getLogger(__name__)

BARREN: Final = 10
"""Workers that die in a row, while no episode gets any further, after which the run is halted."""


class Desk:
    """Records what workers play; all that it knows beyond the journal may be lost.

    Args:
        run: What is played, and where it is recorded; its ledger counts what all workers spend.
        leases: The leases of its journal.
        clock: Time.
        size: Workers that there are to be.
        concurrency: Episodes at once in all of them.
        lease_s: Seconds without a word of a worker after which it is to be deposed.
        env_wait_s: Seconds that a server of environments may be gone while none of them is being played in.
    """

    def __init__(
        self,
        run: OpenRun,
        leases: Leases,
        clock: Clock,
        *,
        size: int,
        concurrency: int,
        lease_s: float,
        env_wait_s: float,
    ) -> None:
        self._run = run.planned.run
        self._agent = run.planned.world.actors[0]
        self._owed = deque(run.owed)
        self._journal = run.journal
        self._recording = LeasedRecording(run.journal, self._moved)
        self._leases = leases
        self._halt = Halt(run.ledger)
        self._clock = clock
        self._size = size
        self._lease_s = lease_s
        self._env_wait_s = env_wait_s
        self._barren = 0
        self._draining = False
        self._stirred = asyncio.Event()
        self._stirred.set()
        self._joined = 0
        self.state = run.state
        self.workers = concurrency
        self.members: dict[str, Member] = {}
        self.results: list[Result] = []
        self.deaths = 0
        """Workers that went away before they were done."""

    @property
    def in_flight(self) -> list[InFlight]:
        """Episodes that are being played, oldest first."""
        held = (one for member in self.members.values() for one in member.held.values())
        return sorted((one.flight for one in held if one.playing), key=lambda flight: flight.began_s)

    @property
    def refused(self) -> int:
        """Appends that the database refused, for their lease was over."""
        return self._recording.refused

    @property
    def halted(self) -> str | None:
        """Why nothing more is given out; ``None`` when nothing is left or it was asked to stop."""
        return self._halt.reason

    @property
    def owed(self) -> int:
        """Attempts that nobody plays now."""
        return len(self._owed)

    @property
    def barren(self) -> int:
        """Workers that went away in a row while no episode got any further."""
        return self._barren

    @property
    def spent(self) -> tuple[Spent, Spent]:
        """What all workers spent: today, and in all."""
        return self._halt.ledger.spent, self._halt.ledger.whole

    @property
    def finished(self) -> bool:
        """Whether nothing more will be given out."""
        held = any(member.held for member in self.members.values())
        return self._draining or self._halt.reason is not None or not (self._owed or held)

    def drain(self) -> None:
        """Let what is being played come to its end, and give out nothing more."""
        self._draining = True
        self._stirred.set()

    def join(self, name: str, send: Callable[[object], None]) -> Member:
        """Take in a worker."""
        self._joined += 1
        member = self.members[name] = Member(name, self._joined, send)
        self._stirred.set()
        return member

    def take(self, member: Member, message: object) -> None:
        """Take a message of a worker, even of one that was deposed: then the database refuses its appends."""
        match message:
            case Append() | Read():
                self._begin(member, self._recording.answer(member, message))
            case Want():
                member.want += 1
                self._stirred.set()
            case AttemptOver():
                self._begin(member, self._played(member, message))
            case Paid(spent):
                self._paid(member, spent)
            case LogLine(level, name, text):
                logging.getLogger(name).log(level, "worker %s: %s", member.name, text)
            case HaltRun(reason):
                self._halt.because(reason)
                self._stirred.set()
            case NoEnvironment(reason):
                member.no_environment = reason
                self.note_shortage(tried=reason is not None)
            case Beat(stood_still_s):
                member.note_beat(stood_still_s)
            case FlightsWaiting(flights):
                member.note_waiting(flights, self._clock.monotonic())

    async def leave(self, member: Member, why: str) -> None:
        """Depose a worker: what it holds goes to others, and nothing that it still sends is recorded."""
        if self.members.pop(member.name, None) is None:
            return
        while member.doing:
            await asyncio.wait(member.doing)
        held, member.held = member.held, {}
        attempts = [one.attempt for one in held.values()]
        self._owed.extendleft(reversed(attempts))  # nobody is given them before the row is gone
        try:
            await self._leases.depose(member.name)
        except JournalError as error:
            self._halt.because(f"worker {member.name} cannot be deposed: {error}")
        if attempts or not self.finished:
            logger.warning("worker %s %s; %d episodes go on elsewhere", member.name, why, len(attempts))
            self._count_death(why)
        self._stirred.set()

    async def serve(self) -> None:
        """Give out leases until nothing is left, or the run is halted, and every worker has left."""
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            if not self.finished:
                await self._grant()
            if self.finished:
                for member in self.members.values():
                    member.send(NoMore())
                if not self.members:
                    return

    async def renew(self) -> None:
        """Note that every worker was heard of, for whoever reads the journal."""
        try:
            await self._leases.renew(list(self.members), expires_ms=self._expires_ms())
        except JournalError as error:
            logger.warning("it cannot be noted that workers were heard of: %s", error)

    def tell_spending(self) -> None:
        """Tell every worker what the others spent since the last time."""
        for member in self.members.values():
            if member.elsewhere != Spent():
                member.send(Paid(member.elsewhere))
                member.elsewhere = Spent()

    def note_shortage(self, *, tried: bool = False) -> None:
        """Note whether workers have no environments; a try in vain halts the run where none had one for long.

        Args:
            tried: Whether a worker has just tried in vain.
        """
        missing = [one.no_environment for one in self.members.values() if one.no_environment is not None]
        if not missing:
            return self.state.note_shortage(None)
        now, known = self._clock.monotonic(), self.state.shortage
        since_s = now if known is None or self.in_flight else known.since_s
        self.state.note_shortage(Shortage(missing[0], since_s))
        if tried and now - since_s >= self._env_wait_s:
            self._halt.because(unplayable(missing[0], self._env_wait_s))
            self._stirred.set()

    async def _grant(self) -> None:
        for member in list(self.members.values()):
            count = min(member.want, len(self._owed), -(-len(self._owed) // self._size))
            if not count:
                continue
            attempts = [self._owed.popleft() for _ in range(count)]
            try:
                granted = await self._leased(member, attempts)
            except JournalError as error:
                self._owed.extendleft(reversed(attempts))
                self._halt.because(f"no episode can be given out: {error}")
                return
            if self.members.get(member.name) is not member:  # it left meanwhile, and its leases with it
                self._owed.extendleft(reversed(attempts))
                continue
            member.want -= count
            for one, held in granted:
                member.held[one.fence] = held
                member.send(one)
        if self._owed and any(member.want for member in self.members.values()):
            self._stirred.set()

    async def _leased(
        self, member: Member, attempts: Sequence[Attempt]
    ) -> list[tuple[Granted, LeasedAttempt]]:
        """Leases of ``attempts``, each of which goes on where the record of its episode stops."""
        ids = [attempt.episode_id for attempt in attempts]
        leases = await self._leases.take(member.name, ids, expires_ms=self._expires_ms())
        granted = []
        for attempt, lease in zip(attempts, leases, strict=True):
            recorded = await self._journal.read(attempt.episode_id, checked=False)
            attempt = replace(attempt, begun=bool(recorded))
            now = self._clock.monotonic()
            flight = InFlight(attempt.episode_id, member.number, now, attempt.attempt, moved_s=now)
            held = LeasedAttempt(attempt, flight, OwnDecisions(self.state, flight, self._clock))
            held.own.recall(recorded)
            held.turn = recorded[-1].event.turn if recorded else 0
            granted.append((Granted(attempt, lease.fence), held))
        return granted

    def _begin(self, member: Member, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        member.doing.add(task)
        task.add_done_callback(partial(self._done, member))

    def _done(self, member: Member, task: asyncio.Task[None]) -> None:
        member.doing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("what worker %s asked for failed", member.name, exc_info=error)
            self._halt.because(f"what worker {member.name} asked for failed: {error!r}")
            self._stirred.set()

    def _moved(self, member: Member, fence: int, events: Sequence[RecordedEvent]) -> None:
        held = member.held.get(fence)
        if held is None:
            return  # the worker was deposed, or its attempt is over
        held.plays(self._clock.monotonic())
        if held.moved(events, self._agent):
            self._barren = 0
        last = events[-1].event
        if last.type == "episode.ended":
            del member.held[fence]
            group = self._run.jobs[held.attempt.number].group
            result = result_of(held.attempt, group, EpisodeEnded.model_validate(last.data))
            self._over(replace(result, decisions=held.own.decisions, own=held.own.own))

    def _over(self, result: Result) -> None:
        following = attempt_after(self._run, self._halt, result)
        if following is not None:
            result = replace(result, again=True)
            self._owed.appendleft(following)
        self.results.append(result)
        self.state.take(result)
        self._stirred.set()

    async def _played(self, member: Member, played: AttemptOver) -> None:
        member.calls.pop(played.fence, None)
        held = member.held.get(played.fence)
        if held is None:
            return  # its end is recorded, or the worker was deposed
        try:
            await self._leases.release(played.fence)
        except JournalError as error:
            self._halt.because(f"a lease cannot be ended: {error}")
        if member.held.pop(played.fence, None) is None:
            return
        if played.failure_class is None:
            self._owed.appendleft(held.attempt)
            self._stirred.set()
            return
        attempt, group = held.attempt, self._run.jobs[held.attempt.number].group
        self._over(
            EpisodeResult(
                attempt, attempt.episode_id, group, None,
                failure_class=played.failure_class, detail=played.detail, attempt=attempt.attempt,
            )
        )  # fmt: skip

    def _paid(self, member: Member, spent: Spent) -> None:
        self._halt.ledger.pay(spent)
        for other in self.members.values():
            if other is not member:
                other.elsewhere += spent

    def _count_death(self, why: str) -> None:
        self.deaths += 1
        self._barren += 1
        if self._barren >= BARREN:
            self._halt.because(
                f"{self._barren} workers in a row went away, the last one {why}, and nothing got any further"
            )

    def _expires_ms(self) -> int:
        return int((self._clock.now().timestamp() + self._lease_s) * 1000)

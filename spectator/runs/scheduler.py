"""Play the remaining episodes of a run, alongside other processes.

A run defines its episodes, what happens after a failure (:class:`.run_plan.RunPlan`), and how one attempt is
played (:class:`AttemptPlayer`). Everything else is the same for rollouts, evaluations and the collector.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from spectator.clock import Clock, first_of
from spectator.core_events import EpisodeEnded, OwnDecisions
from spectator.episodes.recorded_calls import spent_on
from spectator.errors import (
    ConfigurationError,
    EnvironmentUnavailable,
    FailureClass,
    JournalError,
    SpectatorError,
    failure_of_end,
    reward_of_end,
    typed_as,
)
from spectator.journal.coordination import Reservations, RunReservations
from spectator.journal.ownership import Ownership
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.spending import Caps, SharedCaps, SpendLedger, Spent
from spectator.runs.actors import ActorHandle, RecyclingPool, no_environment
from spectator.runs.attempts import Halt
from spectator.runs.interactor import EpisodeResult, InFlight, Interactor, RunReport, RunState
from spectator.runs.leased_log import LeasedLog
from spectator.runs.remaining_episodes import RemainingEpisodes, Window
from spectator.runs.run_plan import Attempt, RunPlan, next_attempt

PLENTY: Final = 4
"""Take leases ahead only while more than this many times a process's share remains."""

Handle = ActorHandle[Attempt]
Result = EpisodeResult[Attempt]


class AttemptPlayer(Protocol):
    """Plays attempts at the episodes of a run."""

    halt: Halt
    """Halts the run."""

    async def open(self, attempt: Attempt) -> Handle:
        """Make the environment of an attempt ready.

        Raises:
            EnvironmentUnavailable: Its server is unreachable or full.
        """

    async def play(self, handle: Handle, flight: InFlight) -> Result:
        """Play an attempt, from its beginning or from where its record stops."""


class LeasePool(RecyclingPool[Attempt]):
    """Takes leases as places become free, and makes an actor for each, until nothing remains.

    Args:
        size: Actors that may be in use at once.
        state: Notes when no actor can be made.
        patience_s: Seconds that a server of environments may be unreachable while no actor is in use.
        spare_factor: Actors leased and made ready per actor that may be in use.
        ahead: Further leases to take while much of the run remains, so that one transaction takes many.
    """

    def __init__(
        self,
        size: int,
        remaining: RemainingEpisodes,
        player: AttemptPlayer,
        clock: Clock,
        rng: random.Random,
        state: RunState,
        patience_s: float,
        spare_factor: float = 1.0,
        ahead: int = 0,
    ) -> None:
        super().__init__(
            (), player.open, size, clock=clock, on_failed=self._failed, spare_factor=spare_factor,
            patience_s=patience_s, rng=rng, on_shortage=state.note_shortage, fed=True,
        )  # fmt: skip
        self._remaining = remaining
        self._ahead = math.ceil(size * spare_factor) - size + ahead
        self._halt = player.halt
        self._waits_s = patience_s
        self._feeding: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to take leases."""
        self._feeding = asyncio.get_running_loop().create_task(self._feed())

    async def done(self, handle: Handle, *, again: Attempt | None = None) -> None:
        """Give back an actor, and its lease unless its episode has ended."""
        await super().done(handle)
        if again is not None:
            self._remaining.put_first(again)
        await self._remaining.settle(handle.env_id)

    def drain(self) -> None:
        """Take no more leases."""
        self._stop_feeding()
        super().drain()
        self.no_more()

    async def aclose(self) -> None:
        """Close every actor."""
        self._stop_feeding()
        await super().aclose()

    def _stop_feeding(self) -> None:
        if self._feeding is not None:
            self._feeding.cancel()

    async def _feed(self) -> None:
        try:
            with typed_as(_unforeseen):
                await self._take_all()
        except SpectatorError as error:
            self._halt.because(str(error))
        self.no_more()

    async def _take_all(self) -> None:
        while not self._remaining.over:
            self._remaining.freed.clear()
            if (room := self._room()) < 1:
                await self._remaining.freed.wait()
                continue
            for attempt in (taken := await self._remaining.take(room)):
                self.feed(attempt)
            if not (taken or self._remaining.over):
                waits = [self._clock.sleep(self._remaining.pause_s), self._remaining.renewed.wait()]
                await first_of(*waits, *([self._remaining.idle.wait()] if self._remaining.busy else []))

    def _room(self) -> int:
        """Return how many leases to take; 0 until it is worth a transaction.

        Near the end none are taken ahead: other workers may have free places.
        """
        ahead = self._ahead if self._remaining.ahead > PLENTY * (self.pool_size + self._ahead) else 0
        room = self.pool_size + ahead - self._remaining.busy
        return room if room >= max(1, ahead // 2) else 0

    def _failed(self, attempt: Attempt, error: SpectatorError) -> None:
        waited_s = self._waits_s if isinstance(error, EnvironmentUnavailable) else None
        self._halt.because(no_environment(str(error), waited_s))


def _unforeseen(error: Exception) -> JournalError:
    return JournalError(f"the run's episodes could not be taken: {type(error).__name__}: {error}")


CAP_PARTS: Final = 1024
"""Parts into which a cap of the whole run is split.

Each process reserves one at a time, so little is lost when it dies.
"""

SpendCaps = tuple[Caps, Caps, Caps]
"""Budgets for models: for a day, for an episode, and in total."""


class Scheduler:
    """Plays a run in this process, alongside others.

    Args:
        journal: Its record, written by several processes.
        concurrency: Episodes at once in this process, at least 1.
        most: Episodes of the run that all processes together may play at once; 0 means no limit.
        patience_s: Seconds that a server of environments may be unreachable while none is in use.
        spare_factor: Environments leased and made ready per environment that may be in use.
        on_result: Called with each result that counts, as it comes.
        window: Limits what may begin now; no limit if omitted.

    Raises:
        ConfigurationError: The journal does not support several writers.
    """

    def __init__(
        self,
        run: RunPlan,
        journal: SqlJournal,
        log: LeasedLog,
        player: AttemptPlayer,
        clock: Clock,
        rng: random.Random,
        *,
        concurrency: int,
        state: RunState,
        most: int = 0,
        patience_s: float = 0.0,
        spare_factor: float = 1.0,
        on_result: Callable[[Result], None] = lambda result: None,
        window: Window | None = None,
    ) -> None:
        self.state = state
        self._window = window
        self._on_result = on_result
        self._run = run
        self._log = log
        self._player = player
        self._remaining = RemainingEpisodes(run, journal, leases_of(journal), log, state, clock, most, window)
        self._results: list[Result] = []
        pool = LeasePool(
            concurrency, self._remaining, player, clock, rng, state, patience_s, spare_factor,
            0 if most else concurrency,
        )  # fmt: skip
        self.interactor: Interactor[Attempt] = Interactor(
            pool, player.play, clock=clock, rng=rng, on_result=self._take, again=self._again,
            startup_jitter_s=0.0,  # clients of models spread their first requests
        )  # fmt: skip
        """Plays what is leased."""

    @property
    def results(self) -> Sequence[Result]:
        """Results of this process, without episodes lost to other processes."""
        return tuple(self._results)

    @property
    def failed(self) -> Mapping[str, FailureClass]:
        """Episodes that are over without a verdict, as of the last look, and why."""
        return self._remaining.failed

    @property
    def failed_elsewhere(self) -> list[FailureClass]:
        """Why episodes that other processes played have no verdict."""
        mine = {one.episode_id for one in self._results}
        return [why for episode_id, why in self._remaining.failed.items() if episode_id not in mine]

    @property
    def left(self) -> str | None:
        """Why an episode could not be played here and was left to others; ``None`` if none was."""
        left = [one for one in self._results if one.end_reason is None]
        return f"{left[0].episode_id} could not be played: {left[0].detail}" if left else None

    async def look(self) -> None:
        """Read from the record what remains.

        Raises:
            JournalError: It cannot be read.
        """
        await self._remaining.look()

    async def play(self, ledger: SpendLedger) -> RunReport[Attempt]:
        """Play until nothing remains, the run is halted here, or it is asked to stop.

        When cancelled, the episodes in play are left to be resumed.
        """
        helping = [
            asyncio.create_task(self.interactor.drain_after(self._player.halt.wait)),
            asyncio.create_task(ledger.keep_up()),
        ]
        try:
            report = await self.interactor.run()
        finally:
            for task in helping:
                task.cancel()
            await ledger.give_back()
        if self._player.halt.reason is None:
            await self._remaining.look()
        return RunReport(self.results, drained=report.drained)

    def _again(self, result: Result) -> Attempt | None:
        if result.episode_id in self._log.lost:
            return None  # others resume it
        following = attempt_after(self._run, self._player.halt, result)
        if result.end_reason is None:
            self._remaining.leave_out(result.job)
        return following

    def _take(self, result: Result) -> None:
        if result.episode_id not in self._log.lost:
            self._results.append(result)
            self.state.take(result)
            self._on_result(result)
            if self._window is not None and result.end_reason is not None and not result.again:
                self._window.saw({result.job.number: result.episode_id})


def leases_of(journal: SqlJournal) -> Ownership:
    """Return the leases of a journal.

    Raises:
        ConfigurationError: It does not support several writers.
    """
    if journal.ownership is None:
        raise ConfigurationError("a run needs a journal that several processes can write to")
    return journal.ownership


async def shared_ledger(
    name: str, caps: SpendCaps, journal: SqlJournal, log: LeasedLog, clock: Clock
) -> SpendLedger:
    """Make the budget shared by all workers of a run, less what its record says was spent.

    Args:
        name: The run's name in the journal.
        caps: Caps for a day, an episode, and the whole run.
        log: Where parts of the caps are reserved.

    Raises:
        JournalError: The database cannot be reached.
    """
    day, episode, whole = caps
    ledger = SpendLedger(
        day, episode, clock, whole=whole,
        day_shared=SharedCaps(Reservations(log), f"run {name} ", by=", by all workers together"),
        whole_shared=SharedCaps(RunReservations(log, name), parts=CAP_PARTS),
    )  # fmt: skip
    today = Spent() if day == Caps() else await spent_on(journal, ledger.today, run_id=name)
    before = Spent() if whole == Caps() else await spent_on(journal, None, run_id=name)
    await ledger.begin_shared(today, before)
    return ledger


def result_of(attempt: Attempt, group_id: str | None, ended: EpisodeEnded | None) -> Result:
    """Make the result of an attempt from its end; it has a reward only with a verdict.

    Args:
        ended: Its end; ``None`` where it was suspended.
    """
    if ended is None:
        return EpisodeResult(
            attempt, attempt.episode_id, group_id, None, failure_class="model_infra", detail="suspended",
            attempt=attempt.attempt,
        )  # fmt: skip
    data: Mapping[str, object] = ended.model_dump(mode="json")
    own = ended.own_decisions or OwnDecisions(asked=0, own=0, refused=0)
    return EpisodeResult(
        attempt,
        attempt.episode_id,
        group_id,
        ended.reason,
        total_reward=reward_of_end(data),
        failure_class=failure_of_end(data),
        detail=ended.detail,
        turns=ended.turns,
        terminated=ended.terminated,
        truncated=ended.truncated,
        attempt=attempt.attempt,
        penalised=ended.penalty is not None,
        decisions=own.asked,
        own=own.own,
        refusals=own.refused,
    )


def attempt_after(run: RunPlan, halt: Halt, result: Result) -> Attempt | None:
    """Return the next attempt after a result, if any; halts the run if the result is a reason to."""
    attempt = result.job
    if result.end_reason is None:
        if result.failure_class == "journal":
            halt.because(f"{attempt.episode_id} failed: {result.detail}")
        return None
    reaction = run.policy.after(result.failure_class, attempt.attempt)
    if reaction == "halt":
        halt.because(f"{attempt.episode_id} failed: {result.failure_class}: {result.detail}")
    return next_attempt(run, attempt) if reaction == "retry" else None

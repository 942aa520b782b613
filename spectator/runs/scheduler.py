"""Plays the remaining episodes of a run in this process, alongside others, and renews its leases.

A run is a table of episodes in its journal. It says which episodes there are, what becomes of one that failed
(:class:`.jobs.RunPlan`), and how one attempt is played (:class:`.lease_pool.AttemptPlayer`). All else is the
same for all runs.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from spectator.clock import Clock
from spectator.episodes.recorded_calls import spent_on
from spectator.errors import ConfigurationError, FailureClass, failure_of_end, reward_of_end
from spectator.events import EpisodeEnded
from spectator.journal.coordination import Reservations, RunReservations
from spectator.journal.ownership import Ownership
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.spending import Caps, SharedCaps, SpendLedger, Spent
from spectator.runs.halting import Halt
from spectator.runs.interactor import EpisodeResult, Interactor, RunReport
from spectator.runs.jobs import RunPlan
from spectator.runs.lease_pool import AttemptPlayer, LeasePool, RemainingEpisodes, Result
from spectator.runs.leased_log import LeasedLog
from spectator.runs.owed import Attempt, next_attempt
from spectator.runs.progress import FleetState

CAP_PARTS: Final = 1024
"""Parts of a cap of the whole run, of which each process has one at a time: so little is lost with each that
dies."""

SpendCaps = tuple[Caps, Caps, Caps]
"""What asking models may take: in a day, for an episode, and in all."""


class Scheduler:
    """What this process plays of a run.

    Args:
        run: The run.
        journal: Its record, written by several processes.
        log: Records under this process's leases.
        player: Plays its attempts.
        clock: Time.
        rng: Draws waits.
        concurrency: Episodes at once in this process, at least 1.
        state: How far the run is; kept current.
        most: Episodes of the run that all processes may play at once; 0 means no limit.
        patience_s: Seconds that a server of environments may be away while no environment is in use.
        spare_factor: Environments that are kept ready for each that is in use.
        on_result: Called with each result that counts, as it comes.

    Raises:
        ConfigurationError: This process alone may write the journal.
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
        state: FleetState,
        most: int = 0,
        patience_s: float = 0.0,
        spare_factor: float = 1.0,
        on_result: Callable[[Result], None] = lambda result: None,
    ) -> None:
        self.state = state
        self._on_result = on_result
        self._run = run
        self._log = log
        self._player = player
        self._remaining = RemainingEpisodes(run, journal, leases_of(journal), log, state, clock, most)
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
        """What was played here, without what was lost to other processes."""
        return tuple(self._results)

    @property
    def failed(self) -> Mapping[str, FailureClass]:
        """The episodes that are over without a verdict, as of the last look, and why."""
        return self._remaining.failed

    @property
    def failed_elsewhere(self) -> list[FailureClass]:
        """Why episodes that this process did not play came to no verdict."""
        mine = {one.episode_id for one in self._results}
        return [why for episode_id, why in self._remaining.failed.items() if episode_id not in mine]

    @property
    def left(self) -> str | None:
        """Why an episode could not be played here and was left to others; ``None`` where none was."""
        left = [one for one in self._results if one.end_reason is None]
        return f"{left[0].episode_id} could not be played: {left[0].detail}" if left else None

    async def look(self) -> None:
        """Find out from the record what remains.

        Raises:
            JournalError: It cannot be read.
        """
        await self._remaining.look()

    async def play(self, ledger: SpendLedger) -> RunReport[Attempt]:
        """Play until nothing remains, the run is halted here, or it is asked to stop.

        When cancelled, what is being played is left to be resumed.
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
            self._remaining.leave_out(result.episode_id)
        return following

    def _take(self, result: Result) -> None:
        if result.episode_id not in self._log.lost:
            self._results.append(result)
            self.state.take(result)
            self._on_result(result)


def leases_of(journal: SqlJournal) -> Ownership:
    """The leases of a journal.

    Raises:
        ConfigurationError: This process alone may write it.
    """
    if journal.ownership is None:
        raise ConfigurationError("a run needs a journal that several processes may write")
    return journal.ownership


async def shared_ledger(
    name: str, caps: SpendCaps, journal: SqlJournal, log: LeasedLog, clock: Clock
) -> SpendLedger:
    """What asking models may take, shared by all who play a run, with all that its record says was spent.

    Args:
        name: The run, kept in the journal.
        caps: Those of a day, of an episode, and of the whole run.
        journal: Its record.
        log: Where parts of the caps are reserved.
        clock: Tells the day.

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
    """What the end of an attempt says; a reward only where there is a verdict.

    Args:
        attempt: The attempt.
        group_id: Its group.
        ended: Its end; ``None`` where it was suspended.
    """
    if ended is None:
        return EpisodeResult(
            attempt, attempt.episode_id, group_id, None, failure_class="model_infra", detail="suspended",
            attempt=attempt.attempt,
        )  # fmt: skip
    data: Mapping[str, object] = ended.model_dump(mode="json")
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
    )


def attempt_after(run: RunPlan, halt: Halt, result: Result) -> Attempt | None:
    """The next attempt after a result, where there is to be one.

    Args:
        run: What is played.
        halt: Raised where the result is a reason to.
        result: How the attempt ended, or that it did not.
    """
    attempt = result.job
    if result.end_reason is None:
        if result.failure_class == "journal":
            halt.because(f"{attempt.episode_id} failed: {result.detail}")
        return None
    reaction = run.policy.after(result.failure_class, attempt.attempt)
    if reaction == "halt":
        halt.because(f"{attempt.episode_id} failed: {result.failure_class}: {result.detail}")
    return next_attempt(run, attempt) if reaction == "retry" else None

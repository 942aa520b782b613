"""Carries out a run of rollouts: what is owed, by an interactor, into the journal of its folder."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from spectator.catalog import LoadWorld
from spectator.clock import Clock
from spectator.episodes.record.usage import spent_on
from spectator.errors import FailureClass
from spectator.journal.base import Journal
from spectator.journal.stores.sqlite import SqlJournal
from spectator.llm.secret import ApiKey
from spectator.policies.spending import Caps, SpendLedger, Spent
from spectator.rollouts.actors import RecyclingPool
from spectator.rollouts.folder import JOURNAL, keep_request
from spectator.rollouts.handlers.base import EpisodeHandler, NullHandler
from spectator.rollouts.interactor import Interactor, RunReport
from spectator.rollouts.model_seat import FleetSeat, fleet_client
from spectator.rollouts.playing import AttemptPlayer, Result, attempt_after
from spectator.rollouts.request import RolloutRequest, RolloutRun, plan_rollouts
from spectator.runs.owed import Attempt, progress
from spectator.steppers.opening import OpenStepper, inline

STALLED_S: Final = 60.0
"""Seconds without a turn after which an episode is called stalled."""


@dataclass(slots=True)
class FleetState:
    """How far a run is; kept current while it runs, for whoever looks.

    Args:
        total: Episodes of the run.
        over: Episodes that need not be played any more, earlier runs included.
        ended: Attempts that ended in this run.
        failures: How many of these had no verdict, by class of failure.
        rewards: Rewards of those that had one, newest last.
        turns: Actions in all of them.
        began_s: When this run began, by its clock.
    """

    total: int
    over: int
    began_s: float
    ended: int = 0
    failures: dict[FailureClass, int] = field(default_factory=dict)
    rewards: list[float] = field(default_factory=list)
    turns: int = 0

    def take(self, result: Result) -> None:
        """Count the result of an attempt."""
        self.ended += 1
        self.turns += result.turns
        if result.failure_class is not None:
            self.failures[result.failure_class] = self.failures.get(result.failure_class, 0) + 1
        if result.total_reward is not None:
            self.rewards.append(result.total_reward)
        if not result.again and result.end_reason is not None:
            self.over += 1


@dataclass(frozen=True, slots=True)
class FleetReport:
    """What a run came to.

    Args:
        report: The results of this run.
        total: Episodes of the run.
        over: Those that need not be played any more.
        halted: Why the rest is not played; ``None`` when nothing is left or it was asked to stop.
    """

    report: RunReport[Attempt]
    total: int
    over: int
    halted: str | None = None


OnBegin = Callable[[FleetState, Interactor[Attempt]], None]
"""Called once, when it is known what is owed."""


async def run_rollouts(
    request: RolloutRequest,
    folder: Path,
    *,
    concurrency: int,
    clock: Clock,
    load: LoadWorld,
    rng: random.Random,
    key: ApiKey | None = None,
    handler: EpisodeHandler | None = None,
    ledger: SpendLedger | None = None,
    open_stepper: OpenStepper = inline,
    on_begin: OnBegin = lambda state, interactor: None,
) -> FleetReport:
    """Play what is owed of ``request`` in ``folder``.

    Killed at any moment, the same call goes on where the journal stops: episodes that ended are not played
    again, those under way are rebuilt from their record and played on; no recorded question is asked again.

    Args:
        request: What is to be played.
        folder: Where the run is kept; made when it is not there.
        concurrency: Episodes at once, at least 1.
        clock: Time.
        load: Finds the world.
        rng: Draws waits; what is played does not depend on it.
        key: The endpoint's key, where it needs one.
        handler: Adds to prompts and learns from ends.
        ledger: What asking the model may take; no limit when left out.
        open_stepper: Makes the stepper of each episode; in this thread when left out.
        on_begin: Called once, when it is known what is owed.

    Raises:
        InvalidRequest: A field is wrong, or the folder holds another run.
        ConfigurationError: Another process works in the folder.
        JournalError: It cannot be written.
    """
    client = fleet_client(request.model, key, concurrency, clock=clock, rng=rng)
    seat = FleetSeat(request.model, client, clock, handler or NullHandler(), request.message_cut)
    try:
        world = load(request.environment)
        now_ms = int(clock.now().timestamp() * 1000)
        plan_rollouts(request, seat.preset(world), now_ms, load=load)  # before anything is written
        began_ms = await asyncio.to_thread(keep_request, folder, request, now_ms)
        planned = plan_rollouts(request, seat.preset(world), began_ms, load=load)
        journal = await SqlJournal.open(f"sqlite:///{folder / JOURNAL}")
        try:
            ledger = ledger or SpendLedger(Caps(), Caps(), clock)
            before = await spent_on(journal, None) if ledger.limits_whole else Spent()
            ledger.begin(await spent_on(journal, ledger.today), before)
            player = AttemptPlayer(planned, journal, clock, seat, ledger, open_stepper)
            return await _Fleet(planned, journal, clock, player).run(concurrency, rng, on_begin)
        finally:
            await journal.aclose()
    finally:
        await client.aclose()


class _Fleet:
    """One run in one folder."""

    def __init__(self, planned: RolloutRun, journal: Journal, clock: Clock, player: AttemptPlayer) -> None:
        self._run = planned.run
        self._journal = journal
        self._clock = clock
        self._player = player
        self._halt = player.halt

    async def run(self, concurrency: int, rng: random.Random, on_begin: OnBegin) -> FleetReport:
        """Play what is owed."""
        due = await progress(self._journal, self._run)
        state = FleetState(len(self._run.jobs), len(due.over), self._clock.monotonic())
        pool = RecyclingPool(
            due.owed, self._player.open, concurrency, clock=self._clock, on_failed=lambda attempt, error: None
        )
        interactor = Interactor(
            pool, self._player.play, clock=self._clock, rng=rng, on_result=state.take, startup_jitter_s=0.0,
            again=partial(attempt_after, self._run, self._halt),
        )  # fmt: skip
        on_begin(state, interactor)
        halting = asyncio.get_running_loop().create_task(self._drain_when_halted(interactor))
        try:
            report = await interactor.run()
        finally:
            halting.cancel()
        return FleetReport(report, state.total, state.over, self._halt.reason)

    async def _drain_when_halted(self, interactor: Interactor[Attempt]) -> None:
        await self._halt.wait()
        interactor.drain()

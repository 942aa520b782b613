"""Carries out a run of rollouts: what is owed, by an interactor, into the journal of its folder."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from spectator.catalog import LoadWorld
from spectator.clock import Clock
from spectator.errors import EnvironmentUnavailable, SpectatorError
from spectator.failures import FailureClass
from spectator.llm.adaptive_limit import AdaptiveLimit
from spectator.llm.secret import ApiKey
from spectator.policies.spending import SpendLedger
from spectator.rollouts.actors import RecyclingPool, unplayable
from spectator.rollouts.addresses import EnvironmentAddress
from spectator.rollouts.deadlines import Deadlines
from spectator.rollouts.handlers.base import EpisodeHandler, NullHandler
from spectator.rollouts.in_flight import InPlay
from spectator.rollouts.interactor import Interactor, RunReport
from spectator.rollouts.model_seat import FleetSeat, fleet_client
from spectator.rollouts.opening import open_run
from spectator.rollouts.outage import ModelOutage
from spectator.rollouts.playing import AttemptPlayer, attempt_after
from spectator.rollouts.progress import FleetState
from spectator.rollouts.request import RolloutRequest, RolloutRun
from spectator.runs.owed import Attempt
from spectator.steppers.opening import OpenStepper, inline


@dataclass(frozen=True, slots=True)
class FleetReport:
    """What a run came to.

    Args:
        report: The results of this run.
        total: Episodes of the run.
        over: Those that need not be played any more.
        halted: Why the rest is not played; ``None`` when nothing is left or it was asked to stop.
        failed_before: Why episodes that were over before came to no verdict.
    """

    report: RunReport[Attempt]
    total: int
    over: int
    halted: str | None = None
    failed_before: Sequence[FailureClass] = ()

    @property
    def succeeded(self) -> bool:
        """Whether every episode of the run came to a verdict."""
        return self.report.succeeded and self.over == self.total and not self.failed_before


@dataclass(frozen=True, slots=True)
class Underway:
    """A run while it goes on.

    Args:
        state: How far it is.
        interactor: Plays it.
        model_limit: How many requests its model's endpoint bears at once.
        outage: Whether that endpoint is gone.
    """

    state: FleetState
    interactor: InPlay
    model_limit: AdaptiveLimit | None = None
    outage: ModelOutage | None = None


OnBegin = Callable[[Underway], None]
"""Called once, when it is known what is owed."""


def begin(
    on_begin: OnBegin,
    state: FleetState,
    limit: AdaptiveLimit | None,
    outage: ModelOutage,
    interactor: Interactor[Attempt],
) -> None:
    """Tell ``on_begin`` of a run whose interactor is ready."""
    on_begin(Underway(state, interactor, limit, outage))


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
    deadlines: Deadlines | None = None,
    on_begin: OnBegin = lambda underway: None,
) -> FleetReport:
    """Play what is owed of ``request`` in ``folder``.

    Killed at any moment, the same call goes on where the journal stops: episodes that ended are not played
    again, those under way are rebuilt from their record and played on; no recorded question is asked again.

    Args:
        request: What is to be played.
        folder: Where the run is kept; made when it is not there.
        concurrency: Episodes at once, at least 1.
        clock: Time.
        load: Finds the world, where it is no other server's.
        rng: Draws waits; what is played does not depend on it.
        key: The endpoint's key, where it needs one.
        handler: Adds to prompts and learns from ends.
        ledger: What asking the model may take; no limit when left out.
        open_stepper: Makes the stepper of each episode; in this thread when left out.
        deadlines: How long anything may take.
        on_begin: Called once, when it is known what is owed.

    Raises:
        InvalidRequest: A field is wrong, or the folder holds another run.
        ConfigurationError: Another process works in the folder, or the environment's server is not reached.
        JournalError: It cannot be written.
    """
    address, deadlines = EnvironmentAddress.read(request.environment), deadlines or Deadlines()
    address = await asyncio.to_thread(address.resolved)
    world = await asyncio.to_thread(address.world, load)
    client = fleet_client(
        request.model, key, concurrency, clock=clock, rng=rng, startup_jitter_s=deadlines.startup_jitter_s
    )
    outage = ModelOutage(clock, rng, deadlines.model_wait_s)
    seat = FleetSeat(request.model, client, clock, handler or NullHandler(), request.message_cut, outage)
    try:
        async with open_run(request, folder, world, seat, clock, ledger) as run:
            outage.answers = int(run.answered_before)
            player = AttemptPlayer(
                run.planned, run.journal, clock, seat, run.ledger, open_stepper,
                address=address, deadlines=deadlines, state=run.state,
            )  # fmt: skip
            fleet = _Fleet(run.planned, clock, player, run.state, deadlines)
            beginning = partial(begin, on_begin, run.state, client.adaptive, outage)
            report = await fleet.run(run.owed, concurrency, rng, beginning)
            return replace(report, failed_before=run.failed_before)
    finally:
        await client.aclose()


class _Fleet:
    """One run in one folder."""

    def __init__(
        self,
        planned: RolloutRun,
        clock: Clock,
        player: AttemptPlayer,
        state: FleetState,
        deadlines: Deadlines,
    ) -> None:
        self._run = planned.run
        self._clock = clock
        self._player = player
        self._state = state
        self._deadlines = deadlines
        self._halt = player.halt

    async def run(
        self,
        owed: Sequence[Attempt],
        concurrency: int,
        rng: random.Random,
        beginning: Callable[[Interactor[Attempt]], None],
    ) -> FleetReport:
        """Play what is owed."""
        pool = RecyclingPool(
            owed, self._player.open, concurrency, clock=self._clock, on_failed=self._no_environment,
            patience_s=self._deadlines.env_wait_s, rng=rng, on_shortage=self._state.note_shortage,
        )  # fmt: skip
        interactor = Interactor(
            pool, self._player.play, clock=self._clock, rng=rng, on_result=self._state.take,
            startup_jitter_s=0.0,  # the client spreads its first requests
            again=partial(attempt_after, self._run, self._halt),
        )  # fmt: skip
        beginning(interactor)
        halting = asyncio.get_running_loop().create_task(interactor.drain_after(self._halt.wait))
        try:
            report = await interactor.run()
        finally:
            halting.cancel()
        return FleetReport(report, self._state.total, self._state.over, self._halt.reason)

    def _no_environment(self, attempt: Attempt, error: SpectatorError) -> None:
        waited_s = self._deadlines.env_wait_s if isinstance(error, EnvironmentUnavailable) else None
        self._halt.because(unplayable(str(error), waited_s))

"""Plays single attempts of a run of rollouts, each in an actor of its own, into a journal."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from spectator.clock import Clock
from spectator.environments.world import World
from spectator.episodes.decisions import FailureRule
from spectator.errors import UNREACHED, EpisodeError, typed_as
from spectator.events import EpisodeEnded, OnFailure, RecordedEvent
from spectator.journal.contract import EpisodeLog
from spectator.policies.policy import Decision
from spectator.policies.spending import SpendLedger
from spectator.rollouts.addresses import EnvironmentAddress
from spectator.rollouts.deadlines import Deadlines
from spectator.rollouts.handlers import EpisodeContext, EpisodeOutcome
from spectator.rollouts.model_seat import FleetSeat
from spectator.rollouts.readied import ReadiedStepper
from spectator.rollouts.request import ACTOR, RolloutRun
from spectator.runs.actors import ActorHandle
from spectator.runs.halting import Halt, HaltingRule
from spectator.runs.in_flight import InFlight
from spectator.runs.lease_pool import Handle, Result
from spectator.runs.owed import Attempt
from spectator.runs.playing import Venue, play_here, resume
from spectator.runs.progress import FleetState
from spectator.runs.scheduler import result_of
from spectator.steppers.local import InlineStepper, OpenStepper

logger = logging.getLogger(__name__)


class RolloutPlayer:
    """Plays attempts of one run.

    Args:
        planned: The run.
        journal: Where they are recorded.
        clock: Time.
        seat: The model that plays.
        ledger: What asking it may take.
        open_stepper: Makes the stepper of each episode of a world of the catalogue.
        address: Where the environments are.
        deadlines: How long anything may take.
        state: Counts the decisions.
    """

    def __init__(
        self,
        planned: RolloutRun,
        journal: EpisodeLog,
        clock: Clock,
        seat: FleetSeat,
        ledger: SpendLedger,
        open_stepper: OpenStepper,
        *,
        address: EnvironmentAddress | None = None,
        deadlines: Deadlines | None = None,
        state: FleetState | None = None,
    ) -> None:
        self._planned = planned
        self._run = planned.run
        self._journal = journal
        self._clock = clock
        self._seat = seat
        self.halt = Halt(ledger)
        self._open_stepper = open_stepper
        self._address = address or EnvironmentAddress.read(planned.request.environment)
        self._limits = (deadlines or Deadlines()).limits(planned.request.model.timeout_s)
        self._state = state or FleetState(len(planned.run.jobs), 0, clock.monotonic())

    async def open(self, attempt: Attempt) -> Handle:
        """Make the environment of an attempt ready; one on another server, or on a thread, is begun.

        Raises:
            EnvironmentUnavailable: Its server is gone, or has no room.
        """
        job, address = self._run.jobs[attempt.number], self._address
        make = partial(self._open_stepper, self._planned.world, attempt.episode_id)
        stepper = make()
        if not isinstance(stepper, InlineStepper):
            stepper = readied = ReadiedStepper(make, self._clock, stepper)
            await readied.make_ready(
                seed=job.seed,
                episode_id=attempt.episode_id,
                options=job.options,
                limit_s=self._limits.reset_s,
            )
        return ActorHandle(
            address.env_name, attempt.episode_id, job.group, address.transport, address.base_url, stepper,
            attempt, attempt.attempt,
        )  # fmt: skip

    async def play(self, handle: Handle, flight: InFlight) -> Result:
        """Play an attempt in its environment, from its beginning or from where its record stops."""
        attempt = handle.job
        member = self._run.jobs[attempt.number].member
        context = EpisodeContext(handle.env_name, handle.env_id, handle.group_id, member)
        world = self._world_of(context, flight)
        if isinstance(handle.stepper, ReadiedStepper):
            handle.stepper.waiting = lambda begun: flight.waits("environment" if begun else "journal")
        own = OwnDecisions(self._state, flight, self._clock)
        venue = Venue(
            self._journal,
            self._clock,
            lambda name: world,
            self.halt.ledger,
            lambda plan: _FleetRule(HaltingRule(plan, self.halt), plan.agent, own),
            lambda world, episode_id: handle.stepper,
            self._limits,
        )
        if attempt.begun:
            left = await self._journal.read(attempt.episode_id, checked=False)
            own.recall(left)
            ended = await resume(left, venue)
        else:
            plan = self._run.plan(self._run.jobs[attempt.number], attempt.attempt, world)
            ended = await play_here(plan, attempt.episode_id, venue)
        result = replace(result_of(attempt, handle.group_id, ended), decisions=own.decisions, own=own.own)
        if ended is not None:
            outcome = EpisodeOutcome(result.total_reward, result.failure_class, _told_of(ended))
            self._tell_handler(context, outcome)
        return result

    def _tell_handler(self, context: EpisodeContext, outcome: EpisodeOutcome) -> None:
        """Tell the handler how an episode ended; what it raises is logged and changes nothing."""
        try:
            with typed_as(lambda error: EpisodeError(f"{type(error).__name__}: {error}"), passing=()):
                self._seat.handler.on_episode_end(context, outcome)
        except EpisodeError:
            logger.exception("the handler failed at the end of %s", context.env_id)

    def _world_of(self, context: EpisodeContext, flight: InFlight) -> World:
        world = self._planned.world
        return replace(world, captains={**world.captains, ACTOR: self._seat.preset(world, context, flight)})


def _told_of(ended: EpisodeEnded) -> Mapping[str, object]:
    """What a handler is told of an end beside its reward."""
    told = {"end_reason": ended.reason, "turns": ended.turns, "result": ended.result, "detail": ended.detail}
    return {name: value for name, value in told.items() if value is not None}


class OwnDecisions:
    """Counts the decisions of the agent in one episode, and how many of them the model made itself.

    Args:
        state: Counts those of the whole run.
        flight: The episode.
        clock: Time.
    """

    def __init__(self, state: FleetState, flight: InFlight, clock: Clock) -> None:
        self._state = state
        self._flight = flight
        self._clock = clock
        self.decisions = 0
        self.own = 0

    def recall(self, recorded: Sequence[RecordedEvent]) -> None:
        """Count what was decided before this process played it on."""
        agent = recorded[0].event.data.get("agent") if recorded else None
        for one in recorded:
            if one.event.type == "decision.made" and one.event.data["actor"] == agent:
                self.decisions += 1
                self.own += one.event.data["source"] == "model"

    def take(self, decision: Decision) -> None:
        """Count one."""
        self.count(decision.source, decision.tokens_in, decision.tokens_out)

    def count(self, source: str, tokens_in: int | None, tokens_out: int | None) -> None:
        """Count one by what is recorded of it."""
        own = source == "model"
        self.decisions += 1
        self.own += own
        self._state.decided(self._flight, self._clock.monotonic(), own, tokens_in or 0, tokens_out or 0)


class _FleetRule:
    """Ends an episode whose model was not reached, so that another attempt follows; else as the plan says.

    Args:
        halting: Suspends where the endpoint is given up or nothing more may be spent.
        agent: The actor whose decisions the run is for.
        own: Counts them.
    """

    def __init__(self, halting: FailureRule, agent: str, own: OwnDecisions) -> None:
        self._halting = halting
        self._agent = agent
        self._own = own

    def __call__(self, actor: str, decision: Decision) -> OnFailure:
        reaction = self._halting(actor, decision)
        if actor != self._agent:
            return reaction
        if reaction == "fallback" and decision.failure_class in UNREACHED:
            reaction = "end"
        if reaction == "fallback" or decision.failure_class is None:
            self._own.take(decision)
        return reaction

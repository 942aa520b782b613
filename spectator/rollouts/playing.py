"""Plays single attempts of a run of rollouts, each in an actor of its own, into a journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from spectator.clock import Clock
from spectator.environments.base import World
from spectator.episodes.host.recovery import interrupted
from spectator.episodes.replay.restore import CannotRebuild
from spectator.episodes.run.failing import FailureRule
from spectator.episodes.run.plan import EpisodePlan
from spectator.errors import StepTimeout
from spectator.events import EpisodeEnded, OnFailure
from spectator.failures import failure_of_end
from spectator.journal.base import EpisodeLog
from spectator.policies.base import Decision
from spectator.policies.spending import SpendLedger
from spectator.rollouts.actors import ActorHandle
from spectator.rollouts.handlers.base import EpisodeContext, EpisodeOutcome
from spectator.rollouts.interactor import EpisodeResult, InFlight
from spectator.rollouts.model_seat import FleetSeat
from spectator.rollouts.request import ACTOR, RolloutRun
from spectator.runs.halting import UNREACHED, Halt, HaltingRule
from spectator.runs.jobs import RunPlan
from spectator.runs.owed import Attempt, next_attempt
from spectator.runs.playing import Venue, play_here, play_on
from spectator.steppers.opening import OpenStepper

Handle = ActorHandle[Attempt]
Result = EpisodeResult[Attempt]


class AttemptPlayer:
    """Plays attempts of one run.

    Args:
        planned: The run.
        journal: Where they are recorded.
        clock: Time.
        seat: The model that plays.
        ledger: What asking it may take.
        open_stepper: Makes the stepper of each episode.
    """

    def __init__(
        self,
        planned: RolloutRun,
        journal: EpisodeLog,
        clock: Clock,
        seat: FleetSeat,
        ledger: SpendLedger,
        open_stepper: OpenStepper,
    ) -> None:
        self._planned = planned
        self._run = planned.run
        self._journal = journal
        self._clock = clock
        self._seat = seat
        self.halt = Halt(ledger)
        self._open_stepper = open_stepper

    async def open(self, attempt: Attempt) -> Handle:
        """Make the environment of an attempt ready."""
        stepper = self._open_stepper(self._planned.world, attempt.episode_id)
        job = self._run.jobs[attempt.number]
        return ActorHandle(job.environment, attempt.episode_id, job.group, "inproc", None, stepper, attempt)

    async def play(self, handle: Handle, flight: InFlight) -> Result:
        """Play an attempt in its environment, from its beginning or from where its record stops."""
        attempt = handle.job
        member = self._run.jobs[attempt.number].member
        context = EpisodeContext(handle.env_name, handle.env_id, handle.group_id, member)
        world = self._world_of(context)
        venue = Venue(
            self._journal,
            self._clock,
            lambda name: world,
            self.halt.ledger,
            self._rule_of,
            lambda world, episode_id: handle.stepper,
        )
        if attempt.begun:
            ended = await self._play_on(attempt, venue)
        else:
            plan = self._run.plan(self._run.jobs[attempt.number], attempt.attempt, world)
            ended = await play_here(plan, attempt.episode_id, venue)
        result = _result(handle, ended)
        self._seat.handler.on_episode_end(context, EpisodeOutcome(result.total_reward, result.failure_class))
        return result

    def _world_of(self, context: EpisodeContext) -> World:
        world = self._planned.world
        return replace(world, captains={**world.captains, ACTOR: self._seat.preset(world, context)})

    async def _play_on(self, attempt: Attempt, venue: Venue) -> EpisodeEnded | None:
        """Play on what was left; what cannot be is ended, so that it is tried again from its beginning."""
        left = await self._journal.read(attempt.episode_id)
        try:
            return await play_on(left, venue)
        except (CannotRebuild, StepTimeout) as error:
            end = interrupted(left, self._clock, f"it could not be played on: {error}")
            await self._journal.append([end])
            return EpisodeEnded.model_validate(end.event.data)

    def _rule_of(self, plan: EpisodePlan) -> FailureRule:
        return _FleetRule(HaltingRule(plan, self.halt), plan.agent)


class _FleetRule:
    """Ends an episode whose model was not reached, so that another attempt follows; else as the plan says.

    Args:
        halting: Suspends where the endpoint is given up or nothing more may be spent.
        agent: The actor whose decisions the run is for.
    """

    def __init__(self, halting: FailureRule, agent: str) -> None:
        self._halting = halting
        self._agent = agent

    def __call__(self, actor: str, decision: Decision) -> OnFailure:
        reaction = self._halting(actor, decision)
        if reaction == "fallback" and actor == self._agent and decision.failure_class in UNREACHED:
            return "end"
        return reaction


def _result(handle: Handle, ended: EpisodeEnded | None) -> Result:
    """What an end says; a reward only where there is a verdict."""
    if ended is None:
        return EpisodeResult(
            handle.job, handle.env_id, handle.group_id, None, failure_class="model_infra", detail="suspended"
        )
    data: Mapping[str, object] = ended.model_dump(mode="json")
    failure = failure_of_end(data)
    return EpisodeResult(
        handle.job,
        handle.env_id,
        handle.group_id,
        ended.reason,
        total_reward=ended.score,
        failure_class=failure,
        detail=ended.detail,
        turns=ended.turns,
        terminated=ended.terminated,
        truncated=ended.truncated,
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

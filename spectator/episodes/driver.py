"""Run an episode: ask the policy, step the world, record, until the end.

The driver is independent of games, viewers and storage. A live match and a rollout differ only in its
arguments: a control with a pace, and a function that takes the facts.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from spectator.clock import Clock
from spectator.core_events import EpisodeEnded, EpisodeSuspended, OwnDecisions, core_fact
from spectator.environments.contract import Stepped, Stepper
from spectator.episodes.controls import (
    Control,
    ControlledWait,
    EndRequest,
    EndRequested,
    EpisodeLimits,
    Pace,
    beats_in,
)
from spectator.episodes.decisions import (
    EpisodeSuspension,
    FailureRule,
    InvalidAnswer,
    SeatedPolicies,
    Thinking,
)
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.steps import (
    DETAIL_LENGTH,
    check_contract,
    cut_short,
    facts_of_step,
    finished,
    sealed,
    with_total,
)
from spectator.errors import (
    DecisionTimeout,
    EndReason,
    EnvironmentFault,
    EpisodeOver,
    JournalError,
    LeaseLost,
    PolicyError,
    SpectatorError,
    StepTimeout,
    typed_as,
)
from spectator.events import Fact
from spectator.journal.contract import Attachments
from spectator.journal.outline import OwnCount
from spectator.model_calls import ModelCall
from spectator.observations import Observation
from spectator.policies.policy import Policy
from spectator.policies.spending import EpisodeBudget
from spectator.steppers.local import InlineStepper
from spectator.text import clean_text


class Emit(Protocol):
    """Records the facts of steps."""

    def __call__(
        self, steps: Sequence[tuple[int, Sequence[Fact]]], *, attachments: Attachments | None = None
    ) -> Awaitable[int]:
        """Record facts, each step's with its turn, and ``attachments`` in the same commit.

        Returns:
            Characters of the episode recorded by this process.
        """


@dataclass(frozen=True, slots=True)
class Past:
    """The rebuilt state of an episode left by another process.

    Args:
        refusals: Number of refused actions, by actor.
        turn: Actions taken or refused so far.
        total: The sum of all rewards so far.
        stepped: The world's last answer; its facts are those not recorded yet.
        own: The agent's decisions so far; ``None`` if they were not counted.
    """

    seats: Mapping[str, Policy]
    refusals: Mapping[str, int]
    turn: int
    total: float
    stepped: Stepped
    own: OwnCount | None = None


class Checkpoints(Protocol):
    """Keeps checkpoints of an episode between two steps."""

    def due(self, recorded: int) -> bool:
        """Return whether a checkpoint is due after ``recorded`` characters of record."""

    async def take(self, recorded: int, past: Past, stepper: Stepper, *, limit_s: float) -> None:
        """Keep a checkpoint; never raises."""


logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Driver:
    """Plays one episode to its end, even if policies, world or journal fail.

    Args:
        stepper: Its environment, not begun, or restored to ``past``; closed by :meth:`run`.
        control: Its end, its pause and its pace.
        past: Where another process left it; ``None`` to begin.
        thinking: Receives the policies' thoughts; omitted if they are not shown.
        budget: Limits what models may spend; no limit if omitted.
        rule: What a failed decision does to the episode; the plan's ``on_failure`` if omitted.
        checkpoints: Keeps checkpoints; none if omitted.
    """

    def __init__(
        self,
        plan: EpisodePlan,
        episode_id: str,
        *,
        stepper: Stepper,
        emit: Emit,
        control: Control,
        clock: Clock,
        limits: EpisodeLimits,
        past: Past | None = None,
        thinking: Thinking | None = None,
        budget: EpisodeBudget | None = None,
        rule: FailureRule | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self._plan = plan
        self._checkpoints = checkpoints
        self._profile = plan.profile
        self._episode_id = episode_id
        self._emit = emit
        self.control = control
        """Its end, its pause and its pace."""
        self.thinking = thinking or Thinking(clock)
        """The current partial decision."""
        self._clock = clock
        self._limits = limits
        self._past = past
        self._stepper = stepper
        self._own = OwnCount() if past is None else past.own
        self._inline = stepper if isinstance(stepper, InlineStepper) else None  # answers without waiting
        self._policies = SeatedPolicies(
            plan,
            episode_id,
            {} if past is None else past.seats,
            stepper=stepper,
            control=control,
            clock=clock,
            limits=limits,
            thinking=self.thinking,
            budget=budget,
            rule=rule,
            own=self._own,
        )
        self._refusals: dict[str, int] = {} if past is None else dict(past.refusals)
        self.awaited: Observation | None = None
        """What the next actor to decide sees; ``None`` before the first turn."""
        self._ended: EpisodeEnded | None = None
        self._turn = 0 if past is None else past.turn
        self._total = 0.0 if past is None else past.total
        self._until = math.inf
        self._truth: str | None = None

    @property
    def turn(self) -> int:
        """Actions taken or refused so far."""
        return self._turn

    @property
    def ended(self) -> EpisodeEnded | None:
        """The end, once there is one."""
        return self._ended

    @property
    def deciding(self) -> str | None:
        """The actor that is deciding now, if any."""
        return self._policies.deciding

    def policy(self, actor: str) -> Policy | None:
        """Return the policy of ``actor``; ``None`` before the policies are built."""
        return self._policies.by_actor.get(actor)

    def hold(self, held: bool) -> None:
        """Stop or restart the policies' clocks while play is paused."""
        self._policies.hold(held)

    async def run(self) -> EpisodeEnded | None:
        """Play; emits everything after ``episode.started``, including the end, and cleans up.

        Returns:
            The end, even if it could not be recorded; ``None`` if the episode was suspended.
        """
        try:
            try:
                ended: EpisodeEnded | None = await self._play()
            except Exception as error:  # noqa: BLE001 - every error becomes the episode's end
                ended = await self._end_after(error)
            if ended is not None:
                ended = await self._record_end(ended)
        except asyncio.CancelledError:
            interrupted = cut_short("interrupted", "the server went away", self._turn)
            await self._record_end(self._ended or interrupted)
            raise
        finally:
            await self.let_go()
        return ended

    async def _record_end(self, ended: EpisodeEnded) -> EpisodeEnded:
        """Close the environment, then record the end.

        In this order, because an episode without an end is resumed, and its environment closed then, while
        one that has ended is not looked at again.
        """
        ended = with_total(ended, self._total, self._profile)
        if self._own is not None and self._plan.samples_model:
            ended = ended.model_copy(update={"own_decisions": OwnDecisions(**asdict(self._own))})
        self._ended = self._ended or ended
        await self._stepper.aclose()
        try:
            with typed_as(partial(_unrecorded, self._episode_id)):
                calls = [] if ended.undecided is None else [self._policies.undecided_calls]
                attachments = Attachments(calls, None if ended.truth is None else self._truth) or None
                await self._emit([(self._turn, [core_fact(ended)])], attachments=attachments)
        except EpisodeOver:  # cancelled while the end was being recorded
            return ended
        except LeaseLost as error:
            logger.warning("episode %s is left to another process: %s", self._episode_id, error)
            return ended
        except SpectatorError:
            logger.exception("episode %s: the end (%s) could not be recorded", self._episode_id, ended.reason)
        logger.info(
            "episode %s ended: %s after %d turns, score %s",
            self._episode_id,
            ended.reason,
            ended.turns,
            ended.score,
        )
        return ended

    async def _end_after(self, error: Exception) -> EpisodeEnded | None:
        """Return the end of an episode whose play raised ``error``; ``None`` if it is suspended."""
        reason: EndReason = "environment_error"
        match error:
            case PolicyError():
                return await self._end_undecided(error)
            case EndRequested():
                return self._requested_end()
            case JournalError() if self.control.end is not None:
                return self._requested_end()
            case LeaseLost():
                logger.warning("episode %s is left to another process: %s", self._episode_id, error)
                self.control.request_end(EndRequest("suspended", str(error)))
                return None
            case JournalError():
                what, reason, detail = "the journal", "interrupted", f"the journal failed: {error}"
            case EnvironmentFault():
                reason = "timeout" if isinstance(error, StepTimeout) else reason
                what, detail = "the environment", str(error)
            case _:
                what, detail = "the driver", f"{type(error).__name__}: {error}"
        logger.error("episode %s: %s failed", self._episode_id, what, exc_info=error)
        failure_class = error.failure_class if isinstance(error, JournalError | EnvironmentFault) else None
        return cut_short(reason, detail, self._turn, failure_class)

    def _requested_end(self) -> EpisodeEnded | None:
        end = self.control.end
        assert end is not None
        return None if end.reason == "suspended" else cut_short(end.reason, end.detail, self._turn)

    async def _end_undecided(self, error: PolicyError) -> EpisodeEnded | None:
        """Return the end after a failed decision; ``None`` if the episode is suspended for it."""
        if self.control.end is not None:
            return self._requested_end()
        if self._plan.on_failure == "suspend" or isinstance(error, EpisodeSuspension):
            logger.warning("episode %s is suspended: %s", self._episode_id, error)
            with suppress(SpectatorError):  # it is suspended even if that cannot be recorded
                attachments = Attachments([self._policies.undecided_calls]) or None
                await self._emit([(self._turn, [self._suspended(error)])], attachments=attachments)
            self.control.request_end(EndRequest("suspended", str(error)))
            return None
        reason: EndReason = "timeout" if isinstance(error, DecisionTimeout) else "policy_error"
        ended = cut_short(reason, str(error), self._turn, error.failure_class)
        forfeited = self._policies.asked if self._plan.failed_decisions == "forfeit" else None
        told: dict[str, Any] = {"undecided": self._policies.undecided, "forfeited": forfeited}
        if isinstance(error, InvalidAnswer):
            told |= {"penalty": error.end.penalty, "masked": error.end.penalty is None}
        return ended.model_copy(update=told)

    def _suspended(self, error: PolicyError) -> Fact:
        actor, detail = self._policies.asked or self._plan.agent, clean_text(str(error), DETAIL_LENGTH)
        undecided = self._policies.undecided
        return core_fact(
            EpisodeSuspended(
                actor=actor, failure_class=error.failure_class, detail=detail, undecided=undecided
            )
        )

    async def _play(self) -> EpisodeEnded:
        began = self._clock.monotonic()
        self._until = began + self._limits.episode_s
        self._policies.seat()
        stepped = await self._begin() if self._past is None else self._past.stepped
        facts = stepped.facts
        recorded = await self._emit([(self._turn, facts)])
        step_cap, fastest = self._plan.world.step_cap(self._plan.options), Pace.MAX
        beats = self._plan.beats
        control = self.control
        while not stepped.observation.done:
            if control.pace is not fastest:
                await control.keep_pace(began, beats_in(facts, beats))
            if control.held:
                await self._outside_play(control.play_on())
            if self._checkpoints is not None and self._checkpoints.due(recorded):
                await self._outside_play(self._checkpoint(self._checkpoints, recorded, stepped))
            if recorded > self._limits.characters:
                size = f"its record reached {self._limits.characters / 1e6:g} MB"
                return self._with_rivals(cut_short("step_cap", f"cut short: {size}", self._turn), stepped)
            if self._turn >= step_cap:
                ended = cut_short("step_cap", f"cut short after {step_cap} turns", self._turn)
                return self._with_rivals(ended, stepped)
            began = self._clock.monotonic()
            if began > self._until:
                longer = f"longer than {self._limits.episode_s:g} s of play"
                return cut_short("timeout", longer, self._turn)
            stepped, facts, calls = await self._take_turn(stepped.observation)
            self.awaited = stepped.observation
            attachments = Attachments(calls=[calls]) if calls else None
            recorded = await self._outside_play(self._emit([(self._turn, facts)], attachments=attachments))
        await control.keep_pace(began, beats_in(facts, beats))
        if cut := stepped.observation.metadata.get("truncated"):
            return self._with_rivals(cut_short("step_cap", str(cut), self._turn), stepped)
        self._truth = await self._read_truth()
        ended = finished(self._total, stepped.state, self._turn, self._profile, self._truth)
        return self._with_rivals(ended, stepped)

    def _with_rivals(self, ended: EpisodeEnded, stepped: Stepped) -> EpisodeEnded:
        """Add what the other seats earned, where they are trained and the agent has a verdict."""
        reward, parts = self._plan.world.rival_reward, stepped.observation.metadata.get("rubric")
        known = ended.reason == "finished" or self._profile.rewards == "step"
        if reward is None or not parts or not known or not (rivals := self._plan.rivals):
            return ended
        earned = reward(self._plan.options, parts)
        by_seat = earned if isinstance(earned, Mapping) else dict.fromkeys(rivals, earned)
        return ended.model_copy(update={"seat_rewards": {seat: by_seat[seat] for seat in rivals}})

    async def _checkpoint(self, checkpoints: Checkpoints, recorded: int, stepped: Stepped) -> None:
        past = Past(self._policies.by_actor, self._refusals, self._turn, self._total, stepped, self._own)
        await checkpoints.take(recorded, past, self._stepper, limit_s=self._limits.step_s)

    async def _outside_play(self, wait: Awaitable[_T]) -> _T:
        """Wait without counting the time as time of play."""
        began = self._clock.monotonic()
        result = await wait
        self._until += self._clock.monotonic() - began
        return result

    def _waiting(self) -> AbstractAsyncContextManager[object]:
        """Return a context that a request to end cancels; none if the world answers without waiting."""
        at_once = self._inline is not None and not self.control.held
        return nullcontext() if at_once else ControlledWait(self.control)

    async def _read_truth(self) -> str | None:
        """Return the world's sealed truth, to record it with the end."""
        asked = self._stepper.truth(limit_s=self._limits.step_s)
        try:
            async with self._waiting():
                return sealed(await asked)
        finally:
            asked.close()

    async def _begin(self) -> Stepped:
        plan = self._plan
        stepped = await self._in_world(
            self._stepper.reset(
                seed=plan.seed,
                episode_id=self._episode_id,
                options=plan.options,
                limit_s=self._limits.reset_s,
            ),
            beginning=True,
        )
        self._total += stepped.observation.reward
        return stepped

    async def _take_turn(
        self, observation: Observation
    ) -> tuple[Stepped, Sequence[Fact], Sequence[ModelCall]]:
        actor = observation.actor
        assert actor is not None
        began = self._clock.monotonic()
        if actor in self._policies.scripted:
            action, decided, calls = self._policies.decide_at_once(actor, observation, began)
        else:
            action, decided, calls = await self._policies.decide(actor, observation, self._turn + 1)
        began = self._clock.monotonic()
        stepped = await self._in_world(self._stepper.step(action, limit_s=self._limits.step_s))
        took = self._clock.monotonic() - began
        if self.control.held:
            await self._outside_play(self.control.play_on())
        self._turn += 1
        self._total += stepped.observation.reward
        if self._own is not None and stepped.observation.refused is not None and actor == self._plan.agent:
            self._own.refused += 1
        return stepped, facts_of_step(actor, decided, stepped, took, self._refusals), calls

    async def _in_world(self, answer: Coroutine[Any, Any, Stepped], *, beginning: bool = False) -> Stepped:
        try:
            async with ControlledWait(self.control) if self._inline is None else self._waiting():
                stepped = await answer
        finally:
            answer.close()
        check_contract(stepped, self._plan.world, self._profile, beginning=beginning)
        return stepped

    async def let_go(self) -> None:
        """Close the environment and the policies; :meth:`run` does this itself."""
        await self._stepper.aclose()
        await self._policies.aclose()


def _unrecorded(episode_id: str, error: Exception) -> JournalError:
    return JournalError(f"the end of {episode_id} could not be recorded: {type(error).__name__}: {error}")

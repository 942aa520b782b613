"""Ask the policies of an episode to decide, and show a decision while it forms.

A model's thoughts so far are shown to viewers only and are never recorded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, cast

from spectator.clock import Clock
from spectator.environments.contract import Stepper
from spectator.episodes.controls import Control, ControlledWait, EndRequested, EpisodeLimits
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.steps import checked_decision
from spectator.errors import DecisionTimeout, PolicyError, typed_as
from spectator.events import Fact, OnFailure, Undecided
from spectator.model_calls import ModelCall
from spectator.observations import Observation
from spectator.policies.policy import (
    Action,
    Decision,
    EndsWhenCancelled,
    KeepsTime,
    Policy,
    ScriptedPolicy,
    SeesTruth,
    StreamsThoughts,
    Thought,
    offers,
)
from spectator.policies.spending import EpisodeBudget, Spends

FailureRule = Callable[[str, Decision], OnFailure]
"""Given an actor and each of its decisions, says what to do about it, if it failed."""


class EpisodeSuspension(PolicyError):
    """A decision failed, and the episode is to stand still for it."""


KEPT: Final = 4_000
"""Characters of a forming decision that somebody who comes late is shown: the newest."""


@dataclass(slots=True)
class PartialDecision:
    """A decision that is forming.

    Args:
        actor: Who decides.
        turn: The turn that it will be.
        began: When, by the clock's ``monotonic``.
        revision: How often it began anew; what was written before is void.
        over: Whether it is made, or given up.
        heard: Parts that were written since it last began.
        parts: The newest of them, oldest first: whether it is the answer rather than a thought, and the text.
    """

    actor: str
    turn: int
    began: float
    revision: int = 0
    over: bool = False
    heard: int = 0
    parts: list[tuple[bool, str]] = field(default_factory=list)
    _size: int = 0

    def add(self, is_answer: bool, text: str) -> None:
        """Take what was written."""
        self.heard += 1
        self.parts.append((is_answer, text))
        self._size += len(text)
        if self._size > 2 * KEPT:
            self._trim()

    def restart(self) -> None:
        """Forget all that was written."""
        self.revision += 1
        self.heard = self._size = 0
        self.parts = []

    def since(self, heard: int) -> tuple[str, str] | None:
        """Thought and answer that were written after part ``heard``; ``None`` when not all of it is kept."""
        missing = self.heard - heard
        if missing > len(self.parts):
            return None
        return _joined(self.parts[len(self.parts) - missing :])

    def newest(self, heard: int) -> tuple[str, str]:
        """The end of thought and answer up to part ``heard``, at most :data:`KEPT` characters of each."""
        thought, answer = _joined(self.parts[: max(0, len(self.parts) - (self.heard - heard))])
        return thought[-KEPT:], answer[-KEPT:]

    def _trim(self) -> None:
        kept, size = 0, 0
        while kept < len(self.parts) and size < KEPT:
            kept += 1
            size += len(self.parts[-kept][1])
        self.parts = self.parts[-kept:]
        self._size = size


def _joined(parts: list[tuple[bool, str]]) -> tuple[str, str]:
    thought = "".join([text for is_answer, text in parts if not is_answer])
    return thought, "".join([text for is_answer, text in parts if is_answer])


class Thinking:
    """What is thought in one episode at the moment. Worlds are turn-based, so one actor thinks at a time.

    Args:
        clock: Measures.
    """

    def __init__(self, clock: Clock) -> None:
        self.forming: PartialDecision | None = None
        """The decision that forms, or the last one that did."""
        self.changes = 0
        """Counts up with every change."""
        self._heard: Policy | None = None
        self._clock = clock
        self._changed: asyncio.Event | None = None

    def deciding(self, actor: str, turn: int, policy: Policy) -> Forming:
        """Around one decision of ``policy``; it is heard if it thinks aloud."""
        forming = self.forming = PartialDecision(actor, turn, self._clock.monotonic())
        if policy is not self._heard:
            self._heard = policy  # to find out what a policy can do takes 10 us
            if offers(type(policy), StreamsThoughts):
                cast(StreamsThoughts, policy).stream_thoughts(self.hear)
        self.notify()
        return Forming(self, forming)

    def hear(self, thought: Thought) -> None:
        """Take a part of the decision that forms; returns at once."""
        forming = self.forming
        if forming is None or forming.over or thought.actor != forming.actor:
            return
        if thought.kind == "restart":
            forming.restart()
        else:
            forming.add(thought.kind != "thought", thought.text)
        self.notify()

    def elapsed_s(self, forming: PartialDecision) -> float:
        """Seconds since it began."""
        return self._clock.monotonic() - forming.began

    async def change(self, known: int) -> int:
        """Wait until there are more changes than ``known``; returns how many there are."""
        while self.changes <= known:
            if self._changed is None:
                self._changed = asyncio.Event()
            await self._changed.wait()
        return self.changes

    def notify(self) -> None:
        """The decision that forms has changed."""
        self.changes += 1
        if self._changed is not None:
            self._changed.set()
            self._changed = None


@dataclass(slots=True)
class Forming(AbstractContextManager[None]):
    """A decision that forms until its context is left; see :meth:`Thinking.deciding`."""

    thinking: Thinking
    decision: PartialDecision

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.decision.over = True  # it is made, or given up
        self.thinking.notify()


logger = logging.getLogger(__name__)

LET_GO_S: Final = 2.0
"""Seconds that a policy has to stop thinking, and to close, before nobody waits for it any more."""

CANCELLED: Final = "what it waited for was cancelled"
"""Why there is no decision of a policy whose own wait was cancelled."""

Decided = tuple[Action, Fact, Sequence[ModelCall]]
"""The action, the fact that it was decided on, and the calls to models behind it."""


class SeatedPolicies:
    """Asks the policies of one episode, and lets go of them.

    Args:
        plan: What is played, by whom.
        episode_id: Its id.
        seated: The policies by actor, where another process left the episode; :meth:`seat` builds them else.
        stepper: Its environment, of which some policies see everything.
        control: Its end and its pause, as asked for from outside.
        clock: Measures.
        limits: How long it may wait.
        thinking: Hears what is thought.
        budget: What asking models may take; no limit when left out.
        rule: What a decision that failed does to the episode; what the plan says when left out.
    """

    def __init__(
        self,
        plan: EpisodePlan,
        episode_id: str,
        seated: Mapping[str, Policy],
        *,
        stepper: Stepper,
        control: Control,
        clock: Clock,
        limits: EpisodeLimits,
        thinking: Thinking,
        budget: EpisodeBudget | None,
        rule: FailureRule | None,
    ) -> None:
        self.by_actor: dict[str, Policy] = dict(seated)
        """The policies; none before they are seated."""
        self.asked: str | None = None
        """The actor that was asked last."""
        self.undecided: Undecided | None = None
        """What a model was asked for the decision that failed the episode, if one was."""
        self.undecided_calls: Sequence[ModelCall] = ()
        """The calls to it."""
        self.deciding: str | None = None
        """The actor whose decision is waited for now, if any is."""
        self._plan = plan
        self._episode_id = episode_id
        self._stepper = stepper
        self._control = control
        self._clock = clock
        self._limits = limits
        self._thinking = thinking
        self._budget = budget
        self._rule = rule
        self._reaction = plan.on_failed_decision
        self.scripted: dict[str, ScriptedPolicy] = {}
        """Those that are never waited for."""
        self._seers: set[str] = set()  # whose policies see the truth: to find out takes 10 us
        self._cooperative: set[str] = set()  # whose policies end when they are cancelled
        self._choosing = typed_as(self._could_not_decide, passing=())

    def seat(self) -> None:
        """Build the policies that are not there yet, and give all of them what they may spend.

        Raises:
            PolicyError: One could not be built.
        """
        with typed_as(lambda error: self._failed("a policy could not be built", error), passing=()):
            for actor in self._plan.world.actors:
                policy = self.by_actor.get(actor) or self._plan.policy(actor)
                self.by_actor[actor] = policy
                if isinstance(policy, ScriptedPolicy) and type(policy).decide is ScriptedPolicy.decide:
                    self.scripted[actor] = policy  # it is only asked to choose, and spends nothing
                    continue
                if offers(type(policy), SeesTruth):
                    self._seers.add(actor)
                if isinstance(policy, EndsWhenCancelled):
                    self._cooperative.add(actor)
            if self._budget is not None:
                spenders = {
                    actor: cast(Spends, one)
                    for actor, one in self.by_actor.items()
                    if offers(type(one), Spends)
                }
                for actor, spender in spenders.items():
                    spender.spend_from(self._budget.for_seat(actor, len(spenders)))

    def hold(self, held: bool) -> None:
        """Let the clocks of the policies stand still while play does, or run on."""
        for policy in self.by_actor.values():
            if isinstance(policy, KeepsTime):
                policy.hold(held)

    async def decide(self, actor: str, observation: Observation, turn: int) -> Decided:
        """Ask the policy of ``actor``.

        Args:
            actor: Whose turn it is.
            observation: What it sees.
            turn: The turn that it will be.

        Raises:
            PolicyError: It failed, or its decision did and the episode's rule is not to fall back.
            EnvironmentFault: The environment could not show itself to a policy that sees everything.
            EndRequested: The end was asked for meanwhile.
        """
        self.asked = actor
        began = self._clock.monotonic()
        sees = actor in self._seers
        truth = await self._stepper.snapshot(limit_s=self._limits.step_s) if sees else None
        with typed_as(self._could_not_decide, passing=(EndRequested, DecisionTimeout)):
            decision = await self._ask(actor, observation, turn, truth)
        return self._checked(actor, decision, observation, self._clock.monotonic() - began)

    def decide_at_once(self, actor: str, observation: Observation, began: float) -> Decided:
        """Ask the policy of ``actor``, one of :attr:`scripted`, at ``began``; see :meth:`decide`."""
        self.asked = actor
        with self._choosing:
            decision = self.scripted[actor].choose(observation)
        return self._checked(actor, decision, observation, self._clock.monotonic() - began)

    def _checked(self, actor: str, decision: Decision, observation: Observation, took: float) -> Decided:
        action, decided = checked_decision(actor, decision, took, observation.legal_actions)
        reaction = self._reaction if self._rule is None else self._rule(actor, decision)
        if "failure_class" in decided.data and reaction != "fallback":
            self._keep_questions(decided, decision.calls)
            kind = EpisodeSuspension if reaction == "suspend" else PolicyError
            why = f"{actor} could not decide: {decision.fallback_reason}"
            raise kind(why, failure_class=decided.data["failure_class"])
        return action, decided, decision.calls

    def _keep_questions(self, decided: Fact, calls: Sequence[ModelCall]) -> None:
        """Keep what was asked for a decision that failed, to be recorded with the failure."""
        if decided.data["exchanges"] is not None:
            asked = {name: decided.data[name] for name in Undecided.model_fields}
            self.undecided, self.undecided_calls = Undecided.model_validate(asked), calls

    async def _ask(self, actor: str, observation: Observation, turn: int, truth: bytes | None) -> Decision:
        policy, limit_s = self.by_actor[actor], self._limits.decision_s
        if truth is not None and isinstance(policy, SeesTruth):
            policy.see(truth)
        self.deciding = actor
        ask = self._ask_here if actor in self._cooperative else self._ask_apart
        with self._thinking.deciding(actor, turn, policy):
            return await ask(actor, policy, observation, limit_s)

    async def _ask_here(
        self, actor: str, policy: Policy, observation: Observation, limit_s: float
    ) -> Decision:
        """Ask a policy that ends as soon as it is cancelled."""
        scope: asyncio.Timeout | None = None
        try:
            async with ControlledWait(self._control, limit_s) as scope:
                return await policy.decide(observation, deadline=limit_s)
        except TimeoutError as error:
            if scope is None or not scope.expired():
                raise
            raise _late(actor, limit_s) from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise PolicyError(CANCELLED) from error
        finally:
            self.deciding = None

    async def _ask_apart(
        self, actor: str, policy: Policy, observation: Observation, limit_s: float
    ) -> Decision:
        """Ask any policy, in a task that can be given up."""
        deciding = asyncio.get_running_loop().create_task(policy.decide(observation, deadline=limit_s))
        try:
            async with ControlledWait(self._control, limit_s):
                await asyncio.wait([deciding])
        except TimeoutError as error:
            raise _late(actor, limit_s) from error
        finally:
            self.deciding = None
            await _let_go(deciding)
        if deciding.cancelled():
            raise PolicyError(CANCELLED)
        return deciding.result()

    def _could_not_decide(self, error: Exception) -> PolicyError:
        return self._failed(f"{self.asked} could not decide", error)

    def _failed(self, what: str, error: Exception) -> PolicyError:
        logger.error("episode %s: %s", self._episode_id, what, exc_info=error)
        failure_class = error.failure_class if isinstance(error, PolicyError) else None
        return PolicyError(f"{what}: {type(error).__name__}: {error}", failure_class=failure_class)

    async def aclose(self) -> None:
        """Close the policies; one that takes longer than :data:`LET_GO_S` is given up."""
        loop = asyncio.get_running_loop()
        closing = {
            actor: loop.create_task(_close(policy))
            for actor, policy in self.by_actor.items()
            if type(policy).aclose is not ScriptedPolicy.aclose
        }
        if closing:
            await asyncio.wait(closing.values(), timeout=LET_GO_S)
        for actor, task in closing.items():
            await _let_go(task)
            if task.done() and not task.cancelled() and task.exception() is None:
                continue
            logger.error(
                "episode %s: the policy of %s could not be closed",
                self._episode_id,
                actor,
                exc_info=task.exception() if task.done() and not task.cancelled() else None,
            )


def _late(actor: str, limit_s: float) -> DecisionTimeout:
    return DecisionTimeout(f"{actor} did not decide within {limit_s:g} s")


async def _close(policy: Policy) -> None:
    await policy.aclose()


async def _let_go(task: asyncio.Task[Any]) -> None:
    """Cancel ``task``; stop waiting after :data:`LET_GO_S` for one that will not be cancelled."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=LET_GO_S)
    if not task.done():
        logger.warning("%r ignores its cancellation and is given up", task.get_coro())
    task.add_done_callback(lambda over: over.cancelled() or over.exception())  # nobody else may ask for it

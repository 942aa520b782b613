"""Ask the policies of an episode to decide, and stream a decision while it forms.

A model's partial thoughts are only shown to viewers, never recorded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, cast

from spectator.clock import Clock
from spectator.core_events import OnFailure, Undecided
from spectator.environments.contract import Stepper
from spectator.episodes.controls import Control, ControlledWait, EndRequested, EpisodeLimits
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.steps import checked_decision
from spectator.errors import INVALID_ANSWERS, DecisionTimeout, FailureClass, PolicyError, typed_as
from spectator.events import Fact
from spectator.journal.outline import OwnCount
from spectator.model_calls import ModelCall
from spectator.observations import Observation
from spectator.policies.policy import (
    Action,
    Decision,
    KeepsTime,
    Policy,
    ScriptedPolicy,
    SeesTruth,
    StreamsThoughts,
    Thought,
    offers,
)
from spectator.policies.spending import EpisodeBudget, Spends


@dataclass(frozen=True, slots=True)
class InvalidEnd:
    """The end of an episode at an answer of its agent that was not an action.

    Args:
        penalty: The episode's reward, on which the answer may be trained; ``None`` keeps the rewards so far
            and masks the answer.
    """

    penalty: float | None


FailureRule = Callable[[str, Decision], OnFailure | InvalidEnd]
"""Returns what to do if this decision of this actor failed."""


class EpisodeSuspension(PolicyError):
    """A decision failed, and the episode is suspended for it."""


class InvalidAnswer(PolicyError):
    """The agent's answer was not an action, and the episode ends there with a verdict.

    Args:
        message: What was wrong, in a sentence.
    """

    def __init__(self, message: str, *, failure_class: FailureClass, end: InvalidEnd) -> None:
        super().__init__(message, failure_class=failure_class)
        self.end = end


KEPT: Final = 4_000
"""Newest characters of a forming decision that are kept for viewers who join late."""


@dataclass(slots=True)
class PartialDecision:
    """A decision that is forming.

    Args:
        turn: The turn that the decision will be.
        began: When it began, by the clock's ``monotonic``.
        revision: How often it restarted; earlier text is void.
        over: Whether it was made or abandoned.
        heard: Number of parts since the last restart.
        parts: The newest parts, oldest first: whether it is the answer rather than a thought, and the text.
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
        """Append a part."""
        self.heard += 1
        self.parts.append((is_answer, text))
        self._size += len(text)
        if self._size > 2 * KEPT:
            self._trim()

    def restart(self) -> None:
        """Discard all parts."""
        self.revision += 1
        self.heard = self._size = 0
        self.parts = []

    def since(self, heard: int) -> tuple[str, str] | None:
        """Return thought and answer after part ``heard``; ``None`` if they are no longer all kept."""
        missing = self.heard - heard
        if missing > len(self.parts):
            return None
        return _joined(self.parts[len(self.parts) - missing :])

    def newest(self, heard: int) -> tuple[str, str]:
        """Return the last :data:`KEPT` characters of thought and of answer up to part ``heard``."""
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
    """The current partial decision of one episode. Worlds are turn-based, so there is one at a time."""

    def __init__(self, clock: Clock) -> None:
        self.forming: PartialDecision | None = None
        """The forming decision, or the last one."""
        self.changes = 0
        """Number of changes so far."""
        self._heard: Policy | None = None
        self._clock = clock
        self._changed: asyncio.Event | None = None

    def deciding(self, actor: str, turn: int, policy: Policy) -> Forming:
        """Return the context of one decision of ``policy``; subscribes to its thoughts if it streams them."""
        forming = self.forming = PartialDecision(actor, turn, self._clock.monotonic())
        if policy is not self._heard:
            self._heard = policy  # checking what a policy offers takes 10 us
            if offers(type(policy), StreamsThoughts):
                cast(StreamsThoughts, policy).stream_thoughts(self.hear)
        self.notify()
        return Forming(self, forming)

    def hear(self, thought: Thought) -> None:
        """Add a part to the forming decision; does not block."""
        forming = self.forming
        if forming is None or forming.over or thought.actor != forming.actor:
            return
        if thought.kind == "restart":
            forming.restart()
        else:
            forming.add(thought.kind != "thought", thought.text)
        self.notify()

    def elapsed_s(self, forming: PartialDecision) -> float:
        """Return the seconds since it began."""
        return self._clock.monotonic() - forming.began

    async def change(self, known: int) -> int:
        """Wait until there are more changes than ``known``; return their number."""
        while self.changes <= known:
            if self._changed is None:
                self._changed = asyncio.Event()
            await self._changed.wait()
        return self.changes

    def notify(self) -> None:
        """Wake those who wait for a change of the forming decision."""
        self.changes += 1
        if self._changed is not None:
            self._changed.set()
            self._changed = None


@dataclass(slots=True)
class Forming(AbstractContextManager[None]):
    """The context of one forming decision; see :meth:`Thinking.deciding`."""

    thinking: Thinking
    decision: PartialDecision

    def __exit__(self, *_: object) -> None:
        self.decision.over = True
        self.thinking.notify()


logger = logging.getLogger(__name__)

LET_GO_S: Final = 2.0
"""Seconds that a policy has to stop after a cancellation, and to close, before it is abandoned."""

Decided = tuple[Action, Fact, Sequence[ModelCall]]
"""The action, its ``decision.made`` fact, and the model calls behind it."""


class SeatedPolicies:
    """Asks the policies of one episode to decide, and closes them.

    Args:
        seated: Policies, by actor, of an episode resumed from another process; :meth:`seat` builds the rest.
        stepper: Its environment, whose full state some policies see.
        budget: Limits what models may spend; no limit if omitted.
        rule: What a failed decision does to the episode; the plan's rule if omitted.
        own: Counts the agent's decisions; optional.
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
        own: OwnCount | None = None,
    ) -> None:
        self.by_actor: dict[str, Policy] = dict(seated)
        """The policies; empty before :meth:`seat`."""
        self.asked: str | None = None
        """The actor that was asked last."""
        self.undecided: Undecided | None = None
        """The requests behind the decision that failed the episode, if any."""
        self.undecided_calls: Sequence[ModelCall] = ()
        """The model calls of these requests."""
        self.deciding: str | None = None
        """The actor that is deciding now, if any."""
        self._plan = plan
        self._episode_id = episode_id
        self._stepper = stepper
        self._control = control
        self._clock = clock
        self._limits = limits
        self._thinking = thinking
        self._budget = budget
        self._rule = rule
        self._own = own
        self._reaction = plan.on_failed_decision
        self.scripted: dict[str, ScriptedPolicy] = {}
        """The policies that decide without waiting."""
        self._seers: set[str] = set()  # actors whose policies see the truth: checking takes 10 us
        self._choosing = typed_as(self._could_not_decide, passing=())

    def seat(self) -> None:
        """Build the missing policies, and give all of them their budgets.

        Raises:
            PolicyError: A policy could not be built.
        """
        with typed_as(lambda error: self._failed("a policy could not be built", error), passing=()):
            for actor in self._plan.world.actors:
                policy = self.by_actor.get(actor) or self._plan.policy(actor)
                self.by_actor[actor] = policy
                if isinstance(policy, ScriptedPolicy) and type(policy).decide is ScriptedPolicy.decide:
                    self.scripted[actor] = policy  # only `choose` is called, and it spends nothing
                    continue
                if offers(type(policy), SeesTruth):
                    self._seers.add(actor)
            if self._budget is not None:
                spenders = {
                    actor: cast(Spends, one)
                    for actor, one in self.by_actor.items()
                    if offers(type(one), Spends)
                }
                for actor, spender in spenders.items():
                    spender.spend_from(self._budget.for_seat(actor, len(spenders)))

    def hold(self, held: bool) -> None:
        """Stop or restart the policies' clocks while play is paused."""
        for policy in self.by_actor.values():
            if isinstance(policy, KeepsTime):
                policy.hold(held)

    async def decide(self, actor: str, observation: Observation, turn: int) -> Decided:
        """Ask the policy of ``actor`` to decide.

        Args:
            observation: What the actor sees.
            turn: The turn that the decision will be.

        Raises:
            PolicyError: The policy failed, or its decision did and the rule is not to fall back.
            EnvironmentFault: The environment failed to make the snapshot for a policy that sees everything.
            EndRequested: The end was requested.
        """
        self.asked = actor
        began = self._clock.monotonic()
        sees = actor in self._seers
        truth = await self._stepper.snapshot(limit_s=self._limits.step_s) if sees else None
        with typed_as(self._could_not_decide, passing=(EndRequested, DecisionTimeout)):
            decision = await self._ask(actor, observation, turn, truth)
        return self._checked(actor, decision, observation, self._clock.monotonic() - began)

    def decide_at_once(self, actor: str, observation: Observation, began: float) -> Decided:
        """Ask the policy of ``actor``, one of :attr:`scripted`, without waiting; see :meth:`decide`."""
        self.asked = actor
        with self._choosing:
            decision = self.scripted[actor].choose(observation)
        return self._checked(actor, decision, observation, self._clock.monotonic() - began)

    def _checked(self, actor: str, decision: Decision, observation: Observation, took: float) -> Decided:
        action, decided = checked_decision(actor, decision, took, observation.legal_actions)
        reaction = self._reaction if self._rule is None else self._rule(actor, decision)
        if "failure_class" in decided.data and reaction != "fallback":
            self._keep_questions(decided, decision.calls)
            why = f"{actor} could not decide: {decision.fallback_reason}"
            failure: FailureClass = decided.data["failure_class"]
            if failure in INVALID_ANSWERS and decision.exchanges and reaction != "suspend":
                self._count(actor, decided)
            if isinstance(reaction, InvalidEnd):
                raise InvalidAnswer(why, failure_class=failure, end=reaction)
            kind = EpisodeSuspension if reaction == "suspend" else PolicyError
            raise kind(why, failure_class=failure)
        self._count(actor, decided)
        return action, decided, decision.calls

    def _count(self, actor: str, decided: Fact) -> None:
        if self._own is not None and actor == self._plan.agent:
            self._own.take(decided.data["source"], decided.data["exchanges"])

    def _keep_questions(self, decided: Fact, calls: Sequence[ModelCall]) -> None:
        """Keep the requests behind a failed decision, to record them with the failure."""
        if decided.data["exchanges"] is not None:
            asked = {name: decided.data[name] for name in Undecided.model_fields}
            self.undecided, self.undecided_calls = Undecided.model_validate(asked), calls

    async def _ask(self, actor: str, observation: Observation, turn: int, truth: bytes | None) -> Decision:
        """Ask a policy in a task of its own, which can be abandoned."""
        policy, limit_s = self.by_actor[actor], self._limits.decision_s
        if truth is not None and isinstance(policy, SeesTruth):
            policy.see(truth)
        self.deciding = actor
        with self._thinking.deciding(actor, turn, policy):
            deciding = asyncio.get_running_loop().create_task(policy.decide(observation, deadline=limit_s))
            try:
                async with ControlledWait(self._control, limit_s):
                    await asyncio.wait([deciding])
            except TimeoutError as error:
                raise DecisionTimeout(f"{actor} did not decide within {limit_s:g} s") from error
            finally:
                self.deciding = None
                await _cancel(deciding)
        if deciding.cancelled():
            raise PolicyError("its own wait was cancelled")
        return deciding.result()

    def _could_not_decide(self, error: Exception) -> PolicyError:
        return self._failed(f"{self.asked} could not decide", error)

    def _failed(self, what: str, error: Exception) -> PolicyError:
        logger.error("episode %s: %s", self._episode_id, what, exc_info=error)
        failure_class = error.failure_class if isinstance(error, PolicyError) else None
        return PolicyError(f"{what}: {type(error).__name__}: {error}", failure_class=failure_class)

    async def aclose(self) -> None:
        """Close the policies; abandons one that takes longer than :data:`LET_GO_S`."""
        loop = asyncio.get_running_loop()
        closing = {
            actor: loop.create_task(_close(policy))
            for actor, policy in self.by_actor.items()
            if type(policy).aclose is not ScriptedPolicy.aclose
        }
        if closing:
            await asyncio.wait(closing.values(), timeout=LET_GO_S)
        for actor, task in closing.items():
            await _cancel(task)
            if task.done() and not task.cancelled() and task.exception() is None:
                continue
            logger.error(
                "episode %s: the policy of %s could not be closed",
                self._episode_id,
                actor,
                exc_info=task.exception() if task.done() and not task.cancelled() else None,
            )


async def _close(policy: Policy) -> None:
    await policy.aclose()


async def _cancel(task: asyncio.Task[Any]) -> None:
    """Cancel ``task``, and wait at most :data:`LET_GO_S` for it to end."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=LET_GO_S)
    if not task.done():
        logger.warning("%r ignores its cancellation and is abandoned", task.get_coro())
    task.add_done_callback(lambda over: over.cancelled() or over.exception())  # mark it as retrieved

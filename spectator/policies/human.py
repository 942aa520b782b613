"""A person as a policy: asks, waits until the time is up, and accepts one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spectator.clock import Clock, first_of
from spectator.errors import NoDecisionPending
from spectator.llm.tool_calls import ParsedCall, WrittenCall, check_call
from spectator.observations import Observation
from spectator.policies.policy import Decision, Policy, Preset, ScriptedPolicy
from spectator.policies.prompts import Briefing

NAME: Final = "human"
"""Name of the preset."""

MARGIN_S: Final = 1.0
"""Part of a decision's deadline reserved for the fallback, seconds; at most a fifth of it."""

MISSES: Final = 2
"""Missed decisions in a row after which a seat counts as empty, unless a person has it open."""

PRESENT_S: Final = 30.0
"""Seconds for which a person counts as present after having the seat open."""

EMPTY_SEAT_S: Final = 5.0
"""Longest wait for an empty seat, seconds: the match continues, slowly enough to return to it."""


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """The decision that a person has to make now.

    Args:
        observation: What they see, and what they may do.
        limit_s: Time for the decision, seconds.
        left_s: Remaining time, seconds; it stops while play is paused.
    """

    observation: Observation
    limit_s: float
    left_s: float


class HumanPolicy:
    """Waits for a person; if they do not answer in time, a scripted policy decides.

    Args:
        briefing: Makes the world's actions.
        fallback: Decides when the time is up.
        limit_s: Seconds for one decision; the episode may allow less.
    """

    def __init__(self, briefing: Briefing, *, fallback: ScriptedPolicy, clock: Clock, limit_s: float) -> None:
        self.briefing = briefing
        self._fallback = fallback
        self._clock = clock
        self._limit_s = limit_s
        self._question: _Question | None = None
        self._changed = asyncio.Event()
        self._held = False
        self._missed = 0
        self._attended_at = float("-inf")

    @property
    def asked(self) -> PendingQuestion | None:
        """The pending decision; ``None`` if there is none, or it was just answered."""
        question = self._question
        if question is None or question.call is not None:
            return None
        limit_s = self._limit(question)
        return PendingQuestion(question.observation, limit_s, max(0.0, limit_s - question.watch.elapsed))

    def attend(self) -> None:
        """Record that a person has the seat open."""
        self._attended_at = self._clock.monotonic()
        self._changed.set()

    def act(self, written: WrittenCall) -> None:
        """Answer the pending decision.

        Raises:
            NoDecisionPending: There is none, or it was answered already.
            CallRejected: The action is not legal now, or an argument is invalid; the decision stays pending.
            UnsupportedSchema: The world's schema uses an unsupported keyword.
        """
        question = self._question
        if question is None or question.call is not None:
            raise NoDecisionPending("this seat has no decision to make now")
        question.call = check_call(written, self.briefing.legal(question.observation))
        self._changed.set()

    def hold(self, held: bool) -> None:
        """Stop the clock, or let it run."""
        self._held = held
        if self._question is not None:
            self._question.watch.hold(held)
        self._changed.set()

    async def decide(self, observation: Observation, *, deadline: float) -> Decision:
        """See :meth:`Policy.decide`."""
        limit_s = min(self._limit_s, deadline - min(MARGIN_S, deadline / 5))
        self._question = question = _Question(observation, limit_s, _Stopwatch(self._clock, self._held))
        try:
            await self._wait(question)
        finally:
            self._question = None
        took = round(question.watch.elapsed, 6)
        if question.call is None:
            return self._fall_back(question, took)
        self._missed = 0
        call = question.call
        action = self.briefing.as_action(call.tool, call.arguments)
        return Decision(action, "human", call.reason, latency_s=took)

    async def aclose(self) -> None:
        """Do nothing."""

    async def _wait(self, question: _Question) -> None:
        while question.call is None:
            self._changed.clear()
            left = self._limit(question) - question.watch.elapsed
            if left <= 0:
                return
            if self._held:
                await self._changed.wait()
            else:
                await first_of(self._changed.wait(), self._clock.sleep(left))

    def _limit(self, question: _Question) -> float:
        present = self._clock.monotonic() - self._attended_at <= PRESENT_S
        empty = self._missed >= MISSES and not present
        return min(question.limit_s, EMPTY_SEAT_S) if empty else question.limit_s

    def _fall_back(self, question: _Question, took: float) -> Decision:
        self._missed += 1
        own = self._fallback.choose(question.observation)
        reason = f"timeout: no decision within {self._limit(question):g} s"
        return Decision(
            own.action,
            "fallback",
            own.reasoning,
            fallback_reason=reason,
            failure_class="timeout",
            latency_s=took,
        )


class _Stopwatch:
    """Measures time, without the time during which it is held."""

    def __init__(self, clock: Clock, held: bool) -> None:
        self._clock = clock
        self._before = 0.0
        self._since: float | None = None
        self.hold(held)

    @property
    def elapsed(self) -> float:
        """Measured time, seconds."""
        return self._before + (0.0 if self._since is None else self._clock.monotonic() - self._since)

    def hold(self, held: bool) -> None:
        """Stop it, or let it run."""
        self._before = self.elapsed
        self._since = None if held else self._clock.monotonic()


@dataclass(slots=True)
class _Question:
    observation: Observation
    limit_s: float
    watch: _Stopwatch
    call: ParsedCall | None = None


def human_preset(
    briefing: Briefing,
    fallback: Callable[[int], Policy],
    *,
    clock: Clock,
    limit_s: float,
    missing: str | None = None,
) -> Preset:
    """Return the preset for a person in a seat.

    Args:
        briefing: Description of the seat.
        fallback: Makes, from a seed, the scripted policy that decides when the time is up.
        limit_s: Seconds for one decision.
        missing: What is needed before a person can play here; ``None`` if nothing.
    """

    def build(seed: int) -> HumanPolicy:
        scripted = fallback(seed)
        if not isinstance(scripted, ScriptedPolicy):
            raise TypeError("the fallback of a person must be a scripted policy")
        return HumanPolicy(briefing, fallback=scripted, clock=clock, limit_s=limit_s)

    return Preset(
        NAME,
        "A person",
        f"Decides at the watch page, within {limit_s:g} s; needs a person there.",
        "human",
        build,
        missing=missing,
    )

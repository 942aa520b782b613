"""A person as a policy: asks, waits until the time is up, and takes one answer."""

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
"""Time kept of a decision's deadline for the fallback, at most a fifth of it."""

MISSES: Final = 2
"""Decisions in a row that nobody made, after which the seat counts as empty unless somebody has it open."""

PRESENT_S: Final = 30.0
"""Seconds for which somebody who had the seat open is taken to be there still."""

EMPTY_SEAT_S: Final = 5.0
"""Longest wait for an empty seat: the match goes on, slowly enough to come back to it."""


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """What a person is asked now.

    Args:
        observation: What they see, and what they may do.
        limit_s: Seconds that they have.
        left_s: Seconds left of them; they stand still while play does.
    """

    observation: Observation
    limit_s: float
    left_s: float


class HumanPolicy:
    """Waits for a person; where none answers in time a scripted policy decides, and is named.

    Args:
        briefing: Makes the world's actions.
        fallback: Decides when time is up.
        clock: Time.
        limit_s: Seconds for one decision; less where the episode allows less.
    """

    def __init__(self, briefing: Briefing, *, fallback: ScriptedPolicy, clock: Clock, limit_s: float) -> None:
        self.briefing = briefing
        self._fallback = fallback
        self._clock = clock
        self._limit_s = limit_s
        self._question: _Question | None = None
        self._stirred = asyncio.Event()
        self._held = False
        self._missed = 0
        self._attended_at = float("-inf")

    @property
    def asked(self) -> PendingQuestion | None:
        """What is asked now; ``None`` when nothing is, or when it was just answered."""
        question = self._question
        if question is None or question.call is not None:
            return None
        limit_s = self._limit(question)
        return PendingQuestion(question.observation, limit_s, max(0.0, limit_s - question.watch.elapsed))

    def attend(self) -> None:
        """Take note that somebody has the seat open."""
        self._attended_at = self._clock.monotonic()
        self._stirred.set()

    def act(self, written: WrittenCall) -> None:
        """Answer what is asked.

        Raises:
            NoDecisionPending: Nothing is asked, or it was answered already.
            CallRejected: It is not legal now, or an argument breaks its schema; the question stands.
            UnsupportedSchema: The world's own schema cannot be judged by.
        """
        question = self._question
        if question is None or question.call is not None:
            raise NoDecisionPending("nothing is asked of this seat now")
        question.call = check_call(written, self.briefing.legal(question.observation))
        self._stirred.set()

    def hold(self, held: bool) -> None:
        """Let the clock stand still, or run on."""
        self._held = held
        if self._question is not None:
            self._question.watch.hold(held)
        self._stirred.set()

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
        """Let go of nothing."""

    async def _wait(self, question: _Question) -> None:
        while question.call is None:
            self._stirred.clear()
            left = self._limit(question) - question.watch.elapsed
            if left <= 0:
                return
            if self._held:
                await self._stirred.wait()
            else:
                await first_of(self._stirred.wait(), self._clock.sleep(left))

    def _limit(self, question: _Question) -> float:
        somebody = self._clock.monotonic() - self._attended_at <= PRESENT_S
        empty = self._missed >= MISSES and not somebody
        return min(question.limit_s, EMPTY_SEAT_S) if empty else question.limit_s

    def _fall_back(self, question: _Question, took: float) -> Decision:
        self._missed += 1
        own = self._fallback.choose(question.observation)
        reason = f"timeout: nobody decided within {self._limit(question):g} s"
        return Decision(
            own.action,
            "fallback",
            own.reasoning,
            fallback_reason=reason,
            failure_class="timeout",
            latency_s=took,
        )


class _Stopwatch:
    """Time that passed while nobody held it."""

    def __init__(self, clock: Clock, held: bool) -> None:
        self._clock = clock
        self._before = 0.0
        self._since: float | None = None
        self.hold(held)

    @property
    def elapsed(self) -> float:
        """Seconds."""
        return self._before + (0.0 if self._since is None else self._clock.monotonic() - self._since)

    def hold(self, held: bool) -> None:
        """Let it stand still, or run."""
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
    """A person as somebody who can be chosen for a seat.

    Args:
        briefing: What the seat is about.
        fallback: Makes, from a seed, the scripted policy that decides when time is up.
        clock: Time.
        limit_s: Seconds for one decision.
        missing: What is needed before a person can play here; ``None`` when one can.
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

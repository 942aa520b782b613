"""When an evaluation is cut short: a model that cannot be asked would be judged by its fallback."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final, Never

from spectator.llm.breaker import HOPELESS
from spectator.observations import Observation
from spectator.policies.base import Decision, Policy, Preset
from spectator.policies.spending import SpendLedger, SpendLimit, Spends

UNANSWERED: Final = 5
"""Decisions in a row in one match, none of them answered, after which an endpoint is given up."""

UNREACHED: Final = frozenset({"model_infra", "model_resting", "model_rejected", "rate_limited", "timeout"})
"""Classes of failure of an endpoint, as opposed to those of what a model answers."""


class Halt:
    """Whether an evaluation is cut short, and why: the first reason counts.

    Args:
        ledger: What asking models may take; once the day or the whole is spent, that is a reason.
    """

    def __init__(self, ledger: SpendLedger) -> None:
        self.ledger = ledger
        self.reason: str | None = None
        self._raised = asyncio.Event()

    def because(self, reason: str) -> None:
        """Cut it short; returns at once."""
        self.reason = self.reason or reason
        self._raised.set()

    async def wait(self) -> None:
        """Wait until it is cut short."""
        await self._raised.wait()

    def watching(self, preset: Preset) -> Preset:
        """The preset, its policies watched."""
        return replace(preset, build=lambda seed: self.watched(preset, preset.build(seed)))

    def watched(self, preset: Preset, policy: Policy) -> Policy:
        """The policy of ``preset``; an endpoint that does not answer it is a reason."""
        return WatchedPolicy(policy, preset.name, self) if preset.source == "model" else policy


class WatchedPolicy:
    """Decides as ``policy`` does, but makes no decision in place of an endpoint that is given up.

    It is given up at once when it refuses every request or is left alone after failing, else after
    :data:`UNANSWERED` decisions in a row; or when nothing more may be spent, but on this match alone. The
    decision is then never made: the match stands where it is, and is played on from there in a later run.

    Args:
        policy: A model's.
        name: Its preset.
        halt: What is told.
    """

    def __init__(self, policy: Policy, name: str, halt: Halt) -> None:
        self._policy = policy
        self._name = name
        self._halt = halt
        self._unanswered = 0

    async def decide(self, observation: Observation, *, deadline: float) -> Decision:
        """See :meth:`Policy.decide`; waits for ever where the endpoint is given up."""
        decision = await self._policy.decide(observation, deadline=deadline)
        why = self._why_not(decision)
        if why is not None:
            self._halt.because(why)
            await _for_ever()
        return decision

    def _why_not(self, decision: Decision) -> str | None:
        """Why a decision is not to count; ``None`` when it is."""
        self._unanswered = self._unanswered + 1 if _unanswered(decision) else 0
        if self._unanswered and (self._unanswered >= UNANSWERED or _hopeless(decision)):
            hint = ", with so many matches at once" if decision.failure_class == "rate_limited" else ""
            return f"{self._name} cannot be asked: {decision.fallback_reason}{hint}"
        return self._halt.ledger.refusal() if decision.failure_class == "spent" else None

    def spend_from(self, budget: SpendLimit) -> None:
        """See :class:`Spends`."""
        if isinstance(self._policy, Spends):
            self._policy.spend_from(budget)

    async def aclose(self) -> None:
        """Let go of the policy."""
        await self._policy.aclose()


def _unanswered(decision: Decision) -> bool:
    """Whether a fallback decided because the endpoint gave no answer at all."""
    if decision.failure_class not in UNREACHED:
        return False
    return decision.failure_class == "model_resting" or any(one.get("failure") for one in decision.exchanges)


def _hopeless(decision: Decision) -> bool:
    if decision.failure_class == "model_resting":
        return True
    failures = [one["failure"] for one in decision.exchanges if one.get("failure")]
    return any(one["kind"] == "refused" and one["status"] in {*HOPELESS, 429} for one in failures)


async def _for_ever() -> Never:
    while True:
        await asyncio.Event().wait()

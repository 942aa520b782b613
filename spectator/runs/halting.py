"""When a run is halted: where a model cannot be asked, its fallback is not to be judged in its place."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from spectator.episodes.plan import EpisodePlan
from spectator.errors import UNREACHED
from spectator.events import OnFailure
from spectator.llm.retry import PERMANENT_STATUSES
from spectator.policies.policy import Decision
from spectator.policies.spending import SpendLedger

UNANSWERED: Final = 5
"""Decisions in a row in one episode, none of them answered, after which an endpoint is given up."""


class Halt:
    """Whether a run is halted, and why: the first reason counts.

    Args:
        ledger: What asking models may take; once the day or the whole is spent, that is a reason.
    """

    def __init__(self, ledger: SpendLedger) -> None:
        self.ledger = ledger
        self.reason: str | None = None
        self._raised = asyncio.Event()
        self.wait = self._raised.wait
        """Waits until it is halted."""

    def because(self, reason: str) -> None:
        """Halt it; returns at once."""
        self.reason = self.reason or reason
        self._raised.set()


class HaltingRule:
    """Suspends an episode, and halts its run, where the endpoint of a model is given up.

    It is given up at once when it refuses every request or is left alone after failing, else after
    :data:`UNANSWERED` decisions in a row; or when nothing more may be spent, but on this episode alone. The
    decision is then never made: the episode stands where it is, and is played on from there when the run
    goes on. Any other failure does what the plan says.

    Args:
        plan: What is played, by whom.
        halt: Told of it.
    """

    def __init__(self, plan: EpisodePlan, halt: Halt) -> None:
        self._plan = plan
        self._halt = halt
        self._unanswered: Counter[str] = Counter()

    def __call__(self, actor: str, decision: Decision) -> OnFailure:
        """See :data:`~spectator.episodes.decisions.FailureRule`."""
        if self._plan.preset(actor).source != "model":
            return self._plan.on_failed_decision
        why = self._why_not(actor, decision)
        if why is None:
            return self._plan.on_failed_decision
        self._halt.because(why)
        return "suspend"

    def _why_not(self, actor: str, decision: Decision) -> str | None:
        """Why a decision is not to count; ``None`` when it is."""
        row = self._unanswered[actor] = self._unanswered[actor] + 1 if _unanswered(decision) else 0
        if row and (row >= UNANSWERED or _hopeless(decision)):
            hint = ", with so many episodes at once" if decision.failure_class == "rate_limited" else ""
            return f"{self._plan.preset(actor).name} cannot be asked: {decision.fallback_reason}{hint}"
        return self._halt.ledger.known_refusal() if decision.failure_class == "spent" else None


def _unanswered(decision: Decision) -> bool:
    """Whether a fallback decided because the endpoint gave no answer at all."""
    if decision.failure_class not in UNREACHED:
        return False
    return decision.failure_class == "model_resting" or any(one.get("failure") for one in decision.exchanges)


def _hopeless(decision: Decision) -> bool:
    if decision.failure_class == "model_resting":
        return True
    failures = [one["failure"] for one in decision.exchanges if one.get("failure")]
    return any(one["kind"] == "refused" and one["status"] in {*PERMANENT_STATUSES, 429} for one in failures)

"""A policy that repeats the recorded decisions of a model, for evaluations that can be rerun."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, Literal

from spectator.errors import PolicyError
from spectator.failures import FailureClass, failure_of_decision
from spectator.observations import Observation
from spectator.policies.base import Decision, Policy, ScriptedPolicy
from spectator.policies.decision_cache import CachedDecision, DecisionCache, context_hash

OnMiss = Literal["error", "fallback"]
"""What is done where nothing is recorded: the episode ends, or the fallback decides under its own name."""

SHOWN: Final = 12
"""Characters of a context that are shown."""


class CacheMiss(PolicyError):
    """Nothing is recorded for what is asked."""

    failure_class: FailureClass = "cache_miss"


class CachedPolicy(Policy):
    """Decides from a cache.

    Args:
        cache: What was decided.
        task: What the model was told of the game.
        on_miss: What is done where nothing is recorded.
        fallback: Decides there, if it is to.
    """

    def __init__(self, cache: DecisionCache, task: str, *, on_miss: OnMiss, fallback: ScriptedPolicy) -> None:
        self._cache = cache
        self._task = task
        self._on_miss = on_miss
        self._fallback = fallback
        self._seen: Counter[str] = Counter()

    async def decide(self, observation: Observation, *, deadline: float) -> Decision:
        """See :meth:`Policy.decide`.

        Raises:
            CacheMiss: Nothing is recorded, and that is to be an error.
        """
        context = context_hash(self._task, self._cache.head, observation)
        recorded = self._cache.find(context, self._seen[context])
        self._seen[context] += 1
        return self._miss(context, observation) if recorded is None else _as_recorded(recorded)

    def remember(self, observation: Observation, decided: Mapping[str, Any]) -> None:
        """See :class:`Remembers`: the context has come up once more."""
        self._seen[context_hash(self._task, self._cache.head, observation)] += 1
        if failure_of_decision(decided) == "cache_miss":
            self._fallback.choose(observation)

    async def aclose(self) -> None:
        """Let go of nothing."""

    def _miss(self, context: str, observation: Observation) -> Decision:
        model, name = self._cache.head.model, self._cache.name
        times = self._seen[context]
        often = f" the {times}th time" if times > 3 else ("", " a second time", " a third time")[times - 1]
        what = f"{model} was never asked this{often}: no decision for {context[:SHOWN]} in {name}"
        if self._on_miss == "error":
            raise CacheMiss(what)
        own = self._fallback.choose(observation)
        return Decision(
            own.action,
            "fallback",
            own.reasoning,
            fallback_reason=f"miss: {what}",
            failure_class="cache_miss",
        )


def _as_recorded(decision: CachedDecision) -> Decision:
    """The decision again: a model's is a replay now, a fallback's remains one. It cost nothing this time."""
    reason = decision.fallback_reason
    return Decision(
        decision.action,
        "replay" if decision.source == "model" else "fallback",
        decision.reasoning,
        raw_text=decision.raw_text,
        parse=decision.parse,
        fallback_reason=None if reason is None else f"recorded: {reason}",
        failure_class=failure_of_decision(decision.model_dump()),
        model=decision.model,
    )

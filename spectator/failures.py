"""Why episodes end, and the classes of failure that decisions and ends carry in ``failure_class``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

EndReason = Literal[
    "finished", "step_cap", "stopped", "policy_error", "environment_error", "timeout", "interrupted"
]
"""Why an episode ended; exactly one of them, always published."""

FailureClass = Literal[
    "model_infra",
    "model_resting",
    "model_rejected",
    "rate_limited",
    "declined",
    "unparsable",
    "illegal_action",
    "truncated",
    "timeout",
    "spent",
    "policy_fault",
    "env_infra",
    "env_verdict",
    "journal",
    "cancelled",
    "killed",
    "unknown",
]
"""What kind of failure kept somebody from deciding, or an episode from finishing; see :data:`FAILURES`."""

FAILURES: Final[Mapping[FailureClass, str]] = {
    "model_infra": "The endpoint was not reached, broke off, failed on its side, or sent no completion.",
    "model_resting": "The endpoint was not asked: it had failed so often that it is left alone for a while.",
    "model_rejected": "The endpoint will not serve the request: key, payment, model or a field is wrong.",
    "rate_limited": "The endpoint asked to wait, and no time was left to.",
    "declined": "The model would not answer, or a filter kept its answer back.",
    "unparsable": "The model answered, but named no action in the form asked for.",
    "illegal_action": "What was decided is not legal, by the schema or by the world's own rules.",
    "truncated": "A length was reached: of the answer, or the step cap of the episode.",
    "timeout": "Nobody decided in time, or the episode took longer than it may.",
    "spent": "A cap on tokens, money or time was reached, so that nobody was asked.",
    "policy_fault": "The policy raised an error, or made something that cannot be recorded as a decision.",
    "env_infra": "The environment raised an error, hung, could not be reached, or broke its contract.",
    "env_verdict": "The environment itself ended the episode as a failure; its reward counts.",
    "journal": "The record could not be written.",
    "cancelled": "Somebody asked for the end.",
    "killed": "The process that played it went away.",
    "unknown": "A fallback decided and did not say why.",
}
"""Every class of failure, in a sentence."""

SAYS_NOTHING: Final = frozenset[FailureClass]({"cancelled", "killed"})
"""Failures that say nothing about the player."""

UNREACHED: Final = frozenset[FailureClass](
    {"model_infra", "model_resting", "model_rejected", "rate_limited", "timeout"}
)
"""Failures of an endpoint, as opposed to those of what a model answers."""

TRIED_AGAIN: Final = (SAYS_NOTHING | UNREACHED | frozenset[FailureClass]({"env_infra"})) - {"model_rejected"}
"""Failures that say nothing about the model, after which an episode is played again from its beginning."""

CANNOT_RECORD: Final = frozenset[FailureClass]({"journal"})
"""Failures in which nothing else can be played either."""

_CLASS_OF_END: Final[Mapping[EndReason, FailureClass | None]] = {
    "finished": None,
    "step_cap": "truncated",
    "stopped": "cancelled",
    "policy_error": "policy_fault",
    "environment_error": "env_infra",
    "timeout": "timeout",
    "interrupted": "killed",
}


def failure_of_end(data: Mapping[str, Any]) -> FailureClass | None:
    """The class of failure that kept an episode from finishing; ``None`` where it finished.

    Args:
        data: Data of an ``episode.ended``.

    >>> failure_of_end({"reason": "step_cap"})
    'truncated'
    """
    known: FailureClass | None = data.get("failure_class")
    return known or _CLASS_OF_END.get(data["reason"], "unknown")


def reward_of_end(data: Mapping[str, Any]) -> float | None:
    """The reward that an ended episode counts for; ``None`` where there is no verdict, which is not 0.

    One that was cut short in good order counts for what it earned until then, where its steps earn anything,
    else for what its trainer took it to be worth.

    Args:
        data: Data of an ``episode.ended``.

    >>> reward_of_end({"reason": "finished", "score": 0.75})
    0.75
    >>> reward_of_end({"reason": "step_cap", "score": None, "total_reward": 2.5})
    2.5
    >>> reward_of_end({"reason": "step_cap", "score": None, "value": 0.5})
    0.5
    >>> reward_of_end({"reason": "environment_error", "score": None, "total_reward": 2.5}) is None
    True
    """
    reward: float | None = data.get("score")
    if data["reason"] == "step_cap":
        reward = data.get("total_reward", data.get("value"))
    return reward

"""The facts of one step, and of the end, as every record has them, whoever plays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from spectator.errors import EnvironmentFault
from spectator.events import ActionRefused, EndReason, EpisodeEnded, Fact, StepTaken, core_fact
from spectator.failures import FailureClass, failure_of_end
from spectator.journal.attachments import truth_digest
from spectator.profile import Profile
from spectator.steppers.base import Stepped
from spectator.text import clean_text

DETAIL_LENGTH: Final = 500
"""Characters of what went wrong that an end keeps."""


def facts_of_step(
    actor: str, decided: Fact, stepped: Stepped, took: float, refusals: dict[str, int]
) -> list[Fact]:
    """What one decision and the world's answer to it come to.

    Args:
        actor: Who decided.
        decided: That they did.
        stepped: What the world answered.
        took: Seconds it took.
        refusals: Refused actions so far, by actor; this one is counted.
    """
    observation = stepped.observation
    if observation.refused is not None:
        refusals[actor] = refusals.get(actor, 0) + 1
        refused = ActionRefused(
            actor=actor,
            action=decided.data["action"],
            rule=observation.refused.rule,
            message=observation.refused.message,
            refusals=refusals[actor],
        )
        return [decided, core_fact(refused)]
    taken = StepTaken(
        actor=actor,
        next_actor=observation.actor,
        reward=observation.reward,
        done=observation.done,
        rubric=dict(observation.metadata.get("rubric", {})),
        duration_s=round(took, 6),
    )
    return [decided, *stepped.facts, core_fact(taken)]


def finished(
    score: float, state: Mapping[str, Any], turns: int, profile: Profile, truth: str | None = None
) -> EpisodeEnded:
    """The end of an episode whose world came to its own.

    Args:
        score: The sum of the agent's rewards.
        state: The world's public state then.
        turns: Actions taken or refused.
        profile: What the world declares of its rewards.
        truth: What it hid, as JSON text; recorded beside it, and only stated here by its digest.

    Raises:
        EnvironmentFault: The score is outside the bounds that the world declares.
    """
    if (broken := profile.score_broken_by(score)) is not None:
        raise EnvironmentFault(broken)
    result = state.get("result")
    return EpisodeEnded(
        reason="finished",
        score=score,
        result=result if isinstance(result, str) else None,
        turns=turns,
        terminated=True,
        truncated=False,
        truth=None if truth is None else truth_digest(truth),
    )


def with_total(ended: EpisodeEnded, total: float, profile: Profile) -> EpisodeEnded:
    """The end with the sum of all rewards, where the world rewards its steps."""
    return ended if profile.rewards == "end" else ended.model_copy(update={"total_reward": total})


def cut_short(
    reason: EndReason, detail: str | None, turns: int, failure_class: FailureClass | None = None
) -> EpisodeEnded:
    """The end of an episode that did not finish.

    Args:
        reason: Why; anything but ``finished``.
        detail: What went wrong, for people.
        turns: Actions taken or refused.
        failure_class: The kind of failure; the usual one for ``reason`` when left out.
    """
    return EpisodeEnded(
        reason=reason,
        score=None,
        result=None,
        turns=turns,
        detail=None if detail is None else clean_text(detail, DETAIL_LENGTH),
        terminated=False,
        truncated=True,
        failure_class=failure_class or failure_of_end({"reason": reason}),
    )

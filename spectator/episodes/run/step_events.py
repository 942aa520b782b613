"""Owns the facts of one step as every record tells them, whoever plays it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spectator.events import ActionRefused, EpisodeEnded, Fact, StepTaken, core_fact
from spectator.steppers.base import Stepped


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


def finished(score: float, state: Mapping[str, Any], turns: int) -> EpisodeEnded:
    """The end of an episode whose world came to its own.

    Args:
        score: The agent's, from 0 to 1.
        state: The world's public state then.
        turns: Actions taken or refused.
    """
    result = state.get("result")
    return EpisodeEnded(
        reason="finished",
        score=score,
        result=result if isinstance(result, str) else None,
        turns=turns,
        terminated=True,
        truncated=False,
    )

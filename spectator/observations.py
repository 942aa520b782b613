"""Observations: what a world shows to the actor who must decide next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict


class LegalAction(TypedDict):
    """One kind of action that would be accepted now.

    ``tool`` is its name; ``arguments`` a JSON schema (type object) of its arguments.
    """

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an action was not carried out; the world's state is as it was.

    Args:
        rule: A short stable name of the rule, such as ``bowler.consecutive_overs``.
        message: A sentence that says what would be legal.
    """

    rule: str
    message: str

    def to_json(self) -> dict[str, str]:
        """The refusal as it travels."""
        return {"rule": self.rule, "message": self.message}


@dataclass(slots=True)
class Observation:
    """What the next actor sees, plain finite JSON of less than 1 MiB.

    Args:
        actor: Who must decide next; ``None`` once done.
        legal_actions: What they may do; never empty while an actor must decide in a world whose profile says
            that its actions are tools, always empty in others.
        content: The world's own fields; never hidden truth.
        reward: The agent's reward for the action just carried out, as the world's profile has it; 0.0 after
            ``reset`` and where an action was refused.
        done: Whether the episode is over; stays true.
        refused: Set when the action just sent was refused.
        metadata: Named extras that are not part of the game: ``rubric``, the parts of the score;
            ``truncated``, why the environment itself cut an episode short that is done, where it did.
    """

    actor: str | None
    legal_actions: Sequence[LegalAction]
    content: Mapping[str, Any]
    reward: float = 0.0
    done: bool = False
    refused: Refusal | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The observation as it travels: the common fields beside the world's own."""
        return {
            "actor": self.actor,
            "legal_actions": list(self.legal_actions),
            "refused": None if self.refused is None else self.refused.to_json(),
            **self.content,
        }

"""Define what a world shows an actor, and the profile of its rewards."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final, Literal, Self, TypedDict

from pydantic import BaseModel, ConfigDict, Field, model_validator


class LegalAction(TypedDict):
    """One kind of action that the world would accept now.

    ``tool`` is its name; ``arguments`` is the JSON schema (type object) of its arguments.
    """

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an action was not carried out; the world's state is unchanged.

    Args:
        rule: A short stable name of the rule, such as ``bowler.consecutive_overs``.
        message: A sentence that says what would be legal.
    """

    rule: str
    message: str

    def to_json(self) -> dict[str, str]:
        """Return the refusal as JSON."""
        return {"rule": self.rule, "message": self.message}


@dataclass(slots=True)
class Observation:
    """What the next actor sees, plain finite JSON of less than 1 MiB.

    Args:
        actor: Who must decide next; ``None`` once done.
        legal_actions: What the actor may do. Never empty while an actor must decide in a world whose
            profile's actions are ``tools``; always empty in other worlds.
        content: The world's own fields; never hidden truth.
        reward: The agent's reward for the action just carried out, within the bounds of the world's
            profile; 0.0 after ``reset`` and after a refused action.
        done: Whether the episode is over; stays true.
        refused: Set when the action just sent was refused.
        metadata: Named extras that are not part of the game: ``rubric``, the parts of the score;
            ``truncated``, why the environment itself cut the episode short, if it did.
    """

    actor: str | None
    legal_actions: Sequence[LegalAction]
    content: Mapping[str, Any]
    reward: float = 0.0
    done: bool = False
    refused: Refusal | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the observation as JSON: the common fields and the world's own."""
        return {
            "actor": self.actor,
            "legal_actions": list(self.legal_actions),
            "refused": None if self.refused is None else self.refused.to_json(),
            **self.content,
        }


ROUNDING: Final = 1e-9
"""Tolerance for the bounds of a sum of rewards: floats are added in the order of the steps."""


class Profile(BaseModel):
    """What a world declares of its rewards and actions; the default is one score in [0, 1] on the last step.

    Rewards belong to the agent's seat, no matter which actor acted. An episode's score is the sum of the
    rewards of all its steps, added as floats in order. If only the last step is rewarded, it is that reward.

    >>> Profile().broken_by(0.5, done=False)
    'gave the reward 0.5 before the end'
    >>> dense = Profile(rewards="step", reward_min=-1, reward_max=1, score_min=None, score_max=None)
    >>> dense.broken_by(-0.1, done=False) is None
    True
    >>> dense.broken_by(2.0, done=False)
    'the reward 2.0 is not from -1 to 1'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    rewards: Literal["end", "step"] = Field(
        default="end", description="`end`: only the last step is rewarded; `step`: any step may be"
    )
    reward_min: float | None = Field(
        default=0.0, description="Lowest reward of one step; null without a bound, below 0 for penalties"
    )
    reward_max: float | None = Field(
        default=1.0, description="Highest reward of one step; null without a bound"
    )
    score_min: float | None = Field(default=0.0, description="Lowest score; null without a bound")
    score_max: float | None = Field(default=1.0, description="Highest score; null without a bound")
    actions: Literal["tools", "text", "schema"] = Field(
        default="tools",
        description="`tools`: each observation lists what is legal; `text`: free text in the action's one "
        "field; `schema`: anything in the shape of the world's action",
    )
    withheld_until: tuple[str, ...] = Field(
        default=(),
        description="Event types with which viewers are shown what captains decided before them, so that no "
        "rival can read it sooner; empty where there is no rival and nothing is withheld",
        exclude_if=lambda kinds: not kinds,
    )

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        for what, low, high in (
            ("reward", self.reward_min, self.reward_max),
            ("score", self.score_min, self.score_max),
        ):
            if low is not None and high is not None and low > high:
                raise ValueError(f"{what}_min {low:g} is above {what}_max {high:g}")
        return self

    @property
    def recorded(self) -> Profile | None:
        """The profile as an episode records it, without the embargo; ``None`` for the default."""
        recorded = self.model_copy(update={"withheld_until": ()}) if self.withheld_until else self
        return None if recorded == SCORE_AT_THE_END else recorded

    def broken_by(self, reward: object, *, done: bool) -> str | None:
        """Say which rule the reward of one step breaks; ``None`` if it breaks none."""
        if isinstance(reward, int) and abs(reward) > sys.float_info.max:
            return "the reward is not a finite number: it is too large for a float"
        if isinstance(reward, bool) or not isinstance(reward, int | float) or not isfinite(reward):
            return f"the reward {reward!r} is not a finite number"
        low, high = self.reward_min, self.reward_max
        if (low is not None and reward < low) or (high is not None and reward > high):
            return f"the reward {reward} is not {_bounds(low, high)}"
        if self.rewards == "end" and not done and reward != 0:
            return f"gave the reward {reward} before the end"
        return None

    def score_broken_by(self, score: float) -> str | None:
        """Say which rule the score of a finished episode breaks; ``None`` if it breaks none."""
        low, high = self.score_min, self.score_max
        if (low is None or score >= low - ROUNDING) and (high is None or score <= high + ROUNDING):
            return None
        return f"the score {score} is not {_bounds(low, high)}"


SCORE_AT_THE_END: Final = Profile()
"""The default profile: tools, and a score in [0, 1] on the last step."""


def _bounds(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"from {low:g} to {high:g}"
    return f"at least {low:g}" if low is not None else f"at most {high:g}"

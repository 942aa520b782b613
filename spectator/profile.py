"""The profile of a world: when it rewards, within which bounds, and what its actions are."""

from __future__ import annotations

import sys
from math import isfinite
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

ROUNDING: Final = 1e-9
"""How far outside its bounds a sum of rewards may lie: floats are added in the order of the steps."""


class Profile(BaseModel):
    """What a world declares of its rewards and actions; the default is one score in [0, 1] on the last step.

    Rewards are those of the agent's seat, whoever acted. An episode's score is the sum of the rewards of all
    its steps, added as floats in their order; where only the last step is rewarded it is that reward.

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
        """What an episode's record says of it, which is all but the embargo; ``None`` for the usual."""
        told = self.model_copy(update={"withheld_until": ()}) if self.withheld_until else self
        return None if told == SCORE_AT_THE_END else told

    def broken_by(self, reward: object, *, done: bool) -> str | None:
        """The rule that the reward of one step breaks, in words; ``None`` when it breaks none."""
        if isinstance(reward, int) and abs(reward) > sys.float_info.max:
            return "the reward is not a finite number: no float is as large"
        if isinstance(reward, bool) or not isinstance(reward, int | float) or not isfinite(reward):
            return f"the reward {reward!r} is not a finite number"
        low, high = self.reward_min, self.reward_max
        if (low is not None and reward < low) or (high is not None and reward > high):
            return f"the reward {reward} is not {_bounds(low, high)}"
        if self.rewards == "end" and not done and reward != 0:
            return f"gave the reward {reward} before the end"
        return None

    def score_broken_by(self, score: float) -> str | None:
        """The rule that the score of a finished episode breaks, in words; ``None`` when it breaks none."""
        low, high = self.score_min, self.score_max
        if (low is None or score >= low - ROUNDING) and (high is None or score <= high + ROUNDING):
            return None
        return f"the score {score} is not {_bounds(low, high)}"


SCORE_AT_THE_END: Final = Profile()
"""The usual profile: tools, and a score in [0, 1] on the last step."""


def _bounds(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"from {low:g} to {high:g}"
    return f"at least {low:g}" if low is not None else f"at most {high:g}"

"""Reward functions for TRL's trainers, over the environments that were played."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class TrainedEpisode(Protocol):
    """What a reward function reads of an episode."""

    @property
    def value(self) -> float | None:
        """What it is worth so far, at its own end the score; ``None`` where its world failed."""
        ...

    @property
    def rubric(self) -> dict[str, float]:
        """The parts of the score so far."""
        ...

    @property
    def finished(self) -> bool:
        """Whether it came to its own end."""
        ...


def value_reward(environments: Sequence[TrainedEpisode], **_: Any) -> list[float | None]:
    """What each episode is worth: the score of a finished one, what one that was cut short had come to.

    ``None``, which TRL leaves out, where the world failed.
    """
    return [one.value for one in environments]


def score_reward(environments: Sequence[TrainedEpisode], **_: Any) -> list[float | None]:
    """The score of each finished episode; ``None``, which TRL leaves out, where it was cut short."""
    return [one.value if one.finished else None for one in environments]


def part_reward(part: str) -> Any:
    """A reward function of one part of the rubric, for a weight of its own; ``None`` where a world lacks it.

    >>> part_reward("conduct").__name__
    'conduct'
    """

    def reward(environments: Sequence[TrainedEpisode], **_: Any) -> list[float | None]:
        return [one.rubric.get(part) for one in environments]

    reward.__name__ = part
    return reward

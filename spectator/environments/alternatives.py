"""What else could have been decided, and what would have come of it: the contract of a world's analyst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from spectator.observations import Observation
from spectator.policies.base import Action


@dataclass(frozen=True, slots=True)
class Alternative:
    """One call at a decision.

    Args:
        action: The call, as it is sent.
        words: The same in a few plain words.
        chance: Chance that the side of whoever decides wins after it, 0 .. 1, as simulated.
        error: Its standard error.
        gain: ``chance`` less that after what was decided.
        gain_error: Standard error of that: both are played with the same random numbers.
        played: Whether it is what was decided.
        place: Its place among all that were weighed, from 1, the best.
    """

    action: Mapping[str, Any]
    words: str
    chance: float
    error: float
    gain: float
    gain_error: float
    played: bool
    place: int


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The calls worth looking at, at one decision.

    Args:
        best: Best first; what was decided is among them. Empty where nothing can be simulated.
        weighed: How many calls were weighed.
        futures: How many futures were played for that.
        how: What is simulated, in a sentence; why nothing is, where ``best`` is empty.
    """

    best: Sequence[Alternative]
    weighed: int
    futures: int
    how: str


class Analyst(Protocol):
    """Follows one episode from its beginning, and says at any decision what else could have been decided.

    It draws on the seed that ``reset`` is given and on nothing else: the same episode has the same
    alternatives, whoever asks. What is hidden from the captains may be used to come to a decision, and shows
    in no alternative.
    """

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        """Stand at the beginning; see :meth:`spectator.environments.base.Environment.reset`."""
        ...

    def step(self, action: Action) -> Observation:
        """Do what was decided next; see :meth:`spectator.environments.base.Environment.step`."""
        ...

    def alternatives(self, decided: Action) -> Alternatives:
        """What could be decided where it stands; it stands there afterwards.

        Args:
            decided: What was decided there.
        """
        ...

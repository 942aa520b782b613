"""What the loop of an episode is given from outside: who takes its facts, who keeps its place, its past."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from spectator.events import Fact
from spectator.journal.attachments import Attachments
from spectator.policies.base import Policy
from spectator.steppers.base import Stepped, Stepper


class Emit(Protocol):
    """Takes the facts of steps: it has when it returns a number, or once what it returns has ended."""

    def __call__(
        self, steps: Sequence[tuple[int, Sequence[Fact]]], *, attachments: Attachments | None = None
    ) -> Awaitable[int] | int:
        """Record facts, each step's with its turn, and ``attachments`` in the same commit.

        Returns:
            How many characters this process has recorded of the episode.
        """
        ...


@dataclass(frozen=True, slots=True)
class Past:
    """Where another process left an episode, rebuilt.

    Args:
        seats: The policies, by actor.
        refusals: Refused actions so far, by actor.
        turn: Actions taken or refused so far.
        total: The sum of all rewards so far.
        stepped: What the world showed last; its facts are those that were never told.
    """

    seats: Mapping[str, Policy]
    refusals: Mapping[str, int]
    turn: int
    total: float
    stepped: Stepped


class Checkpoints(Protocol):
    """Keeps where an episode stands between two steps, now and then."""

    def due(self, recorded: int) -> bool:
        """Whether that is to be kept now, when so many characters are recorded."""
        ...

    async def take(self, recorded: int, past: Past, stepper: Stepper, *, limit_s: float) -> None:
        """Keep it; never fails."""
        ...

"""The port through which an episode steps its environment, wherever that environment runs.

A driver, a replay and a fork know only :class:`Stepper`. Implementations: ``inline`` (in the caller's
thread), ``thread`` (on a thread of its own), ``http`` and ``openenv`` (on another server).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from spectator.checked_dataclass import checked_dataclass
from spectator.events import Fact
from spectator.observations import Observation
from spectator.policies.base import Action


@checked_dataclass(frozen=True, slots=True)
class Stepped:
    """What an environment answered to ``reset``, ``restore`` or one action.

    Args:
        observation: What it shows next.
        facts: What happened since the last answer, oldest first.
        state: Its public state once the episode is over; empty before, where it is read only on request.
    """

    observation: Observation
    facts: Sequence[Fact]
    state: Mapping[str, Any]


class Stepper(Protocol):
    """One environment for one episode at a time, with a deadline for every call.

    Calls come one after another. Every failure of the environment leaves as an
    :class:`~spectator.errors.EnvironmentFault`, whose ``__cause__`` is the original error where there is one.
    A call that misses its deadline gives the environment up: no later call reaches it.

    ``limit_s`` is in seconds; ``None`` waits without limit.
    """

    @property
    def given_up(self) -> bool:
        """Whether a call missed its deadline or :meth:`aclose` was called; every later call then fails."""
        ...

    async def reset(
        self, *, seed: int, episode_id: str, options: Mapping[str, Any], limit_s: float | None
    ) -> Stepped:
        """Begin an episode; builds the environment first where that has not happened yet.

        Raises:
            EnvironmentFault: It cannot be built, raised, or answered what is no observation.
            StepTimeout: It did not answer within ``limit_s`` seconds.
        """
        ...

    async def step(self, action: Action, *, limit_s: float | None) -> Stepped:
        """Carry out ``action`` once; never sent again where the first request may have arrived.

        Raises:
            EnvironmentFault: It raised, cannot be reached, or answered what is no observation.
            StepTimeout: It did not answer within ``limit_s`` seconds.
        """
        ...

    async def snapshot(self, *, limit_s: float | None) -> bytes:
        """Everything needed to go on from here, exactly; see ``Environment.snapshot``.

        Raises:
            EnvironmentFault: It raised, or keeps no snapshots.
            StepTimeout: It did not answer within ``limit_s`` seconds.
        """
        ...

    async def restore(self, snapshot: bytes, *, limit_s: float | None) -> Stepped:
        """Go on from ``snapshot``; raises as :meth:`snapshot` does."""
        ...

    async def state(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """The public state; raises as :meth:`step` does."""
        ...

    async def truth(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """What was hidden; empty until the episode is over. Raises as :meth:`step` does."""
        ...

    async def aclose(self) -> None:
        """Let go of the environment, a call under way too. Safe to call twice; never raises."""
        ...

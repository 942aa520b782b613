"""Steps an environment in the caller's own thread: no hop, for fleets of fast worlds that never block."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from spectator.environments.base import Environment
from spectator.errors import EnvironmentFault, StepTimeout
from spectator.policies.base import Action
from spectator.steppers import local
from spectator.steppers.base import Stepped

_Result = TypeVar("_Result")

_ITS_OWN: Final = (Exception, SystemExit, GeneratorExit, asyncio.CancelledError)
"""What an environment may raise; nothing is awaited in there, so a cancellation is its own too."""


class InlineStepper:
    """A :class:`~spectator.steppers.base.Stepper` that calls its environment where it is called itself.

    A call cannot be interrupted: one that hangs holds the event loop. One that returns after its deadline
    fails as it would elsewhere, and the environment is given up.

    Args:
        build: Makes the environment; called before the first call.
        monotonic: Measures calls against their deadlines, in seconds.

    >>> import asyncio
    >>> from spectator.environments.counting import WORLD
    >>> stepper = InlineStepper(WORLD.environment)
    >>> options = {"turns": 1, "payload_bytes": 0}
    >>> first = asyncio.run(stepper.reset(seed=1, episode_id="ep-1", options=options, limit_s=5))
    >>> first.observation.actor
    'counter'
    >>> last = asyncio.run(stepper.step({"text": "ACTION: 1"}, limit_s=5))
    >>> last.observation.done, last.observation.reward, last.state["result"]
    (True, 1.0, '1 of 1 right')
    """

    def __init__(
        self, build: Callable[[], Environment], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._build = build
        self._monotonic = monotonic
        self._environment: Environment | None = None
        self._given_up = False

    @property
    def given_up(self) -> bool:
        """See :attr:`Stepper.given_up`."""
        return self._given_up

    async def reset(
        self, *, seed: int, episode_id: str, options: Mapping[str, Any], limit_s: float | None
    ) -> Stepped:
        """See :meth:`Stepper.reset`."""
        return self._call(
            limit_s,
            lambda world: local.answered(
                world, world.reset(seed=seed, episode_id=episode_id, options=options)
            ),
        )

    async def step(self, action: Action, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.step`."""
        return self.step_at_once(action, limit_s=limit_s)

    def step_at_once(self, action: Action, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.step`; for callers that need not wait for what is never waited for."""
        return self._call(limit_s, lambda world: local.answered(world, world.step(action)))

    async def snapshot(self, *, limit_s: float | None) -> bytes:
        """See :meth:`Stepper.snapshot`."""
        return self._call(limit_s, lambda world: world.snapshot())

    async def restore(self, snapshot: bytes, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.restore`."""
        return self._call(limit_s, lambda world: local.answered(world, world.restore(snapshot)))

    async def state(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """See :meth:`Stepper.state`."""
        return self._call(limit_s, lambda world: world.state)

    async def truth(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """See :meth:`Stepper.truth`."""
        return self._call(limit_s, lambda world: world.truth())

    async def aclose(self) -> None:
        """See :meth:`Stepper.aclose`."""
        self._give_up()

    def _give_up(self) -> None:
        self._given_up = True
        self._environment = None

    def _call(
        self,
        limit_s: float | None,
        function: Callable[[Environment], _Result],
    ) -> _Result:
        if self._given_up:
            raise EnvironmentFault("the environment was given up")
        began = self._monotonic()
        try:
            if self._environment is None:
                self._environment = self._build()
            answer = function(self._environment)
        except EnvironmentFault:
            raise
        except _ITS_OWN as error:
            raise local.fault(error) from error
        if limit_s is not None and self._monotonic() - began > limit_s:
            self._give_up()
            raise StepTimeout(f"the environment did not answer within {limit_s:g} s")
        return answer

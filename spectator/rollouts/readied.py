"""An environment that is begun before its episode is, so that no worker waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from spectator.clock import Clock
from spectator.environments.contract import Stepped, Stepper
from spectator.errors import EnvironmentFault, EnvironmentUnavailable
from spectator.policies.policy import Action

FRESH_S: Final = 60.0
"""Seconds after which a beginning that nobody took is made anew: servers let silent environments go."""


@dataclass(frozen=True, slots=True)
class _Beginning:
    """What was begun with, when, and what came of it."""

    seed: int
    episode_id: str
    options: Mapping[str, Any]
    at_s: float
    came: Stepped | EnvironmentFault


class ReadiedStepper:
    """A :class:`~spectator.environments.contract.Stepper` whose environment is begun by :meth:`make_ready`.

    The first :meth:`reset` with the same seed, id and options is then answered from memory, a failure too.
    After :data:`FRESH_S` seconds, or with others, the environment is begun anew in its place; where its
    server has let it go meanwhile, another is opened.

    Args:
        open_stepper: Opens the environment.
        clock: Time.
        stepper: Opened already, to be used first.
    """

    def __init__(
        self, open_stepper: Callable[[], Stepper], clock: Clock, stepper: Stepper | None = None
    ) -> None:
        self._open = open_stepper
        self._clock = clock
        self._stepper = stepper or open_stepper()
        self.waiting: Callable[[bool], None] = lambda begun: None
        """Hears when an answer of the environment is waited for, and when no more."""
        self._begun: _Beginning | None = None

    async def make_ready(
        self, *, seed: int, episode_id: str, options: Mapping[str, Any], limit_s: float | None
    ) -> None:
        """Begin the episode; any failure but a server that is gone is kept, for :meth:`reset` to raise.

        Raises:
            EnvironmentUnavailable: Its server is gone or has no room; nothing is left open.
        """
        came: Stepped | EnvironmentFault
        try:
            came = await self._stepper.reset(
                seed=seed, episode_id=episode_id, options=options, limit_s=limit_s
            )
        except EnvironmentUnavailable:
            await self._stepper.aclose()
            raise
        except EnvironmentFault as error:
            came = error
        except BaseException:
            await self._stepper.aclose()
            raise
        self._begun = _Beginning(seed, episode_id, dict(options), self._clock.monotonic(), came)

    @property
    def given_up(self) -> bool:
        """See :attr:`Stepper.given_up`."""
        return self._stepper.given_up

    async def reset(
        self, *, seed: int, episode_id: str, options: Mapping[str, Any], limit_s: float | None
    ) -> Stepped:
        """See :meth:`Stepper.reset`."""
        begun, self._begun = self._begun, None
        if begun is not None:
            asked = (seed, episode_id, dict(options))
            fresh = self._clock.monotonic() - begun.at_s <= FRESH_S
            if fresh and asked == (begun.seed, begun.episode_id, begun.options):
                if isinstance(begun.came, EnvironmentFault):
                    raise begun.came
                return begun.came
        with self._waits():
            try:
                return await self._stepper.reset(
                    seed=seed, episode_id=episode_id, options=options, limit_s=limit_s
                )
            except EnvironmentUnavailable:
                if begun is None:
                    raise
            await self._stepper.aclose()
            self._stepper = self._open()
            return await self._stepper.reset(
                seed=seed, episode_id=episode_id, options=options, limit_s=limit_s
            )

    async def step(self, action: Action, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.step`."""
        with self._waits():
            return await self._stepper.step(action, limit_s=limit_s)

    async def snapshot(self, *, limit_s: float | None) -> bytes:
        """See :meth:`Stepper.snapshot`."""
        with self._waits():
            return await self._stepper.snapshot(limit_s=limit_s)

    async def restore(self, snapshot: bytes, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.restore`."""
        with self._waits():
            return await self._stepper.restore(snapshot, limit_s=limit_s)

    async def state(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """See :meth:`Stepper.state`."""
        with self._waits():
            return await self._stepper.state(limit_s=limit_s)

    async def truth(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """See :meth:`Stepper.truth`."""
        with self._waits():
            return await self._stepper.truth(limit_s=limit_s)

    async def aclose(self) -> None:
        """See :meth:`Stepper.aclose`."""
        self._begun = None
        await self._stepper.aclose()

    @contextmanager
    def _waits(self) -> Iterator[None]:
        self.waiting(True)
        try:
            yield
        finally:
            self.waiting(False)

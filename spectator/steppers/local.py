"""Step an environment in this process: in the caller's thread or on its own.

:class:`InlineStepper` needs no thread switch and suits fleets of fast worlds that never block.
:class:`ThreadStepper` builds, calls and closes the environment on one thread, never on the event loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from spectator.clock import answer
from spectator.environments.contract import Environment, Stepped, Stepper
from spectator.environments.world import World
from spectator.errors import EnvironmentFault, EnvironmentMalformed, StepTimeout, typed_as
from spectator.observations import Observation
from spectator.policies.policy import Action


def answered(environment: Environment, shown: object) -> Stepped:
    """Return the whole answer of ``environment`` after reset, step or restore.

    Args:
        environment: Provides the facts, and the state if it is done.

    Raises:
        EnvironmentMalformed: The returned value is not an observation.
    """
    if not isinstance(shown, Observation):
        raise EnvironmentMalformed(f"answered {type(shown).__name__}, not an observation")
    return Stepped(shown, list(environment.facts()), environment.state if shown.done else {})


FAULTS: Final = typed_as(EnvironmentFault, passing=(EnvironmentFault,))
"""Context for calls of an environment, which turns its exceptions into :class:`EnvironmentFault`."""


_Result = TypeVar("_Result")

_ITS_OWN: Final = (Exception, SystemExit, GeneratorExit, asyncio.CancelledError)
"""Exceptions that an environment may raise; as it awaits nothing, a CancelledError is its own too."""


class LocalStepper(ABC):
    """A :class:`Stepper` of an environment in this process; subclasses say on which thread it is called."""

    shown: Observation | None = None
    """The observation after the last step."""

    async def reset(
        self, *, seed: int, episode_id: str, options: Mapping[str, Any], limit_s: float | None
    ) -> Stepped:
        """See :meth:`Stepper.reset`."""
        return await self._call(
            limit_s,
            lambda world: answered(world, world.reset(seed=seed, episode_id=episode_id, options=options)),
        )

    async def step(self, action: Action, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.step`."""
        stepped = await self._call(limit_s, lambda world: answered(world, world.step(action)))
        self.shown = stepped.observation
        return stepped

    async def snapshot(self, *, limit_s: float | None) -> bytes:
        """See :meth:`Stepper.snapshot`."""
        return await self._call(limit_s, lambda world: world.snapshot())

    async def restore(self, snapshot: bytes, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.restore`."""
        return await self._call(limit_s, lambda world: answered(world, world.restore(snapshot)))

    async def state(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """See :meth:`Stepper.state`."""
        return await self._call(limit_s, lambda world: world.state)

    async def truth(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """See :meth:`Stepper.truth`."""
        return await self._call(limit_s, lambda world: world.truth())

    @abstractmethod
    async def _call(self, limit_s: float | None, function: Callable[[Environment], _Result]) -> _Result:
        """Call the environment within ``limit_s`` seconds; its exceptions become EnvironmentFault."""


class InlineStepper(LocalStepper):
    """Calls its environment in the caller's thread.

    A call cannot be interrupted: one that hangs blocks the event loop. One that returns after its deadline
    fails as with other steppers, and the environment is abandoned.

    Args:
        build: Makes the environment; called before the first call.
        monotonic: Clock for the deadlines, in seconds.

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
        self.given_up = False
        """See :attr:`Stepper.given_up`."""

    async def aclose(self) -> None:
        """See :meth:`Stepper.aclose`."""
        self._close()

    def _close(self) -> None:
        self.given_up = True
        self._environment = None

    async def _call(self, limit_s: float | None, function: Callable[[Environment], _Result]) -> _Result:
        if self.given_up:
            raise given_up_before()
        began = self._monotonic()
        try:
            if self._environment is None:
                self._environment = self._build()
            answer = function(self._environment)
        except EnvironmentFault:
            raise
        except _ITS_OWN as error:
            raise EnvironmentFault(f"{type(error).__name__}: {error}") from error
        if limit_s is not None and self._monotonic() - began > limit_s:
            self._close()
            raise StepTimeout(f"the environment did not answer within {limit_s:g} s")
        return answer


_Object = TypeVar("_Object")
_Arguments = ParamSpec("_Arguments")


class HeldObject(Generic[_Object]):
    """An object that its first call builds, on the calling thread."""

    _build: Callable[[], _Object]
    _object: _Object | None = None
    given_up = False
    """Whether a call missed its deadline, the object was closed, or an event loop closed during a call."""

    def outcome_of(self, run: Callable[[_Object], Any]) -> tuple[Any, Exception | None]:
        """Run ``run(object)``; return its result or its exception, in a form that a future accepts."""
        try:
            if self.given_up:
                raise given_up_before()
            if self._object is None:
                self._object = self._build()
            return run(self._object), None
        except StopIteration as error:  # futures do not accept it
            return None, EnvironmentFault(f"StopIteration: {error}")
        except Exception as error:  # noqa: BLE001 - passed to the caller unchanged
            return None, error
        except BaseException as error:  # noqa: BLE001 - must end neither this thread nor the caller's loop
            return None, EnvironmentFault(f"{type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class _Call:
    run: Callable[[Any], Any]
    answer: asyncio.Future[Any]


class OwnThread(HeldObject[_Object]):
    """One object on its own thread, started by the first call, with a deadline for every call.

    A call that misses its deadline cannot be stopped; its thread is abandoned (it is a daemon and ends as
    soon as the call returns) and the object is never called again.

    Args:
        build: Makes the object; called on the thread, before the first call.
        dispose: Releases the object's resources; called last on the thread, if the object was built.
    """

    def __init__(
        self,
        build: Callable[[], _Object],
        *,
        name: str = "environment",
        dispose: Callable[[_Object], None] | None = None,
    ) -> None:
        self._build = build
        self._dispose = dispose
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    async def call_within(
        self,
        limit_s: float | None,
        function: Callable[Concatenate[_Object, _Arguments], _Result],
        /,
        *arguments: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> _Result:
        """Run ``function(object, ...)`` on the object's thread.

        Args:
            limit_s: Time limit in seconds; ``None`` for no limit.

        Raises:
            StepTimeout: No answer within ``limit_s`` seconds; the environment is abandoned.
            EnvironmentFault: The environment was closed or abandoned before the call, or raised something
                other than an ``Exception`` (such as ``SystemExit``) that would end the caller's event loop.
            Exception: Any exception of the function or, at the first call, of the factory.
        """
        if self.given_up:
            raise given_up_before()
        coming: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        if self._thread.ident is None:
            self._thread.start()
        self._calls.put(_Call(lambda living: function(living, *arguments, **named), coming))
        try:
            async with asyncio.timeout(limit_s) as scope:
                return await coming
        except TimeoutError as error:
            if not scope.expired():
                raise
            self.close()
            raise StepTimeout(f"the environment did not answer within {limit_s:g} s") from error

    def close(self) -> None:
        """Close the object; its thread ends after its current call. Safe to call twice."""
        self.given_up = True
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            if not answer(call.answer, *self.outcome_of(call.run)):
                break  # the caller's event loop is closed
            del call
        self.given_up = True
        held, self._object = self._object, None
        if held is not None and self._dispose is not None:
            self._dispose(held)


def given_up_before() -> EnvironmentFault:
    """Return the error for a call after the object was closed or abandoned."""
    return EnvironmentFault("the environment was closed or abandoned")


_Environment = TypeVar("_Environment", bound=Environment)


class ThreadStepper(LocalStepper, Generic[_Environment]):
    """Calls its environment on a thread of its own.

    A call that misses its deadline cannot be stopped; its thread is abandoned and ends as soon as the call
    returns. A call whose caller is cancelled runs to its end, and its answer is dropped.

    Args:
        build: Makes the environment; called on the thread, before the first call.
        dispose: Releases the environment; called last on the thread, if it was made.
    """

    def __init__(
        self,
        build: Callable[[], _Environment],
        *,
        name: str = "environment",
        dispose: Callable[[_Environment], None] | None = None,
    ) -> None:
        self._thread: OwnThread[_Environment] = OwnThread(build, name=name, dispose=dispose)
        self.during: Callable[[], AbstractContextManager[None]] = nullcontext
        """Makes the context of each call, which may note that the environment computes."""

    @property
    def given_up(self) -> bool:
        """See :attr:`Stepper.given_up`; also true once an event loop closed during a call."""
        return self._thread.given_up

    async def aclose(self) -> None:
        """See :meth:`Stepper.aclose`."""
        self._thread.close()

    async def _call(self, limit_s: float | None, function: Callable[[Environment], _Result]) -> _Result:
        with FAULTS, self.during():
            return await self._thread.call_within(limit_s, function)


OpenStepper = Callable[[World, str], Stepper]
"""Makes the stepper of a new episode, from its world and its id."""


def on_a_thread(world: World, episode_id: str) -> Stepper:
    """Make a stepper on its own thread, named after the episode; for worlds that may block."""
    if world.remote is not None:
        return world.remote(episode_id)

    def build() -> Environment:
        world.prepare()
        return world.environment()

    return ThreadStepper(build, name=episode_id)


def preferred_stepper(world: World, episode_id: str, options: Mapping[str, Any]) -> Stepper:
    """Make an inline stepper if the world steps at once with ``options``, else one on its own thread.

    >>> from spectator.environments.counting import WORLD
    >>> type(preferred_stepper(WORLD, "ep-1", {"turns": 10})).__name__
    'InlineStepper'
    """
    return (inline if world.steps_at_once(options) else on_a_thread)(world, episode_id)


def inline(world: World, episode_id: str) -> Stepper:
    """Make a stepper in the caller's thread; for worlds that are fast and never block."""
    if world.remote is not None:
        return world.remote(episode_id)
    return InlineStepper(world.environment)

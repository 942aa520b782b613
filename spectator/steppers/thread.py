"""Steps an environment on a thread of its own: built, called and let go there, never on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from spectator.environments.base import Environment
from spectator.errors import EnvironmentFault, StepTimeout
from spectator.futures import answer
from spectator.policies.base import Action
from spectator.steppers import local
from spectator.steppers.base import Stepped

_Object = TypeVar("_Object")
_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


class HeldObject(Generic[_Object]):
    """An object that is built by the first call of it, on the thread that calls it."""

    _build: Callable[[], _Object]
    _object: _Object | None = None
    given_up = False
    """Whether a call missed its deadline, it was closed, or an event loop went away during a call."""

    def outcome_of(self, run: Callable[[_Object], Any]) -> tuple[Any, Exception | None]:
        """What ``run(object)`` returns, or else raises, in a form that a future can carry."""
        try:
            if self.given_up:
                raise given_up_before()
            if self._object is None:
                self._object = self._build()
            return run(self._object), None
        except StopIteration as error:  # no future can carry it
            return None, EnvironmentFault(f"StopIteration: {error}")
        except Exception as error:  # noqa: BLE001 - carried to the caller, whoever that is, untouched
            return None, error
        except BaseException as error:  # noqa: BLE001 - must end neither this thread nor the caller's loop
            return None, EnvironmentFault(f"{type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class _Call:
    run: Callable[[Any], Any]
    answer: asyncio.Future[Any]


class OwnThread(HeldObject[_Object]):
    """One object on one thread of its own, started by the first call, with a deadline for every call.

    A call that misses its deadline cannot be stopped; its thread is given up (it is a daemon and ends
    as soon as the call returns) and the object is never called again.

    Args:
        build: Makes the object; called on the thread, before the first call.
        name: Name of the thread.
        dispose: Lets go of what the object holds; called on the thread, last, if it was ever built.
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
            limit_s: Seconds that it may take; no limit where ``None``.
            function: What is run.
            arguments: What it is given besides.
            named: The same by name.

        Raises:
            StepTimeout: No answer within ``limit_s`` seconds; the environment is given up.
            EnvironmentFault: The environment was given up before the call began, or raised what is not an
                ``Exception`` (``SystemExit``, say) and would have ended the caller's event loop.
            Exception: Whatever the function, or the first time the factory, raises.
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
        """Let go of the object; its thread ends after the call it is in. Safe to call twice."""
        self.given_up = True
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            if not answer(call.answer, *self.outcome_of(call.run)):
                break  # nobody can be answered any more
            del call
        self.given_up = True
        held, self._object = self._object, None
        if held is not None and self._dispose is not None:
            self._dispose(held)


def given_up_before() -> EnvironmentFault:
    """The error of a call of what was given up before it."""
    return EnvironmentFault("the environment was given up")


class ThreadStepper:
    """A :class:`~spectator.steppers.base.Stepper` whose environment lives on a thread of its own.

    A call that misses its deadline cannot be stopped; its thread is given up and ends as soon as the call
    returns. A call whose caller goes away runs to its end, and its answer is dropped.

    Args:
        build: Makes the environment; called on the thread, before the first call.
        name: Name of the thread.
    """

    def __init__(self, build: Callable[[], Environment], *, name: str = "environment") -> None:
        self._thread: OwnThread[Environment] = OwnThread(build, name=name)

    @property
    def given_up(self) -> bool:
        """See :attr:`Stepper.given_up`; also true once an event loop went away during a call."""
        return self._thread.given_up

    async def reset(
        self, *, seed: int, episode_id: str, options: Mapping[str, Any], limit_s: float | None
    ) -> Stepped:
        """See :meth:`Stepper.reset`."""
        return await self._call(
            limit_s,
            lambda world: local.answered(
                world, world.reset(seed=seed, episode_id=episode_id, options=options)
            ),
        )

    async def step(self, action: Action, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.step`."""
        return await self._call(limit_s, lambda world: local.answered(world, world.step(action)))

    async def snapshot(self, *, limit_s: float | None) -> bytes:
        """See :meth:`Stepper.snapshot`."""
        return await self._call(limit_s, lambda world: world.snapshot())

    async def restore(self, snapshot: bytes, *, limit_s: float | None) -> Stepped:
        """See :meth:`Stepper.restore`."""
        return await self._call(limit_s, lambda world: local.answered(world, world.restore(snapshot)))

    async def state(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """See :meth:`Stepper.state`."""
        return await self._call(limit_s, lambda world: world.state)

    async def truth(self, *, limit_s: float | None) -> Mapping[str, Any]:
        """See :meth:`Stepper.truth`."""
        return await self._call(limit_s, lambda world: world.truth())

    async def aclose(self) -> None:
        """See :meth:`Stepper.aclose`."""
        self._thread.close()

    async def _call(self, limit_s: float | None, function: Callable[[Environment], _Result]) -> _Result:
        with local.FAULTS:
            return await self._thread.call_within(limit_s, function)

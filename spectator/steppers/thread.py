"""Owns the thread that an environment lives on: built, stepped and let go there, never on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from spectator.errors import EnvironmentFault, StepTimeout

_Environment = TypeVar("_Environment")
_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True, slots=True)
class _Call:
    run: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class Stepper(Generic[_Environment]):
    """One environment on one thread of its own, with a deadline for every call.

    A call that misses its deadline cannot be stopped; its thread is given up (it is a daemon and ends
    as soon as the call returns) and the environment is never called again.

    Args:
        build: Makes the environment; called on the thread, before the first call.
        name: Name of the thread.
        dispose: Lets go of what the environment holds; called on the thread, last, if it was ever built.
    """

    def __init__(
        self,
        build: Callable[[], _Environment],
        *,
        name: str = "environment",
        dispose: Callable[[_Environment], None] | None = None,
    ) -> None:
        self._build = build
        self._dispose = dispose
        self._environment: _Environment | None = None
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._given_up = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def given_up(self) -> bool:
        """Whether a call missed its deadline, it was closed, or an event loop went away during a call."""
        return self._given_up

    async def call(
        self,
        function: Callable[Concatenate[_Environment, _Arguments], _Result],
        /,
        *arguments: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> _Result:
        """Run ``function(environment, ...)`` on the environment's thread.

        Raises:
            EnvironmentFault: The environment was given up before the call began, or raised what is not an
                ``Exception`` (``SystemExit``, say) and would have ended the caller's event loop.
            Exception: Whatever the function, or the first time the factory, raises.
        """
        return await self._submit(lambda: function(self._living(), *arguments, **named))

    async def call_within(
        self,
        limit_s: float | None,
        function: Callable[Concatenate[_Environment, _Arguments], _Result],
        /,
        *arguments: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> _Result:
        """The same with a deadline.

        Raises:
            StepTimeout: No answer within ``limit_s`` seconds; the environment is given up.
        """
        try:
            async with asyncio.timeout(limit_s) as scope:
                return await self._submit(lambda: function(self._living(), *arguments, **named))
        except TimeoutError as error:
            if not scope.expired():
                raise
            self.close()
            raise StepTimeout(f"the environment did not answer within {limit_s:g} s") from error

    def close(self) -> None:
        """Let go of the environment; its thread ends after the call it is in. Safe to call twice."""
        self._given_up = True
        self._calls.put(None)

    def _submit(self, run: Callable[[], _Result]) -> asyncio.Future[_Result]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_Result] = loop.create_future()
        if self._given_up:
            answer.set_exception(_gone())
        else:
            self._calls.put(_Call(run, loop, answer))
        return answer

    def _living(self) -> _Environment:
        if self._given_up:
            raise _gone()
        if self._environment is None:
            self._environment = self._build()
        return self._environment

    def _work(self) -> None:
        while (call := self._calls.get()) is not None and _answer(call):
            del call
        self._given_up = True
        environment, self._environment = self._environment, None
        if environment is not None and self._dispose is not None:
            self._dispose(environment)


def _gone() -> EnvironmentFault:
    return EnvironmentFault("the environment was given up")


def _answer(call: _Call) -> bool:
    """Carry out ``call`` and answer it; false when nobody can be answered any more."""
    result, error = _attempt(call.run)
    try:
        call.loop.call_soon_threadsafe(_deliver, call.answer, result, error)
    except RuntimeError:  # the loop is closed
        return False
    return True


def _attempt(run: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return run(), None
    except StopIteration as error:  # no future can carry it
        return None, EnvironmentFault(f"StopIteration: {error}")
    except Exception as error:  # noqa: BLE001 - carried to the caller, whoever that is, untouched
        return None, error
    except BaseException as error:  # noqa: BLE001 - must end neither this thread nor the caller's loop
        return None, EnvironmentFault(f"{type(error).__name__}: {error}")


def _deliver(answer: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)

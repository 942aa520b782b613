"""One thread for many quick objects; during a slow call the others continue on another thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from spectator.clock import settle
from spectator.errors import StepTimeout
from spectator.steppers.local import HeldObject, given_up_before

_Object = TypeVar("_Object")
_Result = TypeVar("_Result")
_Arguments = ParamSpec("_Arguments")

PATIENCE_S: Final = 0.05
"""Seconds (at most twice that) after which a call counts as slow and the others move to another thread."""

TOGETHER_S: Final = 0.002
"""Seconds for which answers are collected, so that they wake the event loop only once."""


class _Answers:
    """Answers to futures of one event loop, which wake it together."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.settled: deque[tuple[tuple[asyncio.Future[Any]], Any, Exception | None]] = deque()
        """Futures to settle, each with its result and its error; may be added from any thread."""
        self._woken = False

    def wake(self) -> None:
        """Settle the futures soon; may be called from any thread. Does nothing if the loop is closed."""
        if not self._woken:
            self._woken = True
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self.settle)

    def settle(self) -> None:
        """Settle the futures now; call it on the loop."""
        self._woken = False  # first, so that answers added from here on wake the loop again
        while self.settled:
            settle(*self.settled.popleft())


@dataclass(frozen=True, slots=True)
class _SharedCall:
    run: Callable[[Any], Any]
    future: asyncio.Future[Any] | None
    answers: _Answers | None


class _Shift:
    """The working time of one thread, until another one relieves it."""

    def __init__(self, waiting: SimpleQueue[SharedObject[Any] | None]) -> None:
        self.waiting = waiting
        self.busy_with: _SharedCall | None = None
        """The current call."""
        self.relieved = False
        """Whether another thread has taken over."""
        self.watched = False
        """Whether the duration of its call is being watched."""
        self._unsettled: _Answers | None = None
        self._since = 0.0

    def start(self, name: str) -> _Shift:
        """Start the thread; return this shift."""
        threading.Thread(target=self._work, name=name, daemon=True).start()
        return self

    def _work(self) -> None:
        while not self.relieved:
            chosen = self.waiting.get()
            if chosen is None:
                if self.relieved:  # meant for the thread that took over
                    self.waiting.put(None)
                return
            more = True
            while more:
                self.busy_with = call = chosen.calls.popleft()
                more = chosen.carry_out(call)
                self.busy_with = None
                self._wake(call.answers)
                if more and not (self.relieved or chosen.given_up):
                    self.waiting.put(chosen)  # the others come first
                    more = False
            del call, chosen

    def _wake(self, answers: _Answers | None) -> None:
        """Settle answers, collecting them while there are more calls."""
        now = time.monotonic()
        if self._unsettled is not None and self._unsettled is not answers:
            self._unsettled.wake()
            self._unsettled = None
        if answers is None:
            return
        if self._unsettled is None:
            self._unsettled, self._since = answers, now
        if self.waiting.empty() or self.relieved or now - self._since >= TOGETHER_S:
            self._unsettled = None
            answers.wake()


class SharedThread:
    """Calls many objects, one after the other, on one thread, started by the first call.

    For objects that may be called from different threads and usually answer quickly. If many calls come at
    once, one wake-up serves many of them; with a thread for each, the wake-up would cost more than a quick
    call. A call that takes longer than ``patience_s`` keeps its thread for itself, which ends after it.

    Args:
        patience_s: Seconds after which a call counts as slow.

    >>> async def main() -> int:
    ...     shared = SharedThread()
    ...     numbers = shared.hold(lambda: [1, 2])
    ...     try:
    ...         return await numbers.call_within(10.0, sum)
    ...     finally:
    ...         numbers.close()
    >>> asyncio.run(main())
    3
    """

    def __init__(self, *, name: str = "environments", patience_s: float = PATIENCE_S) -> None:
        self._name = name
        self._patience_s = patience_s
        self._shift: _Shift | None = None
        self._answers: _Answers | None = None
        self._held = 0

    def hold(
        self, build: Callable[[], _Object], dispose: Callable[[_Object], None] | None = None
    ) -> SharedObject[_Object]:
        """Make an object to be called on this thread; it is built before its first call.

        Args:
            build: Makes the object; called on the thread.
            dispose: Releases the object's resources; called last on the thread, if the object was built.
        """
        self._held += 1
        return SharedObject(self, build, dispose)

    def put(
        self, held: SharedObject[Any], run: Callable[[Any], Any], coming: asyncio.Future[Any] | None = None
    ) -> None:
        """Queue a call of ``held``.

        Args:
            run: The function to call with it.
            coming: Receives the answer; ``None`` disposes of the object.
        """
        if coming is not None and (self._answers is None or self._answers.loop is not coming.get_loop()):
            self._answers = _Answers(coming.get_loop())
        with held.lock:
            held.calls.append(_SharedCall(run, coming, None if coming is None else self._answers))
            if held.waiting:
                return
            held.waiting = True
        if self._shift is None:
            self._shift = _Shift(SimpleQueue()).start(self._name)
        shift = self._shift
        shift.waiting.put(held)
        if not shift.watched:
            self._watch(shift)

    def release_one(self) -> None:
        """Note that an object was closed; after the last one the thread ends."""
        self._held -= 1
        if self._held == 0 and self._shift is not None:
            self._shift.waiting.put(None)
            self._shift = None

    def _watch(self, shift: _Shift) -> None:
        """Check later whether ``shift`` is still in the same call."""
        with contextlib.suppress(RuntimeError):  # there is no event loop any more
            asyncio.get_running_loop().call_later(self._patience_s, self._look, shift, shift.busy_with)
            shift.watched = True

    def _look(self, shift: _Shift, before: _SharedCall | None) -> None:
        now, waits = shift.busy_with, not shift.waiting.empty()
        if self._answers is not None:
            self._answers.settle()
        shift.watched = False
        if now is not None and now is before and waits:
            shift.relieved = True
            fresh = _Shift(shift.waiting).start(self._name)
            if self._shift is shift:
                self._shift = fresh
            self._watch(fresh)
        elif now is not None or waits:
            self._watch(shift)


class SharedObject(HeldObject[_Object]):
    """An object that a :class:`SharedThread` calls, one call at a time, with a deadline for every call.

    A call that misses its deadline cannot be stopped; the object is never called again.
    """

    def __init__(
        self, shared: SharedThread, build: Callable[[], _Object], dispose: Callable[[_Object], None] | None
    ) -> None:
        self._shared = shared
        self._build = build
        self._dispose = dispose
        self.calls: deque[_SharedCall] = deque()
        """Waiting calls; like :attr:`waiting` and :attr:`lock`, only for its :class:`SharedThread`."""
        self.waiting = False
        self.lock = threading.Lock()

    async def call_within(
        self,
        limit_s: float | None,
        function: Callable[Concatenate[_Object, _Arguments], _Result],
        /,
        *arguments: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> _Result:
        """Run ``function(object, ...)``; see :meth:`spectator.steppers.local.OwnThread.call_within`.

        Raises:
            StepTimeout: No answer within ``limit_s`` seconds; the object is abandoned.
            EnvironmentFault: The object was closed or abandoned before the call, or raised something other
                than an ``Exception``.
            Exception: Any exception of the function or, at the first call, of ``build``.
        """
        if self.given_up:
            raise given_up_before()
        loop = asyncio.get_running_loop()
        coming: asyncio.Future[_Result] = loop.create_future()
        self._shared.put(self, lambda held: function(held, *arguments, **named), coming)
        if limit_s is None:
            return await coming
        late = loop.call_later(limit_s, self._too_late, coming, limit_s)
        try:
            return await coming
        finally:
            late.cancel()

    def close(self) -> None:
        """Close the object after its current call. Safe to call twice."""
        if not self.given_up:
            self.given_up = True
            if self.waiting or self._object is not None:
                self._shared.put(self, _nothing)
            self._shared.release_one()

    def carry_out(self, call: _SharedCall) -> bool:
        """Carry out and answer ``call``; return whether there are more. Only for the thread."""
        if call.future is None or call.answers is None:
            held, self._object = self._object, None
            if held is not None and self._dispose is not None:
                with contextlib.suppress(BaseException):
                    self._dispose(held)
        else:
            call.answers.settled.append(((call.future,), *self.outcome_of(call.run)))
        with self.lock:
            self.waiting = bool(self.calls)
            return self.waiting

    def _too_late(self, coming: asyncio.Future[Any], limit_s: float) -> None:
        if not coming.done():
            self.close()
            coming.set_exception(StepTimeout(f"the environment did not answer within {limit_s:g} s"))


def _nothing(held: object) -> None:
    """Do nothing: the call only disposes of the object."""

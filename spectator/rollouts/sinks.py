"""Sinks: copies of a run's sessions, step by step, for users who keep their own store.

The journal is the record of a run, and a sink cannot change it. Each session is passed on once it has ended,
with its final rewards and marks: ``create_session``, ``record_step`` for each step in order, one session at a
time. Play does not wait for it. A sink that raises misses that session; one that does not return within
:data:`SINK_S` seconds gets no further sessions of this process. Either is reported in a sentence, and
:func:`send_sessions` passes on what a sink has missed.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Protocol

from spectator.catalog import import_object
from spectator.errors import ConfigurationError, SpectatorError, StepTimeout, typed_as
from spectator.rollouts.sessions import DataManager, SessionContext, SessionStep
from spectator.steppers.local import OwnThread

logger = logging.getLogger(__name__)

SINK_S: Final = 30.0
"""Seconds that a call of a sink may take."""

METHODS: Final = ("create_session", "record_step", "close")


class StepSink(Protocol):
    """Receives the sessions of a run. Methods may be async; others are called on one thread of their own.

    A session may come again after a crash, or from :func:`send_sessions`: store it under ``session_id`` and
    ``step_id``.
    """

    def create_session(self, session: SessionContext) -> Any:
        """Begin a session, one attempt at an episode; its result and total reward are known already."""

    def record_step(self, session: SessionContext, step: SessionStep) -> Any:
        """Store a step of the session that was created last."""

    def close(self) -> Any:
        """Store what is buffered; called once, when this process has passed on its last session."""


MakeSink = Callable[[], StepSink]
"""Makes a sink; called on the thread on which its methods are called."""

AnySink = StepSink | MakeSink
"""A sink, or a class or function that makes one, for sinks that must stay on one thread."""


class SinkError(SpectatorError):
    """A sink failed; the message says where and how."""


def import_sink(name: str) -> MakeSink:
    """Import ``module:name``, a class or function that makes a sink.

    Raises:
        ConfigurationError: It cannot be imported or called.
    """
    make: MakeSink = import_object(name, "the sink")
    return make


class SinkDelivery:
    """Passes the sessions of one process on to a sink, in the background.

    Args:
        sink: The sink, or what makes it.
        data: The record that the sessions are read from.
        limit_s: Seconds that a call may take.
    """

    def __init__(self, sink: AnySink, data: DataManager, *, limit_s: float = SINK_S) -> None:
        self._thread: OwnThread[StepSink] = OwnThread(lambda: _made(sink), name="sink")
        self._data = data
        self._limit_s = limit_s
        self._ended: asyncio.Queue[str | None] = asyncio.Queue()
        self._sent = 0
        self._missed = 0
        self._reason: str | None = None

    def put(self, episode_id: str) -> None:
        """Pass on an episode that has ended; returns at once."""
        self._ended.put_nowait(episode_id)

    @property
    def missed(self) -> str | None:
        """Say which sessions did not reach the sink, and why; ``None`` if all did."""
        if self._reason is None or not self._missed:
            return self._reason and f"the sink failed: {self._reason}"
        sessions = self._sent + self._missed
        return f"{self._missed} of {sessions} sessions did not reach the sink: {self._reason}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Make the sink, pass sessions on, and close it at the end.

        Raises:
            ConfigurationError: The sink cannot be made, or lacks a method.
        """
        try:
            await self._call("make the sink", lambda sink: None)
        except SinkError as error:
            self._thread.close()
            raise ConfigurationError(str(error)) from error
        working = asyncio.get_running_loop().create_task(self._work())
        try:
            yield
        except BaseException:
            working.cancel()
            raise
        else:
            self._ended.put_nowait(None)
            await working
        finally:
            if not self._thread.given_up:
                try:
                    await self._call("close", lambda sink: sink.close())
                except SinkError as error:
                    self._fail(error, "")
            self._thread.close()

    async def _work(self) -> None:
        while (episode_id := await self._ended.get()) is not None:
            await self._pass_on(episode_id)

    async def _pass_on(self, episode_id: str) -> None:
        if self._thread.given_up:
            self._missed += 1
            return
        try:
            session = await self._data.session(episode_id)
            await self._call("create_session", lambda sink: sink.create_session(session))
            async for step in self._data.steps(session):
                await self._call("record_step", lambda sink, step=step: sink.record_step(session, step))  # type: ignore[misc]
        except SpectatorError as error:  # of the sink, or of reading the record
            self._missed += 1
            self._fail(error, f" for {episode_id}")
        else:
            self._sent += 1

    def _fail(self, error: SpectatorError, where: str) -> None:
        self._reason = self._reason or str(error)
        logger.warning("the sink failed%s: %s", where, error)

    async def _call(self, name: str, call: Callable[[StepSink], Any]) -> None:
        """Call the sink on its thread, or await its coroutine here.

        Raises:
            SinkError: It raised, or did not return in time.
        """
        late = f"{name} did not return within {self._limit_s:g} s, so the sink is not called any more"
        with typed_as(partial(_failed, name), passing=(SinkError,)):
            try:
                async with asyncio.timeout(self._limit_s):
                    result = await self._thread.call_within(self._limit_s, call)
                    if inspect.isawaitable(result):
                        await result
            except (StepTimeout, TimeoutError) as error:
                self._thread.close()
                raise SinkError(late) from error


def _failed(name: str, error: Exception) -> SinkError:
    return SinkError(f"{name}: {type(error).__name__}: {error}")


def _made(given: Any) -> StepSink:
    is_sink = not isinstance(given, type) and hasattr(given, "record_step")
    sink = given if is_sink else given()
    absent = [name for name in METHODS if not callable(getattr(sink, name, None))]
    if absent:
        raise ConfigurationError(f"{type(sink).__name__} is not a sink: it has no {', '.join(absent)}()")
    checked: StepSink = sink
    return checked


async def send_sessions(data: DataManager, sink: AnySink, only: Iterable[str] | None = None) -> str | None:
    """Pass the ended sessions of a run on to a sink, such as those that it missed.

    Args:
        sink: The sink, or what makes it.
        only: Ids of the sessions; all that have ended if omitted.

    Returns:
        Which sessions did not reach the sink, and why; ``None`` if all did.

    Raises:
        ConfigurationError: The sink cannot be made, or lacks a method.
    """
    delivery = SinkDelivery(sink, data)
    wanted = None if only is None else set(only)
    async with delivery.running():
        async for session in data.sessions():
            if session.end_reason is not None and (wanted is None or session.session_id in wanted):
                delivery.put(session.session_id)
    return delivery.missed

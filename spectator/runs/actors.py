"""Actors: environments made ready for rollouts, leased for one episode each, and replaced when done."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from spectator.backoff import Backoff
from spectator.clock import Clock
from spectator.environments.contract import Stepper
from spectator.errors import (
    ConfigurationError,
    EnvironmentFault,
    EnvironmentUnavailable,
    SpectatorError,
    typed_as,
)

logger = logging.getLogger(__name__)

Transport = Literal["inproc", "http", "openenv"]
"""How an environment is reached: in this process, by the routes of a pooled rollout server, or by OpenEnv."""

JobT = TypeVar("JobT")

SPARE_FACTOR: Final = 1.2
"""Actors that are ready or leased per actor in use, so that a worker seldom waits for a new one."""

STARTUP_CONCURRENCY: Final = 16
"""Environments that are made at once."""

TRIES: Final = 3
"""Attempts to make one environment before its job is given up."""

PAUSE_S: Final = 1.0
"""Seconds between these attempts."""

PATIENCE_S: Final = 300.0
"""Seconds that a server may be unreachable or full while none of its environments is in use."""

SERVER_PAUSES: Final = Backoff(1.0, 10.0)
"""The pauses between attempts to reach such a server."""


@dataclass(frozen=True, slots=True)
class ActorHandle(Generic[JobT]):
    """An environment leased for one episode.

    Args:
        env_id: The episode's id; every attempt has a different one.
        group_id: The group of samples of one prompt, if any.
        transport: Where it runs: in this process, or behind HTTP or a WebSocket.
        base_url: Address of its server; ``None`` in this process.
        job: What is to be played in it.
        attempt: Number of the attempt, from 1.
    """

    env_name: str
    env_id: str
    group_id: str | None
    transport: Transport
    base_url: str | None
    stepper: Stepper
    job: JobT
    attempt: int = 1

    def url(self, operation: str) -> str:
        """Return the address of ``operation`` behind HTTP: base, name, id, operation.

        Raises:
            ConfigurationError: It runs in this process and has no address.
        """
        if self.base_url is None:
            raise ConfigurationError(f"{self.env_name} {self.env_id} runs in this process and has no address")
        return "/".join((self.base_url.rstrip("/"), self.env_name, self.env_id, operation))


class ActorPool(Protocol[JobT]):
    """Hands out actors until nothing is left to play."""

    @property
    def pool_size(self) -> int:
        """Actors that may be leased at once."""

    async def start(self) -> None:
        """Begin to make actors ready."""

    async def acquire(self) -> ActorHandle[JobT] | None:
        """Wait for the next actor; ``None`` only when nothing is left and nothing can come back."""

    async def done(self, handle: ActorHandle[JobT], *, again: JobT | None = None) -> None:
        """Give back an actor in any state; ``again`` is played next, in a new one."""

    def drain(self) -> None:
        """Make no more actors: waiting callers get those that are ready, or ``None``."""

    async def aclose(self) -> None:
        """Close every actor and hand out no more."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why no actor could be made when it was last tried.

    Args:
        reason: What its server said, or how the attempt failed.
        since_s: When it began, or when an actor was last in use, by the pool's clock.
    """

    reason: str
    since_s: float


def no_environment(reason: str, waited_s: float | None = None) -> str:
    """Say why a run without an environment is halted.

    Args:
        waited_s: Seconds spent waiting for its server, if any.

    >>> no_environment("reset: the server answers 503", 300.0)
    'no environment could be made for 300 s (env_infra): reset: the server answers 503'
    """
    waited = "" if waited_s is None else f" for {waited_s:g} s"
    return f"no environment could be made{waited} (env_infra): {reason}"


Open = Callable[[JobT], Awaitable[ActorHandle[JobT]]]
"""Makes an actor for a job, or raises a SpectatorError."""


class RecyclingPool(Generic[JobT]):
    """Makes actors in the background, a few more than are leased, and never uses one twice.

    A server that is unreachable or full (:class:`~spectator.errors.EnvironmentUnavailable`) is asked again
    with growing, jittered pauses: as long as an actor is leased, which may free a place, and for
    ``patience_s`` seconds after that. Any other failed start is tried :data:`TRIES` times. After that the job
    is reported as failed, and the pool goes on with the next.

    Args:
        jobs: What is to be played, in order; read as needed, so it may be long.
        size: Actors that may be leased at once, at least 1.
        on_failed: Called with each job whose actor could not be made.
        spare_factor: Actors ready or leased, as a multiple of ``size``, rounded up; at least 1.
        startup_concurrency: Actors that are made at once, at least 1.
        patience_s: Seconds that a server may be unreachable or full while no actor is leased.
        on_shortage: Called when no actor can be made, and with ``None`` when one could again.
        fed: Whether more jobs come by :meth:`feed`, until :meth:`no_more`.

    Raises:
        ValueError: A figure is out of its range.
    """

    def __init__(
        self,
        jobs: Iterable[JobT],
        open_actor: Open[JobT],
        size: int,
        *,
        clock: Clock,
        on_failed: Callable[[JobT, SpectatorError], None],
        spare_factor: float = SPARE_FACTOR,
        startup_concurrency: int = STARTUP_CONCURRENCY,
        patience_s: float = PATIENCE_S,
        rng: random.Random | None = None,
        on_shortage: Callable[[Shortage | None], None] = lambda shortage: None,
        fed: bool = False,
    ) -> None:
        if size < 1 or spare_factor < 1 or startup_concurrency < 1 or patience_s < 0:
            raise ValueError(
                "size, spare_factor and startup_concurrency must be at least 1, patience_s at least 0"
            )
        self._jobs = iter(jobs)
        self._again: deque[JobT] = deque()
        self._open = open_actor
        self._size = size
        self._clock = clock
        self._on_failed = on_failed
        self._aim = math.ceil(size * spare_factor)
        self._startup_concurrency = startup_concurrency
        self._patience_s = patience_s
        self._rng = rng or random.Random()
        self._ready: deque[ActorHandle[JobT]] = deque()
        self._leased: dict[str, ActorHandle[JobT]] = {}
        self._making: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._fed = fed
        self._exhausted = False
        self._draining = False
        self._closed = False
        self._changed = asyncio.Event()
        self._on_shortage = on_shortage
        self._shortage: Shortage | None = None

    @property
    def pool_size(self) -> int:
        """Actors that may be leased at once."""
        return self._size

    @property
    def leased(self) -> int:
        """Actors that are leased now."""
        return len(self._leased)

    async def start(self) -> None:
        """Begin to make actors ready."""
        self._refill()

    async def acquire(self) -> ActorHandle[JobT] | None:
        """Wait for the next actor; ``None`` only when nothing is left and nothing can come back."""
        while not (self._closed or self._ready or self._spent()):
            await self._changed.wait()
        if self._closed or not self._ready:
            return None
        handle = self._ready.popleft()
        self._leased[handle.env_id] = handle
        return handle

    async def done(self, handle: ActorHandle[JobT], *, again: JobT | None = None) -> None:
        """Give back an actor: it is closed and replaced. A second call has no effect.

        Returns at once; :meth:`aclose` waits until all are closed.
        """
        if self._leased.pop(handle.env_id, None) is None:
            return
        if again is not None and not self._draining:
            self._again.append(again)
        self._spawn(self._closing, self._recycle(handle))
        self._notify()

    def feed(self, job: JobT) -> None:
        """Play ``job`` too; ignored after :meth:`drain` or :meth:`aclose`."""
        if not (self._draining or self._closed):
            self._again.append(job)
            self._refill()

    def no_more(self) -> None:
        """Announce that no more jobs come: callers who wait in vain get ``None``."""
        self._fed, self._exhausted = False, True
        self._notify()

    def drain(self) -> None:
        """Make no more actors: waiting callers get those that are ready, or ``None``."""
        self._draining = self._exhausted = True
        self._jobs = iter(())
        self._again.clear()
        for task in self._making:
            task.cancel()
        self._notify()

    async def aclose(self) -> None:
        """Close every actor and hand out no more."""
        self._closed = True
        making = list(self._making)
        for task in making:
            task.cancel()
        await asyncio.gather(*making, return_exceptions=True)
        self._notify()
        left = [*self._ready, *self._leased.values()]
        self._ready.clear()
        self._leased.clear()
        await asyncio.gather(*(handle.stepper.aclose() for handle in left), *self._closing)

    def _notify(self) -> None:
        """Wake all tasks that wait for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _spent(self) -> bool:
        """Whether nothing is left to make, and no leased actor can bring anything back."""
        return not (self._again or self._making or self._leased) and self._exhausted

    def _spawn(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _refill(self) -> None:
        while not self._closed and len(self._making) < self._startup_concurrency:
            if len(self._ready) + len(self._leased) + len(self._making) >= self._aim:
                return
            if (job := self._next_job()) is None:
                return
            self._spawn(self._making, self._make(job))

    def _next_job(self) -> JobT | None:
        if self._again:
            return self._again.popleft()
        job = next(self._jobs, None)
        self._exhausted = self._exhausted or (job is None and not self._fed)
        return job

    async def _recycle(self, handle: ActorHandle[JobT]) -> None:
        """Close an actor, and only then make another: its server may not have room for both."""
        try:
            await handle.stepper.aclose()
        finally:
            self._refill()
            self._notify()

    async def _make(self, job: JobT) -> None:
        made: ActorHandle[JobT] | None = None
        try:
            with typed_as(EnvironmentFault):
                made = await self._tried(job)
        except SpectatorError as error:
            logger.warning("an environment could not be made: %s", error)
            self._on_failed(job, error)
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._making.discard(task)
            if made is not None:
                self._ready.append(made)
            self._refill()
            self._notify()

    async def _tried(self, job: JobT) -> ActorHandle[JobT]:
        failures = 0
        while True:
            try:
                made = await self._open(job)
            except EnvironmentUnavailable as error:
                if not self._worth_waiting(error):
                    raise
                pause_s = SERVER_PAUSES.draw(failures, self._rng)
            except SpectatorError:
                if failures + 1 == TRIES:
                    raise
                pause_s = PAUSE_S
            else:
                self._note(None)
                return made
            failures += 1
            await self._clock.sleep(pause_s)

    def _worth_waiting(self, error: EnvironmentUnavailable) -> bool:
        """Whether to ask an unreachable or full server again."""
        now = self._clock.monotonic()
        since = now if self._shortage is None or self._leased else self._shortage.since_s
        self._note(Shortage(str(error), since))
        return now - since < self._patience_s

    def _note(self, shortage: Shortage | None) -> None:
        if shortage is not None or self._shortage is not None:
            self._shortage = shortage
            self._on_shortage(shortage)

"""Actors: environments made ready for rollouts, leased for one episode each, and replaced when done."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, Literal, Protocol, TypeVar

from spectator.clock import Clock
from spectator.errors import ConfigurationError, SpectatorError
from spectator.steppers.base import Stepper

logger = logging.getLogger(__name__)

Transport = Literal["inproc", "http", "openenv"]

JobT = TypeVar("JobT")

SPARE_FACTOR: Final = 1.2
"""Actors kept ready beyond the pool's size, so that a worker seldom waits for a new one."""

STARTUP_CONCURRENCY: Final = 16
"""Environments that are made at once."""

TRIES: Final = 3
"""Attempts to make one environment before its job is given up."""

PAUSE_S: Final = 1.0
"""Seconds between these attempts."""


@dataclass(frozen=True, slots=True)
class ActorHandle(Generic[JobT]):
    """An environment leased for one episode.

    Args:
        env_name: Name of the environment.
        env_id: The episode's id; every attempt has one of its own.
        group_id: The group of samples of one prompt, if it belongs to one.
        transport: Where it runs: in this process, or behind HTTP or a WebSocket.
        base_url: Address of its server; ``None`` in this process.
        stepper: Steps it.
        job: What is to be played in it.
    """

    env_name: str
    env_id: str
    group_id: str | None
    transport: Transport
    base_url: str | None
    stepper: Stepper
    job: JobT

    def url(self, operation: str) -> str:
        """Address of ``operation`` of an environment behind HTTP: base, name, id, operation.

        Raises:
            ConfigurationError: It runs in this process and has no address.
        """
        if self.base_url is None:
            raise ConfigurationError(f"{self.env_name} {self.env_id} runs in this process and has no address")
        return "/".join((self.base_url.rstrip("/"), self.env_name, self.env_id, operation))


class ActorPool(Protocol[JobT]):
    """Hands out actors until there is nothing left to play."""

    @property
    def pool_size(self) -> int:
        """Actors that may be leased at once."""
        ...

    async def start(self) -> None:
        """Begin to make actors ready."""
        ...

    async def acquire(self) -> ActorHandle[JobT] | None:
        """The next actor that is ready; ``None`` only when nothing is left and nothing can come back."""
        ...

    async def done(self, handle: ActorHandle[JobT], *, again: JobT | None = None) -> None:
        """Give an actor back, whatever became of it; ``again`` is played next, in a new one."""
        ...

    async def aclose(self) -> None:
        """Let go of every actor; nothing more is handed out."""
        ...


Open = Callable[[JobT], Awaitable[ActorHandle[JobT]]]
"""Makes an actor for a job; raises a SpectatorError where it cannot."""


class RecyclingPool(Generic[JobT]):
    """Makes actors in the background, a few more than are leased, and never uses one twice.

    A failed start is tried :data:`TRIES` times; then its job is given up and reported, and the next is made.

    Args:
        jobs: What is to be played, in order; read as needed, so it may be long.
        open_actor: Makes an actor for a job.
        size: Actors that may be leased at once, at least 1.
        clock: Waits between attempts.
        on_failed: Hears of a job whose actor could not be made.
        spare_factor: Actors ready or leased, as a multiple of ``size``, rounded up; at least 1.
        startup_concurrency: Actors that are made at once, at least 1.

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
    ) -> None:
        if size < 1 or spare_factor < 1 or startup_concurrency < 1:
            raise ValueError("size, spare_factor and startup_concurrency are at least 1")
        self._jobs = iter(jobs)
        self._again: deque[JobT] = deque()
        self._open = open_actor
        self._size = size
        self._clock = clock
        self._on_failed = on_failed
        self._aim = math.ceil(size * spare_factor)
        self._startup_concurrency = startup_concurrency
        self._ready: deque[ActorHandle[JobT]] = deque()
        self._leased: dict[str, ActorHandle[JobT]] = {}
        self._making: set[asyncio.Task[None]] = set()
        self._exhausted = False
        self._closed = False
        self._changed = asyncio.Condition()

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
        """The next actor that is ready; ``None`` only when nothing is left and nothing can come back."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._closed or bool(self._ready) or self._spent())
            if self._closed or not self._ready:
                return None
            handle = self._ready.popleft()
            self._leased[handle.env_id] = handle
            return handle

    async def done(self, handle: ActorHandle[JobT], *, again: JobT | None = None) -> None:
        """Give an actor back; it is closed, and another is made. Giving one back twice changes nothing."""
        if self._leased.pop(handle.env_id, None) is None:
            return
        if again is not None:
            self._again.append(again)
        self._refill()
        async with self._changed:
            self._changed.notify_all()
        await handle.stepper.aclose()

    async def aclose(self) -> None:
        """Let go of every actor; nothing more is handed out."""
        self._closed = True
        making = list(self._making)
        for task in making:
            task.cancel()
        await asyncio.gather(*making, return_exceptions=True)
        async with self._changed:
            self._changed.notify_all()
        for handle in [*self._ready, *self._leased.values()]:
            await handle.stepper.aclose()
        self._ready.clear()
        self._leased.clear()

    def _spent(self) -> bool:
        """Whether nothing is left to make, and no leased actor can bring anything back."""
        return not (self._again or self._making or self._leased) and self._exhausted

    def _refill(self) -> None:
        while not self._closed and len(self._making) < self._startup_concurrency:
            if len(self._ready) + len(self._leased) + len(self._making) >= self._aim:
                return
            if (job := self._next_job()) is None:
                return
            task = asyncio.get_running_loop().create_task(self._make(job))
            self._making.add(task)

    def _next_job(self) -> JobT | None:
        if self._again:
            return self._again.popleft()
        job = next(self._jobs, None)
        self._exhausted = self._exhausted or job is None
        return job

    async def _make(self, job: JobT) -> None:
        made: ActorHandle[JobT] | None = None
        try:
            made = await self._tried(job)
        except SpectatorError as error:
            logger.warning("an environment could not be made in %d attempts: %s", TRIES, error)
            self._on_failed(job, error)
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._making.discard(task)
            if made is not None:
                self._ready.append(made)
        self._refill()
        async with self._changed:
            self._changed.notify_all()

    async def _tried(self, job: JobT) -> ActorHandle[JobT]:
        for attempt in range(1, TRIES + 1):
            try:
                return await self._open(job)
            except SpectatorError:
                if attempt == TRIES:
                    raise
            await self._clock.sleep(PAUSE_S)
        raise AssertionError("the last attempt returns or raises")

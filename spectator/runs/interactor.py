"""The interactor: workers that take actors from a pool, play an episode in each, and give them back."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, Protocol, TypeVar

from spectator.clock import Clock
from spectator.errors import EpisodeError, FailureClass, SpectatorError, typed_as
from spectator.runs.actors import ActorHandle, ActorPool
from spectator.runs.in_flight import InFlight

logger = logging.getLogger(__name__)

JobT = TypeVar("JobT")

STARTUP_JITTER_S: Final = 2.0
"""First episodes of a run begin within this time, so that not all of them ask at once."""


@dataclass(frozen=True, slots=True)
class EpisodeResult(Generic[JobT]):
    """What became of one attempt at a job; there is one for every attempt, whatever happened.

    Args:
        job: What was to be played.
        episode_id: Id of the attempt.
        group_id: The group of samples that it belongs to, if any.
        end_reason: Why it ended; ``None`` where it was left to be played on.
        total_reward: Sum of its rewards; ``None`` where there is no verdict.
        failure_class: Why there is none, where there is none.
        detail: The same in words.
        turns: Actions taken or refused.
        terminated: Whether the world came to its own end.
        truncated: Whether it was cut short.
        again: Whether another attempt follows.
        attempt: Number of the attempt, from 1.
        decisions: Decisions of the agent that were recorded for it.
        own: How many of these the model made itself; a fallback made the others.
    """

    job: JobT
    episode_id: str
    group_id: str | None
    end_reason: str | None
    total_reward: float | None = None
    failure_class: FailureClass | None = None
    detail: str | None = None
    turns: int = 0
    terminated: bool = False
    truncated: bool = False
    again: bool = False
    attempt: int = 1
    decisions: int = 0
    own: int = 0

    @property
    def own_share(self) -> float | None:
        """The share of the decisions that the model made itself, 0 to 1; ``None`` where there was none."""
        return self.own / self.decisions if self.decisions else None


@dataclass(frozen=True, slots=True)
class RunReport(Generic[JobT]):
    """What a run came to.

    Args:
        results: One for each attempt, in the order in which they ended.
        drained: Whether it was asked to take no more, and left jobs unplayed.
    """

    results: Sequence[EpisodeResult[JobT]] = field(default_factory=tuple)
    drained: bool = False

    @property
    def last(self) -> list[EpisodeResult[JobT]]:
        """The results after which no attempt follows."""
        return [result for result in self.results if not result.again]

    @property
    def succeeded(self) -> bool:
        """Whether every job came to a verdict."""
        return not self.drained and all(result.total_reward is not None for result in self.last)


class Play(Protocol[JobT]):
    """Plays an episode in an actor."""

    def __call__(self, handle: ActorHandle[JobT], flight: InFlight) -> Awaitable[EpisodeResult[JobT]]:
        """Play to the end; what fails inside is part of the result.

        Args:
            handle: The actor.
            flight: To be kept current while it is played.
        """
        ...


class Interactor(Generic[JobT]):
    """Plays everything that a pool hands out, as many episodes at once as there are workers.

    One episode that fails ends nothing but itself. Cancelling :meth:`run` cancels every episode and waits
    until each has let go.

    Args:
        pool: Hands out actors; started and closed by :meth:`run`.
        play: Plays an episode in one.
        clock: Time.
        rng: Draws the start-up jitter.
        again: The job of the next attempt after a result; ``None`` where there is to be none.
        on_result: Hears of each result as it comes.
        max_workers: Episodes at once; the pool's size when left out.
        startup_jitter_s: Each worker's first episode begins within this time.
    """

    def __init__(
        self,
        pool: ActorPool[JobT],
        play: Play[JobT],
        *,
        clock: Clock,
        rng: random.Random,
        again: Callable[[EpisodeResult[JobT]], JobT | None] = lambda result: None,
        on_result: Callable[[EpisodeResult[JobT]], None] = lambda result: None,
        max_workers: int | None = None,
        startup_jitter_s: float = STARTUP_JITTER_S,
    ) -> None:
        self._pool = pool
        self._play = play
        self._clock = clock
        self._rng = rng
        self._again = again
        self._on_result = on_result
        self._workers = max(1, min(pool.pool_size, max_workers or pool.pool_size))
        self._jitter_s = startup_jitter_s
        self._in_flight: dict[str, InFlight] = {}
        self._results: list[EpisodeResult[JobT]] = []
        self._draining = False
        self._left = False

    @property
    def workers(self) -> int:
        """Episodes at once."""
        return self._workers

    @property
    def in_flight(self) -> list[InFlight]:
        """Episodes that are being played, oldest first."""
        return list(self._in_flight.values())

    @property
    def results(self) -> Sequence[EpisodeResult[JobT]]:
        """Results so far."""
        return self._results

    def drain(self) -> None:
        """Finish what is being played, and take no more."""
        self._draining = True
        self._pool.drain()

    async def drain_after(self, halted: Callable[[], Awaitable[object]]) -> None:
        """Wait for ``halted``, and drain."""
        await halted()
        self.drain()

    async def run(self) -> RunReport[JobT]:
        """Play until nothing is left, or, after :meth:`drain`, until what is being played has ended."""
        try:
            await self._pool.start()
            async with asyncio.TaskGroup() as tasks:
                for number in range(self._workers):
                    tasks.create_task(self._work(number))
        finally:
            await self._pool.aclose()
        return RunReport(tuple(self._results), drained=self._left)

    async def _work(self, number: int) -> None:
        await self._clock.sleep(self._rng.uniform(0.0, self._jitter_s))
        while not self._draining:
            handle = await self._pool.acquire()
            if handle is None:
                self._left = self._left or self._draining
                return
            if self._draining:
                await self._pool.done(handle)
                break
            await self._play_in(handle, number)
        self._left = True

    async def _play_in(self, handle: ActorHandle[JobT], worker: int) -> None:
        now = self._clock.monotonic()
        flight = self._in_flight[handle.env_id] = InFlight(
            handle.env_id, worker, now, handle.attempt, moved_s=now
        )
        again: JobT | None = None
        try:
            result = await self._played(handle, flight)
            again = self._again(result)
            if again is not None:
                result = replace(result, again=True)
            self._results.append(result)
            self._on_result(result)
        finally:
            del self._in_flight[handle.env_id]
            await self._pool.done(handle, again=again)

    async def _played(self, handle: ActorHandle[JobT], flight: InFlight) -> EpisodeResult[JobT]:
        try:
            with typed_as(_unforeseen):
                return await self._play(handle, flight)
        except SpectatorError as error:
            unforeseen = error.__cause__ if isinstance(error, _Unforeseen) else None
            logger.warning("episode %s could not be played: %s", handle.env_id, error, exc_info=unforeseen)
            failure: FailureClass = getattr(error, "failure_class", "unknown")
            return EpisodeResult(
                handle.job, handle.env_id, handle.group_id, None, failure_class=failure, detail=str(error)
            )


class _Unforeseen(EpisodeError):
    """Something failed that should not be able to."""


def _unforeseen(error: Exception) -> _Unforeseen:
    return _Unforeseen(f"{type(error).__name__}: {error}")

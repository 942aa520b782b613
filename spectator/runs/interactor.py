"""Workers that play episodes in the actors of a pool, and their progress."""

from __future__ import annotations

import asyncio
import logging
import random
from array import array
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final, Generic, Literal, Protocol, TypeVar

from spectator.clock import Clock
from spectator.errors import EpisodeError, FailureClass, SpectatorError, typed_as
from spectator.runs.actors import ActorHandle, ActorPool, Shortage
from spectator.runs.run_plan import Attempt

WaitingFor = Literal["start", "place", "model", "retry", "environment", "journal", "worker"]
"""What an episode waits for.

``start``: its beginning, or the replay of its record. ``place``: a free place among the concurrent requests.
``model``: an answer. ``retry``: the time at which a rejected or failed request is repeated. ``environment``:
an answer of its environment. ``journal``: a step being recorded, or the processor. ``worker``: unknown,
because another process plays it.
"""

Standing = Literal["playing", "slow", "stalled"]
"""Whether an episode makes progress: ``slow`` beyond :data:`SLOW_TIMES` the median turn, ``stalled`` beyond
:data:`STALLED_TIMES` (and :data:`STALLED_LEAST_S`), or beyond the deadline of what it waits for."""

SLOW_TIMES: Final = 3.0
STALLED_TIMES: Final = 10.0
STALLED_LEAST_S: Final = 10.0
"""Seconds without a turn below which no episode is called stalled, however short the median."""


@dataclass(slots=True)
class InFlight:
    """An episode that is being played; times are those of the run's clock, in seconds.

    Args:
        worker: Number of the worker that plays it.
        attempt: Number of the attempt, from 1.
        turns: Decisions of the agent in this process.
        own: How many of these the model made itself, not a fallback.
        waiting_for: What it waits for now.
        until_s: When that wait ends at the latest, if known.
        why: Why it waits, in a word.
    """

    episode_id: str
    worker: int
    began_s: float
    attempt: int = 1
    turns: int = 0
    own: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    moved_s: float = 0.0
    waiting_for: WaitingFor = "start"
    until_s: float | None = None
    why: str = ""

    def waits(self, waiting_for: WaitingFor, until_s: float | None = None, why: str = "") -> None:
        """Note what it waits for from now on."""
        self.waiting_for = waiting_for
        self.until_s = until_s
        self.why = why

    def standing(self, now_s: float, median_s: float | None, deadline_s: float) -> Standing:
        """Return whether it makes progress.

        Args:
            median_s: The median time of a turn; ``None`` if none is known yet.
            deadline_s: Seconds after which any wait has passed its deadline.

        >>> flight = InFlight("ep-1", 0, began_s=0.0, moved_s=100.0)
        >>> [flight.standing(100.0 + idle_s, 4.0, 300.0) for idle_s in (5, 15, 41)]
        ['playing', 'slow', 'stalled']
        """
        idle_s = now_s - self.moved_s
        if idle_s > deadline_s:
            return "stalled"
        if median_s is None:
            return "playing"
        if idle_s > max(STALLED_LEAST_S, STALLED_TIMES * median_s):
            held = self.waiting_for in ("retry", "place")  # waits for a known time or place, with a deadline
            return "slow" if held else "stalled"
        return "slow" if idle_s > SLOW_TIMES * median_s else "playing"

    def reason(self, now_s: float) -> str:
        """Say what it waits for.

        >>> flight = InFlight("ep-1", 0, began_s=0.0)
        >>> flight.waits("retry", until_s=30.0, why="busy")
        >>> flight.reason(now_s=18.0)
        'retry after busy in 12 s'
        """
        if self.waiting_for == "retry":
            left = "" if self.until_s is None else f" in {max(0.0, self.until_s - now_s):.0f} s"
            return f"retry after {self.why}{left}"
        return self.why if self.waiting_for == "worker" else _WORDS[self.waiting_for]


_WORDS: Final = {
    "start": "its beginning",
    "place": "a place at the endpoint",
    "model": "the model",
    "environment": "its environment",
    "journal": "the journal or the processor",
}


class EpisodesInPlay(Protocol):
    """Episodes that are being played, for display."""

    @property
    def workers(self) -> int:
        """Episodes at once."""

    @property
    def in_flight(self) -> list[InFlight]:
        """Those that are being played, oldest first."""

    def drain(self) -> None:
        """Finish the episodes in play and start no more."""


logger = logging.getLogger(__name__)

JobT = TypeVar("JobT")

STARTUP_JITTER_S: Final = 2.0
"""Seconds over which the first episodes of a run begin, so that not all make requests at once."""


@dataclass(frozen=True, slots=True)
class EpisodeResult(Generic[JobT]):
    """The result of one attempt at a job; every attempt has one, even after a failure.

    Args:
        group_id: The group of samples that it belongs to, if any.
        end_reason: Why it ended; ``None`` if it was left to be resumed.
        total_reward: Sum of its rewards; ``None`` without a verdict.
        failure_class: Why there is no verdict, if there is none.
        turns: Actions taken or refused.
        terminated: Whether the world ended the episode itself.
        truncated: Whether it was cut short.
        again: Whether another attempt follows.
        attempt: Number of the attempt, from 1.
        decisions: Decisions that the agent was asked for.
        own: How many of these the model made itself; the others were made by a fallback, or not at all.
        refusals: Its answers that were refused: of the wrong form, or not legal.
        penalised: Whether its reward is that of an answer that was not an action.
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
    refusals: int = 0
    penalised: bool = False

    @property
    def own_share(self) -> float | None:
        """The share of decisions that the model made itself, 0 to 1; ``None`` without decisions."""
        return self.own / self.decisions if self.decisions else None


@dataclass(frozen=True, slots=True)
class RunReport(Generic[JobT]):
    """The results of a run.

    Args:
        results: One for each attempt, in the order in which they ended.
        drained: Whether it was asked to stop and left jobs unplayed.
    """

    results: Sequence[EpisodeResult[JobT]] = field(default_factory=tuple)
    drained: bool = False

    @property
    def last(self) -> list[EpisodeResult[JobT]]:
        """The results after which no attempt follows."""
        return [result for result in self.results if not result.again]

    @property
    def succeeded(self) -> bool:
        """Whether every job has a verdict."""
        return not self.drained and all(result.total_reward is not None for result in self.last)


class Play(Protocol[JobT]):
    """Plays an episode in an actor."""

    def __call__(self, handle: ActorHandle[JobT], flight: InFlight) -> Awaitable[EpisodeResult[JobT]]:
        """Play to the end; failures during play are part of the result.

        Args:
            flight: The episode's progress; the player keeps it current.
        """


class Interactor(Generic[JobT]):
    """Plays everything that a pool hands out, as many episodes at once as there are workers.

    A failed episode does not affect the others. Cancelling :meth:`run` cancels every episode and waits until
    each has stopped.

    Args:
        pool: Hands out actors; started and closed by :meth:`run`.
        again: Returns the job of the next attempt after a result, or ``None`` for no other attempt.
        on_result: Called with each result as it comes.
        max_workers: Episodes at once; the pool's size if omitted.
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
        """Finish the episodes in play and start no more."""
        self._draining = True
        self._pool.drain()

    async def drain_after(self, halted: Callable[[], Awaitable[object]]) -> None:
        """Wait for ``halted``, then drain."""
        await halted()
        self.drain()

    async def run(self) -> RunReport[JobT]:
        """Play until nothing is left or, after :meth:`drain`, until the episodes in play have ended."""
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
            with typed_as(_Unforeseen):
                return await self._play(handle, flight)
        except SpectatorError as error:
            unforeseen = error.__cause__ if isinstance(error, _Unforeseen) else None
            logger.warning("episode %s could not be played: %s", handle.env_id, error, exc_info=unforeseen)
            failure: FailureClass = getattr(error, "failure_class", "unknown")
            return EpisodeResult(
                handle.job, handle.env_id, handle.group_id, None, failure_class=failure, detail=str(error)
            )


class _Unforeseen(EpisodeError):
    """A failure that the code does not expect."""


TURNS_KEPT: Final = 256
"""Newest turns of which the median time is taken."""


@dataclass(slots=True)
class RunState:
    """The progress of a run, kept current while it runs.

    Args:
        over: Episodes that are done, including those of earlier runs.
        began_s: When this run began, by its clock.
        deadline_s: Seconds after which any wait of an episode has passed its deadline.
        ended: Attempts that ended in this run.
        again: How many of these are followed by another attempt.
        failures: How many of these had no verdict, by class of failure.
        rewards: Rewards of the others, in the order in which they ended.
        penalised: How many of these are the penalty for an answer that was not an action.
        own: How many of these the model made itself.
        turn_times: Seconds that the newest turns took.
        settled: Episodes that were completed in this run.
        ended_turns: Decisions in the attempts that ended in this run.
        shortage: Why no environment can be made at the moment; ``None`` if they can.
    """

    total: int
    over: int
    began_s: float
    deadline_s: float = 300.0
    ended: int = 0
    again: int = 0
    failures: dict[FailureClass, int] = field(default_factory=dict)
    rewards: array[float] = field(default_factory=lambda: array("d"))
    penalised: int = 0
    turns: int = 0
    own: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    turn_times: deque[float] = field(default_factory=lambda: deque(maxlen=TURNS_KEPT))
    settled: int = 0
    ended_turns: int = 0
    shortage: Shortage | None = None

    def take(self, result: EpisodeResult[Attempt]) -> None:
        """Count the result of an attempt."""
        self.ended += 1
        self.again += result.again
        self.ended_turns += result.decisions
        if result.failure_class is not None and result.total_reward is None:
            self.failures[result.failure_class] = self.failures.get(result.failure_class, 0) + 1
        if result.total_reward is not None:
            self.rewards.append(result.total_reward)
            self.penalised += result.penalised
        if not result.again and result.end_reason is not None:
            self.over += 1
            self.settled += 1

    def note_shortage(self, shortage: Shortage | None) -> None:
        """Note why no environment can be made, or ``None`` once one can."""
        self.shortage = shortage

    def decided(self, flight: InFlight, now_s: float, own: bool, tokens_in: int, tokens_out: int) -> None:
        """Count a decision of the agent in an episode that is being played."""
        self.turn_times.append(now_s - flight.moved_s)
        flight.moved_s = now_s
        flight.turns += 1
        flight.own += own
        flight.tokens_in += tokens_in
        flight.tokens_out += tokens_out
        self.turns += 1
        self.own += own
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out

    @property
    def usual_turn_s(self) -> float | None:
        """The median time of a turn, seconds; ``None`` before the first."""
        times = list(self.turn_times)
        return median(times) if times else None

    def left_s(self, now_s: float, under_way: int = 0) -> float | None:
        """Estimate the seconds until the run is over; ``None`` if that is unknown.

        Assumes that each remaining episode takes as many decisions as those that are over took, including
        failed attempts, at the overall rate. Decisions in unfinished episodes count towards that rate, so one
        finished episode is enough for an estimate.

        Args:
            under_way: Decisions in the episodes that are being played.

        >>> state = RunState(total=10, over=2, began_s=0.0)
        >>> state.over, state.settled, state.ended_turns, state.turns = 4, 2, 12, 36
        >>> state.left_s(now_s=20.0), state.left_s(now_s=20.0, under_way=24)
        (20.0, 6.666666666666667)
        """
        if not self.settled:
            return None
        left, took_s = self.total - self.over, now_s - self.began_s
        if not (self.turns and self.ended_turns):
            return left * took_s / self.settled
        turns = left * self.ended_turns / self.settled - under_way
        return max(0.0, turns) * took_s / self.turns

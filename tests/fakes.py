"""The stand-ins for time, policies and worlds; tests/test_fakes.py tests them."""

from __future__ import annotations

import asyncio
import dataclasses
import heapq
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.counting.world import CountingEnvironment
from spectator.environments.world import World
from spectator.events import Fact, RecordedEvent
from spectator.journal.contract import Attachments, Checkpoint
from spectator.observations import Observation
from spectator.policies.policy import Action, Decision, Policy, Preset


class ManualClock:
    """Time that stands still until a test advances it."""

    def __init__(self) -> None:
        self._moment = datetime(2026, 11, 21, 5, tzinfo=UTC)
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def now(self) -> datetime:
        return self._moment + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    @property
    def sleepers(self) -> int:
        """How many sleep now."""
        return sum(not future.done() for _, _, future in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._elapsed + seconds, self._count, future))
        await future

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass; whoever is due wakes in the order in which they are due."""
        self._elapsed += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed + 1e-9:
            _, _, future = heapq.heappop(self._sleepers)
            if not future.done():
                future.set_result(None)


async def until(met: Callable[[], bool], *, what: str = "the condition") -> None:
    """Give way to other tasks until ``met``; fails rather than waiting for ever."""
    try:
        async with asyncio.timeout(20):
            while not met():  # noqa: ASYNC110 - what it waits for is not always an event
                await asyncio.sleep(0.0005)
    except TimeoutError:
        raise AssertionError(f"{what} was never met") from None


class RecordingJournal:
    """A journal in memory.

    Args:
        fail_at: Raise ``failure`` instead of recording the append with this number, 1 the first.
        failure: What to raise.
        hold: Appends wait for it; they are in this journal once it is set.
        hold_from: Number of the first append that waits.
    """

    def __init__(
        self,
        *,
        fail_at: int | None = None,
        failure: Exception | None = None,
        hold: asyncio.Event | None = None,
        hold_from: int = 1,
    ) -> None:
        self.appends: list[Sequence[RecordedEvent]] = []
        self.attached: list[Attachments] = []
        self.calls = 0
        self._fail_at = fail_at
        self._failure = failure
        self._hold = hold
        self._hold_from = hold_from

    @property
    def waiting(self) -> bool:
        """Whether an append waits."""
        return self.calls > len(self.appends)

    @property
    def events(self) -> list[RecordedEvent]:
        """Everything recorded, in order."""
        return [recorded for append in self.appends for recorded in append]

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        self.calls += 1
        if self._failure is not None and self.calls == self._fail_at:
            raise self._failure
        if self._hold is not None and self.calls >= self._hold_from:
            await self._hold.wait()
        await asyncio.sleep(0)
        self.appends.append(tuple(events))
        if attachments is not None:
            self.attached.append(attachments)

    async def keep_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Nobody plays on from this journal."""


NO_JOURNAL: Any = None
"""The journal of records without model calls that are too long for their events."""


class FakePolicy:
    """A policy that does what its function does, and counts what is asked of it.

    Args:
        answer: Called with the observation; may raise, or return an awaitable.
        closing: Called by ``aclose``.
    """

    def __init__(
        self,
        answer: Callable[[Observation], Decision | Awaitable[Decision]],
        closing: Callable[[], Awaitable[None] | None] = lambda: None,
    ) -> None:
        self._answer = answer
        self._closing = closing
        self.asked = 0
        self.closed = 0

    async def decide(self, observation: Observation, *, deadline: float) -> Decision:
        self.asked += 1
        answer = self._answer(observation)
        return answer if isinstance(answer, Decision) else await answer

    async def aclose(self) -> None:
        self.closed += 1
        closing = self._closing()
        if closing is not None:
            await closing


def counted(observation: Observation) -> Decision:
    """The right number."""
    return Decision({"text": f"ACTION: {observation.content['next']}"}, "heuristic", "it is next")


def failing(error: BaseException) -> Callable[[Any], Any]:
    """A function that raises ``error``."""

    def fail(*_: Any) -> Any:
        raise error

    return fail


async def forever(*_: Any) -> Any:
    """Never come back."""
    await asyncio.get_running_loop().create_future()


class HeldEnvironment(CountingEnvironment):
    """A count whose steps wait for a gate.

    Args:
        gate: Steps from ``held_from`` on wait until it is set.
        held_from: Number of the first step that waits, 1 the first; 0 holds ``reset`` too.
    """

    def __init__(self, gate: threading.Event, *, held_from: int = 1) -> None:
        super().__init__()
        self._gate = gate
        self._held_from = held_from
        self._steps = 0
        self.waiting = threading.Event()

    def _hold(self) -> None:
        if self._steps >= self._held_from:
            self.waiting.set()
            self._gate.wait(20)

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Observation:
        self._hold()
        return super().reset(seed=seed, episode_id=episode_id, options=options)

    def step(self, action: Action) -> Observation:
        self._steps += 1
        self._hold()
        return super().step(action)


class LyingEnvironment(CountingEnvironment):
    """A count whose answers are changed on the way out.

    Args:
        lie: Changes the answer to a step.
        facts: Changes what happened in a step.
    """

    def __init__(
        self,
        lie: Callable[[Observation], Any] = lambda observation: observation,
        facts: Callable[[Sequence[Fact]], Any] = lambda facts: facts,
    ) -> None:
        super().__init__()
        self._lie = lie
        self._changed = facts
        self._stepped = False

    def step(self, action: Action) -> Observation:
        self._stepped = True
        answer: Observation = self._lie(super().step(action))
        return answer

    def facts(self) -> Sequence[Fact]:
        facts = super().facts()
        changed: Sequence[Fact] = self._changed(facts) if self._stepped else facts
        return changed


def world_with(*, policy: Callable[[int], Policy] | None = None, **changes: Any) -> World:
    """The counting world with another captain, or with other parts."""
    if policy is not None:
        changes["captains"] = {
            "heuristic": Preset("heuristic", "Fake", "Does as it is told.", "heuristic", policy)
        }
    return dataclasses.replace(COUNTING, **changes)

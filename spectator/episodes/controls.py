"""Control a running episode: its pace, pauses, end and time limits."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Final, Literal, Self

from spectator.clock import Clock, first_of
from spectator.events import Fact


@dataclass(frozen=True, slots=True)
class EpisodeLimits:
    """Time and size limits of an episode.

    Args:
        decision_s: Seconds for one decision.
        step_s: Seconds for one step of the world.
        reset_s: Seconds for the world's reset, which may load data.
        episode_s: Seconds for the whole episode, excluding pauses.
        characters: Characters of the record after which the episode is cut off.
    """

    decision_s: float = 120.0
    step_s: float = 30.0
    reset_s: float = 60.0
    episode_s: float = 6 * 3600.0
    characters: float = math.inf

    @classmethod
    def patient(cls, decision_s: float) -> Self:
        """Return the default limits with at least ``decision_s`` for a decision."""
        return cls(decision_s=max(cls().decision_s, decision_s))


class Pace(StrEnum):
    """How fast an episode is played."""

    BROADCAST = "broadcast"
    FAST = "fast"
    MAX = "max"


BROADCAST_BEAT_S: Final = 2.0
"""Seconds per beat (such as a ball) at the broadcast pace."""

BROADCAST_STEP_S: Final = 0.15
"""Seconds per step without a beat at the broadcast pace, so that the eye can follow."""

FAST_STEP_S: Final = 0.1
"""Seconds per step at the fast pace."""


def beats_in(facts: Sequence[Fact], beats: Mapping[str, float]) -> float:
    """Return how many beats the facts of a step are worth; 1 if the world defines no beats."""
    return sum(beats.get(fact.type, 0.0) for fact in facts) if beats else 1.0


def step_duration(pace: Pace, beats: float) -> float:
    """Return the seconds from the start of a step to the start of the next."""
    match pace:
        case Pace.BROADCAST:
            return max(BROADCAST_STEP_S, BROADCAST_BEAT_S * beats)
        case Pace.FAST:
            return FAST_STEP_S
        case Pace.MAX:
            return 0.0


@dataclass(frozen=True, slots=True)
class EndRequest:
    """A request to end the episode.

    Args:
        reason: ``stopped`` by a person, ``interrupted`` by the server's shutdown, ``step_cap`` if it reached
            a size limit, ``timeout`` if it held its slot for too long, ``suspended`` for another process to
            resume it: then no end is recorded.
        detail: Explanation for people.
    """

    reason: Literal["stopped", "interrupted", "step_cap", "timeout", "suspended"]
    detail: str | None


class EndRequested(Exception):
    """Raised inside the episode's own waits once its end is requested."""


class Control:
    """End, pause and pace of one episode; use it on the event loop that plays the episode."""

    def __init__(self, pace: Pace, clock: Clock) -> None:
        self.pace = pace
        """The current pace; see :meth:`set_pace`."""
        self.held = False
        """Whether :meth:`play_on` must wait or raise: play is paused, or its end was requested."""
        self._clock = clock
        self.end: EndRequest | None = None
        """The first request to end, if any; see :meth:`request_end`."""
        self.wait: asyncio.Timeout | None = None
        """The scope of the current wait; set by :class:`ControlledWait`, like :attr:`left`."""
        self.left: float | None = None
        """Remaining seconds of the current wait's limit while play is paused."""
        self._resumed: asyncio.Event | None = None  # created when needed: an event takes 0.8 kB
        self._pace_changed: asyncio.Event | None = None
        self._breath_until = float("-inf")

    @property
    def paused(self) -> bool:
        """Whether play is paused."""
        return self._resumed is not None

    def request_end(self, request: EndRequest) -> None:
        """Request the end; cancels the current wait at once."""
        if self.end is None:
            self.end, self.held = request, True
            if self.wait is not None and not self.wait.expired():
                self.wait.reschedule(0.0)

    def pause(self) -> None:
        """Pause play before its next step is recorded; also pauses the limit of the current wait."""
        self._resumed = self._resumed or asyncio.Event()
        self.held = True
        until = self._limited.when() if self._limited is not None else None
        if self._limited is not None and until is not None:
            self.left = until - asyncio.get_running_loop().time()
            self._limited.reschedule(None)

    def resume(self) -> None:
        """Resume play."""
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            resumed.set()
        self.held = self.end is not None
        if self._limited is not None and self.left is not None:
            self._limited.reschedule(asyncio.get_running_loop().time() + self.left)
        self.left = None

    @property
    def _limited(self) -> asyncio.Timeout | None:
        """The current wait if its limit can still be moved."""
        wait = self.wait
        return None if wait is None or wait.expired() or self.end is not None else wait

    def set_pace(self, pace: Pace) -> None:
        """Change the pace, starting with the current wait."""
        self.pace = pace
        if self._pace_changed is not None:
            self._pace_changed.set()

    def breathe(self, seconds: float) -> None:
        """Delay the next step until ``seconds`` from now, at the broadcast pace, if it has not begun."""
        self._breath_until = max(self._breath_until, self._clock.monotonic() + seconds)

    async def play_on(self) -> None:
        """Wait while play is paused.

        Raises:
            EndRequested: The end was requested.
        """
        async with ControlledWait(self):
            if self._resumed is not None:
                await self._resumed.wait()

    async def keep_pace(self, step_began: float, beats: float) -> None:
        """Wait until the next step is due, following changes of the pace.

        Args:
            step_began: When this step began, by the clock's ``monotonic``.
            beats: How many beats it was worth.

        Raises:
            EndRequested: The end was requested.
        """
        while True:
            due = step_began + step_duration(self.pace, beats)
            if self.pace is Pace.BROADCAST:
                due = max(due, self._breath_until)
            left = due - self._clock.monotonic()
            if left <= 0:
                return
            changed = self._pace_changed = asyncio.Event()
            async with ControlledWait(self):
                await first_of(self._clock.sleep(left), changed.wait())


@dataclass(slots=True)
class ControlledWait:
    """A context for one wait that a request to end cancels; an episode has one at a time.

    Args:
        limit_s: Seconds of play, excluding pauses, after which the wait times out.

    Raises:
        EndRequested: The end was requested.
        TimeoutError: The limit was reached; then ``expired()`` of its scope is true.
    """

    control: Control
    limit_s: float | None = None
    scope: asyncio.Timeout = field(init=False)

    async def __aenter__(self) -> asyncio.Timeout:
        control, limit_s = self.control, self.limit_s
        if control.end is not None:
            raise EndRequested
        paused = control.held
        control.left = limit_s if paused else None
        control.wait = self.scope = scope = asyncio.timeout(None if paused else limit_s)
        await scope.__aenter__()
        return scope

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.scope.__aexit__(kind, error, trace)
        except TimeoutError:
            if self.control.end is not None and self.scope.expired():
                raise EndRequested from None
            raise
        finally:
            self.control.wait = self.control.left = None
        if isinstance(error, TimeoutError) and self.control.end is not None and self.scope.expired():
            raise EndRequested from None

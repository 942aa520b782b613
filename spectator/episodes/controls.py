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
    """How long an episode may wait for whom, and how much it may record.

    Args:
        decision_s: Seconds for one decision.
        step_s: Seconds for one step of the world.
        reset_s: Seconds for its beginning, which may load data.
        episode_s: Seconds for all of it, pauses left out.
        characters: Characters of its record after which it is cut short.
    """

    decision_s: float = 120.0
    step_s: float = 30.0
    reset_s: float = 60.0
    episode_s: float = 6 * 3600.0
    characters: float = math.inf

    @classmethod
    def patient(cls, decision_s: float) -> Self:
        """The usual limits, but at least ``decision_s`` for a decision."""
        return cls(decision_s=max(cls().decision_s, decision_s))


class Pace(StrEnum):
    """How fast an episode is played."""

    BROADCAST = "broadcast"
    FAST = "fast"
    MAX = "max"


BROADCAST_BEAT_S: Final = 2.0
"""Seconds that a beat (a ball, say) lasts at the broadcast pace."""

BROADCAST_STEP_S: Final = 0.15
"""Seconds that a step without any beat lasts at the broadcast pace, so that the eye can follow."""

FAST_STEP_S: Final = 0.1
"""Seconds that a step lasts at the fast pace."""


def beats_in(facts: Sequence[Fact], beats: Mapping[str, float]) -> float:
    """How many beats these facts are worth; every step is one when a world names none."""
    return sum(beats.get(fact.type, 0.0) for fact in facts) if beats else 1.0


def step_duration(pace: Pace, beats: float) -> float:
    """Seconds from the start of a step to the start of the next."""
    match pace:
        case Pace.BROADCAST:
            return max(BROADCAST_STEP_S, BROADCAST_BEAT_S * beats)
        case Pace.FAST:
            return FAST_STEP_S
        case Pace.MAX:
            return 0.0


@dataclass(frozen=True, slots=True)
class EndRequest:
    """Somebody wants the episode to end.

    Args:
        reason: ``stopped`` when a person asked, ``interrupted`` when the server goes away for good,
            ``step_cap`` when there is no room for more, ``timeout`` when it held its slot for too long,
            ``suspended`` when another process is to play on: no end is told then.
        detail: For people.
    """

    reason: Literal["stopped", "interrupted", "step_cap", "timeout", "suspended"]
    detail: str | None


class EndRequested(Exception):
    """Raised inside the episode's own waits once its end was asked for."""


class Control:
    """End, pause and pace of one episode; to be used on the event loop that plays it.

    Args:
        pace: How fast it starts.
        clock: Measures and waits.
    """

    def __init__(self, pace: Pace, clock: Clock) -> None:
        self.pace = pace
        """How fast it is played now; see :meth:`set_pace`."""
        self.held = False
        """Whether :meth:`play_on` has to wait or to raise: play is paused, or its end was asked for."""
        self._clock = clock
        self.end: EndRequest | None = None
        """The end that was asked for first, if any; see :meth:`request_end`."""
        self.wait: asyncio.Timeout | None = None
        """Ends what the episode waits for now; set by :class:`ControlledWait`, as is :attr:`left`."""
        self.left: float | None = None
        """Seconds of the limit of that wait that are left, while play stands still."""
        self._resumed: asyncio.Event | None = None  # both only while needed: an event is 0.8 kB
        self._pace_changed: asyncio.Event | None = None
        self._breath_until = float("-inf")

    @property
    def paused(self) -> bool:
        """Whether play stands still."""
        return self._resumed is not None

    def request_end(self, request: EndRequest) -> None:
        """Ask for the end: whatever the episode waits for is given up at once."""
        if self.end is None:
            self.end, self.held = request, True
            if self.wait is not None and not self.wait.expired():
                self.wait.reschedule(0.0)

    def pause(self) -> None:
        """Let play stand still before its next step is told; the limit of its wait stands still too."""
        self._resumed = self._resumed or asyncio.Event()
        self.held = True
        until = self._limited.when() if self._limited is not None else None
        if self._limited is not None and until is not None:
            self.left = until - asyncio.get_running_loop().time()
            self._limited.reschedule(None)

    def resume(self) -> None:
        """Let play go on."""
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            resumed.set()
        self.held = self.end is not None
        if self._limited is not None and self.left is not None:
            self._limited.reschedule(asyncio.get_running_loop().time() + self.left)
        self.left = None

    @property
    def _limited(self) -> asyncio.Timeout | None:
        """The wait whose limit may still be moved; none once it is over or the end was asked for."""
        wait = self.wait
        return None if wait is None or wait.expired() or self.end is not None else wait

    def set_pace(self, pace: Pace) -> None:
        """Play at another pace, from the current wait on."""
        self.pace = pace
        if self._pace_changed is not None:
            self._pace_changed.set()

    def breathe(self, seconds: float) -> None:
        """Let the next step wait ``seconds`` from now, at the broadcast pace, if it has not begun."""
        self._breath_until = max(self._breath_until, self._clock.monotonic() + seconds)

    async def play_on(self) -> None:
        """Wait until no pause holds.

        Raises:
            EndRequested: The end was asked for meanwhile.
        """
        async with ControlledWait(self):
            if self._resumed is not None:
                await self._resumed.wait()

    async def keep_pace(self, step_began: float, beats: float) -> None:
        """Wait until the next step is due, by whatever pace holds by then.

        Args:
            step_began: When this step began, by the clock's ``monotonic``.
            beats: How many beats it was worth.

        Raises:
            EndRequested: The end was asked for meanwhile.
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
    """Around a wait that the end cuts short; the episode waits for one thing at a time.

    Args:
        control: Of the episode.
        limit_s: Seconds of play, pauses left out, after which the wait is given up anyway.
        scope: What ends it, once it has begun.

    Raises:
        EndRequested: The end was asked for.
        TimeoutError: The limit was reached; the ``expired()`` of its scope tells it from others.
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

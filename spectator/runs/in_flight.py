"""An episode that is being played: how far it is, what it waits for, and whether it still moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

WaitingFor = Literal["start", "place", "model", "retry", "environment", "journal", "worker"]
"""What an episode waits for.

``start``: its beginning, or its record being played again. ``place``: its turn among the requests under way.
``model``: an answer. ``retry``: the time at which a refused or failed request is sent again. ``environment``:
an answer of its environment. ``journal``: a step being recorded, or the processor. ``worker``: it is unknown,
for another process plays it.
"""

Standing = Literal["playing", "slow", "stalled"]
"""Whether an episode moves: ``slow`` beyond :data:`SLOW_TIMES` the median turn, ``stalled`` beyond
:data:`STALLED_TIMES` (and :data:`STALLED_LEAST_S`), or beyond the deadline of what it waits for."""

SLOW_TIMES: Final = 3.0
STALLED_TIMES: Final = 10.0
STALLED_LEAST_S: Final = 10.0
"""Seconds without a turn below which no episode is called stalled, however short the median."""


@dataclass(slots=True)
class InFlight:
    """An episode that is being played; times are those of the run's clock, in seconds.

    Args:
        episode_id: Its id.
        worker: Number of the worker that plays it.
        began_s: When it began.
        attempt: Number of the attempt, from 1.
        turns: Decisions of the agent in this process.
        own: How many of these the model made itself, and no fallback.
        tokens_in: Tokens read for them.
        tokens_out: Tokens written for them.
        moved_s: When it last came further.
        waiting_for: What it waits for now.
        until_s: When that is over at the latest, where it is known.
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
        """Whether it moves.

        Args:
            now_s: Now.
            median_s: The usual time of a turn; ``None`` where none is known yet.
            deadline_s: Seconds after which whatever it waits for is over by its deadline.

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
            held = self.waiting_for in ("retry", "place")  # it is known what for, and it has a deadline
            return "slow" if held else "stalled"
        return "slow" if idle_s > SLOW_TIMES * median_s else "playing"

    def reason(self, now_s: float) -> str:
        """What it waits for, in words.

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


class InPlay(Protocol):
    """Episodes that are being played, for whoever shows them."""

    @property
    def workers(self) -> int:
        """Episodes at once."""
        ...

    @property
    def in_flight(self) -> list[InFlight]:
        """Those that are being played, oldest first."""
        ...

    def drain(self) -> None:
        """Finish what is being played, and take no more."""
        ...

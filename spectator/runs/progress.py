"""How far a run of rollouts is: counted as it goes, for whoever looks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from spectator.errors import FailureClass
from spectator.runs.actors import Shortage
from spectator.runs.in_flight import InFlight
from spectator.runs.interactor import EpisodeResult
from spectator.runs.owed import Attempt

TURNS_KEPT: Final = 256
"""Newest turns whose median time is the usual one."""


@dataclass(slots=True)
class FleetState:
    """How far a run is; kept current while it runs.

    Args:
        total: Episodes of the run.
        over: Episodes that need not be played any more, earlier runs included.
        began_s: When this run began, by its clock.
        deadline_s: Seconds after which whatever an episode waits for is over by its deadline.
        ended: Attempts that ended in this run.
        again: How many of these are followed by another attempt.
        failures: How many of these had no verdict, by class of failure.
        rewards: How many had one.
        reward_sum: The sum of their rewards.
        turns: Decisions in all of them.
        own: How many of these the model made itself.
        tokens_in: Tokens read for them.
        tokens_out: Tokens written for them.
        turn_times: Seconds that the newest turns took.
        settled: Episodes that came to be over in this run.
        ended_turns: Decisions in the attempts that ended in this run.
        shortage: Why no environment can be made at the moment; ``None`` when they can.
    """

    total: int
    over: int
    began_s: float
    deadline_s: float = 300.0
    ended: int = 0
    again: int = 0
    failures: dict[FailureClass, int] = field(default_factory=dict)
    rewards: int = 0
    reward_sum: float = 0.0
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
            self.rewards += 1
            self.reward_sum += result.total_reward
        if not result.again and result.end_reason is not None:
            self.over += 1
            self.settled += 1

    def note_shortage(self, shortage: Shortage | None) -> None:
        """Note why no environment can be made, or that one can."""
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
    def mean_reward(self) -> float | None:
        """The mean of the rewards of this run; ``None`` where there is none."""
        return self.reward_sum / self.rewards if self.rewards else None

    @property
    def usual_turn_s(self) -> float | None:
        """The median time of a turn; ``None`` where there was none."""
        times = list(self.turn_times)
        return median(times) if times else None

    def left_s(self, now_s: float, under_way: int = 0) -> float | None:
        """Seconds until the rest is over, if it goes on as so far in this run; ``None`` where nobody knows.

        An episode is taken to need as many decisions as those that are over needed, attempts that failed
        included, at the rate of all: what is under way counts too, so that the first to be over tells enough.

        Args:
            now_s: Now.
            under_way: Decisions in the episodes that are being played.

        >>> state = FleetState(total=10, over=2, began_s=0.0)
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

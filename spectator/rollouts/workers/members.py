"""Workers as their desk knows them: what each plays under which lease, and how far that is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from spectator.events import RecordedEvent
from spectator.policies.spending import Spent
from spectator.rollouts.in_flight import InFlight, WaitingFor
from spectator.rollouts.playing import OwnDecisions
from spectator.rollouts.workers.calls import CallsUnderLease
from spectator.runs.owed import Attempt

logger = logging.getLogger(__name__)

SLOW_S: Final = 5.0
"""A worker whose event loop stands still for longer is slow: it lives, and something in it computes."""


@dataclass(slots=True)
class LeasedAttempt:
    """An attempt under lease.

    Args:
        attempt: The attempt.
        flight: How far it is.
        own: Counts its decisions.
        turn: The last turn that is recorded.
        playing: Whether it is being played: there is an environment for it.
    """

    attempt: Attempt
    flight: InFlight
    own: OwnDecisions
    turn: int = 0
    playing: bool = False

    def plays(self, now_s: float) -> None:
        """Note that it is being played; it counts as begun now, where it was not before.

        Args:
            now_s: The time, monotonic.
        """
        if not self.playing:
            self.playing = True
            self.flight.began_s = self.flight.moved_s = now_s

    def moved(self, events: Sequence[RecordedEvent], agent: str) -> bool:
        """Count what was recorded of it; whether its episode is a turn further.

        Args:
            events: What was recorded, at least one event.
            agent: The actor whose decisions count.
        """
        for recorded in events:
            if recorded.type == "decision.made" and (data := recorded.event.data)["actor"] == agent:
                self.own.count(data["source"], data["tokens_in"], data["tokens_out"])
        further = events[-1].event.turn > self.turn
        self.turn = max(self.turn, events[-1].event.turn)
        return further


@dataclass(slots=True, eq=False)
class Member:
    """A worker that is at work, or was.

    Args:
        name: Its name, of nobody else in the run.
        number: The same as a number.
        send: Sends it a message.
        want: Episodes that it could play beyond those that it has.
        held: What it plays, by the number of the lease.
        elsewhere: What the others spent, that it was not told yet.
        no_environment: Why none can be made for what it holds; ``None`` where one can.
        stood_still_s: How long its event loop stands still, by its last word.
        doing: What is being done for it.
        calls: The last call of each episode that it plays, by the number of the lease.
    """

    name: str
    number: int
    send: Callable[[object], None]
    want: int = 0
    held: dict[int, LeasedAttempt] = field(default_factory=dict)
    elsewhere: Spent = field(default_factory=Spent)
    no_environment: str | None = None
    stood_still_s: float = 0.0
    doing: set[asyncio.Task[None]] = field(default_factory=set)
    calls: dict[int, CallsUnderLease] = field(default_factory=dict)

    def note_beat(self, stood_still_s: float) -> None:
        """Take its word on how long its event loop stands still, and warn once when it becomes slow."""
        if stood_still_s > SLOW_S >= self.stood_still_s:
            logger.warning("worker %s is slow: it computes for %.0f s", self.name, stood_still_s)
        self.stood_still_s = stood_still_s

    def note_waiting(self, flights: Mapping[str, tuple[WaitingFor, float | None, str]], now_s: float) -> None:
        """Take its word on what its episodes wait for.

        Args:
            flights: By episode: what it waits for, seconds until it goes on where they are known, and why.
            now_s: The time, monotonic.
        """
        for held in self.held.values():
            if (told := flights.get(held.flight.episode_id)) is not None:
                held.plays(now_s)
                waiting_for, left_s, why = told
                held.flight.waits(waiting_for, None if left_s is None else now_s + left_s, why)

"""The interface of an episode for its viewers, in whatever process it is played.

:class:`~spectator.episodes.handle.EpisodeHandle` implements it for episodes of this process; a process that
follows another one's journal can implement its own.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from spectator.bus import Overflow, Subscription
from spectator.core_events import EpisodeEnded
from spectator.episodes.decisions import Thinking
from spectator.episodes.stream import JournalTrouble
from spectator.episodes.view import State


class EpisodeView(Protocol):
    """An episode as its viewers see it.

    ``state``, ``head_seq`` and :meth:`subscribe` belong together: a caller that awaits :meth:`open` and then
    uses all three without an ``await`` in between misses no event and sees none twice.
    """

    @property
    def episode_id(self) -> str:
        """Id of the episode."""

    @property
    def epoch(self) -> str:
        """Id of its numbering; sequence numbers of another epoch are meaningless."""

    @property
    def head_seq(self) -> int:
        """Number of the last event shown to viewers; 0 before its start is recorded."""

    @property
    def state(self) -> State:
        """The viewers' state after event ``head_seq``; never changed in place."""

    @property
    def turn(self) -> int:
        """Actions taken or refused so far."""

    @property
    def started_at(self) -> datetime:
        """When it began."""

    @property
    def withholds(self) -> bool:
        """Whether decisions and thoughts are shown only together with what they led to."""

    @property
    def thinking(self) -> Thinking:
        """The current partial decision; never recorded."""

    @property
    def trouble(self) -> JournalTrouble | None:
        """Why its record cannot be written now; play is paused meanwhile."""

    @property
    def ended(self) -> bool:
        """Whether it has ended."""

    @property
    def end_recorded(self) -> bool:
        """Whether its end is recorded; false also if recording it failed for good."""

    async def open(self) -> None:
        """Bring ``state`` and ``head_seq`` up to date with the record.

        Raises:
            EnvironmentFault: The record cannot be shown.
            JournalError: The record cannot be read.
        """

    def subscribe(self, overflow: Overflow, *, capacity: int = 256) -> Subscription:
        """Subscribe to the events after ``head_seq``, until the subscription or the episode ends.

        Args:
            overflow: What to do when ``capacity`` events wait.
            capacity: Maximum number of waiting events, at least 1.
        """

    async def news(self) -> JournalTrouble | None:
        """Wait until the next failed attempt to record, or the first success after failures."""

    async def wait(self) -> EpisodeEnded:
        """Wait for its end.

        Raises:
            EpisodeNotFound: It has no end: its start was not recorded, or another process resumes it.
        """

"""Define what a viewer needs of an episode, wherever it is played.

:class:`~spectator.episodes.handle.EpisodeHandle` implements it for episodes of this process; a process that
follows another one's journal can bring its own.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from spectator.bus import Overflow, Subscription
from spectator.episodes.decisions import Thinking
from spectator.episodes.stream import JournalTrouble
from spectator.episodes.view import State
from spectator.events import EpisodeEnded


class EpisodeView(Protocol):
    """An episode as its viewers see it.

    ``state``, ``head_seq`` and :meth:`subscribe` belong together: whoever has awaited :meth:`open` and takes
    all three without an ``await`` in between misses no event and sees none twice.
    """

    @property
    def episode_id(self) -> str:
        """Its one id, everywhere."""
        ...

    @property
    def epoch(self) -> str:
        """Identity of its numbering; numbers of another one mean nothing here."""
        ...

    @property
    def head_seq(self) -> int:
        """Number of the last event that viewers were given; 0 before its beginning is recorded."""
        ...

    @property
    def state(self) -> State:
        """What viewers see after event ``head_seq``; never changed in place."""
        ...

    @property
    def turn(self) -> int:
        """Actions taken or refused so far."""
        ...

    @property
    def started_at(self) -> datetime:
        """When it began."""
        ...

    @property
    def withholds(self) -> bool:
        """Whether viewers are shown decisions, and thoughts, only together with what they led to."""
        ...

    @property
    def thinking(self) -> Thinking:
        """What its captains think at the moment; never recorded."""
        ...

    @property
    def trouble(self) -> JournalTrouble | None:
        """What keeps its record from being written now; play stands still meanwhile."""
        ...

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        ...

    @property
    def end_recorded(self) -> bool:
        """Whether its end is in the record; not so where that failed for good."""
        ...

    async def open(self) -> None:
        """Bring ``state`` and ``head_seq`` up to what is recorded; returns at once where they are.

        Raises:
            EnvironmentFault: What is recorded cannot be shown.
            JournalError: The record cannot be read.
        """
        ...

    def subscribe(self, overflow: Overflow, *, capacity: int = 256) -> Subscription:
        """Every event after ``head_seq``, as it is recorded, until the subscription or the episode ends.

        Args:
            overflow: What to do when ``capacity`` events wait.
            capacity: Most events that may wait, at least 1.
        """
        ...

    async def news(self) -> JournalTrouble | None:
        """Wait until another attempt to record has failed, or the first has succeeded again."""
        ...

    async def wait(self) -> EpisodeEnded:
        """Wait for its end.

        Raises:
            EpisodeNotFound: It was given up without one: its beginning failed, or another process plays on.
        """
        ...

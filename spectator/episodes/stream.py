"""Owns the numbering of an episode's events, and with it their order: fold, record, then publish."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

from spectator.bus.base import Bus
from spectator.clock import Clock, timestamp
from spectator.environments.base import Projection, World
from spectator.episodes.projection import State, unchanged, with_patch
from spectator.errors import EnvironmentFault, EpisodeError, EpisodeNotFound, EpisodeOver, JournalError
from spectator.events import Event, Fact, NarrationLine, RecordedEvent, core_fact, decode, record
from spectator.journal.base import Journal
from spectator.merge_patch import apply_patch
from spectator.narration.base import Commentator, Line, silent

logger = logging.getLogger(__name__)

Step = tuple[int, Sequence[Fact]]
"""A turn and its facts."""

LONG: Final = 64
"""Facts, beyond which they are folded and encoded on a thread."""


class EpisodeStream:
    """The one author of an episode's numbers.

    ``state`` and ``head_seq`` always belong together and never run ahead of the journal, so a viewer
    who takes both and subscribes without an ``await`` in between misses nothing.

    Args:
        episode_id: Whose events.
        epoch: Identity of the numbering.
        world: Whose projection folds and whose commentator speaks.
        journal: Where events are recorded before anyone sees them.
        bus: Where recorded events are published.
        clock: Stamps them.
        state: What viewers saw last, where another process began it.
        head_seq: The number of the last event then.
    """

    def __init__(
        self,
        episode_id: str,
        epoch: str,
        *,
        world: World,
        journal: Journal,
        bus: Bus,
        clock: Clock,
        state: State | None = None,
        head_seq: int = 0,
    ) -> None:
        self.episode_id = episode_id
        self.epoch = epoch
        self._world = world
        self._journal = journal
        self._bus = bus
        self._clock = clock
        self._state: State = state or {}
        self._head_seq = head_seq
        self._ended = False
        self._order = asyncio.Lock()

    @property
    def state(self) -> State:
        """What viewers see after event ``head_seq``."""
        return self._state

    @property
    def head_seq(self) -> int:
        """Number of the last recorded event; 0 before the first."""
        return self._head_seq

    async def emit(self, turn: int, facts: Sequence[Fact]) -> None:
        """Number, fold, record and publish the facts of one turn; see :meth:`emit_steps`."""
        await self.emit_steps([(turn, facts)])

    async def emit_steps(self, steps: Sequence[Step]) -> None:
        """Number, fold, record and publish the facts of ``steps`` and the commentary on them, all or none.

        Survives cancellation: what was begun is finished, so numbers and record never part. The end is
        always told: where the world's projection or commentary of it fails, without them.

        Raises:
            EnvironmentFault: A fact is not plain finite JSON, or its projection or commentary failed.
            EpisodeNotFound: The beginning was not recorded; it is the first event of a stream.
            EpisodeOver: The end was told before; it is the last event of a stream.
            JournalError: They could not be recorded; nobody has seen them.
        """
        facts = [(turn, fact) for turn, of_turn in steps for fact in of_turn]
        if facts:
            await asyncio.shield(asyncio.get_running_loop().create_task(self._emit(facts)))

    async def _emit(self, facts: Sequence[tuple[int, Fact]]) -> None:
        async with self._order:
            if self._ended:
                raise EpisodeOver(self.episode_id)
            if self._head_seq == 0 and facts[0][1].type != "episode.started":
                raise EpisodeNotFound(self.episode_id)
            ends = facts[-1][1].type == "episode.ended"
            try:
                batch = await self._told(facts)
            except EnvironmentFault:
                if not ends:
                    raise
                logger.exception("episode %s: the world's view of the end failed", self.episode_id)
                batch = self._tell(facts, unchanged, silent)
            await self._record(batch.events)
            self._state, self._head_seq, self._ended = batch.state, batch.seq, ends
            self._bus.publish(batch.events)

    async def _told(self, facts: Sequence[tuple[int, Fact]]) -> _Batch:
        """What ``facts`` come to; many of them on a thread, for nobody is to wait for one episode's past."""
        told = partial(self._tell, facts, self._world.projection, self._world.commentator)
        return await asyncio.to_thread(told) if len(facts) > LONG else told()

    async def _record(self, events: Sequence[RecordedEvent]) -> None:
        try:
            await self._journal.append(events)
        except EpisodeError:
            raise
        except Exception as error:
            raise JournalError(f"{type(error).__name__}: {error}") from error

    def _tell(
        self, facts: Sequence[tuple[int, Fact]], projection: Projection, commentator: Commentator
    ) -> _Batch:
        batch = _Batch(self, timestamp(self._clock.now()), projection, commentator)
        try:
            for turn, fact in facts:
                batch.add(turn, fact)
        except Exception as error:
            raise EnvironmentFault(f"an event of {self._world.name} could not be told: {error!r}") from error
        return batch


class _Batch:
    """The events of one emission while they are being made."""

    def __init__(
        self, stream: EpisodeStream, at: str, projection: Projection, commentator: Commentator
    ) -> None:
        self.events: list[RecordedEvent] = []
        self.state = stream.state
        self.seq = stream.head_seq
        self._stream = stream
        self._at = at
        self._projection = projection
        self._commentator = commentator

    def add(self, turn: int, fact: Fact) -> None:
        """Append a fact of ``turn`` and the lines about it."""
        event = self._append(turn, fact)
        for line in self._commentator(event, self.state):
            self._append(turn, _line_fact(line, event.seq))

    def _append(self, turn: int, fact: Fact) -> Event:
        self.seq += 1
        stream = self._stream
        draft = Event(stream.episode_id, stream.epoch, self.seq, self._at, turn, fact.type, fact.data)
        # What is kept is what every reader will decode, so it shares nothing that the world may change later.
        recorded = decode(record(with_patch(self.state, draft, self._projection)).text)
        self.state = apply_patch(self.state, recorded.event.patch)
        self.events.append(recorded)
        return recorded.event


def _line_fact(line: Line, seq: int) -> Fact:
    return core_fact(
        NarrationLine(text=line.text, for_seq=seq, priority=line.priority, label=line.label, at=line.at)
    )

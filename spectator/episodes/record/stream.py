"""The event stream of an episode: numbers its events, folds the view, records, then publishes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial, partialmethod
from typing import Any, Final

from spectator.bus.base import Bus, Overflow, Subscription
from spectator.clock import Clock, timestamp
from spectator.environments.base import Projection
from spectator.environments.world import World
from spectator.episodes.record.embargo import Embargo
from spectator.episodes.record.recorder import Recorder, Trouble
from spectator.episodes.record.view import State, ViewFold, unchanged
from spectator.errors import EnvironmentFault, EpisodeNotFound, EpisodeOver, JournalUnavailable, typed_as
from spectator.events import Event, Fact, RecordedEvent, Warned, core_fact
from spectator.futures import whole
from spectator.journal.attachments import Attachments
from spectator.journal.base import EpisodeLog
from spectator.narration.base import Commentator, silent

logger = logging.getLogger(__name__)

KEPT: Final = "Play stood still meanwhile; nothing is missing."

TurnFacts = tuple[int, Sequence[Fact]]
"""A turn and its facts."""

LONG: Final = 64
"""Facts, beyond which they are folded and encoded on a thread."""


class EpisodeStream:
    """The one author of an episode's numbers.

    ``state`` and ``head_seq`` always belong together and never run ahead of the journal, and so do those of
    ``shown``, so a viewer who takes both and subscribes without an ``await`` in between misses nothing.

    Args:
        episode_id: Whose events.
        epoch: Identity of the numbering.
        world: Whose projection folds and whose commentator speaks.
        journal: Where events are recorded before anyone sees them.
        bus: Where recorded events are published.
        clock: Stamps them.
        patience_s: Seconds that a step waits for a journal that cannot be written; its end waits for ever.
        state: What viewers saw last, where another process began it.
        head_seq: The number of the last event then.
        embargo: Holds back what viewers may not see yet; nothing is held back when left out.
    """

    def __init__(
        self,
        episode_id: str,
        epoch: str,
        *,
        world: World,
        journal: EpisodeLog,
        bus: Bus,
        clock: Clock,
        patience_s: float = 0.0,
        state: State | None = None,
        head_seq: int = 0,
        embargo: Embargo | None = None,
    ) -> None:
        self.episode_id = episode_id
        self.epoch = epoch
        self._world = world
        self._recorder = Recorder(episode_id, journal, clock, patience_s)
        self.news = self._recorder.news
        """Waits until another attempt to record has failed, or the first has succeeded again."""
        self._bus = bus
        self._clock = clock
        self.state: State = state or {}
        """What viewers see after event ``head_seq``."""
        self.head_seq = head_seq
        """Number of the last recorded event; 0 before the first."""
        self.shown = embargo or self
        """What viewers may see: ``state`` and ``head_seq``."""
        self._embargo = embargo
        self.ended = False
        """Whether the end is recorded."""
        self._order = asyncio.Lock()

    @property
    def trouble(self) -> Trouble | None:
        """What keeps the record from being written now."""
        return self._recorder.trouble

    @property
    def usage(self) -> Mapping[str, Any]:
        """What models took so far, by actor."""
        used: Mapping[str, Any] = self.state.get("usage", {})
        return used

    async def open(self) -> None:
        """The view is always up to date."""

    async def settle(self) -> None:
        """Nothing that was emitted ever waits to be recorded."""

    def subscribe(self, overflow: Overflow, *, capacity: int = 256) -> Subscription:
        """Every event after ``shown.head_seq`` as it is published; nothing once the end is recorded."""
        subscription = self._bus.subscribe(self.episode_id, overflow, capacity=capacity)
        if self.ended:
            subscription.close()
        return subscription

    def give_up_waiting(self, *, for_good: bool) -> None:
        """Give up a step that waits to be recorded; with ``for_good``, whatever would wait later too."""
        self._recorder.give_up_waiting(for_good=for_good)

    async def emit(
        self,
        turn: int,
        facts: Sequence[Fact],
        *,
        patient: bool = True,
        attachments: Attachments | None = None,
    ) -> None:
        """Number, fold, record and publish the facts of one turn; see :meth:`emit_steps`."""
        await self.emit_steps([(turn, facts)], patient=patient, attachments=attachments)

    async def emit_steps(
        self, steps: Sequence[TurnFacts], *, patient: bool = True, attachments: Attachments | None = None
    ) -> int:
        """Number, fold, record and publish the facts of ``steps`` and the commentary on them, all or none.

        Survives cancellation: what was begun is finished, so numbers and record never part. The end is
        always recorded: where the world's projection or commentary of it fails, without them. When it had to
        wait for the journal, a warning that says so follows.

        Args:
            steps: Facts, with the turn that they belong to.
            patient: Whether to wait for a journal that cannot be written.
            attachments: What is recorded in the same commit and never published.

        Returns:
            How many characters this process has recorded of the episode.

        Raises:
            EnvironmentFault: A fact is not plain finite JSON, or its projection or commentary failed.
            EpisodeNotFound: The beginning was not recorded; it is the first event of a stream.
            EpisodeOver: The end was recorded before; it is the last event of a stream.
            JournalError: They could not be recorded; nobody has seen them.
        """
        facts = [(turn, fact) for turn, of_turn in steps for fact in of_turn]
        if facts:
            trouble = self._recorder.trouble
            if trouble is not None and not patient:
                raise JournalUnavailable(trouble.message)
            try:
                await whole(self._emit(facts, patient, attachments))
            except asyncio.CancelledError:
                if patient:
                    self.give_up_waiting(for_good=True)
                raise
        return self._recorder.characters

    take_steps = emit_steps
    """The same: a step is recorded before the next begins."""

    begin = partialmethod(emit_steps, patient=False)
    """The same for the opening, without waiting for a journal that cannot be written."""

    async def _emit(
        self, facts: Sequence[tuple[int, Fact]], patient: bool, attachments: Attachments | None
    ) -> None:
        async with self._order:
            if self.ended:
                raise EpisodeOver(self.episode_id)
            if self.head_seq == 0 and facts[0][1].type != "episode.started":
                raise EpisodeNotFound(self.episode_id)
            stood_s = await self._record(facts, patient, attachments)
            if stood_s and not self.ended:
                warned = Warned(message=f"The record could not be written for {stood_s:.0f} s. {KEPT}")
                await self._record([(facts[-1][0], core_fact(warned))], patient)

    async def _record(
        self, facts: Sequence[tuple[int, Fact]], patient: bool, attachments: Attachments | None = None
    ) -> float:
        """Fold ``facts``, large batches on a worker thread, record and publish what they come to.

        Returns:
            Seconds that the journal could not be written.
        """
        ends = facts[-1][1].type == "episode.ended"
        fold = partial(self._fold, facts, self._world.projection, self._world.commentator)
        try:
            events, view = await asyncio.to_thread(fold) if len(facts) > LONG else fold()
        except EnvironmentFault:
            if not ends:
                raise
            logger.exception("episode %s: the world's view of the end failed", self.episode_id)
            events, view = self._fold(facts, unchanged, silent)
        stood_s = await self._recorder.record(events, patient=patient, last=ends, attachments=attachments)
        self.state, self.head_seq, self.ended = view.state, view.seq, ends
        self._bus.publish(events if self._embargo is None else self._embargo.take(events, view.state))
        return stood_s

    def _fold(
        self, facts: Sequence[tuple[int, Fact]], projection: Projection, commentator: Commentator
    ) -> tuple[list[RecordedEvent], ViewFold]:
        fold = ViewFold(projection, commentator, state=self.state, seq=self.head_seq)
        at, name = timestamp(self._clock.now()), self._world.name
        events: list[RecordedEvent] = []
        with typed_as(
            lambda error: EnvironmentFault(f"an event of {name} could not be shown: {error!r}"), passing=()
        ):
            for turn, fact in facts:
                events += fold.add(Event(self.episode_id, self.epoch, 0, at, turn, fact.type, fact.data))
        return events, fold

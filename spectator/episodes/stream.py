"""Number an episode's events, fold the view, record them, then publish them.

While the journal cannot be written, the episode waits.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial, partialmethod
from typing import Any, Final

from spectator.backoff import Backoff
from spectator.bus import Bus, Overflow, Subscription
from spectator.clock import Clock, first_of, timestamp, whole
from spectator.environments.contract import Projection
from spectator.environments.world import World
from spectator.episodes.embargo import Embargo
from spectator.episodes.view import State, ViewFold, unchanged
from spectator.errors import (
    EnvironmentFault,
    EpisodeError,
    EpisodeNotFound,
    EpisodeOver,
    JournalError,
    JournalUnavailable,
    typed_as,
)
from spectator.events import EpisodeEnded, Event, Fact, RecordedEvent, Warned, core_fact
from spectator.journal.contract import Attachments, EpisodeLog
from spectator.model_calls import ModelCall
from spectator.narration.commentary import Commentator, silent

logger = logging.getLogger(__name__)

PAUSES: Final = Backoff(0.25, 2.0)
"""The pauses between two attempts to record."""


@dataclass(frozen=True, slots=True)
class JournalTrouble:
    """The record cannot be written now.

    Args:
        message: Why, for people.
        since: When that began.
    """

    message: str
    since: datetime


class Recorder:
    """Records the events of one episode, and waits while the journal cannot be written.

    Args:
        episode_id: Whose.
        journal: Where to.
        clock: Measures and waits.
        patience_s: Seconds to wait for the journal before a step is given up; 0 gives up at once.
    """

    def __init__(self, episode_id: str, journal: EpisodeLog, clock: Clock, patience_s: float) -> None:
        self._episode_id = episode_id
        self._journal = journal
        self._clock = clock
        self._patience_s = patience_s
        self.trouble: JournalTrouble | None = None
        """What keeps the record from being written now; ``None`` when nothing does."""
        self.characters = 0
        """Characters recorded by this process."""
        self._changed: asyncio.Event | None = None  # both only while needed: an event is 0.8 kB
        self._pause_over: asyncio.Event | None = None
        self._hurried = False
        self._closed = False

    async def news(self) -> JournalTrouble | None:
        """Wait until another attempt has failed, or the first has succeeded again."""
        self._changed = self._changed or asyncio.Event()
        await self._changed.wait()
        return self.trouble

    def give_up_waiting(self, *, for_good: bool) -> None:
        """Give up what waits now; with ``for_good``, wait for nothing from here on."""
        self._closed = self._closed or for_good
        self._hurried = True
        if self._pause_over is not None:
            self._pause_over.set()

    async def record(
        self,
        events: Sequence[RecordedEvent],
        *,
        patient: bool,
        last: bool,
        attachments: Attachments | None = None,
    ) -> float:
        """Append ``events``, however long that takes within limits.

        Args:
            events: Of one emission.
            patient: Whether to wait for a journal that cannot be written.
            last: Whether they end the episode: that is waited for without limit, lest it goes unrecorded.
            attachments: What is recorded with them.

        Returns:
            Seconds that the journal could not be written; 0.0 as a rule.

        Raises:
            JournalError: They could not be recorded.
        """
        limit_s = math.inf if last and self._patience_s > 0 else self._patience_s
        self._hurried = False
        failures, began = 0, self._clock.monotonic()
        while True:
            try:
                with typed_as(_not_recorded, passing=(EpisodeError,)):
                    await self._journal.append(events, attachments=attachments)
                break
            except JournalUnavailable as error:
                stood_s = self._clock.monotonic() - began
                hurried = self._hurried and not last  # who asks for the end twice gives no end up
                if not patient or self._closed or hurried or stood_s >= limit_s:
                    raise _given_up(error, stood_s) from error
                self._hurried = False
                self._stand_still(error)
            over = self._pause_over = asyncio.Event()
            await first_of(self._clock.sleep(PAUSES.limit(failures)), over.wait())
            failures += 1
        self.characters += sum([len(event.text) for event in events])
        return 0.0 if self.trouble is None else self._recovered(began)

    def _stand_still(self, error: JournalUnavailable) -> None:
        if self.trouble is None:
            logger.error("episode %s stands still: %s", self._episode_id, error)
        since = self._clock.now() if self.trouble is None else self.trouble.since
        self._set(JournalTrouble(str(error), since))

    def _recovered(self, began: float) -> float:
        stood_s = self._clock.monotonic() - began
        logger.warning("episode %s goes on: recorded again after %.1f s", self._episode_id, stood_s)
        self._set(None)
        return stood_s

    def _set(self, trouble: JournalTrouble | None) -> None:
        self.trouble = trouble
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()


def _given_up(error: JournalUnavailable, stood_s: float) -> JournalUnavailable:
    return JournalUnavailable(f"{error}; given up after {stood_s:.0f} s") if stood_s >= 1 else error


def _not_recorded(error: Exception) -> JournalError:
    return JournalError(f"{type(error).__name__}: {error}")


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
    def trouble(self) -> JournalTrouble | None:
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


@dataclass(frozen=True, slots=True)
class RecordedTurns:
    """What a record tells of some turns.

    Args:
        steps: Each turn with its facts, in order.
        calls: For each of them, the model calls behind its decision.
        ended: The end, once there is one.
        truth: What the world hid, as JSON text, to be recorded with the end.
    """

    steps: Sequence[TurnFacts] = ()
    calls: Sequence[Sequence[ModelCall]] = ()
    ended: EpisodeEnded | None = None
    truth: str | None = None

    def turns(self) -> Iterator[tuple[int, Sequence[Fact], Attachments | None]]:
        """Each turn with its facts and what is recorded beside them."""
        for (turn, facts), calls in zip(self.steps, self.calls, strict=True):
            yield turn, facts, Attachments(calls=[calls]) if calls else None


NO_TURNS: Final = RecordedTurns()

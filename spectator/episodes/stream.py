"""Number an episode's events, fold the view, record them, then publish them.

The episode waits while the journal cannot be written.
"""

from __future__ import annotations

import asyncio
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final

from spectator.bus import Bus, Overflow, Subscription
from spectator.clock import Clock, first_of, timestamp, whole
from spectator.core_events import EpisodeEnded, Warned, core_fact
from spectator.environments.contract import Projection
from spectator.environments.world import World
from spectator.episodes.embargo import Embargo
from spectator.episodes.plan import Commit
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
from spectator.events import Event, Fact, RecordedEvent
from spectator.journal.contract import Attachments, EpisodeLog
from spectator.journal.outage import retried
from spectator.model_calls import ModelCall
from spectator.narration.commentary import Commentator, silent

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JournalTrouble:
    """Why the record cannot be written now.

    Args:
        message: The reason, for people.
        since: Time of the first failure.
    """

    message: str
    since: datetime


class Recorder:
    """Records the events of one episode, retrying while the journal cannot be written.

    Args:
        patience_s: Seconds to retry a step; 0 does not retry.
    """

    def __init__(self, episode_id: str, journal: EpisodeLog, clock: Clock, patience_s: float) -> None:
        self._episode_id = episode_id
        self._journal = journal
        self._clock = clock
        self._patience_s = patience_s
        self.trouble: JournalTrouble | None = None
        """Why the record cannot be written now; ``None`` if it can."""
        self.characters = 0
        """Characters recorded by this process."""
        self._changed: asyncio.Event | None = None  # created when needed: an event takes 0.8 kB
        self._pause_over: asyncio.Event | None = None
        self._hurried = False
        self._closed = False

    async def news(self) -> JournalTrouble | None:
        """Wait until the next failed attempt, or the first success after failures."""
        self._changed = self._changed or asyncio.Event()
        await self._changed.wait()
        return self.trouble

    def give_up_waiting(self, *, for_good: bool) -> None:
        """Stop retrying the current step; with ``for_good``, also any later one."""
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
        """Append ``events``, retrying within the limits.

        Args:
            patient: Whether to retry while the journal cannot be written.
            last: Whether they end the episode: then retries have no time limit.

        Returns:
            Seconds that the journal could not be written; usually 0.0.

        Raises:
            JournalError: They could not be recorded.
        """
        limit_s = math.inf if last and self._patience_s > 0 else self._patience_s
        self._hurried = False
        began = self._clock.monotonic()

        async def append() -> None:
            with typed_as(JournalError, passing=(EpisodeError,)):
                await self._journal.append(events, attachments=attachments)

        def limit() -> float:
            hurried = self._hurried and not last  # a second request to end must not abandon the end
            return 0.0 if not patient or self._closed or hurried else limit_s

        await retried(append, self._clock, limit, waiting=self._note_trouble, pause=self._pause)
        self.characters += sum([len(event.text) for event in events])
        return 0.0 if self.trouble is None else self._recovered(began)

    async def _pause(self, seconds: float) -> None:
        over = self._pause_over = asyncio.Event()
        await first_of(self._clock.sleep(seconds), over.wait())

    def _note_trouble(self, error: JournalError, failures: int) -> None:
        self._hurried = False
        if self.trouble is None:
            logger.error("episode %s is waiting for the journal: %s", self._episode_id, error)
        since = self._clock.now() if self.trouble is None else self.trouble.since
        self._set(JournalTrouble(str(error), since))

    def _recovered(self, began: float) -> float:
        waited_s = self._clock.monotonic() - began
        logger.warning("episode %s continues: recorded after %.1f s", self._episode_id, waited_s)
        self._set(None)
        return waited_s

    def _set(self, trouble: JournalTrouble | None) -> None:
        self.trouble = trouble
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()


TurnFacts = tuple[int, Sequence[Fact]]
"""A turn and its facts."""

LONG: Final = 64
"""Number of facts above which they are folded and encoded in a thread."""


@dataclass(frozen=True, slots=True)
class RecordPosition:
    """The end of an episode's record left by another process.

    Args:
        head_seq: Number of the last recorded event.
        view_seq: Number of the view's last event.
    """

    head_seq: int = 0
    view_seq: int = 0
    state: State = field(default_factory=dict)


BEGINNING: Final = RecordPosition()
"""Before the first event."""


class NumberedStream(ABC):
    """Numbers, records and publishes the events of one episode; the base of both kinds of stream.

    ``state`` and ``head_seq`` always match and are never ahead of the journal; the same holds for those of
    ``embargo``. So a viewer who takes both and subscribes without an ``await`` in between misses nothing.

    Args:
        world: Provides the projection and the commentator.
        journal: Records events before anyone sees them.
        commit: When a step counts as recorded; see ``EpisodePlan.commit``.
        patience_s: Seconds that a step waits for a journal that cannot be written; the end waits forever.
        left: Where another process left the episode; the beginning if omitted.
        embargo: Withholds what viewers may not see yet; nothing if omitted.
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
        commit: Commit = "step",
        patience_s: float = 0.0,
        left: RecordPosition = BEGINNING,
        embargo: Embargo | None = None,
    ) -> None:
        self.episode_id = episode_id
        self.epoch = epoch
        self.embargo = embargo
        """The public ``state`` and ``head_seq``, if they lag behind."""
        self._world = world
        self._journal = journal
        self._bus = bus
        self._clock = clock
        self._recorder = Recorder(episode_id, journal, clock, patience_s)
        self.news = self._recorder.news
        """Waits until the next failed attempt to record, or the first success after failures."""
        self._order = asyncio.Lock()
        self._begin_at(left, commit)

    @abstractmethod
    def _begin_at(self, left: RecordPosition, commit: Commit) -> None:
        """Set the view and the numbers to where another process left them."""

    @property
    def trouble(self) -> JournalTrouble | None:
        """Why the record cannot be written now."""
        return self._recorder.trouble

    @property
    @abstractmethod
    def over(self) -> bool:
        """Whether the end is recorded and shown."""

    def subscribe(self, overflow: Overflow, *, capacity: int = 256) -> Subscription:
        """Subscribe to the events after the public ``head_seq``; closed once the end is shown."""
        subscription = self._bus.subscribe(self.episode_id, overflow, capacity=capacity)
        if self.over:
            subscription.close()
        return subscription

    def give_up_waiting(self, *, for_good: bool) -> None:
        """Stop waiting to record the current step; with ``for_good``, also any later one."""
        self._recorder.give_up_waiting(for_good=for_good)

    def emit(
        self,
        turn: int,
        facts: Sequence[Fact],
        *,
        patient: bool = True,
        attachments: Attachments | None = None,
    ) -> Coroutine[Any, Any, int]:
        """Record and publish the facts of one turn; see :meth:`emit_steps`."""
        return self.emit_steps([(turn, facts)], patient=patient, attachments=attachments)

    @abstractmethod
    async def emit_steps(
        self, steps: Sequence[TurnFacts], *, patient: bool = True, attachments: Attachments | None = None
    ) -> int:
        """Record and publish the facts of ``steps``, all or none."""

    def _visible(self, events: list[RecordedEvent], state: State) -> list[RecordedEvent]:
        """Return the events that become public once ``events`` led to ``state``."""
        return events if self.embargo is None else self.embargo.take(events, state)


def outage_warning(seconds: float) -> Fact:
    """Return the warning that the journal could not be written for ``seconds``."""
    could_not = f"The record could not be written for {seconds:.0f} s."
    return core_fact(Warned(message=f"{could_not} Play was paused meanwhile; nothing is missing."))


class EpisodeStream(NumberedStream):
    """Records every event with its patch, and the commentary as events; each step before the next begins."""

    def _begin_at(self, left: RecordPosition, commit: Commit) -> None:
        self.state: State = left.state
        """The state after event ``head_seq``."""
        self.head_seq = left.head_seq
        """Number of the last recorded event; 0 before the first."""
        self.ended = False
        """Whether the end is recorded."""

    @property
    def over(self) -> bool:
        """Whether the end is recorded."""
        return self.ended

    @property
    def usage(self) -> Mapping[str, Any]:
        """What models used so far, by actor."""
        used: Mapping[str, Any] = self.state.get("usage", {})
        return used

    async def open(self) -> None:
        """Do nothing: the view is always up to date."""

    async def settle(self) -> None:
        """Do nothing: everything emitted is already recorded."""

    async def emit_steps(
        self, steps: Sequence[TurnFacts], *, patient: bool = True, attachments: Attachments | None = None
    ) -> int:
        """Number, fold, record and publish the facts of ``steps`` and the commentary on them, all or none.

        Survives cancellation: an emission that has begun is finished, so numbers and record stay consistent.
        The end is always recorded: without patch and commentary if the world's projection or commentator
        fails. If recording had to wait for the journal, a warning event follows.

        Args:
            patient: Whether to wait for a journal that cannot be written.
            attachments: Data recorded in the same commit and never published.

        Returns:
            Characters of the episode recorded by this process.

        Raises:
            EnvironmentFault: A fact is not plain finite JSON, or its projection or commentary failed.
            EpisodeNotFound: The first fact of a new stream is not ``episode.started``.
            EpisodeOver: The end was recorded before.
            JournalError: They could not be recorded, and were not published.
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

    async def _emit(
        self, facts: Sequence[tuple[int, Fact]], patient: bool, attachments: Attachments | None
    ) -> None:
        async with self._order:
            if self.ended:
                raise EpisodeOver(self.episode_id)
            if self.head_seq == 0 and facts[0][1].type != "episode.started":
                raise EpisodeNotFound(self.episode_id)
            waited_s = await self._record(facts, patient, attachments)
            if waited_s and not self.ended:
                await self._record([(facts[-1][0], outage_warning(waited_s))], patient)

    async def _record(
        self, facts: Sequence[tuple[int, Fact]], patient: bool, attachments: Attachments | None = None
    ) -> float:
        """Fold ``facts``, large batches in a thread, then record and publish the events.

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
        waited_s = await self._recorder.record(events, patient=patient, last=ends, attachments=attachments)
        self.state, self.head_seq, self.ended = view.state, view.seq, ends
        self._bus.publish(self._visible(events, view.state))
        return waited_s

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
    """What to record of some turns.

    Args:
        steps: Each turn with its facts, in order.
        calls: For each turn, the model calls behind its decision.
        ended: The end, once there is one.
        truth: The world's sealed truth, as JSON text, recorded with the end.
    """

    steps: Sequence[TurnFacts] = ()
    calls: Sequence[Sequence[ModelCall]] = ()
    ended: EpisodeEnded | None = None
    truth: str | None = None

    def turns(self) -> Iterator[tuple[int, Sequence[Fact], Attachments | None]]:
        """Yield each turn with its facts and attachments."""
        for (turn, facts), calls in zip(self.steps, self.calls, strict=True):
            yield turn, facts, Attachments(calls=[calls]) if calls else None


NO_TURNS: Final = RecordedTurns()

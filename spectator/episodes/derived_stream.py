"""Record facts without a view, often many steps per commit, for episodes played unwatched.

With ``commit="step"`` :meth:`DerivedStream.emit` returns once its step is in the journal. With
``overlapped`` it returns once the previous step is: the journal writes one step while the next is decided.
With ``batched`` it returns once the step is encoded, and all waiting steps are written whenever play waits
for something, at the latest after :data:`UNRECORDED_STEPS` or :data:`UNRECORDED_CHARACTERS`. A crash loses
at most those; they are replayed from seed and decisions. The end, and any command from outside, is
acknowledged only once it and everything before it is recorded. Viewers never see anything unrecorded, and
while one watches, each step is recorded before the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Final

from spectator.bus import Bus
from spectator.clock import Clock, whole
from spectator.episodes.embargo import Embargo
from spectator.episodes.plan import Commit, EpisodePlan
from spectator.episodes.stream import (
    BEGINNING,
    LONG,
    EpisodeStream,
    NumberedStream,
    RecordPosition,
    TurnFacts,
    outage_warning,
)
from spectator.episodes.unrecorded_steps import EncodedStep, UnrecordedSteps, attach, attachments_of
from spectator.episodes.view import DerivedView, State, used
from spectator.errors import EpisodeError, EpisodeNotFound, EpisodeOver, JournalUnavailable
from spectator.events import Event, Fact, RecordedEvent
from spectator.journal.contract import Attachments, EpisodeLog

logger = logging.getLogger(__name__)

UNRECORDED_STEPS: Final = 96
"""Maximum steps of an episode that wait for the journal; the last one waits until all are recorded."""

WAITING: Final[Mapping[Commit, int]] = {"step": 1, "overlapped": 2, "batched": UNRECORDED_STEPS}
"""The same limit for each kind of commit."""

UNRECORDED_CHARACTERS: Final = 96 * 1024
"""Maximum characters of waiting events, so that large steps take no more memory than small ones."""


class DerivedStream(NumberedStream):
    """Records facts only; the view is derived from them.

    ``state`` and ``head_seq`` belong to the view. :meth:`open` derives it, and it is kept up to date while
    someone is subscribed.
    """

    def _begin_at(self, left: RecordPosition, commit: Commit) -> None:
        self._limit = WAITING[commit]
        self._waiting = UnrecordedSteps(self.episode_id, self.epoch, self._clock, left.head_seq)
        self._view = DerivedView(
            self._world, self.epoch, state=left.state, seq=left.view_seq, recorded_seq=left.head_seq
        )
        self._usage: Mapping[str, Any] = self._view.state.get("usage", {})
        self._begun: Mapping[str, Any] = self._view.state.get("episode", {})  # only what usage needs
        self._first: RecordedEvent | None = None  # until the view is first used
        self._recording: asyncio.Task[None] | None = None
        self._failure: EpisodeError | None = None
        self._showing = asyncio.Lock()

    @property
    def state(self) -> State:
        """The viewers' state after event ``head_seq``."""
        self._begin_view()
        return self._view.state

    @property
    def head_seq(self) -> int:
        """Number of the view's last event; lags behind the record while nobody watches."""
        self._begin_view()
        return self._view.seq

    def _begin_view(self) -> list[RecordedEvent]:
        """Derive the view of the first event, if it is recorded and not derived yet; return its events."""
        first, self._first = self._first, None
        if first is None or self._view.recorded_seq > 0:
            return []
        fresh = self._view.take([first])
        return self._visible(fresh, self._view.state)

    @property
    def ended(self) -> bool:
        """Whether the end is recorded."""
        return self._waiting.ended

    @property
    def usage(self) -> Mapping[str, Any]:
        """What models used so far, by actor, even if the view is not up to date."""
        return self._usage

    @property
    def _watched(self) -> bool:
        return self._bus.listeners(self.episode_id) > 0

    async def open(self) -> None:
        """Derive the view up to the last recorded event; long stretches in a thread.

        Raises:
            JournalError: The record cannot be read.
        """
        await self._show(())

    @property
    def over(self) -> bool:
        """Whether the end is recorded and the view has reached it."""
        return self.ended and self._view.recorded_seq == self._waiting.recorded_seq

    async def emit_steps(
        self, steps: Sequence[TurnFacts], *, patient: bool = True, attachments: Attachments | None = None
    ) -> int:
        """Record the facts of ``steps``, all or none; the module's docstring says when.

        A step that could not be recorded keeps waiting, and the next one raises the reason; the end is
        recorded together with it.

        Args:
            patient: Whether to wait for an unavailable journal, and to commit only when a batch is full.
            attachments: Data recorded in the same commit and never published.

        Returns:
            Characters of the episode recorded by this process.

        Raises:
            EnvironmentFault: A fact is not plain finite JSON.
            EpisodeNotFound: The first fact of a new stream is not ``episode.started``.
            EpisodeOver: The end was emitted before.
            JournalError: These facts, or earlier ones, could not be recorded.
        """
        steps = [(turn, facts) for turn, facts in steps if facts]
        if not steps:
            return self._recorder.characters
        if steps[-1][1][-1].type != "episode.ended":
            self._raise_failure()
        self._check(steps)
        if not patient and self.trouble is not None:
            raise JournalUnavailable(self.trouble.message)
        if sum(len(facts) for _, facts in steps) > LONG:
            encoded = await asyncio.to_thread(self._waiting.encode_all, steps)
        else:
            encoded = self._waiting.encode_all(steps)
        if attachments:
            attach(attachments, encoded)
        ends = encoded[-1].ends
        if not ends:
            self._raise_failure()
        for step in encoded:
            self._take(step)
        if not patient:
            await whole(self._record(patient=False, withdrawing=encoded))
        elif ends or self._must_settle:
            try:
                await self.settle()
            except asyncio.CancelledError:
                self.give_up_waiting(for_good=True)
                raise
        else:
            self._start_recording()
        return self._recorder.characters

    @property
    def _must_settle(self) -> bool:
        """Whether the waiting steps must be recorded now: there are too many, or someone watches."""
        waiting = self._waiting
        limit = self._limit if waiting.recorded_seq or self._limit == UNRECORDED_STEPS else 1
        full = len(waiting.steps) >= limit or waiting.characters >= UNRECORDED_CHARACTERS
        return full or self._bus.listeners(self.episode_id) > 0

    async def settle(self) -> None:
        """Wait until everything emitted is recorded.

        Raises:
            JournalError: It could not be recorded.
        """
        while self._waiting.steps:
            await asyncio.shield(self._start_recording())
            self._raise_failure()

    def _check(self, steps: Sequence[TurnFacts]) -> None:
        if self._waiting.goes_on:
            return
        if self.ended or self._waiting.steps:
            raise EpisodeOver(self.episode_id)
        first = next(fact for _, facts in steps for fact in facts)
        if first.type != "episode.started":
            raise EpisodeNotFound(self.episode_id)
        self._begun = {"parent": first.data.get("parent") or {}}

    def _take(self, step: EncodedStep) -> None:
        """Add ``step`` to the waiting steps, and count its usage."""
        self._waiting.add(step)
        for fact in step.asked:
            self._note_usage(step.turn, fact)

    def _note_usage(self, turn: int, decided: Fact) -> None:
        event = Event(self.episode_id, self.epoch, 0, "", turn, decided.type, decided.data)
        more = used({"episode": self._begun, "usage": self._usage}, event)
        if more:
            self._usage = {**self._usage, **more["usage"]}  # its members are whole and not null

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _start_recording(self) -> asyncio.Task[None]:
        if self._recording is None or self._recording.done():
            self._recording = asyncio.get_running_loop().create_task(self._record_pending())
        return self._recording

    async def _record_pending(self) -> None:
        try:
            while self._waiting.steps:
                await self._record(patient=True)
            self._failure = None
        except EpisodeError as error:
            self._waiting.withdraw([step for step in self._waiting.steps if step.ends])
            self._failure = error

    async def _record(self, *, patient: bool, withdrawing: Sequence[EncodedStep] = ()) -> None:
        """Record all waiting steps, or none; on failure, remove those in ``withdrawing``."""
        async with self._order:
            waiting = self._waiting
            steps = tuple(waiting.steps)
            if not steps:  # recorded meanwhile, or removed together with the beginning
                self._raise_failure()
                return
            events = waiting.numbered(steps)
            try:
                waited_s = await self._recorder.record(
                    events, patient=patient, last=steps[-1].ends, attachments=attachments_of(steps)
                )
            except EpisodeError as error:
                waiting.withdraw(withdrawing)
                if waiting.steps and not waiting.recorded_seq and steps[0] in withdrawing:
                    # without its beginning nothing of the episode may be recorded
                    waiting.withdraw(waiting.steps)
                    self._failure = error
                raise
            waiting.note_recorded(steps, events[-1].seq)
            await self._publish(events)
            if waited_s and not waiting.ended:
                waiting.put_first(steps[-1].turn, [outage_warning(waited_s)])

    async def _publish(self, events: Sequence[RecordedEvent]) -> None:
        """Publish recorded events to listeners; without listeners, only the start and the end."""
        if events[0].seq == 1:
            self._first = events[0]
            if self.embargo is not None:
                self._begin_view()  # so that the embargo has the first event
        if self._watched:
            try:
                await self._show(events)
            except EpisodeError:
                logger.exception("episode %s cannot be shown now", self.episode_id)
            return
        if events[0].seq == 1:
            self._bus.publish(events[:1])
        if self.ended:
            self._bus.publish(events[-1:])

    async def _show(self, fresh: Sequence[RecordedEvent]) -> None:
        """Derive and publish the events not shown yet, from ``fresh`` or from the journal."""
        async with self._showing:
            if (beginning := self._begin_view()) and self._watched:
                self._bus.publish(beginning)
            while (seq := self._view.recorded_seq) < self._waiting.recorded_seq:
                ahead = [one for one in fresh if one.seq > seq]
                if not ahead or ahead[0].seq != seq + 1:
                    ahead = await self._journal.read(
                        self.episode_id, after_seq=seq, limit=self._waiting.recorded_seq - seq
                    )
                view = copy(self._view)  # so that the viewers' state changes atomically, on the loop
                shown = await asyncio.to_thread(view.take, ahead) if len(ahead) > LONG else view.take(ahead)
                self._view = view
                shown = self._visible(shown, view.state)
                if self._watched:
                    self._bus.publish(shown)


Stream = EpisodeStream | DerivedStream


def open_stream(
    plan: EpisodePlan,
    episode_id: str,
    epoch: str,
    *,
    journal: EpisodeLog,
    bus: Bus,
    clock: Clock,
    patience_s: float = 0.0,
    left: RecordPosition | None = None,
    embargo: Embargo | None = None,
) -> Stream:
    """Make the stream for ``plan``.

    Args:
        patience_s: Seconds that a step waits for a journal that cannot be written.
        left: Where another process left it; ``None`` to begin.
        embargo: Withholds what viewers may not see yet; nothing if omitted.
    """
    kind = DerivedStream if plan.view == "derived" else EpisodeStream
    return kind(
        episode_id,
        epoch,
        world=plan.world,
        journal=journal,
        bus=bus,
        clock=clock,
        commit=plan.commit,
        patience_s=patience_s,
        left=left or BEGINNING,
        embargo=embargo,
    )

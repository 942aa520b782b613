"""Records an episode that nobody has to watch: facts only, and many steps to a commit where that may be.

With ``commit="step"`` :meth:`DerivedStream.emit` returns once its step is in the journal. With ``overlapped``
it returns once the step before it is: the journal writes one step while the next is decided. With ``batched``
it returns as soon as the step is encoded, and the journal is given all that waits whenever play waits for
something, at the latest after :data:`UNRECORDED_STEPS` or :data:`UNRECORDED_CHARACTERS`. A death takes those
at most; they are played again, from seed and decisions. The end, and whatever is asked for from outside, is
acknowledged only when it is recorded, with all before it. Nobody is shown what is not recorded, and while
somebody watches each step is recorded before the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from copy import copy
from typing import Any, Final

from spectator.bus.base import Bus, Overflow, Subscription
from spectator.clock import Clock
from spectator.environments.world import World
from spectator.episodes.record.derived import DerivedView
from spectator.episodes.record.embargo import Embargo
from spectator.episodes.record.recorder import Recorder, Trouble
from spectator.episodes.record.stream import KEPT, LONG, TurnFacts
from spectator.episodes.record.unrecorded_steps import (
    EncodedStep,
    UnrecordedSteps,
    attach,
    attachments_of,
)
from spectator.episodes.record.view import State, used
from spectator.episodes.run.plan import Commit
from spectator.errors import EpisodeError, EpisodeNotFound, EpisodeOver, JournalUnavailable
from spectator.events import Event, Fact, RecordedEvent, Warned, core_fact
from spectator.futures import whole
from spectator.journal.attachments import Attachments
from spectator.journal.base import EpisodeLog

logger = logging.getLogger(__name__)

UNRECORDED_STEPS: Final = 96
"""Steps of an episode that may wait for the journal; the last of them waits for all."""

WAITING: Final[Mapping[Commit, int]] = {"step": 1, "overlapped": 2, "batched": UNRECORDED_STEPS}
"""Steps of which the last waits for all."""

UNRECORDED_CHARACTERS: Final = 96 * 1024
"""Characters of its events that may wait, so that large steps take no more memory than small ones."""


class DerivedStream:
    """The one author of the numbers of an episode whose view is derived; see :class:`.stream.EpisodeStream`.

    ``state`` and ``head_seq`` are those of the view. It is made when :meth:`open` asks for it, and kept up to
    date while somebody is subscribed.

    Args:
        episode_id: Whose events.
        epoch: Identity of the numbering.
        world: Whose projection folds and whose commentator speaks, for those who watch.
        journal: Where events are recorded, and read again by those who come to watch.
        bus: Where the view's events are published while somebody listens.
        clock: Stamps them.
        commit: Whether each step is recorded before the next begins, or is told, or together with many.
        patience_s: Seconds that a step waits for a journal that cannot be written; its end waits for ever.
        state: What viewers would have seen last, where another process began it.
        head_seq: The number of the last recorded event then.
        view_seq: The number that viewers would have seen last then.
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
        commit: Commit,
        patience_s: float = 0.0,
        state: State | None = None,
        head_seq: int = 0,
        view_seq: int = 0,
        embargo: Embargo | None = None,
    ) -> None:
        self.episode_id = episode_id
        self.epoch = epoch
        self.shown = embargo or self
        """What viewers may see: ``state`` and ``head_seq``."""
        self._embargo = embargo
        self._recorder = Recorder(episode_id, journal, clock, patience_s)
        self.news = self._recorder.news
        """Waits until another attempt to record has failed, or the first has succeeded again."""
        self._journal = journal
        self._bus = bus
        self._limit = WAITING[commit]
        self._waiting = UnrecordedSteps(episode_id, epoch, clock, head_seq)
        self._view = DerivedView(world, epoch, state=state, seq=view_seq, recorded_seq=head_seq)
        self._usage: Mapping[str, Any] = self._view.state.get("usage", {})
        self._begun: Mapping[str, Any] = self._view.state.get("episode", {})  # as far as usage depends on it
        self._first: RecordedEvent | None = None  # until somebody looks at the view
        self._recording: asyncio.Task[None] | None = None
        self._failure: EpisodeError | None = None
        self._order = asyncio.Lock()
        self._showing = asyncio.Lock()

    @property
    def state(self) -> State:
        """What viewers see after event ``head_seq``."""
        self._begin_view()
        return self._view.state

    @property
    def head_seq(self) -> int:
        """Number of the view's last event; it lags behind the record while nobody watches."""
        self._begin_view()
        return self._view.seq

    def _begin_view(self) -> list[RecordedEvent]:
        """What viewers see of the beginning, if that is recorded and nobody has looked before."""
        first, self._first = self._first, None
        if first is None or self._view.recorded_seq > 0:
            return []
        return self._visible(self._view.take([first]))

    def _visible(self, fresh: list[RecordedEvent]) -> list[RecordedEvent]:
        """Those that viewers may see now that the view has come to ``fresh``."""
        return fresh if self._embargo is None else self._embargo.take(fresh, self._view.state)

    @property
    def trouble(self) -> Trouble | None:
        """What keeps the record from being written now."""
        return self._recorder.trouble

    @property
    def ended(self) -> bool:
        """Whether the end is recorded."""
        return self._waiting.ended

    @property
    def usage(self) -> Mapping[str, Any]:
        """What models took so far, by actor, whether or not the view is up to date."""
        return self._usage

    @property
    def _watched(self) -> bool:
        return self._bus.listeners(self.episode_id) > 0

    def give_up_waiting(self, *, for_good: bool) -> None:
        """Give up a step that waits to be recorded; with ``for_good``, whatever would wait later too."""
        self._recorder.give_up_waiting(for_good=for_good)

    async def open(self) -> None:
        """Derive the view up to what is recorded, long stretches off the loop.

        Raises:
            JournalError: The record cannot be read.
        """
        await self._show(())

    def subscribe(self, overflow: Overflow, *, capacity: int = 256) -> Subscription:
        """Every event after ``head_seq`` as it is published; nothing more once the end is shown."""
        subscription = self._bus.subscribe(self.episode_id, overflow, capacity=capacity)
        if self.ended and self._view.recorded_seq == self._waiting.recorded_seq:
            subscription.close()
        return subscription

    def begin(
        self, opening: Sequence[TurnFacts], attachments: Attachments | None = None
    ) -> Awaitable[object]:
        """Record the opening of an episode without waiting for a journal that cannot be written, all or none.

        Returns:
            What ends when it is recorded. A future, where play may go on meanwhile: the opening is recorded
            together with the steps that follow at once, and if it cannot be, none of them is.

        Raises:
            EpisodeError: See :meth:`emit_steps`; when it is awaited.
        """
        if self._limit < UNRECORDED_STEPS or len(opening) > 1 or attachments or self._watched:
            return self.emit_steps(opening, patient=False, attachments=attachments)
        ((turn, facts),) = opening
        self._check(opening)
        self._take(self._waiting.encode(turn, facts))
        self._recording = asyncio.get_running_loop().create_task(self._record_beginning())
        return self._recording

    def emit(
        self,
        turn: int,
        facts: Sequence[Fact],
        *,
        patient: bool = True,
        attachments: Attachments | None = None,
    ) -> Coroutine[Any, Any, int]:
        """Take the facts of one turn; see :meth:`emit_steps`."""
        return self.emit_steps([(turn, facts)], patient=patient, attachments=attachments)

    def take_steps(
        self, steps: Sequence[TurnFacts], *, attachments: Attachments | None = None
    ) -> int | Awaitable[int]:
        """See :meth:`emit_steps`; at once, with what that returns, where nothing has to be waited for."""
        if len(steps) == 1 and self._failure is None and self._waiting.goes_on:
            turn, facts = steps[0]
            if 0 < len(facts) <= LONG and facts[-1].type != "episode.ended":
                step = self._waiting.encode(turn, facts)
                if attachments is not None:
                    attach(attachments, [step])
                self._take(step)
                return self._settled() if self._must_settle else self._recorded_soon()
        return self.emit_steps(steps, attachments=attachments)

    async def emit_steps(
        self, steps: Sequence[TurnFacts], *, patient: bool = True, attachments: Attachments | None = None
    ) -> int:
        """Take the facts of ``steps``; they are recorded all or none, when this module's docstring says.

        A step that could not be recorded waits on, and the next one is refused, with the reason; the end
        takes it along.

        Args:
            steps: Facts, with the turn that they belong to.
            patient: Whether to wait for a journal that cannot be written, and for no commit but a full one.
            attachments: What is recorded in the same commit and never published.

        Returns:
            How many characters this process has recorded of the episode.

        Raises:
            EnvironmentFault: A fact is not plain finite JSON.
            EpisodeNotFound: The beginning was not recorded; it is the first event of a stream.
            EpisodeOver: The end was emitted before; it is the last event of a stream.
            JournalError: These, or some before them, could not be recorded.
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
        if patient:
            return await self._settled() if ends or self._must_settle else self._recorded_soon()
        await whole(self._record(patient=False, withdrawing=encoded))
        return self._recorder.characters

    @property
    def _must_settle(self) -> bool:
        """Whether what was emitted may wait no longer: it is too much, or somebody watches."""
        waiting = self._waiting
        limit = self._limit if waiting.recorded_seq or self._limit == UNRECORDED_STEPS else 1
        full = len(waiting.steps) >= limit or waiting.characters >= UNRECORDED_CHARACTERS
        return full or self._bus.listeners(self.episode_id) > 0

    def _recorded_soon(self) -> int:
        if self._recording is None or self._recording.done():
            self._start_recording()
        return self._recorder.characters

    async def _settled(self) -> int:
        """Wait as a step does: whoever gives up waiting gives up the record."""
        try:
            await self.settle()
        except asyncio.CancelledError:
            self.give_up_waiting(for_good=True)
            raise
        return self._recorder.characters

    async def settle(self) -> None:
        """Wait until all that was emitted is recorded.

        Raises:
            JournalError: It could not be.
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
        """Let ``step`` wait to be recorded."""
        self._waiting.add(step)
        for fact in step.asked:
            self._note_usage(step.turn, fact)

    def _note_usage(self, turn: int, decided: Fact) -> None:
        event = Event(self.episode_id, self.epoch, 0, "", turn, decided.type, decided.data)
        more = used({"episode": self._begun, "usage": self._usage}, event)
        if more:
            self._usage = {**self._usage, **more["usage"]}  # whole members, and none that is null

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

    async def _record_beginning(self) -> None:
        try:
            await self._record(patient=False)
        except EpisodeError as error:
            self._waiting.withdraw(self._waiting.steps)
            self._failure = error
            raise

    async def _record(self, *, patient: bool, withdrawing: Sequence[EncodedStep] = ()) -> None:
        """Record all that waits, or nothing; then those that are ``withdrawing`` do not wait any more."""
        async with self._order:
            waiting = self._waiting
            steps = tuple(waiting.steps)
            if not steps:  # recorded meanwhile, or given up together with the beginning
                self._raise_failure()
                return
            events = waiting.numbered(steps)
            try:
                stood_s = await self._recorder.record(
                    events, patient=patient, last=steps[-1].ends, attachments=attachments_of(steps)
                )
            except EpisodeError:
                waiting.withdraw(withdrawing)
                raise
            waiting.note_recorded(steps, events[-1].seq)
            await self._publish(events)
            if stood_s and not waiting.ended:
                warned = Warned(message=f"The record could not be written for {stood_s:.0f} s. {KEPT}")
                waiting.put_first(steps[-1].turn, [core_fact(warned)])

    async def _publish(self, events: Sequence[RecordedEvent]) -> None:
        """Show what is recorded to those who listen; beginning and end are made known where nobody does."""
        if events[0].seq == 1:
            self._first = events[0]
            if self._embargo is not None:
                self._begin_view()  # whose beginning is looked for in the embargo
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
        """Derive and publish what was recorded and not shown: from ``fresh``, or from the journal."""
        async with self._showing:
            if (beginning := self._begin_view()) and self._watched:
                self._bus.publish(beginning)
            while (seq := self._view.recorded_seq) < self._waiting.recorded_seq:
                ahead = [one for one in fresh if one.seq > seq]
                if not ahead or ahead[0].seq != seq + 1:
                    ahead = await self._journal.read(
                        self.episode_id, after_seq=seq, limit=self._waiting.recorded_seq - seq
                    )
                view = copy(self._view)  # what viewers see changes at once, whole, on the loop
                shown = await asyncio.to_thread(view.take, ahead) if len(ahead) > LONG else view.take(ahead)
                self._view = view
                shown = self._visible(shown)
                if self._watched:
                    self._bus.publish(shown)

"""Record facts only, often many steps per commit, where no viewer has to follow.

With ``commit="step"`` :meth:`DerivedStream.emit` returns once its step is in the journal. With
``overlapped`` it returns once the step before it is: the journal writes one step while the next is decided.
With ``batched`` it returns as soon as the step is encoded, and everything that waits is written whenever
play waits for something, at the latest after :data:`UNRECORDED_STEPS` or :data:`UNRECORDED_CHARACTERS`. A
crash loses at most those; they are played again from seed and decisions. The end, and any command from
outside, is acknowledged only once it and everything before it is recorded. Viewers never see what is not
recorded, and while one watches, each step is recorded before the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Coroutine, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from spectator.bus import Bus, Overflow, Subscription
from spectator.clock import Clock, Timestamps, whole
from spectator.environments.world import World
from spectator.episodes.embargo import Embargo
from spectator.episodes.plan import Commit, EpisodePlan
from spectator.episodes.stream import KEPT, LONG, EpisodeStream, JournalTrouble, Recorder, TurnFacts
from spectator.episodes.view import DerivedView, State, used
from spectator.errors import EnvironmentFault, EpisodeError, EpisodeNotFound, EpisodeOver, JournalUnavailable
from spectator.events import (
    CALLS_BEHIND,
    Event,
    EventEncoder,
    Fact,
    RecordedEvent,
    Warned,
    core_fact,
    encode_json,
)
from spectator.journal.contract import Attachments, EpisodeLog
from spectator.model_calls import ModelCall


@dataclass(slots=True, eq=False)
class EncodedStep:
    """The events of one turn, encoded.

    Args:
        turn: Which turn.
        events: Its events, under the numbers that they have if nothing is recorded before them that is not
            there now.
        characters: How long their texts are.
        ends: Whether the last of them is the end.
        decisions: How many of its events calls to models may stand behind.
        asked: The facts of those that models were asked for.
        calls: The calls behind each decision among them, in order.
        truth: The world's sealed truth, beside the end.
    """

    turn: int
    events: Sequence[RecordedEvent]
    characters: int
    ends: bool
    decisions: int = 0
    asked: Sequence[Fact] = ()
    calls: Sequence[Sequence[ModelCall]] = ()
    truth: str | None = None


class UnrecordedSteps:
    """The steps of one episode from their encoding until they are recorded.

    Args:
        episode_id: Whose.
        epoch: Identity of the numbering.
        clock: Stamps their events.
        recorded_seq: The number of the last recorded event.
    """

    def __init__(self, episode_id: str, epoch: str, clock: Clock, recorded_seq: int) -> None:
        self.recorded_seq = recorded_seq
        """The number of the last recorded event."""
        self.ended = False
        """Whether the end is recorded."""
        self.goes_on = recorded_seq > 0
        """Whether the episode has begun and not ended, what waits included."""
        self.steps: list[EncodedStep] = []
        """What waits, in the order in which it will be recorded."""
        self.characters = 0
        """How long its texts are."""
        self._taken_seq = recorded_seq  # the number of the last event that waits
        self._stamp = Timestamps(clock)
        self._encoder = EventEncoder(episode_id, epoch)
        self._episode_id, self._epoch = episode_id, epoch

    def encode(self, turn: int, facts: Sequence[Fact], after_seq: int | None = None) -> EncodedStep:
        """The step that ``facts`` come to; it does not wait yet.

        Args:
            turn: Its turn.
            facts: At least one.
            after_seq: The number of the event before; the last that waits when left out.

        Raises:
            EnvironmentFault: A fact is not plain finite JSON.
        """
        seq = self._taken_seq if after_seq is None else after_seq
        at, encode = self._stamp(), self._encoder.encode
        events: list[RecordedEvent] = []
        asked: Sequence[Fact] = ()  # other facts are let go once they are encoded, for many steps may wait
        decisions = characters = 0
        try:
            for fact in facts:
                seq += 1
                event = encode(seq, at, turn, fact.type, encode_json(fact.data))
                if fact.type in CALLS_BEHIND:
                    decisions += 1
                    if fact.data.get("undecided", fact.data).get("model") is not None:
                        asked = (*asked, fact)
                    if fact.data.get("exchanges"):  # whose rows need it decoded
                        event.event = Event(
                            self._episode_id, self._epoch, seq, at, turn, fact.type, fact.data
                        )
                events.append(event)
                characters += len(event.text)
        except (TypeError, ValueError) as error:
            raise EnvironmentFault(f"an event could not be recorded: {error!r}") from error
        return EncodedStep(turn, events, characters, fact.type == "episode.ended", decisions, asked)

    def encode_all(self, steps: Sequence[TurnFacts]) -> list[EncodedStep]:
        """Each of ``steps``, none of which is empty; raises as :meth:`encode` does."""
        seq, encoded = self._taken_seq, []
        for turn, facts in steps:
            encoded.append(self.encode(turn, facts, seq))
            seq += len(facts)
        return encoded

    def add(self, step: EncodedStep) -> None:
        """Let ``step`` wait after all others."""
        self.steps.append(step)
        self.goes_on = not step.ends
        self._taken_seq += len(step.events)
        self.characters += step.characters

    def numbered(self, steps: Sequence[EncodedStep]) -> list[RecordedEvent]:
        """The events of ``steps``, the first that wait, under the numbers that follow the record."""
        events: list[RecordedEvent] = []
        for step in steps:
            first = self.recorded_seq + len(events) + 1
            if step.events[0].seq == first:
                events += step.events
            else:
                events += [self._encoder.renumbered(one, seq) for seq, one in enumerate(step.events, first)]
        return events

    def note_recorded(self, steps: Sequence[EncodedStep], seq: int) -> None:
        """``steps``, the first that wait, are recorded up to number ``seq``."""
        self.recorded_seq, self.ended = seq, steps[-1].ends
        self._wait(self.steps[len(steps) :])

    def withdraw(self, steps: Collection[EncodedStep]) -> None:
        """Let ``steps`` wait no longer, though they are not recorded."""
        self._wait([one for one in self.steps if one not in steps])

    def put_first(self, turn: int, facts: Sequence[Fact]) -> None:
        """Let ``facts`` wait before all others."""
        self._wait([self.encode(turn, facts, self.recorded_seq), *self.steps])

    def _wait(self, steps: list[EncodedStep]) -> None:
        self.steps = steps
        self.goes_on = not steps[-1].ends if steps else self.recorded_seq > 0 and not self.ended
        self.characters = sum([step.characters for step in steps])
        self._taken_seq = self.recorded_seq + sum([len(step.events) for step in steps])


def attach(attachments: Attachments, steps: Sequence[EncodedStep]) -> None:
    """Note with ``steps`` the calls behind their decisions, and the truth beside the last of them."""
    calls = iter(attachments.calls)
    for step in steps:
        step.calls = tuple(islice(calls, step.decisions))
    steps[-1].truth = attachments.truth


def attachments_of(steps: Sequence[EncodedStep]) -> Attachments | None:
    """What is attached to ``steps``, as one append takes it."""
    if not [step for step in steps if step.calls or step.truth is not None]:
        return None
    calls = [one for step in steps for one in (*step.calls, *[()] * (step.decisions - len(step.calls)))]
    return Attachments(calls, steps[-1].truth)


logger = logging.getLogger(__name__)

UNRECORDED_STEPS: Final = 96
"""Steps of an episode that may wait for the journal; the last of them waits for all."""

WAITING: Final[Mapping[Commit, int]] = {"step": 1, "overlapped": 2, "batched": UNRECORDED_STEPS}
"""Steps of which the last waits for all."""

UNRECORDED_CHARACTERS: Final = 96 * 1024
"""Characters of its events that may wait, so that large steps take no more memory than small ones."""


class DerivedStream:
    """The one author of the numbers of an episode whose view is derived; see :class:`.EpisodeStream`.

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
    def trouble(self) -> JournalTrouble | None:
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


Stream = EpisodeStream | DerivedStream


@dataclass(frozen=True, slots=True)
class RecordPosition:
    """Where another process left the record of an episode.

    Args:
        head_seq: Number of the last recorded event.
        view_seq: Number of the last event as viewers number them.
        state: What viewers saw last.
    """

    head_seq: int = 0
    view_seq: int = 0
    state: State = field(default_factory=dict)


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
    """The stream that ``plan`` asks for.

    Args:
        plan: What is played.
        episode_id: Its id.
        epoch: Identity of its numbering.
        journal: Where it is recorded.
        bus: Where it is published.
        clock: Stamps its events.
        patience_s: Seconds that a step waits for a journal that cannot be written.
        left: Where another process left it; ``None`` to begin.
        embargo: Holds back what viewers may not see yet; nothing is held back when left out.
    """
    left = left or RecordPosition()
    if plan.view == "derived":
        return DerivedStream(
            episode_id,
            epoch,
            world=plan.world,
            journal=journal,
            bus=bus,
            clock=clock,
            commit=plan.commit,
            patience_s=patience_s,
            state=left.state,
            head_seq=left.head_seq,
            view_seq=left.view_seq,
            embargo=embargo,
        )
    return EpisodeStream(
        episode_id,
        epoch,
        world=plan.world,
        journal=journal,
        bus=bus,
        clock=clock,
        patience_s=patience_s,
        state=left.state,
        head_seq=left.head_seq,
        embargo=embargo,
    )

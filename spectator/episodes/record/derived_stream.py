"""Records an episode that nobody has to watch: facts only, and many steps to a commit where that may be.

With ``commit="step"`` :meth:`DerivedStream.emit` returns once its step is in the journal. With ``batched``
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
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from spectator.bus.base import Bus, Overflow, Subscription
from spectator.clock import Clock, Timestamps
from spectator.environments.base import World
from spectator.episodes.record.derived import DerivedView
from spectator.episodes.record.recorder import Recorder, Trouble
from spectator.episodes.record.stream import KEPT, LONG, TurnFacts
from spectator.episodes.record.view import State, used
from spectator.episodes.run.plan import Commit
from spectator.errors import (
    EnvironmentFault,
    EpisodeError,
    EpisodeNotFound,
    EpisodeOver,
    JournalUnavailable,
    typed_as,
)
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
from spectator.journal.attachments import Attachments
from spectator.journal.base import EpisodeLog
from spectator.merge_patch import apply_patch
from spectator.model_calls import ModelCall

logger = logging.getLogger(__name__)

UNRECORDED_STEPS: Final = 64
"""Steps of an episode that may wait for the journal; the last of them waits for all."""

UNRECORDED_CHARACTERS: Final = 64 * 1024
"""Characters of its events that may wait: what some 40 steps of cricket come to."""


@dataclass(slots=True, eq=False)
class _Step:
    """The events of one turn, encoded.

    Args:
        turn: Which turn.
        events: Its events, under the numbers that they have if nothing is recorded before them that is not
            there now.
        characters: How long their texts are.
        ends: Whether the last of them is the end.
        calls: The calls behind each decision among them, in order.
        truth: The world's sealed truth, beside the end.
    """

    turn: int
    events: Sequence[RecordedEvent]
    characters: int
    ends: bool
    calls: Sequence[Sequence[ModelCall]] = ()
    truth: str | None = None

    @property
    def decisions(self) -> int:
        """How many events that calls may stand behind are among them."""
        return sum(one.type in CALLS_BEHIND for one in self.events)


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
        commit: Whether each step is recorded before the next.
        patience_s: Seconds that a step waits for a journal that cannot be written; its end waits for ever.
        state: What viewers would have seen last, where another process began it.
        head_seq: The number of the last recorded event then.
        view_seq: The number that viewers would have seen last then.
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
    ) -> None:
        self.episode_id = episode_id
        self.epoch = epoch
        self._recorder = Recorder(episode_id, journal, clock, patience_s)
        self._journal = journal
        self._bus = bus
        self._stamp = Timestamps(clock)
        self._limit = UNRECORDED_STEPS if commit == "batched" else 1
        self._encoder = EventEncoder(episode_id, epoch)
        self._view = DerivedView(world, epoch, state=state, seq=view_seq, recorded_seq=head_seq)
        self._usage: Mapping[str, Any] = self._view.state.get("usage", {})
        self._recorded_seq = head_seq
        self._first: RecordedEvent | None = None  # until somebody looks at the view
        self._taken_seq = head_seq  # the number of the last event that was emitted
        self._waiting = 0  # characters of what is pending
        self._ended = False
        self._pending: list[_Step] = []
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
        return [] if first is None or self._view.recorded_seq > 0 else self._view.take([first])

    @property
    def trouble(self) -> Trouble | None:
        """What keeps the record from being written now."""
        return self._recorder.trouble

    @property
    def ended(self) -> bool:
        """Whether the end is recorded."""
        return self._ended

    @property
    def usage(self) -> Mapping[str, Any]:
        """What models took so far, by actor, whether or not the view is up to date."""
        return self._usage

    @property
    def _watched(self) -> bool:
        return self._bus.listeners(self.episode_id) > 0

    async def news(self) -> Trouble | None:
        """Wait until another attempt to record has failed, or the first has succeeded again."""
        return await self._recorder.news()

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
        if self._ended and self._view.recorded_seq == self._recorded_seq:
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
        if self._limit == 1 or len(opening) > 1 or attachments or self._watched:
            return self.emit_steps(opening, patient=False, attachments=attachments)
        ((turn, facts),) = opening
        self._check(opening)
        self._take(self._encoded(turn, facts), facts)
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
        if len(steps) == 1 and not attachments and self._goes_on and self._failure is None:
            turn, facts = steps[0]
            if 0 < len(facts) <= LONG and facts[-1].type != "episode.ended":
                self._take(self._encoded(turn, facts), facts)
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
            encoded = await asyncio.to_thread(self._all_encoded, steps)
        else:
            encoded = self._all_encoded(steps)
        if attachments:
            encoded = _attached(encoded, attachments)
        ends = encoded[-1].ends
        if not ends:
            self._raise_failure()
        for step, (_, facts) in zip(encoded, steps, strict=True):
            self._take(step, facts)
        if patient:
            return await self._settled() if ends or self._must_settle else self._recorded_soon()
        recording = self._record(patient=False, withdrawing=encoded)
        await asyncio.shield(asyncio.get_running_loop().create_task(recording))
        return self._recorder.characters

    @property
    def _must_settle(self) -> bool:
        """Whether what was emitted may wait no longer: it is too much, or somebody watches."""
        full = len(self._pending) >= self._limit or self._waiting >= UNRECORDED_CHARACTERS
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
        while self._pending:
            await asyncio.shield(self._start_recording())
            self._raise_failure()

    def _check(self, steps: Sequence[TurnFacts]) -> None:
        if self._goes_on:
            return
        if self._ended or self._pending:
            raise EpisodeOver(self.episode_id)
        first = next(fact for _, facts in steps for fact in facts)
        if first.type != "episode.started":
            raise EpisodeNotFound(self.episode_id)

    @property
    def _goes_on(self) -> bool:
        """Whether it has begun and not ended, what is still to be recorded included."""
        if self._pending:
            return not self._pending[-1].ends
        return self._recorded_seq > 0 and not self._ended

    def _all_encoded(self, steps: Sequence[TurnFacts]) -> list[_Step]:
        seq, encoded = self._taken_seq, []
        for turn, facts in steps:
            encoded.append(self._encoded(turn, facts, seq))
            seq += len(facts)
        return encoded

    def _encoded(self, turn: int, facts: Sequence[Fact], after_seq: int | None = None) -> _Step:
        at, encode = self._stamp(), self._encoder.encode
        seq = self._taken_seq if after_seq is None else after_seq
        events, characters = [], 0
        with _ENCODING:
            for fact in facts:
                seq += 1
                event = encode(seq, at, turn, fact.type, encode_json(fact.data))
                characters += len(event.text)
                events.append(event)
        return _Step(turn, events, characters, fact.type == "episode.ended")

    def _take(self, step: _Step, facts: Sequence[Fact]) -> None:
        """Let ``step``, which ``facts`` came to, wait to be recorded."""
        self._pending.append(step)
        self._taken_seq += len(step.events)
        self._waiting += step.characters
        for fact in facts:
            if fact.type in CALLS_BEHIND and fact.data.get("undecided", fact.data).get("model") is not None:
                self._note_usage(step.turn, fact)

    def _recount(self) -> None:
        """Count anew what is pending, once some was recorded, withdrawn or put before others."""
        self._taken_seq = self._recorded_seq + sum(len(step.events) for step in self._pending)
        self._waiting = sum(step.characters for step in self._pending)

    def _note_usage(self, turn: int, decided: Fact) -> None:
        event = Event(self.episode_id, self.epoch, 0, "", turn, decided.type, decided.data)
        before = {**self.state, "usage": self._usage}
        self._usage = apply_patch(self._usage, used(before, event).get("usage", {}))

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
            while self._pending:
                await self._record(patient=True)
            self._failure = None
        except EpisodeError as error:
            if self._pending and self._pending[-1].ends:
                del self._pending[-1]
                self._recount()
            self._failure = error

    async def _record_beginning(self) -> None:
        try:
            await self._record(patient=False)
        except EpisodeError as error:
            self._pending.clear()
            self._recount()
            self._failure = error
            raise

    async def _record(self, *, patient: bool, withdrawing: Sequence[_Step] = ()) -> None:
        """Record all that waits, or nothing; then those that are ``withdrawing`` do not wait any more."""
        async with self._order:
            steps = tuple(self._pending)
            if not steps:  # recorded meanwhile, or given up together with the beginning
                self._raise_failure()
                return
            events = self._numbered(steps)
            try:
                stood_s = await self._recorder.record(
                    events, patient=patient, last=steps[-1].ends, attachments=_together(steps)
                )
            except EpisodeError:
                self._pending = [one for one in self._pending if one not in withdrawing]
                self._recount()
                raise
            del self._pending[: len(steps)]
            self._recorded_seq, self._ended = events[-1].seq, steps[-1].ends
            await self._publish(events)
            if stood_s and not self._ended:
                self._pending.insert(0, self._warning(steps[-1].turn, stood_s))
            self._recount()

    def _numbered(self, steps: Sequence[_Step]) -> list[RecordedEvent]:
        events: list[RecordedEvent] = []
        for step in steps:
            first = self._recorded_seq + len(events) + 1
            if step.events[0].seq == first:
                events += step.events
            else:
                events += [self._encoder.renumbered(one, seq) for seq, one in enumerate(step.events, first)]
        return events

    def _warning(self, turn: int, stood_s: float) -> _Step:
        warned = Warned(message=f"The record could not be written for {stood_s:.0f} s. {KEPT}")
        return self._encoded(turn, [core_fact(warned)], self._recorded_seq)

    async def _publish(self, events: Sequence[RecordedEvent]) -> None:
        """Show what is recorded to those who listen; beginning and end are made known where nobody does."""
        if events[0].seq == 1:
            self._first = events[0]
        if self._watched:
            try:
                await self._show(events)
            except EpisodeError:
                logger.exception("episode %s cannot be shown now", self.episode_id)
            return
        if events[0].seq == 1:
            self._bus.publish(events[:1])
        if self._ended:
            self._bus.publish(events[-1:])

    async def _show(self, fresh: Sequence[RecordedEvent]) -> None:
        """Derive and publish what was recorded and not shown: from ``fresh``, or from the journal."""
        async with self._showing:
            if (beginning := self._begin_view()) and self._watched:
                self._bus.publish(beginning)
            while (seq := self._view.recorded_seq) < self._recorded_seq:
                ahead = [one for one in fresh if one.seq > seq]
                if not ahead or ahead[0].seq != seq + 1:
                    ahead = await self._journal.read(
                        self.episode_id, after_seq=seq, limit=self._recorded_seq - seq
                    )
                view = copy(self._view)  # what viewers see changes at once, whole, on the loop
                shown = await asyncio.to_thread(view.take, ahead) if len(ahead) > LONG else view.take(ahead)
                self._view = view
                if self._watched:
                    self._bus.publish(shown)


def _attached(steps: Sequence[_Step], attachments: Attachments) -> list[_Step]:
    """``steps`` with the calls behind their decisions, and with the truth beside the last of them."""
    calls = iter(attachments.calls)
    attached = [replace(step, calls=tuple(islice(calls, step.decisions))) for step in steps]
    return [*attached[:-1], replace(attached[-1], truth=attachments.truth)]


def _together(steps: Sequence[_Step]) -> Attachments | None:
    """What is attached to ``steps``, as one append takes it."""
    if not [step for step in steps if step.calls or step.truth is not None]:
        return None
    calls = [one for step in steps for one in (*step.calls, *[()] * (step.decisions - len(step.calls)))]
    return Attachments(calls, steps[-1].truth)


def _not_encoded(error: Exception) -> EnvironmentFault:
    return EnvironmentFault(f"an event could not be recorded: {error!r}")


_ENCODING: Final = typed_as(_not_encoded, passing=())

"""The steps of an episode that wait for the journal: encoded, numbered, in order."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice

from spectator.clock import Clock, Timestamps
from spectator.episodes.record.stream import TurnFacts
from spectator.errors import EnvironmentFault
from spectator.events import CALLS_BEHIND, Event, EventEncoder, Fact, RecordedEvent, encode_json
from spectator.journal.attachments import Attachments
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

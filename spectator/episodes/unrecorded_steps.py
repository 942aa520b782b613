"""The encoded steps of an episode that wait to be recorded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice

from spectator.clock import Clock, timestamp
from spectator.core_events import CALLS_BEHIND
from spectator.episodes.stream import TurnFacts
from spectator.errors import EnvironmentFault
from spectator.events import Event, EventEncoder, Fact, RecordedEvent, encode_json
from spectator.journal.contract import Attachments
from spectator.model_calls import ModelCall


@dataclass(slots=True, eq=False)
class EncodedStep:
    """The events of one turn, encoded.

    Args:
        events: Its events, numbered as if nothing else were recorded before them.
        ends: Whether the last of them is the end.
        decisions: Number of events that may have model calls behind them.
        asked: The facts with model usage among them.
        calls: The model calls behind each of these events, in order.
        truth: The world's sealed truth, recorded with the end.
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
    """The encoded but unrecorded steps of one episode.

    Args:
        recorded_seq: Number of the last recorded event.
    """

    def __init__(self, episode_id: str, epoch: str, clock: Clock, recorded_seq: int) -> None:
        self.recorded_seq = recorded_seq
        """Number of the last recorded event."""
        self.ended = False
        """Whether the end is recorded."""
        self.goes_on = recorded_seq > 0
        """Whether the episode has begun and not ended, including waiting steps."""
        self.steps: list[EncodedStep] = []
        """The waiting steps, in the order in which they will be recorded."""
        self.characters = 0
        """Total length of the waiting texts."""
        self._taken_seq = recorded_seq  # number of the last waiting event
        self._clock = clock
        self._encoder = EventEncoder(episode_id, epoch)
        self._episode_id, self._epoch = episode_id, epoch

    def encode(self, turn: int, facts: Sequence[Fact], after_seq: int | None = None) -> EncodedStep:
        """Encode ``facts`` as a step, without adding it.

        Args:
            after_seq: Number of the preceding event; by default the last waiting event.

        Raises:
            EnvironmentFault: A fact is not plain finite JSON.
        """
        seq = self._taken_seq if after_seq is None else after_seq
        at, encode = timestamp(self._clock.now()), self._encoder.encode
        events: list[RecordedEvent] = []
        asked: Sequence[Fact] = ()  # other facts are dropped to save memory, as many steps may wait
        decisions = characters = 0
        try:
            for fact in facts:
                seq += 1
                event = encode(seq, at, turn, fact.type, encode_json(fact.data))
                if fact.type in CALLS_BEHIND:
                    decisions += 1
                    if fact.data.get("undecided", fact.data).get("model") is not None:
                        asked = (*asked, fact)
                    if fact.data.get("exchanges"):  # the rows of its calls need the decoded event
                        event.event = Event(
                            self._episode_id, self._epoch, seq, at, turn, fact.type, fact.data
                        )
                events.append(event)
                characters += len(event.text)
        except (TypeError, ValueError) as error:
            raise EnvironmentFault(f"an event could not be recorded: {error!r}") from error
        return EncodedStep(turn, events, characters, fact.type == "episode.ended", decisions, asked)

    def encode_all(self, steps: Sequence[TurnFacts]) -> list[EncodedStep]:
        """Encode each of ``steps``, none of which may be empty; raises like :meth:`encode`."""
        seq, encoded = self._taken_seq, []
        for turn, facts in steps:
            encoded.append(self.encode(turn, facts, seq))
            seq += len(facts)
        return encoded

    def add(self, step: EncodedStep) -> None:
        """Append ``step`` to the waiting steps."""
        self.steps.append(step)
        self.goes_on = not step.ends
        self._taken_seq += len(step.events)
        self.characters += step.characters

    def numbered(self, steps: Sequence[EncodedStep]) -> list[RecordedEvent]:
        """Return the events of ``steps``, the first waiting ones, numbered after the last recorded event."""
        events: list[RecordedEvent] = []
        for step in steps:
            first = self.recorded_seq + len(events) + 1
            if step.events[0].seq == first:
                events += step.events
            else:
                events += [self._encoder.renumbered(one, seq) for seq, one in enumerate(step.events, first)]
        return events

    def note_recorded(self, steps: Sequence[EncodedStep], seq: int) -> None:
        """Note that ``steps``, the first waiting ones, are recorded up to number ``seq``."""
        self.recorded_seq, self.ended = seq, steps[-1].ends
        self._set_steps(self.steps[len(steps) :])

    def withdraw(self, steps: Collection[EncodedStep]) -> None:
        """Remove ``steps`` from the waiting steps."""
        self._set_steps([one for one in self.steps if one not in steps])

    def put_first(self, turn: int, facts: Sequence[Fact]) -> None:
        """Put ``facts`` before the waiting steps."""
        self._set_steps([self.encode(turn, facts, self.recorded_seq), *self.steps])

    def _set_steps(self, steps: list[EncodedStep]) -> None:
        self.steps = steps
        self.goes_on = not steps[-1].ends if steps else self.recorded_seq > 0 and not self.ended
        self.characters = sum([step.characters for step in steps])
        self._taken_seq = self.recorded_seq + sum([len(step.events) for step in steps])


def attach(attachments: Attachments, steps: Sequence[EncodedStep]) -> None:
    """Attach to ``steps`` the calls behind their decisions, and to the last one the truth."""
    calls = iter(attachments.calls)
    for step in steps:
        step.calls = tuple(islice(calls, step.decisions))
    steps[-1].truth = attachments.truth


def attachments_of(steps: Sequence[EncodedStep]) -> Attachments | None:
    """Return what is attached to ``steps``, in the form of one append."""
    if not [step for step in steps if step.calls or step.truth is not None]:
        return None
    calls = [one for step in steps for one in (*step.calls, *[()] * (step.decisions - len(step.calls)))]
    return Attachments(calls, steps[-1].truth)

"""A journal that cannot be written makes play stand still, never go on unrecorded, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from spectator.episodes.stream import Recorder
from spectator.errors import JournalError, JournalUnavailable, SequenceConflict
from spectator.events import Event, RecordedEvent, record
from spectator.journal.contract import Attachments
from spectator.journal.outage import DATABASE_PAUSES
from tests.fakes import ManualClock, until

EVENTS = [record(Event("ep-1", "e", 1, "now", 0, "warning", {"message": "x"}))]


class FailingJournal:
    """Fails as it is told until ``well`` is set.

    Args:
        failure: What appends raise.
    """

    def __init__(self, failure: Exception) -> None:
        self.failure = failure
        self.attempts = 0
        self.kept: list[Sequence[RecordedEvent]] = []
        self.well = False

    async def append(
        self, events: Sequence[RecordedEvent], *, attachments: Attachments | None = None
    ) -> None:
        self.attempts += 1
        if not self.well:
            raise self.failure
        self.kept.append(events)


class Recording:
    """A recorder that is at work.

    Args:
        patience_s: Its patience.
        failure: What its journal raises.
        patient: Argument of ``record``.
        last: Argument of ``record``.
    """

    def __init__(
        self, patience_s: float, failure: Exception, *, patient: bool = True, last: bool = False
    ) -> None:
        self.clock = ManualClock()
        self.journal = FailingJournal(failure)
        self.recorder = Recorder("ep-1", self.journal, self.clock, patience_s)  # type: ignore[arg-type]
        recording = self.recorder.record(EVENTS, patient=patient, last=last)
        self.task = asyncio.get_running_loop().create_task(recording)

    async def pass_by(self, seconds: float) -> None:
        """Let time pass, an attempt at a time."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end and not self.task.done():
            await until(lambda: self.clock.sleepers > 0 or self.task.done(), what="a pause")
            if not self.task.done():
                self.clock.advance(min(DATABASE_PAUSES.longest_s, end - self.clock.monotonic()))
        await asyncio.sleep(0.01)


FULL = JournalUnavailable("the journal cannot be written: database or disk is full")


async def test_it_waits_tells_and_goes_on() -> None:
    at_work = Recording(60, FULL)
    recorder = at_work.recorder
    assert recorder.trouble is None
    await until(lambda: recorder.trouble is not None, what="trouble")
    found = recorder.trouble
    assert found is not None
    assert "disk is full" in found.message
    assert found.since == at_work.clock.now()
    await at_work.pass_by(20)
    assert not at_work.task.done()
    assert recorder.trouble is not None
    assert recorder.trouble.since == found.since
    at_work.journal.well = True
    over = asyncio.get_running_loop().create_task(recorder.news())
    await at_work.pass_by(6)
    assert 20 <= await at_work.task <= 26
    assert at_work.journal.kept == [EVENTS]
    assert recorder.trouble is None
    assert await over is None
    assert at_work.journal.attempts < 20, "it does not hammer a full disk"


async def test_its_patience_ends_with_the_reason() -> None:
    at_work = Recording(30, FULL)
    await at_work.pass_by(29)
    assert not at_work.task.done()
    await at_work.pass_by(5)
    with pytest.raises(JournalUnavailable, match=r"disk is full; given up after 3\d s"):
        await at_work.task


async def test_an_end_is_waited_for_without_limit_until_the_server_goes() -> None:
    at_work = Recording(30, FULL, last=True)
    await at_work.pass_by(400)
    assert not at_work.task.done()
    at_work.recorder.give_up_waiting(for_good=True)
    with pytest.raises(JournalUnavailable):
        await at_work.task
    with pytest.raises(JournalUnavailable):
        await at_work.recorder.record(EVENTS, patient=True, last=True)


async def test_whoever_hurries_it_gets_a_step_given_up_and_the_end_is_still_waited_for() -> None:
    at_work = Recording(600, FULL)
    await at_work.pass_by(3)
    at_work.recorder.give_up_waiting(for_good=False)
    with pytest.raises(JournalUnavailable):
        await at_work.task
    end = asyncio.get_running_loop().create_task(at_work.recorder.record(EVENTS, patient=True, last=True))
    await until(lambda: at_work.clock.sleepers > 0, what="a pause")
    assert not end.done()
    at_work.journal.well = True
    at_work.clock.advance(DATABASE_PAUSES.longest_s)
    assert await end > 0


@pytest.mark.parametrize(
    ("patience_s", "failure", "how"),
    [
        (0, FULL, {}),
        (0, FULL, {"last": True}),
        (60, FULL, {"patient": False}),
        (60, SequenceConflict("taken"), {}),
        (60, JournalError("the journal is closed"), {"last": True}),
        (60, RuntimeError("a journal of somebody else's"), {}),
    ],
)
async def test_what_waiting_cannot_mend_is_not_waited_for(
    patience_s: float, failure: Exception, how: dict[str, Any]
) -> None:
    at_work = Recording(patience_s, failure, **how)
    with pytest.raises(JournalError):
        await at_work.task
    assert at_work.journal.attempts == 1
    assert at_work.recorder.trouble is None

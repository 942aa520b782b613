"""Checks what is recorded beside an episode's events against the digests that the events state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from spectator.episodes.replay.verify import Discrepancy
from spectator.errors import JournalError
from spectator.events import CALLS_BEHIND, Event
from spectator.journal.attachments import RecordedCall, truth_digest
from spectator.journal.base import Journal
from spectator.llm.exchange import fingerprint


async def verify_attachments(journal: Journal, episode_id: str) -> AsyncIterator[Discrepancy]:
    """What of the model calls and of the sealed truth is not as the events state it, in order.

    Args:
        journal: Where the episode is, its chain of digests checked.
        episode_id: Which.

    Raises:
        ConfigurationError: The extra that is needed to check model calls is not installed.
        JournalError: An event cannot be read.
    """
    calls = _Calls(journal.calls(episode_id))
    async for one in journal.stream(episode_id):
        event = one.event
        if event.type in CALLS_BEHIND:
            async for discrepancy in calls.compare(event):
                yield discrepancy
        if event.type == "episode.ended":
            async for discrepancy in _compare_truth(journal, event):
                yield discrepancy
    async for discrepancy in calls.left():
        yield discrepancy


class _Calls:
    """The recorded calls, one after another, beside the decisions that state them."""

    def __init__(self, calls: AsyncIterator[RecordedCall]) -> None:
        self._calls = calls
        self._next: RecordedCall | None = None
        self._broken = False

    async def compare(self, decided: Event) -> AsyncIterator[Discrepancy]:
        """What is wrong with the calls behind one decision, made or failed."""
        stated = decided.data.get("undecided", decided.data)
        for place, exchange in enumerate(stated.get("exchanges") or ()):
            if exchange.get("digest") is None or self._broken:
                continue
            try:
                found = await self._take(decided.seq, place)
            except JournalError as error:
                self._broken = True
                yield Discrepancy(decided.seq, str(error))
                return
            if found is None:
                yield Discrepancy(decided.seq, f"call {place} behind it is missing")
            elif wrong := _wrong(found, exchange):
                yield Discrepancy(decided.seq, f"call {place} behind it {wrong}")

    async def left(self) -> AsyncIterator[Discrepancy]:
        """Calls that no decision states."""
        try:
            while not self._broken and (one := self._next or await anext(self._calls, None)) is not None:
                self._next = None
                yield Discrepancy(one.decided.seq, f"call {one.place} behind it was put in")
        except JournalError as error:
            yield Discrepancy(0, str(error))

    async def _take(self, seq: int, place: int) -> RecordedCall | None:
        """The call of that decision and place, if it is the next one."""
        if self._next is None:
            self._next = await anext(self._calls, None)
        found = self._next
        if found is None or (found.decided.seq, found.place) != (seq, place):
            return None
        self._next = None
        return found


def _wrong(found: RecordedCall, exchange: Mapping[str, Any]) -> str | None:
    asked = fingerprint(found.call.messages, found.call.tools)
    if asked != exchange["request"]:
        return "does not hold the messages that the event states"
    if found.call.digest(asked) != exchange["digest"]:
        return "does not fit the digest that the event states"
    return None


async def _compare_truth(journal: Journal, ended: Event) -> AsyncIterator[Discrepancy]:
    stated = ended.data.get("truth")
    try:
        truth = await journal.truth(ended.episode_id)
    except JournalError as error:
        yield Discrepancy(ended.seq, str(error))
        return
    if truth is None and stated is not None:
        yield Discrepancy(ended.seq, "the truth that it states is missing")
    elif truth is not None and stated is None:
        yield Discrepancy(ended.seq, "a truth was put in that it does not state")
    elif truth is not None and truth_digest(truth) != stated:
        yield Discrepancy(ended.seq, "the truth is not the one that it states")

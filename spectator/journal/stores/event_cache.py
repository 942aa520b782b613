"""A cache of the newest events, which a server fills with what it commits and from which others follow it.

It is never the record, nor waited for by whoever plays: what was committed is put there in the background,
and whatever is asked of it is answered within a bounded time, or not at all.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from spectator.clock import Clock
from spectator.events import RecordedEvent, decode
from spectator.futures import settle
from spectator.journal.stores.redis_streams import CacheFailed, WantedEvents

logger = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
"""Between two attempts to reach it; each pause is drawn from half of twice the one before to all of it."""

STEADY_S: Final = 60.0
"""Seconds for which it has to work before its next failure counts as the first."""

MOST_NOTED: Final = 8_000_000
"""Characters of events that wait to be put there; what is more is left to the database."""

MOST_ASKED: Final = 64
"""Questions that are sent at once."""

ReadResult = Literal["hit", "behind", "gap", "away"]
"""What came of a question: the next events; none of them; not all up to the last; or it was not asked."""


class EventStreams(Protocol):
    """Where the events lie; see :class:`.redis_streams.RedisStreams`."""

    async def prove(self) -> None:
        """Make sure that they can be written and read."""
        ...

    async def put(self, events: Sequence[RecordedEvent]) -> None:
        """Add committed events."""
        ...

    async def read(self, wanted: Sequence[WantedEvents]) -> list[list[tuple[int, str]]]:
        """Numbers and texts of the events that are there."""
        ...


@dataclass(frozen=True, slots=True)
class _WaitingRead:
    wanted: WantedEvents
    answer: asyncio.Future[list[tuple[int, str]] | None]


@dataclass(slots=True)
class _Noted:
    """What waits to be put there, and who waits for that."""

    events: list[RecordedEvent] = field(default_factory=list)
    characters: int = 0
    waiting: list[asyncio.Future[None]] = field(default_factory=list)


class EventCache:
    """The newest events of episodes, as far as they are there.

    While it fails nothing is put there and nothing is asked of it; one line in the log says so, another one
    that it works again.

    Args:
        streams: Where the events lie.
        where: The same for people.
        clock: Waits.
        draw: A number from 0 to 1, another at each call.
    """

    def __init__(self, streams: EventStreams, where: str, clock: Clock, draw: Callable[[], float]) -> None:
        self.works = False
        """Whether it is used now."""
        self.reads: Counter[ReadResult] = Counter()
        """Questions, by what came of them."""
        self.read_events = 0
        """Events that were read from it."""
        self.unwritten = 0
        """Events that were not put there, since it failed."""
        self._streams = streams
        self._where = where
        self._clock = clock
        self._draw = draw
        self._noted = _Noted()
        self._some_noted = asyncio.Event()
        self._questions: list[_WaitingRead] = []
        self._asked = asyncio.Event()
        self._broken = asyncio.Event()
        self._broken.set()
        self._steady = False  # whether it had worked for long before it failed
        self._warned = False
        self._mended_s = math.inf

    async def run(self) -> None:
        """Put, read, and come back after a failure, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for work in (self._heal(), self._put_on(), self._read_on()):
                    tasks.create_task(work, name="cache of events")
        finally:
            self.works = False
            self._answer_none()
            settle(self._noted.waiting, None)

    def note(self, events: Sequence[RecordedEvent]) -> None:
        """Events of one episode were committed; returns at once."""
        if not self.works:
            self.unwritten += len(events)
            return
        noted = self._noted
        noted.characters += sum(len(one.text) for one in events)
        noted.events += events
        if noted.characters > MOST_NOTED:
            self._drop(noted)
        self._some_noted.set()

    async def written(self) -> None:
        """Wait until what was noted is there, or is known not to come there: a bounded time."""
        if self.works:
            done = asyncio.get_running_loop().create_future()
            self._noted.waiting.append(done)
            self._some_noted.set()
            await done

    async def after(self, episode_id: str, epoch: str, seq: int, limit: int) -> Sequence[RecordedEvent]:
        """The events that were committed next after number ``seq``, as far as they are there; maybe none.

        None is left out between them. That no more are here does not say that there are no more.

        Args:
            episode_id: Which episode.
            epoch: Identity of its numbering.
            seq: The number of an event of it.
            limit: At most so many.
        """
        if not self.works:
            return self._missed("away")
        answer: asyncio.Future[list[tuple[int, str]] | None] = asyncio.get_running_loop().create_future()
        self._questions.append(_WaitingRead(WantedEvents(episode_id, epoch, seq, limit), answer))
        self._asked.set()
        entries = await answer
        if entries is None:
            return self._missed("away")
        if not entries:
            return self._missed("behind")
        found: list[RecordedEvent] = []
        for number, text in entries:
            if number != seq + 1 + len(found) or not text:
                return self._missed("gap")
            if (one := _decoded(text, episode_id, epoch, number)) is None:
                self._fail(f"holds what is not event {number} of {episode_id}")
                return self._missed("away")
            found.append(one)
        self.reads["hit"] += 1
        self.read_events += len(found)
        return found

    def _missed(self, result: ReadResult) -> Sequence[RecordedEvent]:
        self.reads[result] += 1
        return ()

    async def _put_on(self) -> None:
        while True:
            await self._some_noted.wait()
            self._some_noted.clear()
            noted, self._noted = self._noted, _Noted()
            try:
                if self.works and noted.events:
                    await self._streams.put(noted.events)
                else:
                    self._drop(noted)
            except CacheFailed as error:
                self._drop(noted)
                self._fail(str(error))
            finally:
                settle(noted.waiting, None)

    def _drop(self, noted: _Noted) -> None:
        self.unwritten += len(noted.events)
        noted.events, noted.characters = [], 0

    async def _read_on(self) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            while self._questions:
                asked, self._questions = self._questions[:MOST_ASKED], self._questions[MOST_ASKED:]
                await self._read(asked)

    async def _read(self, asked: Sequence[_WaitingRead]) -> None:
        """Answer questions, of which several may be the same."""
        wanted = list(dict.fromkeys(one.wanted for one in asked))
        found: dict[WantedEvents, list[tuple[int, str]]] = {}
        try:
            if self.works:
                found = dict(zip(wanted, await self._streams.read(wanted), strict=True))
        except CacheFailed as error:
            self._fail(str(error))
        finally:
            for one in asked:
                settle([one.answer], found.get(one.wanted))

    def _answer_none(self) -> None:
        questions, self._questions = self._questions, []
        settle([one.answer for one in questions], None)

    async def _heal(self) -> None:
        pause_s = 0.0
        while True:
            await self._broken.wait()
            if self._steady:
                self._steady, pause_s = False, FIRST_PAUSE_S
            await self._clock.sleep(pause_s * (1 + self._draw()) / 2)
            pause_s = min(max(2 * pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
            try:
                await self._streams.prove()
            except CacheFailed as error:
                self._fail(str(error))
            else:
                self._mend()

    def _mend(self) -> None:
        self._broken.clear()
        self.works, self._mended_s = True, self._clock.monotonic()
        if self._warned:
            logger.info("the newest events are cached again at %s", self._where)
        self._warned = False

    def _fail(self, why: str) -> None:
        if self.works:
            self._steady = self._clock.monotonic() - self._mended_s >= STEADY_S
        self.works = False
        self._broken.set()
        if not self._warned:
            self._warned = True
            told = (
                "the cache of newest events at %s is not used: %s; nothing is lost, and followers read the "
                "database. It is tried again by itself: mend it, or take SPECTATOR_CACHE_URL away"
            )
            logger.warning(told, self._where, why)


def _decoded(text: str, episode_id: str, epoch: str, seq: int) -> RecordedEvent | None:
    """The event that a text is, if it is that one."""
    try:
        found = decode(text)
    except ValueError:
        return None
    event = found.event
    return found if (event.episode_id, event.epoch, event.seq) == (episode_id, epoch, seq) else None

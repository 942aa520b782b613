"""The narrator of an episode: selects lines, has them spoken, and publishes the clips."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from spectator.clock import Clock, first_of
from spectator.core_events import NarrationClip
from spectator.errors import EpisodeOver
from spectator.events import RecordedEvent
from spectator.narration.clip_store import ClipStore, StoredClip
from spectator.narration.commentary import PERMANENT, Speaker, SpeechFailure, Voice, aloud, plain_speech

CAPACITY: Final = 4
"""Maximum number of queued lines."""

LIFE_S: Final = {0: 20.0, 1: 8.0, 2: 6.0, 3: 3.0}
"""Seconds after which a line is too old to be spoken, by priority."""


@dataclass(frozen=True, slots=True)
class QueuedLine:
    """A line in the queue.

    Args:
        priority: 0 must be heard ... 3 may be dropped.
        until: When it is too old, on the monotonic clock.
        reply: The second commentator's answer; empty for none.
    """

    seq: int
    text: str
    priority: int
    until: float
    reply: str = ""


class LineQueue:
    """A queue of lines with a fixed capacity; it drops lines and never blocks.

    Args:
        capacity: Maximum number of lines, at least 1.
    """

    def __init__(self, clock: Clock, *, capacity: int = CAPACITY) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        self.dropped: Counter[str] = Counter()
        self._clock = clock
        self._capacity = capacity
        self._lines: list[QueuedLine] = []

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def urgent(self) -> bool:
        """Whether the queue has a line that must be heard."""
        return any(line.priority == 0 for line in self._lines)

    def put(self, seq: int, text: str, priority: int, reply: str = "") -> None:
        """Add a line; a line of the least priority replaces another one of that priority.

        If the queue is full, the oldest of the least important lines is dropped.
        """
        if priority == max(LIFE_S):
            self._drop("replaced", lambda line: line.priority == priority)
        self._lines.append(QueuedLine(seq, text, priority, self._clock.monotonic() + LIFE_S[priority], reply))
        if len(self._lines) > self._capacity:
            self._remove("overflow", max(self._lines, key=lambda line: (line.priority, -line.seq)))

    def take(self) -> QueuedLine | None:
        """Remove and return the line to speak now; ``None`` if there is none.

        It is the newest of the most important lines, and older lines are dropped. Lines that must be heard
        are never dropped for another line, and are spoken in order.
        """
        self._drop("stale", lambda line: self.stale(line))
        if not self._lines:
            return None
        chosen = min(self._lines, key=lambda line: (line.priority, -line.seq if line.priority else line.seq))
        self._lines.remove(chosen)
        self._drop("overtaken", lambda line: line.priority > 0 and line.seq < chosen.seq)
        return chosen

    def stale(self, line: QueuedLine) -> bool:
        """Whether ``line`` is too old to be spoken."""
        return self._clock.monotonic() > line.until

    def _drop(self, reason: str, unwanted: Callable[[QueuedLine], bool]) -> None:
        for line in [line for line in self._lines if unwanted(line)]:
            self._remove(reason, line)

    def _remove(self, reason: str, line: QueuedLine) -> None:
        self._lines.remove(line)
        self.dropped[reason] += 1


logger = logging.getLogger(__name__)

LEAD_S: Final = 0.3
"""The next clip is started this long before the end of the last one, seconds: a voice needs about as long."""

PAUSE_S: Final = 0.2
"""Silence between two clips, seconds."""

INTERRUPTIBLE: Final = 2
"""Lines with this number or a higher one are dropped for an urgent line while they are being made."""

BIG: Final = 1
"""Play waits for lines with this number or a lower one."""

MAX_BREATH_S: Final = 2.5
"""Longest time that play waits for a line, seconds."""


@dataclass(slots=True)
class NarrationCounts:
    """Counts of the lines of all episodes.

    Args:
        outcomes: ``spoken``, ``unspoken``, or why they were dropped: ``stale``, ``overflow``, ``replaced``,
            ``overtaken``, ``interrupted``.
        failures: Failures by voice and reason.
        fault: The current problem of the voice, for people; ``None`` without a problem.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class NarratorPorts:
    """Functions that connect a narrator to its episode.

    Args:
        record: Records and publishes a clip; raises ``EpisodeOver`` after the end of the episode.
    """

    spoken: Callable[[str], str]
    record: Callable[[NarrationClip], Awaitable[None]]
    on_air: Callable[[], bool]
    may_pay: Callable[[], bool]
    breathe: Callable[[float], None]
    address: Callable[[str], str]


class Narrator:
    """Speaks the commentary of one episode. Failures never stop play or captions.

    Args:
        voices: Voices of the first commentator, best first; one that fails permanently is not used again.
        answering: Voices of the second commentator, in the same way; without any, answers are not spoken.
    """

    def __init__(
        self,
        *,
        voices: Sequence[Voice],
        clips: ClipStore,
        clock: Clock,
        ports: NarratorPorts,
        tally: NarrationCounts,
        answering: Sequence[Voice] = (),
    ) -> None:
        self._voices = list(voices)
        self._answering = list(answering)
        self._best = self._voices[0]
        self._clips = clips
        self._clock = clock
        self._ports = ports
        self._tally = tally
        self._queue = LineQueue(clock)
        self._news = asyncio.Event()
        self._busy_until = float("-inf")

    async def run(self, published: AsyncIterable[Sequence[RecordedEvent]]) -> None:
        """Speak until the end of ``published``, the stream of the episode's events."""
        speaking = asyncio.get_running_loop().create_task(self._speak())
        try:
            async for batch in published:
                self._enqueue(batch)
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)
            self._tally.outcomes.update(self._queue.dropped)

    def _enqueue(self, batch: Sequence[RecordedEvent]) -> None:
        if not self._ports.on_air():
            return
        for recorded in batch:
            if recorded.event.type == "narration.line":
                data = recorded.event.data
                self._queue.put(recorded.event.seq, aloud(data), data["priority"], data.get("reply") or "")
                self._news.set()

    async def _speak(self) -> None:
        while True:
            await self._until_due()
            line = self._queue.take()
            if line is None:
                continue
            try:
                await self._say(line)
            except EpisodeOver:
                return
            except Exception:
                logger.exception("a line could not be spoken")
                self._tally.outcomes["unspoken"] += 1

    async def _until_due(self) -> None:
        while not self._queue.urgent:
            self._news.clear()
            left = self._busy_until - LEAD_S - self._clock.monotonic()
            if not len(self._queue):
                await self._news.wait()
            elif left > 0:
                await first_of(self._clock.sleep(left), self._news.wait())
            else:
                return

    async def _say(self, line: QueuedLine) -> None:
        text = plain_speech(self._ports.spoken(line.text))
        clip = await self._make(line, text, self._voices)
        if clip is None:
            return
        if self._queue.stale(line):
            self._tally.outcomes["stale"] += 1
            return
        await self._air(line, text, clip, "lead")
        if line.reply and self._answering and not self._queue.urgent:
            reply = plain_speech(self._ports.spoken(line.reply))
            answer = await self._make(replace(line, priority=INTERRUPTIBLE), reply, self._answering)
            if answer is not None:
                await self._air(line, reply, answer, "analyst")

    async def _make(self, line: QueuedLine, text: str, voices: list[Voice]) -> StoredClip | None:
        """Return the clip of ``text``; ``None`` after a failure or for an urgent line."""
        making = asyncio.get_running_loop().create_task(self._clip(text, voices))
        try:
            await self._wait_for(making, line)
        finally:
            making.cancel()
        if not making.done() or making.cancelled():
            self._tally.outcomes["interrupted"] += 1
            return None
        clip = making.result()
        if clip is None:
            self._tally.outcomes["unspoken"] += 1
        return clip

    async def _wait_for(self, making: asyncio.Task[StoredClip | None], line: QueuedLine) -> None:
        """Wait until the clip is made, or an urgent line should interrupt it."""
        while not making.done() and not (line.priority >= INTERRUPTIBLE and self._queue.urgent):
            self._news.clear()
            await first_of(asyncio.wait([making]), self._news.wait())

    async def _air(self, line: QueuedLine, text: str, clip: StoredClip, speaker: Speaker) -> None:
        now = self._clock.monotonic()
        interrupt = speaker == "lead" and line.priority == 0 and now < self._busy_until
        begins = now if interrupt else max(now, self._busy_until)
        self._busy_until = begins + clip.duration_s + PAUSE_S
        if line.priority <= BIG and speaker == "lead":
            self._ports.breathe(min(MAX_BREATH_S, begins - now + clip.duration_s))
        await self._ports.record(
            NarrationClip(
                for_seq=line.seq,
                url=self._ports.address(clip.name),
                mime=clip.mime,
                duration_s=round(clip.duration_s, 3),
                text=text,
                interrupt=interrupt,
                speaker=speaker,
            )
        )
        self._tally.outcomes["spoken"] += 1

    async def _clip(self, text: str, voices: list[Voice]) -> StoredClip | None:
        for voice in tuple(voices):
            if voice.costs_money and not self._ports.may_pay():
                continue
            made = await self._clips.clip(voice, text)
            if isinstance(made, StoredClip):
                if voice is self._best:
                    self._tally.fault = None
                return made
            self._count_failure(voice, made)
            if made.reason in PERMANENT:
                voices.remove(voice)
        return None

    def _count_failure(self, voice: Voice, failure: SpeechFailure) -> None:
        self._tally.failures[voice.name, failure.reason] += 1
        if failure.detail:
            self._tally.fault = f"{voice.name}: {failure.detail}"
            logger.warning("the voice %s failed: %s", voice.name, failure.detail)

"""The narrator of an episode: picks lines, has them spoken, publishes the clips."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from spectator.clock import Clock, first_of
from spectator.errors import EpisodeOver
from spectator.events import NarrationClip, RecordedEvent
from spectator.narration.clip_store import ClipStore, StoredClip
from spectator.narration.commentary import PERMANENT, Speaker, SpeechFailure, Voice, aloud, plain_speech

CAPACITY: Final = 4
"""Most lines that wait."""

LIFE_S: Final = {0: 20.0, 1: 8.0, 2: 6.0, 3: 3.0}
"""Seconds after which a line is too old to be said, by its priority."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A line that waits.

    Args:
        seq: Number of its event.
        text: What is to be said.
        priority: 0 must be heard ... 3 may be dropped.
        until: When it is too old, by the clock's ``monotonic``.
        reply: What the second commentator answers; empty for nothing.
    """

    seq: int
    text: str
    priority: int
    until: float
    reply: str = ""


class LineQueue:
    """Lines that wait. It never grows beyond its capacity and never blocks.

    Args:
        clock: Ages the lines.
        capacity: Most lines that wait, at least 1.
    """

    def __init__(self, clock: Clock, *, capacity: int = CAPACITY) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        self.dropped: Counter[str] = Counter()
        self._clock = clock
        self._capacity = capacity
        self._lines: list[Waiting] = []

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def urgent(self) -> bool:
        """Whether a line waits that must be heard now."""
        return any(line.priority == 0 for line in self._lines)

    def put(self, seq: int, text: str, priority: int, reply: str = "") -> None:
        """Let a line wait; it takes the place of an unspoken one of the least priority.

        When there is no room, the least important goes, the oldest of them first.
        """
        if priority == max(LIFE_S):
            self._drop("replaced", lambda line: line.priority == priority)
        self._lines.append(Waiting(seq, text, priority, self._clock.monotonic() + LIFE_S[priority], reply))
        if len(self._lines) > self._capacity:
            self._remove("overflow", max(self._lines, key=lambda line: (line.priority, -line.seq)))

    def take(self) -> Waiting | None:
        """The line to say now: the most important, of these the newest; those before it are overtaken.

        Of those that must be heard none is overtaken by another.
        """
        self._drop("stale", lambda line: self.stale(line))
        if not self._lines:
            return None
        chosen = min(self._lines, key=lambda line: (line.priority, -line.seq if line.priority else line.seq))
        self._lines.remove(chosen)
        self._drop("overtaken", lambda line: line.priority > 0 and line.seq < chosen.seq)
        return chosen

    def stale(self, line: Waiting) -> bool:
        """Whether ``line`` is too old to be said."""
        return self._clock.monotonic() > line.until

    def _drop(self, why: str, unwanted: Callable[[Waiting], bool]) -> None:
        for line in [line for line in self._lines if unwanted(line)]:
            self._remove(why, line)

    def _remove(self, why: str, line: Waiting) -> None:
        self._lines.remove(line)
        self.dropped[why] += 1


logger = logging.getLogger(__name__)

LEAD_S: Final = 0.3
"""How long before the last clip ends the next is begun, seconds; a voice needs about this time."""

PAUSE_S: Final = 0.2
"""Silence between two clips, seconds."""

INTERRUPTIBLE: Final = 2
"""Lines of this priority and below give way while they are being made."""

BIG: Final = 1
"""Lines of this priority and above are worth waiting for."""

MAX_BREATH_S: Final = 2.5
"""Longest that play waits for a line, seconds."""


@dataclass(slots=True)
class NarrationCounts:
    """What became of the lines of all episodes.

    Args:
        outcomes: ``spoken``, ``unspoken``, or how they were given up: ``stale``, ``overflow``, ``replaced``,
            ``overtaken``, ``interrupted``.
        failures: By voice and reason.
        fault: What is wrong with the voice now, for people; ``None`` when nothing is.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class NarratorPorts:
    """What a narrator has to do with its episode.

    Args:
        spoken: See :attr:`spectator.environments.world.World.spoken`.
        record: Records and publishes a clip; raises ``EpisodeOver`` once it is too late.
        on_air: Whether lines are to be spoken now.
        may_pay: Whether money may be spent on the next line.
        breathe: Lets play wait that many seconds.
        address: Where a clip of this name is served.
    """

    spoken: Callable[[str], str]
    record: Callable[[NarrationClip], Awaitable[None]]
    on_air: Callable[[], bool]
    may_pay: Callable[[], bool]
    breathe: Callable[[float], None]
    address: Callable[[str], str]


class Narrator:
    """Speaks at one episode. Play never waits for it, and whatever fails here, captions go on.

    Args:
        voices: Who may speak, the best first; one that fails for good is not asked again.
        answering: Who may speak for the second commentator, the same way; with nobody, answers are not heard.
        clips: Where clips lie.
        clock: Time.
        ports: Its connections to the episode.
        tally: Counts what becomes of the lines.
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

    async def run(self, told: AsyncIterable[Sequence[RecordedEvent]]) -> None:
        """Speak until ``told``, the episode's events as they are published, comes to its end."""
        speaking = asyncio.get_running_loop().create_task(self._speak())
        try:
            async for batch in told:
                self._hear(batch)
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)
            self._tally.outcomes.update(self._queue.dropped)

    def _hear(self, batch: Sequence[RecordedEvent]) -> None:
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

    async def _say(self, line: Waiting) -> None:
        text = plain_speech(self._ports.spoken(line.text))
        clip = await self._made(line, text, self._voices)
        if clip is None:
            return
        if self._queue.stale(line):
            self._tally.outcomes["stale"] += 1
            return
        await self._air(line, text, clip, "lead")
        if line.reply and self._answering and not self._queue.urgent:
            reply = plain_speech(self._ports.spoken(line.reply))
            answer = await self._made(replace(line, priority=INTERRUPTIBLE), reply, self._answering)
            if answer is not None:
                await self._air(line, reply, answer, "analyst")

    async def _made(self, line: Waiting, text: str, voices: list[Voice]) -> StoredClip | None:
        """The clip of ``text``; ``None``, counted, when nobody can say it or a line overtakes it."""
        making = asyncio.get_running_loop().create_task(self._clip(text, voices))
        try:
            await self._made_or_overtaken(line, making)
        finally:
            making.cancel()
        if not making.done() or making.cancelled():
            self._tally.outcomes["interrupted"] += 1
            return None
        clip = making.result()
        if clip is None:
            self._tally.outcomes["unspoken"] += 1
        return clip

    async def _made_or_overtaken(self, line: Waiting, making: asyncio.Task[StoredClip | None]) -> None:
        while not making.done() and not (line.priority >= INTERRUPTIBLE and self._queue.urgent):
            self._news.clear()
            await first_of(asyncio.wait([making]), self._news.wait())

    async def _air(self, line: Waiting, text: str, clip: StoredClip, speaker: Speaker) -> None:
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
            self._note(voice, made)
            if made.reason in PERMANENT:
                voices.remove(voice)
        return None

    def _note(self, voice: Voice, unspoken: SpeechFailure) -> None:
        self._tally.failures[voice.name, unspoken.reason] += 1
        if unspoken.detail:
            self._tally.fault = f"{voice.name}: {unspoken.detail}"
            logger.warning("%s could not speak: %s", voice.name, unspoken.detail)

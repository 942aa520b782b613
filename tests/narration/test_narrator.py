"""The narrator says what matters while it matters, and nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from spectator.core_events import NarrationClip
from spectator.errors import EpisodeOver
from spectator.events import Event, RecordedEvent, record
from spectator.narration.clip_store import ClipStore
from spectator.narration.commentary import Speech, SpeechFailure
from spectator.narration.narrator import MAX_BREATH_S, NarrationCounts, Narrator, NarratorPorts
from tests.fakes import ManualClock, until
from tests.narration.voices import FakeVoice


class Told:
    """The events of an episode, as a test tells them."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Sequence[RecordedEvent] | None] = asyncio.Queue()
        self._seq = 0

    def line(self, text: str, priority: int, reply: str | None = None) -> int:
        self._seq += 1
        data = {"text": text, "for_seq": 0, "priority": priority, "label": None, "at": None}
        if reply is not None:
            data["reply"] = reply
        event = Event("ep-1", "e", self._seq, "2026-11-21T05:00:00.000Z", 1, "narration.line", data)
        self._queue.put_nowait((record(event),))
        return self._seq

    def end(self) -> None:
        self._queue.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[Sequence[RecordedEvent]]:
        while (batch := await self._queue.get()) is not None:
            yield batch


class Scene:
    """A narrator at work, with everything that it touches."""

    def __init__(
        self, folder: Path, *voices: FakeVoice, answering: Sequence[FakeVoice] = (), **ports: Any
    ) -> None:
        self.clock = ManualClock()
        self.told = Told()
        self.tally = NarrationCounts()
        self.clips: list[NarrationClip] = []
        self.breaths: list[float] = []
        ties: dict[str, Any] = {
            "spoken": str,
            "record": self._record,
            "on_air": lambda: True,
            "may_pay": lambda: True,
            "breathe": self.breaths.append,
            "address": lambda name: f"/audio/{name}",
        }
        self.narrator = Narrator(
            voices=voices or [FakeVoice()],
            clips=ClipStore(folder),
            clock=self.clock,
            ports=NarratorPorts(**{**ties, **ports}),
            tally=self.tally,
            answering=answering,
        )

    async def _record(self, clip: NarrationClip) -> None:
        self.clips.append(clip)

    @property
    def said(self) -> list[str]:
        return [clip.text for clip in self.clips]

    @asynccontextmanager
    async def on_air(self) -> AsyncIterator[None]:
        running = asyncio.create_task(self.narrator.run(self.told))
        try:
            yield
        finally:
            self.told.end()
            await running

    async def hears(self, *said: str) -> None:
        await until(lambda: self.said == list(said), what=f"saying {said}, not {self.said},")

    async def settled(self) -> None:
        """Until everything that can be done without time passing is done."""
        for _ in range(40):
            await asyncio.sleep(0.001)


async def test_a_line_becomes_a_clip(tmp_path: Path) -> None:
    scene = Scene(tmp_path, spoken=lambda text: text.replace("45/3", "forty-five for three"))
    async with scene.on_air():
        seq = scene.told.line("45/3 [now]", 2)
        await scene.hears("forty-five for three now")
    clip = scene.clips[0]
    assert clip.for_seq == seq
    assert clip.url.startswith("/audio/")
    assert clip.duration_s == 2.4
    assert not clip.interrupt
    assert scene.tally.outcomes == {"spoken": 1}


async def test_the_next_line_waits_for_the_air_and_only_the_newest_is_said(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    async with scene.on_air():
        scene.told.line("first that lasts", 3)
        await scene.hears("first that lasts")
        for number in range(3):
            scene.told.line(f"ball {number}", 3)
        await scene.settled()
        assert scene.said == ["first that lasts"]
        scene.clock.advance(1.6)
        await scene.hears("first that lasts", "ball 2")
    assert scene.tally.outcomes == {"spoken": 2, "replaced": 2}


async def test_what_must_be_heard_interrupts(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    async with scene.on_air():
        scene.told.line("a long line about not very much", 3)
        await scene.hears("a long line about not very much")
        scene.told.line("OUT", 0)
        await scene.hears("a long line about not very much", "OUT")
    assert [clip.interrupt for clip in scene.clips] == [False, True]


async def test_what_must_be_heard_ends_the_making_of_a_lesser_line(tmp_path: Path) -> None:
    hold = asyncio.Event()
    slow = FakeVoice(hold=hold)
    scene = Scene(tmp_path, slow)
    async with scene.on_air():
        scene.told.line("a summary", 2)
        await until(lambda: slow.asked == ["a summary"])
        scene.told.line("OUT", 0)
        await until(lambda: slow.given_up == 1)
        hold.set()
        await scene.hears("OUT")
    assert scene.tally.outcomes == {"interrupted": 1, "spoken": 1}


async def test_a_line_that_took_too_long_is_not_said(tmp_path: Path) -> None:
    hold = asyncio.Event()
    slow = FakeVoice(hold=hold)
    scene = Scene(tmp_path, slow)
    async with scene.on_air():
        scene.told.line("a single", 3)
        await until(lambda: bool(slow.asked))
        scene.clock.advance(3.1)
        hold.set()
        await until(lambda: scene.tally.outcomes["stale"] == 1)
    assert scene.clips == []


async def test_play_breathes_for_big_moments_only(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    async with scene.on_air():
        scene.told.line("dot", 3)
        await scene.hears("dot")
        scene.clock.advance(10)
        scene.told.line("OUT! " * 20, 0)
        await until(lambda: len(scene.clips) == 2)
    assert scene.breaths == [MAX_BREATH_S]


async def test_where_the_best_voice_fails_the_next_one_speaks_and_a_hopeless_one_is_not_asked_again(
    tmp_path: Path,
) -> None:
    paid = FakeVoice(lambda _: SpeechFailure("no_credit", "the service answered 402"), name="paid")
    local = FakeVoice(name="local")
    scene = Scene(tmp_path, paid, local)
    async with scene.on_air():
        scene.told.line("one", 0)
        await scene.hears("one")
        scene.told.line("two", 0)
        await scene.hears("one", "two")
    assert paid.asked == ["one"]
    assert scene.tally.failures == {("paid", "no_credit"): 1}
    assert scene.tally.fault == "paid: the service answered 402"


async def test_no_money_is_spent_while_nobody_is_there(tmp_path: Path) -> None:
    paid, local = FakeVoice(name="paid", costs_money=True), FakeVoice(name="local")
    scene = Scene(tmp_path, paid, local, may_pay=lambda: False)
    async with scene.on_air():
        scene.told.line("one", 0)
        await scene.hears("one")
    assert paid.asked == []
    assert local.asked == ["one"]


async def test_nothing_is_said_off_the_air(tmp_path: Path) -> None:
    voice = FakeVoice()
    scene = Scene(tmp_path, voice, on_air=lambda: False)
    async with scene.on_air():
        scene.told.line("one", 0)
        await scene.settled()
    assert voice.asked == []


async def test_a_voice_that_breaks_its_promise_ends_nothing(tmp_path: Path) -> None:
    def broken(text: str) -> Speech:
        if text == "one":
            raise RuntimeError("boom")
        return Speech(b"x", "audio/wav", 1.0)

    scene = Scene(tmp_path, FakeVoice(broken))
    async with scene.on_air():
        scene.told.line("one", 0)
        await until(lambda: scene.tally.outcomes["unspoken"] == 1)
        scene.told.line("two", 0)
        await scene.hears("two")


async def test_after_the_end_there_is_nothing_to_say(tmp_path: Path) -> None:
    async def over(_: NarrationClip) -> None:
        raise EpisodeOver("ep-1")

    voice = FakeVoice()
    scene = Scene(tmp_path, voice, record=over)
    async with scene.on_air():
        scene.told.line("one", 0)
        await until(lambda: bool(voice.asked))
        await scene.settled()
        scene.told.line("two", 0)
        await scene.settled()
    assert voice.asked == ["one"]


async def test_two_hundred_lines_at_once_are_a_few_clips(tmp_path: Path) -> None:
    voice = FakeVoice()
    scene = Scene(tmp_path, voice)
    async with scene.on_air():
        for number in range(200):
            scene.told.line(f"line {number}", 1 + number % 3)
        await until(lambda: bool(scene.clips))
        scene.clock.advance(30)
        await scene.settled()
    assert len(voice.asked) <= 4
    assert scene.tally.outcomes.total() == 200 - scene.tally.outcomes["spoken"] + len(scene.clips)


async def test_a_second_voice_answers_right_after_the_line(tmp_path: Path) -> None:
    second = FakeVoice(name="second")
    scene = Scene(tmp_path, answering=[second], spoken=lambda text: text.replace("9", "nine"))
    async with scene.on_air():
        seq = scene.told.line("end of the over", 2, "9 are needed")
        await scene.hears("end of the over", "nine are needed")
        scene.told.line("the next one", 2)
        await scene.settled()
        assert len(scene.clips) == 2, "the next line waits until both were said"
        scene.clock.advance(3.3)
        await scene.hears("end of the over", "nine are needed", "the next one")
    assert second.asked == ["nine are needed"]
    assert [(clip.for_seq, clip.speaker) for clip in scene.clips[:2]] == [(seq, "lead"), (seq, "analyst")]
    assert not scene.clips[1].interrupt


async def test_what_must_be_heard_comes_before_an_answer(tmp_path: Path) -> None:
    held = asyncio.Event()
    scene = Scene(tmp_path, answering=[FakeVoice(name="second", hold=held)])
    async with scene.on_air():
        scene.told.line("end of the over", 2, "an answer")
        await scene.hears("end of the over")
        scene.told.line("a wicket", 0)
        await scene.hears("end of the over", "a wicket")
    assert scene.clips[1].interrupt
    assert scene.tally.outcomes == {"spoken": 2, "interrupted": 1}


async def test_nobody_answers_without_a_second_voice_and_a_failing_one_costs_only_the_answer(
    tmp_path: Path,
) -> None:
    mute = FakeVoice(lambda _: SpeechFailure("unavailable", "it is gone"), name="mute")
    for number, answering in enumerate(([], [mute])):
        scene = Scene(tmp_path / str(number), answering=answering)
        async with scene.on_air():
            scene.told.line("first", 2, "an answer")
            await scene.hears("first")
            scene.clock.advance(3.0)
            scene.told.line("second", 2)
            await scene.hears("first", "second")
        assert scene.tally.outcomes["unspoken"] == number

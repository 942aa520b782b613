"""Thoughts reach whoever watches while they form, and cost nobody else anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from server.viewers.broadcast import INTERVAL_S, WHOLE_EVERY, ThoughtFrames
from server.viewers.wire import Frame
from spectator.episodes.decisions import KEPT, Thinking
from spectator.llm.chat import DeltaKind
from spectator.policies.policy import Thought
from tests.fakes import FakePolicy, ManualClock, counted, until
from tests.llm.brains import Said, counter
from tests.llm.endpoints import endpoint, write_captains
from tests.llm.fake_server import Mode
from tests.server.playing import Names
from tests.serving import Serving, serve, test_settings

NOBODY = FakePolicy(counted)


def read(frame: Frame | None) -> dict[str, Any]:
    assert frame is not None and frame.seq is None
    told: dict[str, Any] = json.loads(frame.text)
    return told


class Shown:
    """What a viewer makes of the frames, by the rules of docs/live-protocol.md."""

    def __init__(self) -> None:
        self.part = -1
        self.thought = ""
        self.answer = ""

    def take(self, told: dict[str, Any]) -> None:
        if told["whole"]:
            self.thought, self.answer, self.part = told["thought"], told["answer"], told["part"]
        elif told["part"] == self.part + 1:
            self.thought += told["thought"]
            self.answer += told["answer"]
            self.part += 1


def hear(thinking: Thinking, text: str, kind: DeltaKind = "thought") -> None:
    thinking.hear(Thought("home", 1, kind, text))


def test_what_is_new_is_told_once_and_the_beginning_and_the_end_are_told() -> None:
    clock = ManualClock()
    thinking = Thinking(clock)
    telling, shown = ThoughtFrames(thinking, Names()), Shown()
    assert telling.next() is None
    with thinking.deciding("home", 7, NOBODY):
        first = read(telling.next())
        assert (first["actor"], first["turn"], first["part"], first["whole"]) == ("home", 7, 0, True)
        shown.take(first)
        clock.advance(1.5)
        hear(thinking, "A yorker ")
        hear(thinking, "is due.")
        hear(thinking, "bowl_delivery {}", "tool")
        second = read(telling.next())
        assert (second["thought"], second["answer"]) == ("A yorker is due.", "bowl_delivery {}")
        assert (second["whole"], second["elapsed_s"], second["done"]) == (False, 1.5, False)
        shown.take(second)
    last = read(telling.next())
    assert (last["done"], last["thought"], last["answer"]) == (True, "", "")
    shown.take(last)
    assert (shown.thought, shown.answer) == ("A yorker is due.", "bowl_delivery {}")
    assert telling.next() is None and telling.so_far() == []
    hear(thinking, "too late")
    assert telling.next() is None


def test_whoever_misses_a_frame_or_comes_late_is_soon_right_again() -> None:
    thinking = Thinking(ManualClock())
    telling, lossy, late, whole = ThoughtFrames(thinking, Names()), Shown(), Shown(), ""
    with thinking.deciding("home", 1, NOBODY):
        for number in range(3 * WHOLE_EVERY):
            hear(thinking, f"{number} ")
            whole += f"{number} "
            told = read(telling.next())
            if number % 7:
                lossy.take(told)
            if number >= 30:
                late.take(told)
            if number == 29:
                late.take(read(telling.so_far()[0]))
            if number >= 30:
                assert late.thought == whole
            assert whole.startswith(lossy.thought)
    assert len(whole) - len(lossy.thought) <= 4 * WHOLE_EVERY


def test_a_late_viewer_is_not_told_twice_what_waits_for_the_next_frame() -> None:
    thinking = Thinking(ManualClock())
    telling, late = ThoughtFrames(thinking, Names()), Shown()
    with thinking.deciding("home", 1, NOBODY):
        hear(thinking, "one ")
        telling.next()
        hear(thinking, "two ")
        late.take(read(telling.so_far()[0]))
        assert late.thought == "one "
        late.take(read(telling.next()))
        assert late.thought == "one two "


def test_a_new_attempt_voids_what_was_told() -> None:
    thinking = Thinking(ManualClock())
    telling, shown = ThoughtFrames(thinking, Names()), Shown()
    with thinking.deciding("home", 1, NOBODY):
        for text, kind in (("wrong", "thought"), ("", "restart"), ("right", "thought")):
            hear(thinking, text, kind)  # type: ignore[arg-type]
            if kind == "restart":
                assert telling.so_far() == []
            shown.take(read(telling.next()))
        assert shown.thought == "right"


def test_an_endless_thought_is_bounded_and_its_end_is_shown() -> None:
    thinking = Thinking(ManualClock())
    telling = ThoughtFrames(thinking, Names())
    with thinking.deciding("home", 1, NOBODY):
        telling.next()
        for number in range(20_000):
            hear(thinking, f"{number} and so on. ")
        forming = thinking.forming
        assert forming is not None and sum(len(text) for _, text in forming.parts) <= 3 * KEPT
        told = read(telling.next())
        assert told["whole"] and len(told["thought"]) == KEPT
        assert told["thought"].endswith("19999 and so on. ")


def test_frames_come_no_faster_than_the_interval() -> None:
    async def run() -> list[dict[str, Any]]:
        clock = ManualClock()
        thinking = Thinking(clock)
        frames: list[dict[str, Any]] = []

        async def say(frame: Frame) -> None:
            frames.append(read(frame))

        task = asyncio.create_task(ThoughtFrames(thinking, Names()).run(say, clock))
        with thinking.deciding("home", 1, NOBODY):
            await until(lambda: len(frames) == 1)
            for number in range(100):
                hear(thinking, f"{number} ")
                await asyncio.sleep(0)
            assert len(frames) == 1
            clock.advance(INTERVAL_S)
            await until(lambda: len(frames) == 2)
        task.cancel()
        return frames

    assert asyncio.run(run())[1]["thought"] == "".join(f"{number} " for number in range(100))


HOSTILE = "think‮evil​ \u0007<script>alert(1)</script> " + "x" * 100_000


def hostile(body: Any) -> Said:
    """Counts well, but thinks aloud what nobody should see."""
    said = counter(body)
    return Said(text=said.text, thought=HOSTILE, calls=said.calls, finish=said.finish)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with a slow model and a hostile one."""
    folder = tmp_path_factory.mktemp("thoughts")
    with (
        endpoint(counter, [Mode.SLOW], pause_s=0.03, chunk=6) as slow,
        endpoint(hostile, chunk=5_000) as evil,
    ):
        captains = write_captains(
            folder / "captains.toml", slow={"base_url": slow.base_url}, evil={"base_url": evil.base_url}
        )
        settings = test_settings(folder, captains_file=captains, max_episodes=4)
        with serve(settings) as running:
            yield running


def test_a_viewer_sees_the_thought_form_before_the_decision(stage: Serving) -> None:
    episode_id = stage.start(captain_preset="llm:slow", options={"turns": 2})
    with connect(f"{stage.ws_url}/live/{episode_id}", max_size=None) as viewer:
        frames = [json.loads(text) for text in viewer]
    decided = {
        frame["turn"]: (place, frame["data"])
        for place, frame in enumerate(frames)
        if frame.get("type") == "decision.made"
    }
    thoughts = [(place, frame) for place, frame in enumerate(frames) if frame["frame"] == "thought"]
    place, decision = decided[2]
    before = [frame for where, frame in thoughts if frame["turn"] == 2 and where < place]
    assert len(before) >= 3, "the thought came in one piece"
    shown = Shown()
    for frame in before:
        shown.take(frame)
    assert decision["reasoning"].endswith("Let me see.")
    assert shown.thought and "Let me see.".startswith(shown.thought)
    assert all(frame["turn"] > 2 for where, frame in thoughts if where > place and not frame["done"])
    recorded = stage.client.get(f"/api/episodes/{episode_id}/events").text
    assert '"frame"' not in recorded and "thought" not in {
        json.loads(line)["type"] for line in recorded.splitlines()
    }


def test_server_sent_events_tell_it_too(stage: Serving) -> None:
    episode_id = stage.start(captain_preset="llm:slow", options={"turns": 2})
    with stage.client.stream("GET", f"/live/{episode_id}/events") as answer:
        kinds = [json.loads(line[6:])["frame"] for line in answer.iter_lines() if line.startswith("data: ")]
    assert kinds.count("thought") >= 3
    assert kinds[-1] == "bye"


def test_a_hostile_thought_is_cleaned_and_bounded(stage: Serving) -> None:
    episode_id = stage.start(captain_preset="llm:evil", options={"turns": 3})
    with connect(f"{stage.ws_url}/live/{episode_id}", max_size=None) as viewer:
        told = [frame for text in viewer if (frame := json.loads(text))["frame"] == "thought"]
    text = "".join(frame["thought"] for frame in told)
    assert "‮" not in text and "\u0007" not in text
    assert all(len(frame["thought"]) <= 2 * KEPT + 5_000 for frame in told)
    assert stage.finish(episode_id)["score"] == 1.0


def test_nobody_watching_costs_nothing_and_changes_nothing(stage: Serving, tmp_path: Path) -> None:
    alone = stage.finish(stage.start(captain_preset="llm:slow", options={"turns": 1}))
    assert (alone["reason"], alone["score"]) == ("finished", 1.0)


def test_a_thought_that_is_withheld_says_who_thinks_and_how_long_and_nothing_else() -> None:
    clock = ManualClock()
    thinking = Thinking(clock)
    telling = ThoughtFrames(thinking, Names(), withheld=True)
    with thinking.deciding("home", 7, NOBODY):
        begun = read(telling.next())
        hear(thinking, "a yorker")
        hear(thinking, "{", "text")
        assert telling.next() is None, "how much was thought is nobody's business either"
        late = read(telling.so_far()[0])
    ended = read(telling.next())
    for told in (begun, late, ended):
        assert (told["actor"], told["turn"], told["thought"], told["answer"]) == ("home", 7, "", "")
        assert told["withheld"] is True
    assert (begun["done"], ended["done"]) == (False, True)

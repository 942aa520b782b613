"""Each fault known of an earlier driver of this kind, in our own words, and the proof that it is absent here.

Faults of the voice and of the cricket world itself are shown absent where those live.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spectator.bus import MemoryBus, Overflow
from spectator.catalog import load_world
from spectator.episodes.controls import EpisodeLimits, Pace
from spectator.episodes.view import replay_state
from spectator.errors import EpisodeBusy, InvalidRequest
from spectator.events import RecordedEvent
from spectator.journal.contract import EpisodeFilter
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.policy import Decision
from tests.episodes.harness import drive, end_of, no_environment_threads, supervising, types
from tests.episodes.test_driver import BreaksIn
from tests.fakes import FakePolicy, HeldEnvironment, ManualClock, counted, failing, forever, until, world_with

pytestmark = pytest.mark.usefixtures("nothing_blocks")
ENDLESS = {"turns": 1_000_000}


def decisions(events: Sequence[RecordedEvent]) -> list[Any]:
    return [one.event.data for one in events if one.event.type == "decision.made"]


async def test_1_the_id_in_the_status_was_not_the_one_on_the_events() -> None:
    async with supervising() as stage:
        episode = await stage.start(options={"turns": 2})
        (running,) = stage.supervisor.running()
        await episode.wait()
        ids = {one.event.episode_id for one in stage.journal.events}
        assert ids == {running.episode_id} == {episode.state["episode"]["id"]}


async def test_2_a_slow_captain_or_a_slow_world_froze_every_viewer() -> None:
    """While a step blocks its thread and a captain thinks, the loop goes on."""
    gate = threading.Event()

    async def goes_on() -> None:
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert not gate.is_set()

    async with supervising(world_with(environment=lambda: HeldEnvironment(gate, held_from=0))) as stage:
        await stage.start()
        await goes_on()
        await stage.supervisor.stop(None, by="test")
    async with supervising(world_with(policy=lambda _: FakePolicy(forever))) as stage:
        await stage.start()
        await goes_on()
    gate.set()
    await no_environment_threads()


async def test_3_events_went_through_an_http_call_to_the_own_server() -> None:
    """Events reach a viewer through the bus they are given, in the order of the record, with no network."""

    async with supervising() as stage:
        episode = await stage.start(options={"turns": 3})
        subscription = stage.bus.subscribe(episode.episode_id, Overflow.CLOSE, capacity=100)
        seen = [one async for batch in subscription for one in batch]
        assert [one.text for one in seen] == [one.text for one in stage.journal.events[1:]]


async def test_4_whether_one_runs_was_asked_and_then_taken_and_the_refusal_was_lost() -> None:
    async with supervising() as stage:
        answers = await asyncio.gather(
            *(stage.start(options=ENDLESS) for _ in range(20)), return_exceptions=True
        )
        refusals = [answer for answer in answers if isinstance(answer, EpisodeBusy)]
        (running,) = stage.supervisor.running()
        assert len(refusals) == 19
        assert {refusal.running for refusal in refusals} == {(running.episode_id,)}


@pytest.mark.parametrize("method", ["reset", "step", "facts", "state"])
async def test_5_an_exception_skipped_the_end_and_left_the_page_live(method: str) -> None:
    policy = FakePolicy(counted)
    world = world_with(policy=lambda _: policy, environment=lambda: BreaksIn(method, RuntimeError("bug")))
    async with supervising(world) as stage:
        episode = await stage.start(options={"turns": 1})
        await episode.wait()
        assert end_of(stage.journal.events)["reason"] == "environment_error"
        assert episode.state["episode"]["status"] == "ended"
        assert policy.closed == 1


async def test_6_a_failure_and_the_step_cap_both_looked_like_a_finish() -> None:
    stuck = world_with(
        policy=lambda _: FakePolicy(lambda seen: Decision({"text": "?"}, "model")), step_cap=lambda _: 3
    )
    broken = world_with(environment=lambda: BreaksIn("step", RuntimeError("bug")))
    ends = [(await drive(world, turns=2)).end for world in (stuck, broken, world_with())]
    assert [end["reason"] for end in ends] == ["step_cap", "environment_error", "finished"]
    assert [end["score"] for end in ends] == [None, None, 1.0]
    assert [end["truncated"] for end in ends] == [True, True, False]
    assert ends[1]["detail"] == "RuntimeError: bug"
    assert ends[2]["result"] == "2 of 2 right"


async def test_7_it_could_not_be_stopped_paused_or_slowed_and_cancelling_left_a_thread() -> None:
    async with supervising(clock=ManualClock()) as stage:
        episode = await stage.start(options=ENDLESS)
        await stage.supervisor.pause(None, by="test")
        await stage.supervisor.set_pace(None, Pace.FAST, by="test")
        await stage.supervisor.resume(None, by="test")
        (task,) = [one for one in asyncio.all_tasks() if one.get_name() == episode.episode_id]
        task.cancel()
        assert (await episode.wait()).reason == "interrupted"
        assert types(stage.journal.events)[-1] == "episode.ended"
    await no_environment_threads()


@pytest.mark.parametrize("who", ["captain", "world", "episode"])
async def test_8_nothing_had_a_deadline(who: str) -> None:
    gate, clock = threading.Event(), ManualClock()

    def late(seen: Any) -> Any:
        clock.advance(60)
        return counted(seen)

    worlds = {
        "captain": world_with(policy=lambda _: FakePolicy(forever)),
        "world": world_with(environment=lambda: HeldEnvironment(gate)),
        "episode": world_with(policy=lambda _: FakePolicy(late)),
    }
    limits = EpisodeLimits(decision_s=0.03, step_s=0.05 if who == "world" else 20, episode_s=100)
    played = await drive(worlds[who], clock=clock, limits=limits)
    assert played.end["reason"] == "timeout"
    gate.set()
    await no_environment_threads()


async def test_8_worlds_shared_one_pool_of_threads() -> None:
    """Thirty worlds that hang leave room for the next."""
    gate = threading.Event()

    hanging = world_with(environment=lambda: HeldEnvironment(gate, held_from=0))
    async with supervising(hanging, slots=30) as stage:
        for _ in range(30):
            await stage.start()
        played = await asyncio.wait_for(drive(world_with(), turns=5), 10)
        assert played.end["reason"] == "finished"
        await stage.supervisor.aclose()
    gate.set()
    await no_environment_threads()


async def test_9_whether_a_model_or_its_fallback_decided_was_not_recorded() -> None:
    answers = iter(
        [
            Decision({"text": "ACTION: 1"}, "model", raw_text="ACTION: 1", parse="ok", model="m"),
            Decision({"text": "ACTION: 2"}, "fallback", raw_text="two", parse="failed", fallback_reason="no"),
        ]
    )

    world = world_with(policy=lambda _: FakePolicy(lambda seen: next(answers)))
    events = (await drive(world, turns=2)).events
    assert [(one["source"], one["parse"], one["fallback_reason"]) for one in decisions(events)] == [
        ("model", "ok", None),
        ("fallback", "failed", "no"),
    ]
    assert all(one["latency_s"] >= 0 for one in decisions(events))


async def test_10_the_reward_was_always_nothing() -> None:
    events = (await drive(world_with(), turns=4)).events
    rewards = [one.event.data["reward"] for one in events if one.event.type == "step.taken"]
    assert rewards == [0.0, 0.0, 0.0, 1.0]


async def test_11_there_was_no_seed_anywhere() -> None:
    async def played(seed: int) -> list[str]:
        async with supervising() as stage:
            await (await stage.start(captain="random", seed=seed, options={"turns": 30})).wait()
            assert stage.journal.events[0].event.data["seed"] == seed
            return [one["action"]["text"] for one in decisions(stage.journal.events)]

    assert await played(3) == await played(3) != await played(4)


async def test_12_an_unknown_opponent_was_silently_another_and_the_rest_was_checked_too_late() -> None:
    async with supervising() as stage:
        with pytest.raises(InvalidRequest) as caught:
            await stage.start(captain="?", opponent="?", pack="?", options={"turns": 0})
        assert len(caught.value.fields) == 4
        assert stage.supervisor.running() == []
        assert stage.journal.calls == 0


async def test_13_a_fixed_cap_cut_long_matches_short() -> None:
    """The cap is the world's own, by its options; a thousand turns are no problem where they are needed."""

    played = await drive(world_with(), turns=1000)
    assert (played.end["reason"], played.end["turns"]) == ("finished", 1000)
    for name in ("counting", "cricket"):
        world = load_world(name)
        options = world.options_type().model_dump(mode="json")
        assert world.step_cap(options) >= 100


async def test_14_refused_actions_were_counted_as_done() -> None:
    texts = iter(["?", "ACTION: 1", "?", "?", "ACTION: 2"])

    world = world_with(policy=lambda _: FakePolicy(lambda seen: Decision({"text": next(texts)}, "model")))
    played = await drive(world, turns=2)
    assert played.types.count("step.taken") == played.types.count("counting.number_said") == 2
    assert played.types.count("action.refused") == 3
    assert replay_state(played.events)["refusals"] == {"counter": 3}
    assert played.end["turns"] == 5


async def test_15_there_was_one_match_a_process_kept_in_a_module() -> None:
    """Two supervisors in one loop, with several slots each, know nothing of each other."""

    async with supervising(slots=2) as one, supervising(slots=1) as other:
        await asyncio.gather(*(one.start(options=ENDLESS) for _ in range(2)), other.start(options=ENDLESS))
        assert (len(one.supervisor.running()), len(other.supervisor.running())) == (2, 1)
        await other.supervisor.stop(None, by="test")
        assert len(one.supervisor.running()) == 2


def test_16_nothing_was_kept_and_a_late_viewer_saw_half(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'journal.db'}"

    async def play() -> str:
        journal = await SqlJournal.open(url)
        async with supervising(journal=journal) as stage:
            episode = await stage.start(options={"turns": 5})
            await episode.wait()
            final = episode.state
        await journal.aclose()
        return str(final)

    async def look_back() -> str:
        journal = await SqlJournal.open(url)
        (summary,) = await journal.episodes(EpisodeFilter())
        assert (summary.reason, summary.score, summary.turns) == ("finished", 1.0, 5)
        state = replay_state(await journal.read(summary.episode_id))
        await journal.aclose()
        return str(state)

    assert asyncio.run(play()) == asyncio.run(look_back()), "after a restart the same is seen"


async def test_17_who_speaks_too_slowly_could_hold_up_the_match() -> None:
    """A listener that never reads neither delays the episode nor is it kept in memory without bound."""

    bus = MemoryBus()
    async with supervising(bus=bus) as stage:
        episode = await stage.start(options={"turns": 200})
        speaker = bus.subscribe(episode.episode_id, Overflow.DROP_OLDEST, capacity=8)
        viewer = bus.subscribe(episode.episode_id, Overflow.CLOSE, capacity=8)
        assert (await asyncio.wait_for(episode.wait(), 20)).reason == "finished"
        assert viewer.overflowed
        assert speaker.dropped > 500
        assert len([one async for batch in speaker for one in batch]) == 8


def test_18_importing_it_set_up_logging() -> None:
    script = (
        "import logging; import spectator.episodes.supervisor; "
        "import spectator.journal.sql_journal, spectator.catalog; "
        "assert not logging.getLogger().handlers; assert not logging.getLogger('spectator').handlers"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert logging.getLogger("spectator.episodes.driver").propagate


async def test_a_captain_that_fails_is_told_to_the_viewers() -> None:
    async with supervising(world_with(policy=lambda _: FakePolicy(failing(OSError("no route"))))) as stage:
        episode = await stage.start()
        ended = await episode.wait()
        assert (ended.reason, episode.state["episode"]["reason"]) == ("policy_error", "policy_error")
        assert "no route" in episode.state["episode"]["detail"]
        await until(lambda: not stage.supervisor.running())

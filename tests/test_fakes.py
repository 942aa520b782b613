"""The stand-ins do what the tests believe."""

from __future__ import annotations

import asyncio
import threading

import pytest

from spectator.events import Event, record
from spectator.observations import Observation
from tests.fakes import (
    FakePolicy,
    HeldEnvironment,
    LyingEnvironment,
    ManualClock,
    RecordingJournal,
    counted,
    failing,
    until,
    world_with,
)

SEEN = Observation("counter", [], {"next": 3})


async def test_a_manual_clock_moves_only_when_told_and_wakes_in_order() -> None:
    clock, woken = ManualClock(), []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    async with asyncio.TaskGroup() as tasks:
        for name, seconds in (("late", 3.0), ("early", 1.0), ("now", 0.0)):
            tasks.create_task(sleeper(name, seconds))
        await until(lambda: woken == ["now"])
        assert clock.sleepers == 2
        clock.advance(2.9)
        await until(lambda: "early" in woken)
        assert clock.sleepers == 1
        clock.advance(0.1)
    assert clock.monotonic() == pytest.approx(3.0)
    assert clock.now().isoformat() == "2026-11-21T05:00:03+00:00"
    assert woken == ["now", "early", "late"]


async def test_a_sleeper_that_was_cancelled_is_not_woken() -> None:
    clock = ManualClock()
    task = asyncio.get_running_loop().create_task(clock.sleep(1))
    await until(lambda: clock.sleepers == 1)
    task.cancel()
    await asyncio.wait([task])
    assert clock.sleepers == 0
    clock.advance(1)


def test_until_gives_up_on_what_never_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    timeout = asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda seconds: timeout(0.01))
    with pytest.raises(AssertionError, match="rain was never met"):
        asyncio.run(until(lambda: False, what="rain"))


async def test_a_recording_journal_keeps_appends_apart_and_fails_once() -> None:
    journal = RecordingJournal(fail_at=2, failure=OSError("full"))
    events = [record(Event("ep", "e", seq, "now", 0, "warning", {})) for seq in (1, 2, 3)]
    await journal.append(events[:1])
    with pytest.raises(OSError, match="full"):
        await journal.append(events[1:2])
    await journal.append(events[1:])
    assert [len(append) for append in journal.appends] == [1, 2]
    assert journal.events == events


def test_a_fake_policy_counts() -> None:
    policy = FakePolicy(counted)
    assert asyncio.run(policy.decide(SEEN, deadline=1)).action == {"text": "ACTION: 3"}
    asyncio.run(policy.aclose())
    assert (policy.asked, policy.closed) == (1, 1)
    with pytest.raises(LookupError):
        asyncio.run(FakePolicy(failing(LookupError())).decide(SEEN, deadline=1))


def test_a_held_environment_waits_for_its_gate() -> None:
    gate = threading.Event()
    environment = HeldEnvironment(gate, held_from=1)
    environment.reset(seed=1, episode_id="ep", options={"turns": 2, "payload_bytes": 0})
    thread = threading.Thread(target=environment.step, args=({"text": "ACTION: 1"},))
    thread.start()
    assert environment.waiting.wait(5)
    assert thread.is_alive()
    gate.set()
    thread.join(5)
    assert environment.state["turn"] == 1


def test_a_lying_environment_lies_only_after_the_first_step() -> None:
    environment = LyingEnvironment(lambda observation: "a lie", lambda facts: [*facts, "another"])
    environment.reset(seed=1, episode_id="ep", options={"turns": 2, "payload_bytes": 0})
    assert environment.facts() == []
    assert environment.step({"text": "ACTION: 1"}) == "a lie"  # type: ignore[comparison-overlap]
    assert environment.facts()[-1] == "another"  # type: ignore[comparison-overlap]


def test_a_changed_world_keeps_the_rest() -> None:
    policy = FakePolicy(counted)
    world = world_with(policy=lambda seed: policy, title="Other")
    assert world.title == "Other"
    assert world.captains["heuristic"].build(1) is policy
    assert world.packs

"""What a decision that failed does to its episode: as its plan says, in the record, and after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectator.bus import MemoryBus
from spectator.clock import SystemClock
from spectator.core_events import EpisodeEnded, OnFailure, core_fact
from spectator.environments.counting.world import CarefulCounter
from spectator.environments.world import World
from spectator.episodes.controls import Control, EndRequest
from spectator.episodes.driver import Driver
from spectator.episodes.plan import EpisodeRequest, plan_episode
from spectator.episodes.restore import UnfinishedRecord, rebuild
from spectator.errors import EpisodeUnfinished, FailureClass, InvalidRequest, PolicyError
from spectator.observations import Observation
from spectator.policies.policy import Decision
from spectator.steppers.local import on_a_thread
from tests.episodes.harness import QUICK, drive, end_of, plan_of, recover, stream_of, supervising, types
from tests.fakes import NO_JOURNAL, RecordingJournal, world_with

TURNS = 4


class Failing(CarefulCounter):
    """A captain whose fallback decides from the second number on, while ``DOWN`` says so."""

    down = True

    async def decide(self, observation: Observation, *, deadline: float) -> Decision:
        own = self.choose(observation)
        if observation.content["next"] < 2 or not Failing.down:
            return replace(own, source="model")
        return replace(
            own, source="fallback", fallback_reason="busy: the endpoint waits", failure_class="rate_limited"
        )


@pytest.fixture(autouse=True)
def _down() -> None:
    Failing.down = True


def failing() -> World:
    return world_with(policy=lambda seed: Failing())


async def played(
    world: World, on_failure: OnFailure, rule: Callable[[str, Decision], OnFailure] | None = None
) -> tuple[RecordingJournal, EpisodeEnded | None]:
    plan = replace(plan_of(world, turns=TURNS), on_failure=on_failure)
    journal, clock = RecordingJournal(), SystemClock()
    stream = stream_of(world, journal, MemoryBus(), clock)
    await stream.emit(0, [core_fact(plan.started())])
    driver = Driver(
        plan,
        "ep-test",
        stepper=on_a_thread(world, "ep-test"),
        emit=stream.emit_steps,
        control=Control(plan.pace, clock),
        clock=clock,
        limits=QUICK,
        rule=rule,
    )
    return journal, await driver.run()


def play(
    on_failure: OnFailure,
    rule: Callable[[str, Decision], OnFailure] | None = None,
    world: World | None = None,
) -> tuple[RecordingJournal, EpisodeEnded | None]:
    return asyncio.run(played(world or failing(), on_failure, rule))


def test_fallback_lets_it_go_on_and_every_such_decision_says_its_class() -> None:
    journal, ended = play("fallback")
    decided = [one.event.data for one in journal.events if one.event.type == "decision.made"]
    assert ended is not None and ended.reason == "finished" and ended.failure_class is None
    assert [one.get("failure_class") for one in decided] == [None, *["rate_limited"] * (TURNS - 1)]
    assert "failure_class" not in decided[0], "absent where the captain decided itself"
    assert "on_failure" not in journal.events[0].event.data


def test_end_ends_it_with_the_class_and_carries_nothing_out() -> None:
    journal, ended = play("end")
    assert ended is not None
    assert (ended.reason, ended.failure_class, ended.turns) == ("policy_error", "rate_limited", 1)
    assert "busy: the endpoint waits" in (ended.detail or "")
    assert types(journal.events).count("decision.made") == 1
    assert journal.events[0].event.data["on_failure"] == "end"
    assert end_of(journal.events)["failure_class"] == "rate_limited"


async def test_suspend_leaves_it_without_an_end_and_it_can_be_played_on() -> None:
    world = failing()
    journal, ended = await played(world, "suspend")
    assert ended is None
    assert types(journal.events)[-1] == "episode.suspended"
    assert journal.events[-1].event.data == {
        "actor": "counter",
        "failure_class": "rate_limited",
        "detail": "counter could not decide: busy: the endpoint waits",
    }
    assert journal.events[-1].event.patch["warning"]["message"].startswith("counter could not decide")
    Failing.down = False
    rebuilt = await rebuild(
        UnfinishedRecord.of(journal.events, NO_JOURNAL), limit_s=20, load=lambda name: world
    )
    assert rebuilt.plan.on_failure == "suspend" and rebuilt.attempt == 1
    async with supervising(world, journal=journal) as stage:
        episode = await stage.supervisor.play_on(rebuilt)
        done = await episode.wait()
    assert (done.reason, done.turns) == ("finished", TURNS)


async def test_however_often_it_is_suspended_it_is_not_taken_for_what_kills_the_server() -> None:
    world = failing()
    journal, _ = await played(world, "suspend")
    for _ in range(5):
        rebuilt = await rebuild(
            UnfinishedRecord.of(journal.events, NO_JOURNAL), limit_s=20, load=lambda name: world
        )
        assert rebuilt.attempt == 1
        async with supervising(world, journal=journal) as stage:
            episode = await stage.supervisor.play_on(rebuilt)
            with pytest.raises(EpisodeUnfinished, match="can be resumed"):
                await episode.wait()
    assert "episode.ended" not in types(journal.events)


async def test_a_suspended_episode_is_played_on_by_recovery(tmp_path: Path) -> None:
    from spectator.journal.sql_journal import SqlJournal

    world = failing()
    left, _ = await played(world, "suspend")
    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}")
    await journal.append(left.events)
    Failing.down = False
    async with supervising(world, journal=journal) as stage:
        stage.supervisor.load = lambda name: world
        recovered = await recover(journal, SystemClock(), stage.supervisor)
        assert recovered.playing == ["ep-test"]
        done = await stage.supervisor.find("ep-test").wait()
    assert done.reason == "finished"
    await journal.aclose()


def test_a_rule_says_more_than_the_plan_and_hears_of_every_decision() -> None:
    heard: list[FailureClass | None] = []

    def third_time(actor: str, decision: Decision) -> OnFailure:
        heard.append(decision.failure_class)
        return "suspend" if heard.count("rate_limited") == 2 else "fallback"

    journal, ended = play("fallback", third_time)
    assert ended is None and heard == [None, "rate_limited", "rate_limited"]
    assert types(journal.events).count("decision.made") == 2
    assert "on_failure" not in journal.events[0].event.data


class Raising(CarefulCounter):
    """A captain that has no fallback at all."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def decide(self, observation: Observation, *, deadline: float) -> Decision:
        raise self._error


@pytest.mark.parametrize(
    ("error", "failure_class"),
    [(RuntimeError("oh"), "policy_fault"), (PolicyError("none", failure_class="spent"), "spent")],
)
@pytest.mark.parametrize("on_failure", ["fallback", "end", "suspend"])
def test_a_captain_that_raises_ends_the_episode_or_suspends_it(
    error: Exception, failure_class: str, on_failure: Any
) -> None:
    journal, ended = play(on_failure, world=world_with(policy=lambda seed: Raising(error)))
    last = journal.events[-1].event
    assert last.data["failure_class"] == failure_class
    if on_failure == "suspend":
        assert ended is None and last.type == "episode.suspended"
    else:
        assert ended is not None and ended.reason == "policy_error"


async def test_a_captain_that_cannot_be_built_suspends_an_episode_that_has_hardly_begun() -> None:
    broken = [True]

    def build(seed: int) -> CarefulCounter:
        if broken[0]:
            raise OSError("no key yet")
        return CarefulCounter()

    world = world_with(policy=build)
    journal, ended = await played(world, "suspend")
    assert ended is None and types(journal.events) == ["episode.started", "episode.suspended"]
    broken[0] = False
    rebuilt = await rebuild(
        UnfinishedRecord.of(journal.events, NO_JOURNAL), limit_s=20, load=lambda name: world
    )
    async with supervising(world, journal=journal) as stage:
        assert (await (await stage.supervisor.play_on(rebuilt)).wait()).reason == "finished"


class Vague(CarefulCounter):
    """A captain that falls back and does not say why."""

    async def decide(self, observation: Observation, *, deadline: float) -> Decision:
        return replace(self.choose(observation), source="fallback")


def test_a_fallback_without_a_class_is_recorded_as_unknown_and_is_a_failure_like_any() -> None:
    world = world_with(policy=lambda seed: Vague())
    journal, _ = play("fallback", world=world)
    decided = next(one.event.data for one in journal.events if one.event.type == "decision.made")
    assert decided["failure_class"] == "unknown"
    _, ended = play("end", world=world)
    assert ended is not None and ended.failure_class == "unknown"


def test_an_invented_class_is_no_decision() -> None:
    class Inventive(CarefulCounter):
        async def decide(self, observation: Observation, *, deadline: float) -> Decision:
            wrong: Any = "bad luck"
            return replace(self.choose(observation), failure_class=wrong)

    _, ended = play("fallback", world=world_with(policy=lambda seed: Inventive()))
    assert ended is not None and (ended.reason, ended.failure_class) == ("policy_error", "policy_fault")


async def test_other_ends_say_their_class() -> None:
    async def stop(played: Any) -> None:
        await asyncio.sleep(0)
        played.control.request_end(EndRequest("stopped", "enough"))

    stopped = await drive(world_with(), stop, turns=100_000)
    assert stopped.end["failure_class"] == "cancelled"
    capped = await drive(world_with(step_cap=lambda options: 2), turns=5)
    assert (capped.end["reason"], capped.end["failure_class"]) == ("step_cap", "truncated")
    fine = await drive(world_with(), turns=2)
    assert "failure_class" not in fine.end

    def broken() -> Any:
        raise OSError("no such dataset")

    faulty = await drive(world_with(environment=broken), turns=2)
    assert (faulty.end["reason"], faulty.end["failure_class"]) == ("environment_error", "env_infra")


@pytest.mark.parametrize("asked", ["", "resign", "Fallback", None])
def test_an_unknown_policy_on_failure_is_refused_by_name(asked: Any) -> None:
    request = EpisodeRequest("counting", on_failure=asked)
    with pytest.raises(InvalidRequest, match=r"on_failure: must be fallback, suspend or end, not"):
        plan_episode(request, draw_seed=lambda: 0)
    assert plan_episode(replace(request, on_failure="end"), draw_seed=lambda: 0).on_failure == "end"

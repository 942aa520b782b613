"""Never more episodes than slots, each with its end, whatever is asked at whatever moment."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectator.bus import MemoryBus, Overflow
from spectator.catalog import load_world
from spectator.episodes import decisions
from spectator.episodes import plan as requests
from spectator.episodes.controls import EpisodeLimits, Pace
from spectator.episodes.plan import EpisodeRequest
from spectator.episodes.supervisor import Supervisor
from spectator.episodes.view import replay_state
from spectator.errors import (
    EnvironmentFault,
    EpisodeBusy,
    EpisodeError,
    EpisodeNotFound,
    EpisodeOver,
    InvalidRequest,
    JournalError,
    JournalUnavailable,
)
from spectator.events import RecordedEvent
from spectator.journal.sql_journal import SqlJournal
from tests.episodes.harness import end_of, environment_threads, no_environment_threads, supervising, types
from tests.fakes import (
    FakePolicy,
    HeldEnvironment,
    ManualClock,
    RecordingJournal,
    counted,
    failing,
    forever,
    until,
    world_with,
)

pytestmark = pytest.mark.usefixtures("nothing_blocks")
ENDLESS = {"turns": 1_000_000}


async def collect(bus: MemoryBus, episode_id: str) -> list[RecordedEvent]:
    subscription = bus.subscribe(episode_id, Overflow.CLOSE, capacity=100_000)
    return [recorded async for batch in subscription for recorded in batch]


def of(events: Sequence[RecordedEvent], episode_id: str) -> list[RecordedEvent]:
    return [recorded for recorded in events if recorded.event.episode_id == episode_id]


async def test_an_episode_from_start_to_end() -> None:
    async with supervising() as stage:
        episode = await stage.start(options={"turns": 3})
        assert types(stage.journal.events) == ["episode.started"], "recorded before start returns"
        assert (episode.head_seq, episode.state["episode"]["id"]) == (1, "ep-0001")
        watched = asyncio.get_running_loop().create_task(collect(stage.bus, episode.episode_id))
        assert stage.supervisor.live("ep-0001") is episode is stage.supervisor.find(None)
        assert not episode.ended
        ended = await episode.wait()
        assert (ended.reason, ended.score, episode.ended) == ("finished", 1.0, True)
        seen = await watched
        assert [one.text for one in seen] == [one.text for one in stage.journal.events[1:]]
        assert end_of(stage.journal.events)["reason"] == "finished"
        assert episode.state == replay_state(stage.journal.events)
        assert stage.supervisor.running() == []
        assert stage.supervisor.live("ep-0001") is None
    assert stage.bus._subscriptions == {}


@pytest.mark.parametrize("slots", [1, 3])
async def test_of_fifty_starts_at_once_exactly_as_many_win_as_there_are_slots(slots: int) -> None:
    async with supervising(slots=slots) as stage:
        answers = await asyncio.gather(
            *(stage.start(options=ENDLESS) for _ in range(50)), return_exceptions=True
        )
        won = [answer for answer in answers if not isinstance(answer, BaseException)]
        lost = [answer for answer in answers if isinstance(answer, EpisodeBusy)]
        assert (len(won), len(lost)) == (slots, 50 - slots)
        assert set(lost[-1].running) == {episode.episode_id for episode in won}
        assert len(environment_threads()) <= slots
        assert sum(kind == "episode.started" for kind in types(stage.journal.events)) == slots
        await stage.supervisor.stop(won[0].episode_id, by="test")
        await until(lambda: len(stage.supervisor.running()) < slots)
        await stage.start(options=ENDLESS)
    await no_environment_threads()


async def test_a_start_waits_for_the_slot_of_an_episode_whose_end_is_being_recorded() -> None:
    """Whoever has seen the end, which is in the database an instant before the slot is free, may start."""
    hold = asyncio.Event()
    async with supervising(journal=RecordingJournal(hold=hold, hold_from=3)) as stage:
        first = await stage.start(options={"turns": 1})
        await until(lambda: stage.journal.waiting)
        starting = asyncio.get_running_loop().create_task(stage.start(options=ENDLESS))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not first.ended and not starting.done()
        hold.set()
        second = await starting
        assert first.end_recorded and stage.supervisor.running() == [second]


@pytest.mark.parametrize(
    "fields",
    [
        {"environment": "counting", "captain": "nobody"},
        {"environment": "no such world"},
        {"options": {"turns": 0}},
    ],
)
async def test_a_bad_request_takes_no_slot_and_leaves_nothing(fields: dict[str, Any]) -> None:
    async with supervising() as stage:
        with pytest.raises(InvalidRequest):
            await stage.start(**fields)
        assert (stage.supervisor.running(), stage.journal.calls) == ([], 0)
        await no_environment_threads()
        await (await stage.start(options={"turns": 1})).wait()


@pytest.mark.parametrize("failure", [JournalError("disk full"), RuntimeError("disk full")])
async def test_a_start_that_cannot_be_recorded_releases_its_slot_and_leaves_no_thread(
    failure: Exception,
) -> None:
    journal = RecordingJournal(fail_at=1, failure=failure)

    async with supervising(journal=journal) as stage:
        with pytest.raises(JournalError, match="disk full"):
            await stage.start()
        assert stage.supervisor.running() == []
        await no_environment_threads()
        assert (await (await stage.start(options={"turns": 1})).wait()).reason == "finished"


async def test_a_start_that_cannot_be_told_releases_its_slot() -> None:
    async with supervising(world_with(projection=failing(KeyError("x")))) as stage:
        with pytest.raises(EnvironmentFault):
            await stage.start()
        assert (stage.supervisor.running(), stage.journal.events) == ([], [])


async def test_whoever_gives_up_starting_leaves_no_orphan() -> None:
    hold = asyncio.Event()

    async with supervising(journal=RecordingJournal(hold=hold)) as stage:
        starting = asyncio.get_running_loop().create_task(stage.start(options=ENDLESS))
        await until(lambda: stage.journal.waiting)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        hold.set()
        await until(lambda: not stage.supervisor.running())
        assert end_of(stage.journal.events)["reason"] == "interrupted"
        await no_environment_threads()


async def test_a_world_that_takes_long_to_import_blocks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = threading.Event()

    def slow(name: str) -> Any:
        assert imported.wait(20)
        return load_world(name)

    async with supervising() as stage:
        monkeypatch.setattr(requests, "load_world", slow)
        starting = [asyncio.get_running_loop().create_task(stage.start(options=ENDLESS)) for _ in range(3)]
        await asyncio.sleep(0.02)
        assert stage.supervisor.running() == []
        imported.set()
        answers = await asyncio.gather(*starting, return_exceptions=True)
        assert sorted(type(answer).__name__ for answer in answers) == [
            "EpisodeBusy",
            "EpisodeBusy",
            "EpisodeHandle",
        ]


async def test_a_start_in_a_closing_group_releases_its_slot() -> None:
    supervisors: list[Supervisor] = []
    with pytest.raises(ExceptionGroup):
        async with supervising() as stage, asyncio.TaskGroup() as closing:
            supervisors.append(stage.supervisor)
            stage.supervisor._tasks = closing
            closing.create_task(_fail())
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                with pytest.raises(RuntimeError):
                    await stage.supervisor.start(EpisodeRequest("counting"))
                assert stage.supervisor.running() == []
                raise


async def _fail() -> None:
    raise OSError("elsewhere")


# stop


async def reach(moment: str, stage: Any, policy: FakePolicy, held: list[HeldEnvironment]) -> Any:
    pace = Pace.BROADCAST if moment == "pacing" else Pace.MAX
    episode = await stage.start(options=ENDLESS, pace=pace)
    if moment == "decision":
        await until(lambda: policy.asked == 1)
    elif moment in ("reset", "step"):
        await until(lambda: bool(held) and held[0].waiting.is_set())
    elif moment == "pause":
        await stage.supervisor.pause(None, by="test")
    elif moment == "pacing":
        await until(lambda: stage.supervisor._clock.sleepers == 1)
    elif moment == "play":
        await until(lambda: episode.turn > 2)
    return episode


@pytest.mark.parametrize("moment", ["start", "reset", "decision", "step", "pause", "pacing", "play"])
@pytest.mark.parametrize("how", ["stop", "stop twice", "close"])
async def test_stopped_at_any_moment(moment: str, how: str) -> None:
    gate = threading.Event()
    held: list[HeldEnvironment] = []
    policy = FakePolicy(forever if moment == "decision" else counted)

    def build() -> HeldEnvironment:
        held.append(HeldEnvironment(gate, held_from={"reset": 0, "step": 1}.get(moment, 10**9)))
        return held[0]

    world = world_with(policy=lambda seed: policy, environment=build)
    async with supervising(world, clock=ManualClock()) as stage:
        episode = await reach(moment, stage, policy, held)
        if how == "close":
            await stage.supervisor.aclose()
        else:
            stops = 2 if how == "stop twice" else 1
            await asyncio.gather(
                *(stage.supervisor.stop(episode.episode_id, by="test") for _ in range(stops))
            )
        ended = await episode.wait()
        assert ended.reason == ("interrupted" if how == "close" else "stopped")
        assert end_of(stage.journal.events) == ended.model_dump(mode="json")
        assert policy.closed == 1
        await until(lambda: not stage.supervisor.running())
        with pytest.raises(EpisodeNotFound):
            await stage.supervisor.stop(episode.episode_id, by="test")
        if how == "close":
            with pytest.raises(EpisodeBusy, match="shutting down"):
                await stage.start()
    gate.set()
    await no_environment_threads()


async def test_cancelled_with_its_group_an_episode_ends_and_nobody_who_waits_is_cancelled() -> None:
    async with supervising() as stage:
        episode = await stage.start(options=ENDLESS)
        waiting = asyncio.get_running_loop().create_task(episode.wait())
        (task,) = [one for one in asyncio.all_tasks() if one.get_name() == episode.episode_id]
        await until(lambda: episode.turn > 1)
        task.cancel()
        assert (await waiting).reason == "interrupted"
        assert end_of(stage.journal.events)["reason"] == "interrupted"


async def test_cancelled_before_its_beginning_was_recorded() -> None:
    hold = asyncio.Event()

    async with supervising(journal=RecordingJournal(hold=hold)) as stage:
        starting = asyncio.get_running_loop().create_task(stage.start(options=ENDLESS))
        await until(lambda: stage.journal.waiting)
        (task,) = [one for one in asyncio.all_tasks() if one.get_name() == "ep-0001"]
        task.cancel()
        asyncio.get_running_loop().call_later(0.02, hold.set)
        with pytest.raises(EpisodeOver):
            await starting
        assert end_of(stage.journal.events)["reason"] == "interrupted"


async def test_closing_takes_no_longer_than_a_policy_may_dawdle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "LET_GO_S", 0.05)

    policy = FakePolicy(forever, forever)
    async with supervising(world_with(policy=lambda seed: policy)) as stage:
        episode = await stage.start()
        await until(lambda: policy.asked == 1)
        async with asyncio.timeout(5):
            await stage.supervisor.aclose()
        assert (await episode.wait()).reason == "interrupted"


# pause, resume, pace


async def test_between_paused_and_resumed_no_step_is_told() -> None:
    async with supervising() as stage:
        episode = await stage.start(options=ENDLESS)
        for _ in range(20):
            await until(lambda turn=episode.turn: episode.turn > turn)  # type: ignore[misc]
            await asyncio.gather(*(stage.supervisor.pause(None, by="a") for _ in range(3)))
            assert episode.paused
            assert episode.state["episode"]["status"] == "paused"
            head = episode.head_seq
            await asyncio.sleep(0.002)
            assert episode.head_seq == head
            await asyncio.gather(*(stage.supervisor.resume(None, by="b") for _ in range(3)))
            assert not episode.paused
        await stage.supervisor.stop(None, by="test")
        told = types(stage.journal.events)
        assert told.count("episode.paused") == told.count("episode.resumed") == 20, "asking twice is once"
        for number, kind in enumerate(told):
            if kind == "episode.paused":
                assert told[number + 1] == "episode.resumed"


async def test_a_decision_in_flight_at_a_pause_is_told_after_it() -> None:
    answer = asyncio.Event()

    async def slow(observation: Any) -> Any:
        await answer.wait()
        return counted(observation)

    policy = FakePolicy(slow)
    async with supervising(world_with(policy=lambda seed: policy)) as stage:
        episode = await stage.start(options={"turns": 1})
        await until(lambda: policy.asked == 1)
        await stage.supervisor.pause(None, by="test")
        answer.set()
        await asyncio.sleep(0.03)
        assert types(stage.journal.events) == ["episode.started", "episode.paused"]
        await stage.supervisor.resume(None, by="test")
        assert (await episode.wait()).reason == "finished"
        assert types(stage.journal.events)[:4] == [
            "episode.started",
            "episode.paused",
            "episode.resumed",
            "decision.made",
        ]


async def test_a_step_being_recorded_at_a_pause_is_told_before_it() -> None:
    hold = asyncio.Event()

    async with supervising(journal=RecordingJournal(hold=hold, hold_from=2)) as stage:
        await stage.start(options={"turns": 5})
        await until(lambda: stage.journal.waiting)
        pausing = asyncio.get_running_loop().create_task(stage.supervisor.pause(None, by="test"))
        await asyncio.sleep(0.01)
        hold.set()
        await pausing
        await asyncio.sleep(0.01)
        assert types(stage.journal.events)[-2:] == ["step.taken", "episode.paused"]


@pytest.mark.parametrize(
    ("change", "hold_from", "told"),
    [("pause", 2, "episode.paused"), ("resume", 3, "episode.resumed"), ("set_pace", 2, "pace.changed")],
)
async def test_a_change_whose_client_goes_away_holds_once_it_is_recorded(
    change: str, hold_from: int, told: str
) -> None:
    hold, answer = asyncio.Event(), asyncio.Event()

    async def never(observation: Any) -> Any:
        await answer.wait()
        return counted(observation)

    journal = RecordingJournal(hold=hold, hold_from=hold_from)
    async with supervising(world_with(policy=lambda seed: FakePolicy(never)), journal=journal) as stage:
        episode = await stage.start(options={"turns": 1})
        if change == "resume":
            await episode.pause("test")
        changing = asyncio.ensure_future(
            episode.set_pace(Pace.FAST, "test") if change == "set_pace" else getattr(episode, change)("test")
        )
        await until(lambda: journal.waiting)
        changing.cancel()
        await asyncio.wait([changing])
        hold.set()
        await until(lambda: types(journal.events)[-1] == told)
        await asyncio.sleep(0)
        assert (episode.paused, episode.pace is Pace.FAST) == (change == "pause", change == "set_pace")
        answer.set()
        await stage.supervisor.stop(None, by="test")


async def test_a_pause_that_fails_leaves_play_going_on_though_its_client_went_away() -> None:
    hold, unhandled = asyncio.Event(), list[Any]()

    async def forever(observation: Any) -> Any:
        await asyncio.Event().wait()

    journal = RecordingJournal(
        hold=hold, hold_from=2, fail_at=2, failure=JournalUnavailable("the disk is full")
    )
    async with supervising(world_with(policy=lambda seed: FakePolicy(forever)), journal=journal) as stage:
        episode = await stage.start(options={"turns": 1})
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(context))
        pausing = asyncio.ensure_future(episode.pause("test"))
        await asyncio.sleep(0)
        pausing.cancel()
        await asyncio.wait([pausing])
        hold.set()
        await until(lambda: not episode.paused)
        gc.collect()
        await asyncio.sleep(0)
        assert not unhandled, "nobody has to hear of it"
        await stage.supervisor.stop(None, by="test")


async def test_stopped_while_paused_there_is_no_resumption() -> None:
    async with supervising() as stage:
        episode = await stage.start(options=ENDLESS)
        await stage.supervisor.pause(None, by="test")
        await stage.supervisor.stop(None, by="test")
        assert types(stage.journal.events)[-2:] == ["episode.paused", "episode.ended"]
        assert episode.state["episode"]["status"] == "ended"


async def test_a_change_of_pace_takes_effect_in_the_wait_that_is_on() -> None:
    clock = ManualClock()
    async with supervising(clock=clock) as stage:
        episode = await stage.start(options={"turns": 4}, pace=Pace.BROADCAST)
        await until(lambda: clock.sleepers == 1)
        assert episode.turn == 0, "a beat lies before the first step"
        clock.advance(1.9)
        await asyncio.sleep(0.01)
        assert episode.turn == 0
        clock.advance(0.1)
        await until(lambda: episode.turn == 1 and clock.sleepers == 1)
        await stage.supervisor.set_pace(None, Pace.FAST, by="test")
        clock.advance(0.1)
        await until(lambda: episode.turn == 2 and clock.sleepers == 1)
        await stage.supervisor.set_pace(None, Pace.MAX, by="test")
        assert (await episode.wait()).reason == "finished"
        assert clock.sleepers == 0
        assert types(stage.journal.events).count("pace.changed") == 2
        assert episode.state["episode"]["pace"] == "max"


async def test_the_fast_pace_is_ten_steps_a_second() -> None:
    clock = ManualClock()
    async with supervising(clock=clock) as stage:
        episode = await stage.start(options={"turns": 10}, pace=Pace.FAST)
        for turn in range(11):
            await until(lambda turn=turn: episode.turn == turn and clock.sleepers == 1)  # type: ignore[misc]
            clock.advance(0.1)
        assert (await episode.wait()).reason == "finished"
        assert clock.monotonic() == pytest.approx(1.1)


async def test_a_pause_that_cannot_be_recorded_is_none() -> None:
    policy = FakePolicy(forever)
    journal = RecordingJournal(fail_at=2, failure=JournalError("disk full"))
    async with supervising(world_with(policy=lambda seed: policy), journal=journal) as stage:
        episode = await stage.start()
        await until(lambda: policy.asked == 1)
        with pytest.raises(JournalError):
            await stage.supervisor.pause(None, by="test")
        assert not episode.paused


async def test_what_has_ended_cannot_be_steered() -> None:
    policy = FakePolicy(counted, forever)
    async with supervising(world_with(policy=lambda seed: policy)) as stage:
        for ask in (stage.supervisor.pause, stage.supervisor.resume, stage.supervisor.stop):
            for wanted in (None, "ep-0009"):
                with pytest.raises(EpisodeNotFound):
                    await ask(wanted, by="test")
        episode = await stage.start(options={"turns": 1})
        await until(lambda: policy.closed == 1)  # the end is told, and its captain dawdles
        with pytest.raises(EpisodeError):
            await stage.supervisor.pause(episode.episode_id, by="test")
        assert end_of(stage.journal.events)["reason"] == "finished"


# failures beside it


async def test_a_failing_episode_harms_no_other() -> None:
    outcomes = iter([failing(OSError("no")), counted, counted])
    world = world_with(policy=lambda seed: FakePolicy(next(outcomes)))
    async with supervising(world, slots=3) as stage:
        episodes = [await stage.start(options={"turns": 30}) for _ in range(3)]
        reasons = [(await episode.wait()).reason for episode in episodes]
        assert reasons == ["policy_error", "finished", "finished"]
        for episode in episodes:
            end_of(of(stage.journal.events, episode.episode_id))


async def test_a_journal_that_fails_in_the_middle_ends_the_episode_and_leaves_no_viewer_hanging() -> None:
    journal = RecordingJournal(fail_at=3, failure=JournalError("disk full"))

    async with supervising(journal=journal) as stage:
        episode = await stage.start(options={"turns": 50})
        watched = await asyncio.wait_for(collect(stage.bus, episode.episode_id), 10)
        ended = await episode.wait()
        assert (ended.reason, ended.detail) == ("interrupted", "the journal failed: disk full")
        assert types(watched)[-1] == "episode.ended"


async def test_a_journal_that_stays_broken_leaves_no_viewer_hanging(tmp_path: Path) -> None:
    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}")
    async with supervising(journal=journal) as stage:
        episode = await stage.start(options=ENDLESS)
        watching = asyncio.get_running_loop().create_task(collect(stage.bus, episode.episode_id))
        await until(lambda: episode.turn > 3)
        await journal.aclose()
        watched = await asyncio.wait_for(watching, 10)
        assert (await episode.wait()).reason == "interrupted"
        assert "episode.ended" not in types(watched), "nobody sees what is not recorded"
        assert stage.supervisor.running() == []


async def test_events_of_one_step_are_published_together_and_only_once_they_are_recorded() -> None:
    batches: list[Sequence[RecordedEvent]] = []

    class Witness(MemoryBus):
        def publish(self, events: Sequence[RecordedEvent]) -> None:
            assert {id(one) for one in events} <= {id(one) for one in journal.events}
            batches.append(events)
            super().publish(events)

    journal, bus = RecordingJournal(), Witness()

    async with supervising(journal=journal, bus=bus) as stage:
        await (await stage.start(options={"turns": 6})).wait()
    assert [tuple(batch) for batch in batches] == journal.appends
    steps = [types(batch) for batch in batches if batch[0].event.type == "decision.made"]
    assert len(steps) == 6
    assert all(kinds[-1] == "step.taken" for kinds in steps)


async def test_limits_reach_the_driver() -> None:
    world = world_with(policy=lambda seed: FakePolicy(forever))
    async with supervising(world, limits=EpisodeLimits(decision_s=0.02)) as stage:
        assert (await (await stage.start()).wait()).reason == "timeout"


def test_no_slots_is_refused() -> None:
    async def scenario() -> None:
        with pytest.raises(ValueError, match="at least 1"):
            async with supervising(slots=0):
                pass

    with pytest.raises(ExceptionGroup):
        asyncio.run(scenario())


# anything, in any order


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["pause", "resume", "fast", "max", "broadcast", "advance"]), st.integers(0, 4)
        ),
        max_size=25,
    ),
    st.sampled_from(["stop", "close", "cancel"]),
)
@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_whatever_is_asked_in_whatever_order_the_record_is_sound(
    asked: list[tuple[str, int]], end: str
) -> None:
    async def answered(request: Coroutine[Any, Any, object]) -> None:
        with suppress(EpisodeOver, EpisodeNotFound):  # the end may come before what was asked
            await request

    async def scenario() -> None:
        clock = ManualClock()
        async with supervising(clock=clock) as stage, asyncio.TaskGroup() as asking:
            episode = await stage.start(options=ENDLESS, pace=Pace.FAST)
            for what, yields in asked:
                if what == "advance":
                    clock.advance(0.1)
                elif what in ("pause", "resume"):
                    asking.create_task(answered(getattr(stage.supervisor, what)(None, by="test")))
                else:
                    asking.create_task(answered(stage.supervisor.set_pace(None, Pace(what), by="test")))
                for _ in range(yields):
                    await asyncio.sleep(0)
            await asyncio.sleep(0.002)
            if end == "close":
                await stage.supervisor.aclose()
            elif end == "stop":
                await stage.supervisor.stop(None, by="test")
            else:
                (task,) = [one for one in asyncio.all_tasks() if one.get_name() == episode.episode_id]
                task.cancel()
            ended = await episode.wait()
        assert end_of(stage.journal.events)["reason"] == ended.reason
        paused = False
        for kind in types(stage.journal.events):
            if kind in ("episode.paused", "episode.resumed"):
                assert paused is (kind == "episode.resumed")
                paused = not paused
            else:
                assert not paused or kind in ("pace.changed", "episode.ended"), f"{kind} during a pause"
        assert episode.state == replay_state(stage.journal.events)

    asyncio.run(scenario())

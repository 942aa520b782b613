"""A derived record holds no view, and whoever reads it sees what a live viewer saw, byte for byte."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectator.bus import MemoryBus, Overflow
from spectator.catalog import load_world
from spectator.core_events import EpisodePaused, Warned, core_fact
from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.counting.world import CountingEnvironment
from spectator.environments.world import World
from spectator.episodes import replayer as verifying
from spectator.episodes.controls import Pace
from spectator.episodes.derived_stream import UNRECORDED_CHARACTERS, UNRECORDED_STEPS, DerivedStream
from spectator.episodes.fork import ForkRequest
from spectator.episodes.plan import Commit, EpisodeRequest, plan_episode
from spectator.episodes.reader import ViewReader
from spectator.episodes.replayer import verify
from spectator.episodes.view import DerivedView, replay_state
from spectator.errors import JournalUnavailable
from spectator.events import EventEncoder, Fact, RecordedEvent, decode, encode_json
from spectator.journal.sql_journal import SqlJournal
from spectator.steppers.local import inline
from tests.episodes.harness import recover, supervising
from tests.fakes import ManualClock, RecordingJournal, until

GAMES: tuple[tuple[str, dict[str, Any]], ...] = (("cricket", {"max_overs": 2}), ("counting", {"turns": 40}))


async def played(folder: Path, view: str, game: str, options: dict[str, Any]) -> SqlJournal:
    """A journal that holds one episode, ``ep-0001``."""
    journal = await SqlJournal.open(f"sqlite:///{folder / (view + '.db')}")
    async with supervising(journal=journal, clock=ManualClock()) as stage:
        episode = await stage.start(environment=game, options=options, view=view, seed=5)
        assert (await episode.wait()).reason == "finished"
    return journal


def stream_on(journal: Any, commit: Commit) -> DerivedStream:
    """The stream of ``ep-1``, which nobody watches."""
    return DerivedStream(
        "ep-1", "e", world=COUNTING, journal=journal, bus=MemoryBus(), clock=ManualClock(), commit=commit
    )


def without_mode(recorded: list[RecordedEvent]) -> list[str]:
    """Their texts, without the word of the first that it is derived."""
    return [one.text.replace(',"view":"derived"', "") for one in recorded]


@pytest.mark.parametrize(("game", "options"), GAMES)
async def test_a_derived_record_reads_as_the_live_one_byte_for_byte(
    game: str, options: dict[str, Any], tmp_path: Path
) -> None:
    live = await played(tmp_path, "live", game, options)
    derived = await played(tmp_path, "derived", game, options)
    shown, seen = await live.read("ep-0001"), await ViewReader(derived).read("ep-0001")
    assert without_mode(seen) == without_mode(shown)
    assert [one.event.seq for one in seen] == list(range(1, len(seen) + 1))
    assert replay_state(seen) == replay_state(shown)
    streamed = [one async for one in ViewReader(derived).stream("ep-0001")]
    assert streamed == seen
    await live.aclose()
    await derived.aclose()


@pytest.mark.parametrize(("game", "options"), GAMES)
async def test_a_derived_record_holds_neither_patch_nor_commentary_and_is_verified(
    game: str, options: dict[str, Any], tmp_path: Path
) -> None:
    journal = await played(tmp_path, "derived", game, options)
    recorded = await journal.read("ep-0001")
    assert recorded[0].event.data["view"] == "derived"
    assert all(one.event.patch == {} and one.event.type != "narration.line" for one in recorded)
    assert await verify(journal.stream("ep-0001")) == []
    await journal.aclose()


async def test_pages_of_a_derived_record_are_those_of_the_whole(tmp_path: Path) -> None:
    journal = await played(tmp_path, "derived", *GAMES[0])
    whole = await ViewReader(journal).read("ep-0001")
    reader, pages = ViewReader(journal), list[RecordedEvent]()
    while page := await reader.read("ep-0001", after_seq=len(pages), limit=37):
        pages += page
    assert pages == whole
    summary = await reader.episode("ep-0001")
    assert summary is not None and summary.head_seq == len(whole)
    assert await reader.episode("ep-none") is None and await reader.read("ep-none") == []
    await journal.aclose()


async def test_a_viewer_who_leaves_while_events_are_derived_takes_none_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()
    take = DerivedView.take
    begun: list[int] = []

    def slow(view: DerivedView, recorded: list[RecordedEvent]) -> list[RecordedEvent]:
        begun.append(recorded[0].seq)
        assert may_go_on.wait(20)
        return take(view, recorded)

    journal = await played(tmp_path, "derived", "counting", {"turns": 40})
    whole = [one.text async for one in ViewReader(journal).stream("ep-0001")]
    monkeypatch.setattr(DerivedView, "take", slow)
    records = ViewReader(journal)
    leaving = asyncio.create_task(records.texts("ep-0001"))
    await until(lambda: begun == [1])
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    may_go_on.set()
    assert await records.texts("ep-0001") == whole
    await journal.aclose()


async def test_who_joins_a_derived_episode_midway_sees_what_a_live_viewer_sees(tmp_path: Path) -> None:
    options = {"max_overs": 10}  # long enough that much is left when the first steps are recorded

    live = await played(tmp_path, "live", "cricket", options)
    shown = await live.read("ep-0001")
    await live.aclose()
    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'derived.db'}")
    async with supervising(journal=journal, clock=ManualClock()) as stage:
        episode = await stage.start(environment="cricket", options=options, view="derived", seed=5)
        while len(await journal.read("ep-0001", limit=2)) < 2:
            continue
        assert episode.head_seq == 1, "nobody watches: only the beginning is shown"
        while episode.head_seq == 1:  # a commit is in the journal before its episode knows of it
            await asyncio.sleep(0)
            await episode.open()
        head, state = episode.head_seq, episode.state
        subscription = episode.subscribe(Overflow.CLOSE, capacity=100_000)
        assert 1 < head < len(shown) - 10
        heard = [one async for batch in subscription for one in batch]
    assert state == replay_state(shown[:head])
    assert [one.text for one in heard] == [one.text for one in shown[head:]]
    await journal.aclose()


async def test_a_live_viewer_s_position_in_a_derived_episode_is_one_in_its_record(tmp_path: Path) -> None:
    """So that a viewer who lost its connection resumes by number, from the stream or from the journal."""

    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'derived.db'}")
    async with supervising(journal=journal, clock=ManualClock()) as stage:
        episode = await stage.start(environment="cricket", options=GAMES[0][1], view="derived", seed=5)
        subscription = episode.subscribe(Overflow.CLOSE, capacity=100_000)
        heard = [one async for batch in subscription for one in batch]
    read = await ViewReader(journal).read("ep-0001", after_seq=heard[0].seq - 1)
    assert read == heard
    await journal.aclose()


def test_a_fork_of_a_derived_episode_is_that_of_the_live_one(tmp_path: Path) -> None:
    async def forked(view: str) -> list[str]:
        journal = await played(tmp_path, view, *GAMES[0])
        shown = await ViewReader(journal).read("ep-0001")
        seq = max(one.seq for one in shown if one.event.turn == 10)
        async with supervising(journal=journal, clock=ManualClock()) as stage:
            stage.supervisor.new_id()  # the parent has the first
            episode = await stage.supervisor.fork(ForkRequest("ep-0001", seq, pace=Pace.MAX))
            await episode.wait()
        texts = [one.text for one in await journal.read("ep-0002")]
        await journal.aclose()
        return texts

    live, derived = asyncio.run(forked("live")), asyncio.run(forked("derived"))
    assert derived == live


async def test_a_derived_episode_that_was_left_is_played_on_as_if_nothing_had_happened(
    tmp_path: Path,
) -> None:
    whole = await played(tmp_path, "live", *GAMES[0])
    expected = await whole.read("ep-0001")
    await whole.aclose()
    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'left.db'}")
    async with supervising(journal=journal, clock=ManualClock()) as stage:
        episode = await stage.start(environment="cricket", options=GAMES[0][1], view="derived", seed=5)
        await until(lambda: episode.turn >= 12, what="turn 12")
        await stage.supervisor.suspend()
    async with supervising(journal=journal, clock=ManualClock()) as stage:
        found = await recover(journal, ManualClock(), stage.supervisor)
        assert found.playing == ["ep-0001"]
        resumed = stage.supervisor.live("ep-0001")
        assert resumed is not None
        await resumed.wait()
    assert await verify(journal.stream("ep-0001")) == []
    seen = [one.event for one in await ViewReader(journal).read("ep-0001")]
    facts = [(one.type, one.turn, one.data) for one in seen if one.type in ("decision.made", "step.taken")]
    assert facts == [
        (one.event.type, one.event.turn, one.event.data)
        for one in expected
        if one.event.type in ("decision.made", "step.taken")
    ]
    await journal.aclose()


async def test_numbers_of_another_version_of_the_world_are_of_another_epoch(tmp_path: Path) -> None:
    journal = await played(tmp_path, "derived", *GAMES[1])
    (started,) = await journal.read("ep-0001", limit=1)
    here: World = load_world("counting")
    newer = replace(here, version="99.0")
    assert DerivedView.of(started.event, lambda name: here).epoch == started.event.epoch
    other = DerivedView.of(started.event, lambda name: newer)
    assert other.epoch not in ("", started.event.epoch)
    seen = await ViewReader(journal, lambda name: newer).read("ep-0001")
    assert {one.event.epoch for one in seen} == {other.epoch}
    await journal.aclose()


async def test_steps_share_a_commit_and_the_end_waits_for_all(tmp_path: Path) -> None:
    async with supervising() as stage:
        stage.supervisor.open_stepper = inline
        episode = await stage.start(options={"turns": 200}, view="derived")
        await episode.wait()
        appends = stage.journal.appends
        assert len(appends) <= 2 + 200 / UNRECORDED_STEPS * 1.5, len(appends)
        assert stage.journal.events[-1].event.type == "episode.ended"
        seqs = [one.seq for one in stage.journal.events]
        assert seqs == list(range(1, len(seqs) + 1))


async def test_large_steps_wait_for_the_journal_no_longer_than_their_size_allows() -> None:
    async with supervising() as stage:
        stage.supervisor.open_stepper = inline
        options = {"turns": 3 * UNRECORDED_STEPS, "payload_bytes": 4_000}
        episode = await stage.start(options=options, view="derived")
        await episode.wait()
    sizes = [[len(one.text) for one in append] for append in stage.journal.appends]
    step = 1.1 * sum(map(sum, sizes)) / (3 * UNRECORDED_STEPS)
    assert step * UNRECORDED_STEPS > 2 * UNRECORDED_CHARACTERS, "the number of steps is no bound here"
    assert max(map(sum, sizes[1:])) <= UNRECORDED_CHARACTERS + step
    assert min(map(sum, sizes[1:-1])) >= UNRECORDED_CHARACTERS, "they share commits all the same"


@pytest.mark.parametrize("turns", [3, 500], ids=["that ends at once", "that would go on"])
async def test_a_start_that_cannot_be_recorded_leaves_no_episode(turns: int) -> None:
    journal = RecordingJournal(fail_at=1, failure=JournalUnavailable("the disk is full"))
    async with supervising(journal=journal) as stage:
        stage.supervisor.open_stepper = inline
        with pytest.raises(JournalUnavailable, match="the disk is full"):
            await stage.start(options={"turns": turns}, view="derived")
        await until(lambda: not stage.supervisor.running(), what="the slot is free")
        assert not journal.events
        episode = await stage.start(options={"turns": 3}, view="derived")
        assert (await episode.wait()).reason == "finished"
        assert {one.episode_id for one in journal.events} == {episode.episode_id}


async def test_without_its_beginning_nothing_of_an_episode_is_recorded() -> None:
    """A pause that waits behind a start that cannot be recorded fails as the start does."""

    journal: Any = RecordingJournal(fail_at=1, failure=JournalUnavailable("the disk is full"))
    stream = stream_on(journal, "batched")
    plan = plan_episode(EpisodeRequest("counting", view="derived"), draw_seed=lambda: 7)
    begun = [(0, [core_fact(plan.started())])]
    starting = asyncio.ensure_future(stream.emit_steps(begun, patient=False))
    pausing = asyncio.ensure_future(stream.emit(0, [core_fact(EpisodePaused(by="a test"))], patient=False))
    for waiting in (starting, pausing):
        with pytest.raises(JournalUnavailable):
            await waiting
    assert not journal.events
    await stream.emit_steps(begun, patient=False)
    assert [one.type for one in journal.events] == ["episode.started"]


async def test_steps_that_wait_are_numbered_anew_when_one_before_them_is_withdrawn() -> None:
    journal: Any = RecordingJournal(fail_at=2, failure=JournalUnavailable("the disk is full"))
    stream = stream_on(journal, "batched")
    plan = plan_episode(EpisodeRequest("counting", view="derived"), draw_seed=lambda: 7)
    await stream.emit_steps([(0, [core_fact(plan.started())])], patient=False)
    warned = [core_fact(Warned(message="one")), core_fact(Warned(message="two"))]
    pausing = asyncio.ensure_future(stream.emit(1, [core_fact(EpisodePaused(by="a test"))], patient=False))
    await asyncio.sleep(0)
    await stream.emit(1, warned)
    with pytest.raises(JournalUnavailable):
        await pausing
    await stream.settle()
    assert [one.type for one in journal.events] == ["episode.started", "warning", "warning"]
    assert [one.seq for one in journal.events] == [one.event.seq for one in journal.events] == [1, 2, 3]


async def test_a_paid_step_is_recorded_while_the_next_is_decided_and_before_that_is_taken() -> None:
    hold = asyncio.Event()
    recorded = RecordingJournal(hold=hold, hold_from=2)
    journal: Any = recorded
    plan = plan_episode(EpisodeRequest("counting", view="derived"), draw_seed=lambda: 7)
    paid = dataclasses.replace(plan, captain=dataclasses.replace(plan.captain, costs_money=True))
    assert (plan.commit, paid.commit) == ("batched", "overlapped")
    assert dataclasses.replace(paid, view="live").commit == "step"
    stream = stream_on(journal, paid.commit)
    await stream.emit_steps([(0, [core_fact(plan.started())])], patient=False)
    assert [one.type for one in recorded.events] == ["episode.started"], "nothing is asked before it is there"
    first = asyncio.ensure_future(stream.emit_steps([(1, [core_fact(Warned(message="one"))])]))
    await asyncio.sleep(0)
    assert first.done(), "the next question is asked at once"
    waiting = asyncio.ensure_future(stream.emit_steps([(2, [core_fact(Warned(message="two"))])]))
    await until(lambda: recorded.waiting)
    assert not waiting.done() and len(recorded.events) == 1
    hold.set()
    await waiting
    assert [one.event.turn for one in recorded.events] == [0, 1, 2]


async def test_a_paid_step_that_cannot_be_recorded_stops_the_one_after_it() -> None:
    journal: Any = RecordingJournal(fail_at=2, failure=JournalUnavailable("the disk is full"))
    stream = stream_on(journal, "overlapped")
    plan = plan_episode(EpisodeRequest("counting", view="derived"), draw_seed=lambda: 7)
    await stream.emit_steps([(0, [core_fact(plan.started())])], patient=False)
    await stream.emit_steps([(1, [core_fact(Warned(message="one"))])])
    with pytest.raises(JournalUnavailable, match="the disk is full"):
        await stream.settle()
    await stream.settle()  # the disk has room again
    assert [one.event.turn for one in journal.events] == [0, 1]


@pytest.mark.parametrize("watched", [False, True], ids=["nobody watches", "somebody watches"])
async def test_who_looks_while_the_record_is_read_does_not_shift_the_numbers(
    watched: bool, tmp_path: Path
) -> None:
    """The view's first event is taken once, whoever asks for the state while the rest is on its way."""

    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'slow.db'}")
    reading, release = asyncio.Event(), asyncio.Event()

    class Slow:
        append = journal.append

        async def read(self, *args: Any, **kwargs: Any) -> list[RecordedEvent]:
            reading.set()
            await release.wait()
            return await journal.read(*args, **kwargs)

    slow: Any = Slow()
    stream = DerivedStream(
        "ep-1", "e", world=COUNTING, journal=slow, bus=MemoryBus(), clock=ManualClock(), commit="batched"
    )
    plan = plan_episode(EpisodeRequest("counting", view="derived"), draw_seed=lambda: 7)
    await stream.emit_steps([(0, [core_fact(plan.started())])], patient=False)
    await stream.emit(1, [core_fact(Warned(message="one")), core_fact(Warned(message="two"))])
    await stream.settle()
    subscription = stream.subscribe(Overflow.CLOSE) if watched else None
    opening = asyncio.ensure_future(stream.open())
    await reading.wait()
    head = stream.head_seq
    assert stream.state == replay_state((await ViewReader(journal).read("ep-1"))[:head])
    release.set()
    await opening
    shown = await ViewReader(journal).read("ep-1")
    assert stream.head_seq == len(shown) and stream.state == replay_state(shown)
    if subscription is not None:
        subscription.close()
        heard = [one async for batch in subscription for one in batch]
        assert heard == shown, "nobody had looked before who came to watch"
    await journal.aclose()


async def test_an_event_encoded_from_its_data_is_the_one_that_is_recorded() -> None:
    async with supervising() as stage:
        episode = await stage.start(options={"turns": 3})
        await episode.wait()
        for one in stage.journal.events:
            event = one.event
            encoder = EventEncoder(event.episode_id, event.epoch)
            again = encoder.encode(event.seq, event.at, event.turn, event.type, encode_json(event.data))
            patch = json.dumps(event.patch, separators=(",", ":"), ensure_ascii=False)
            assert again.text.removesuffix("{}}") + patch + "}" == one.text
            assert again.event == decode(again.text).event
            later = encoder.renumbered(again, event.seq + 90)
            assert later.event == replace(again.event, seq=event.seq + 90)
            assert later.text == decode(later.text).text and later.seq == later.event.seq


async def test_a_death_takes_whole_steps_that_are_played_again(tmp_path: Path) -> None:
    """Wherever the process dies between two commits, what is in the journal leads on to the same end."""

    async with supervising(clock=ManualClock()) as stage:
        stage.supervisor.open_stepper = inline
        episode = await stage.start(options={"turns": 4 * UNRECORDED_STEPS}, view="derived", seed=4)
        await episode.wait()
        appends, whole = stage.journal.appends, stage.journal.events
    assert len(appends) > 3, "steps share commits, and there are several"
    for kept in range(1, len(appends) - 1):
        journal = await SqlJournal.open(f"sqlite:///{tmp_path / f'died-{kept}.db'}")
        for append in appends[:kept]:
            await journal.append(append)
        async with supervising(journal=journal, clock=ManualClock()) as stage:
            assert (await recover(journal, ManualClock(), stage.supervisor)).playing == ["ep-0001"]
            resumed = stage.supervisor.live("ep-0001")
            assert resumed is not None
            await resumed.wait()
        again = [one.event for one in await journal.read("ep-0001") if one.type != "episode.recovered"]
        assert [(one.turn, one.type, one.data) for one in again] == [
            (one.event.turn, one.event.type, one.event.data) for one in whole
        ]
        assert await verify(journal.stream("ep-0001")) == []
        await journal.aclose()


async def test_a_journal_that_fails_ends_a_derived_episode_and_loses_no_step(tmp_path: Path) -> None:
    journal = RecordingJournal(fail_at=3, failure=JournalUnavailable("the disk is full"))
    async with supervising(journal=journal) as stage:
        stage.supervisor.open_stepper = inline
        episode = await stage.start(options={"turns": 500}, view="derived")
        assert (await episode.wait()).reason == "interrupted"
    events = [one.event for one in journal.events]
    assert [one.seq for one in events] == list(range(1, len(events) + 1))
    assert events[-1].type == "episode.ended" and events[-1].data["reason"] == "interrupted"
    taken = [one.turn for one in events if one.type == "step.taken"]
    assert taken == list(range(1, len(taken) + 1)) and len(taken) >= 2 * UNRECORDED_STEPS - 2


def test_what_no_journal_can_hold_ends_a_derived_episode_as_it_ends_a_live_one() -> None:
    async def ended(view: str) -> tuple[str, list[str]]:
        class Broken(CountingEnvironment):
            def facts(self) -> list[Fact]:
                found = list(super().facts())
                return [Fact(one.type, {**one.data, "number": float("nan")}) for one in found]

        async with supervising(replace(COUNTING, environment=Broken)) as stage:
            episode = await stage.start(options={"turns": 3}, view=view)
            end = await episode.wait()
            return end.reason, [one.event.type for one in stage.journal.events]

    live, derived = asyncio.run(ended("live")), asyncio.run(ended("derived"))
    assert derived == live == ("environment_error", ["episode.started", "episode.ended"])


async def test_a_control_of_a_derived_episode_is_recorded_before_it_is_acknowledged() -> None:
    async with supervising() as stage:
        stage.supervisor.open_stepper = inline
        episode = await stage.start(options={"turns": 100_000}, view="derived")
        await until(lambda: episode.turn > 5, what="turn 6")
        await stage.supervisor.pause(episode.episode_id, by="a test")
        assert "episode.paused" in [one.type for one in stage.journal.events]
        await stage.supervisor.stop(episode.episode_id, by="a test")
        turns = [one.event.turn for one in stage.journal.events if one.type == "step.taken"]
        assert turns == list(range(1, len(turns) + 1))
        assert stage.journal.events[-1].event.data["reason"] == "stopped"


async def test_a_view_that_fails_is_left_out_and_found_by_verify(tmp_path: Path) -> None:
    journal = await played(tmp_path, "derived", *GAMES[1])
    (started,) = await journal.read("ep-0001", limit=1)

    def fails(state: Any, event: Any) -> Any:
        raise RuntimeError("no picture")

    broken = replace(COUNTING, projection=fails)
    view = DerivedView.of(started.event, lambda name: broken)
    shown = view.take(await journal.read("ep-0001"))
    assert "world" not in view.state and view.state["episode"]["status"] == "ended"
    assert [one.event.seq for one in shown] == list(range(1, len(shown) + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifying, "load_world", lambda name: broken)
        found = await verify(journal.stream("ep-0001"))
    assert [one.message for one in found] and "no picture" in found[0].message
    await journal.aclose()

"""An episode whose process died is rebuilt from its record, checked, and played on as if nothing had been."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectator.catalog import load_world
from spectator.clock import SystemClock, timestamp
from spectator.environments.counting.world import CountingEnvironment
from spectator.episodes.controls import Pace
from spectator.episodes.crash_log import CrashLog
from spectator.episodes.plan import EpisodeRequest
from spectator.episodes.recovery import Recovered
from spectator.episodes.restore import UnfinishedRecord, rebuild
from spectator.events import RecordedEvent, record
from spectator.journal.sql_journal import SqlJournal
from spectator.observations import Observation
from tests.episodes.harness import end_of, no_environment_threads, recover, supervising
from tests.fakes import NO_JOURNAL, until

ROOT = Path(__file__).resolve().parent.parent.parent


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'journal.db'}"


async def played(tmp_path: Path, **fields: Any) -> list[RecordedEvent]:
    """A whole episode, as recorded."""
    folder = tmp_path / "whole"
    journal = await SqlJournal.open(url_of(folder))
    async with supervising(journal=journal) as stage:
        await (await stage.start(**fields)).wait()
    events = await journal.read("ep-0001")
    await journal.aclose()
    return events


async def after_recovery(
    tmp_path: Path, left: Sequence[RecordedEvent], *, slots: int = 1
) -> tuple[Recovered, list[RecordedEvent]]:
    """What becomes of a record that stops after ``left``."""
    journal = await SqlJournal.open(url_of(tmp_path / f"cut-{len(left)}"))
    await journal.append(left)
    async with supervising(journal=journal, slots=slots) as stage:
        recovered = await recover(journal, SystemClock(), stage.supervisor)
        for episode in stage.supervisor.running():
            await episode.wait()
    events = await journal.read(left[0].event.episode_id)
    await journal.aclose()
    await no_environment_threads()
    return recovered, events


def told(events: Sequence[RecordedEvent]) -> list[tuple[Any, ...]]:
    """What was told, without what is numbered or measured."""
    measured = {"latency_s", "duration_s", "for_seq"}
    return [
        (
            one.event.turn,
            one.event.type,
            {name: value for name, value in one.event.data.items() if name not in measured},
        )
        for one in events
        if one.event.type != "episode.recovered"
    ]


def step_ends(events: Sequence[RecordedEvent]) -> list[int]:
    """How many events stand before each step boundary: where a process that records whole steps can die."""
    return [1, *(n for n in range(2, len(events)) if events[n].event.turn != events[n - 1].event.turn)]


@pytest.mark.parametrize(
    ("fields", "every"),
    [
        ({"environment": "counting", "options": {"turns": 6, "payload_bytes": 20}}, 1),
        ({"environment": "counting", "captain": "random", "options": {"turns": 6}}, 1),
        ({"environment": "cricket", "options": {"max_overs": 1}}, 5),
        ({"environment": "cricket", "captain": "random", "options": {"max_overs": 1}, "seed": 4}, 9),
    ],
    ids=["counting", "counting-random", "cricket", "cricket-random"],
)
async def test_the_future_is_the_same_wherever_the_process_died(
    tmp_path: Path, fields: dict[str, Any], every: int
) -> None:
    whole = await played(tmp_path, **fields)
    for cut in step_ends(whole)[::every]:
        recovered, events = await after_recovery(tmp_path, whole[:cut])
        assert recovered == Recovered(playing=["ep-0001"])
        assert [one.text for one in events[:cut]] == [one.text for one in whole[:cut]]
        assert events[cut].event.type == "episode.recovered"
        assert events[cut].event.epoch == whole[0].event.epoch
        assert told(events) == told(whole)
        assert end_of(events)["reason"] == "finished"


async def test_a_process_that_died_before_telling_the_end_tells_it_after(tmp_path: Path) -> None:
    whole = await played(tmp_path)
    _, events = await after_recovery(tmp_path, whole[:-1])
    assert told(events) == told(whole)


async def test_a_paused_episode_stays_paused_at_its_pace(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    async with supervising(journal=journal) as stage:
        episode = await stage.start(pace=Pace.BROADCAST, options={"turns": 50})
        await episode.set_pace(Pace.FAST, "test")
        await episode.pause("test")
        await stage.supervisor.suspend()
    async with supervising(journal=journal) as stage:
        assert (await recover(journal, SystemClock(), stage.supervisor)).playing == ["ep-0001"]
        (again,) = stage.supervisor.running()
        assert (again.paused, again.pace) == (True, Pace.FAST)
        (started,) = await journal.read("ep-0001", limit=1)
        assert timestamp(again.started_at) == started.event.at
        head = again.head_seq
        await asyncio.sleep(0.3)
        assert again.head_seq == head
        await again.set_pace(Pace.MAX, "test")
        await again.resume("test")
        assert (await again.wait()).reason == "finished"
    await journal.aclose()


@pytest.mark.parametrize("at_work", [False, True])
async def test_only_deaths_of_its_own_making_end_an_episode(tmp_path: Path, at_work: bool) -> None:
    """The first death is not counted: only the steps of recovered episodes are noted."""

    journal, left = await SqlJournal.open(url_of(tmp_path)), contextlib.ExitStack()
    async with supervising(journal=journal) as stage:
        episode = await stage.start(pace=Pace.BROADCAST)
        await until(lambda: episode.head_seq > 3)
        await stage.supervisor.suspend()
    for _ in range(3):
        crashes = left.enter_context(contextlib.closing(CrashLog(tmp_path / "steps.json")))
        async with supervising(journal=journal, crashes=crashes) as stage:
            assert (await recover(journal, SystemClock(), stage.supervisor)).playing == ["ep-0001"]
            await stage.supervisor.suspend()
        if at_work:  # it dies in a step: what that notes is never taken back
            left.enter_context(crashes.stepping("ep-0001", 1))
    crashes = left.enter_context(contextlib.closing(CrashLog(tmp_path / "steps.json")))
    async with supervising(journal=journal, crashes=crashes) as stage:
        recovered = await recover(journal, SystemClock(), stage.supervisor)
        assert recovered == Recovered(**{"interrupted" if at_work else "playing": ["ep-0001"]})
    if at_work:
        detail = end_of(await journal.read("ep-0001"))["detail"]
        assert "the server died 3 times while it played turn 2" in detail
    left.close()
    await journal.aclose()


async def test_a_step_is_noted_while_it_is_computed(tmp_path: Path) -> None:
    seen = list[dict[str, Any]]()

    class Looking(CountingEnvironment):
        def step(self, action: Mapping[str, Any]) -> Observation:
            seen.append(json.loads((tmp_path / "steps.json").read_text()))
            return super().step(action)

    whole = await played(tmp_path)
    crashes = CrashLog(tmp_path / "steps.json")
    left = UnfinishedRecord.of(whole[: step_ends(whole)[2]], NO_JOURNAL)
    world = replace(load_world("counting"), environment=Looking)
    rebuilt = await rebuild(left, limit_s=60, load=lambda name: world, crashes=crashes)
    await rebuilt.stepper.step({"text": "ACTION: 1"}, limit_s=60)
    assert seen[-1] == {"ep-0001": [left.last.turn, 0]}
    assert json.loads((tmp_path / "steps.json").read_text()) == {}
    await rebuilt.stepper.aclose()
    crashes.close()
    (tmp_path / "steps.json").write_text("[1]")
    with contextlib.closing(CrashLog(tmp_path / "steps.json")) as unreadable:
        assert unreadable.deaths("ep-0001", 1) == 0


def with_data(one: RecordedEvent, **changes: Any) -> RecordedEvent:
    return record(replace(one.event, data={**one.event.data, **changes}))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"environment": "gone"}, "its plan is no longer valid"),
        ({"environment_version": "0.1"}, "played with version 0.1"),
        ({"pack": "gone"}, "its plan is no longer valid"),
        ({"options": {"turns": 0}}, "its plan is no longer valid"),
        (
            {"seats": {"counter": {"policy": "heuristic", "label": "x"}, "other": {"policy": "x"}}},
            "have changed",
        ),
        ({"seed": 99}, "the patch of episode.started does not match its data"),
    ],
)
async def test_what_cannot_be_rebuilt_is_interrupted_and_says_why(
    tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    whole = await played(tmp_path, options={"turns": 6, "payload_bytes": 8})
    cut = step_ends(whole)[3]
    left = [with_data(whole[0], **change), *whole[1:cut]]
    recovered, events = await after_recovery(tmp_path, left)
    assert recovered == Recovered(interrupted=["ep-0001"])
    assert end_of(events)["reason"] == "interrupted"
    assert why in end_of(events)["detail"]


async def test_an_episode_that_kills_its_process_again_and_again_is_given_up(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    async with supervising(journal=journal) as stage:
        episode = await stage.start(pace=Pace.BROADCAST)
        await until(lambda: episode.head_seq > 3)
        await stage.supervisor.suspend()
    for _ in range(3):
        async with supervising(journal=journal) as stage:
            assert (await recover(journal, SystemClock(), stage.supervisor)).playing
            await stage.supervisor.suspend()
    async with supervising(journal=journal) as stage:
        assert (await recover(journal, SystemClock(), stage.supervisor)).interrupted == ["ep-0001"]
    events = await journal.read("ep-0001")
    assert "the server died 3 times at turn 1" in end_of(events)["detail"]
    await journal.aclose()


async def test_as_many_as_there_are_slots_are_played_on_and_the_rest_interrupted(tmp_path: Path) -> None:
    journal = await SqlJournal.open(url_of(tmp_path))
    request = EpisodeRequest("counting", seed=1, options={"turns": 1000}, pace=Pace.BROADCAST)
    async with supervising(journal=journal, slots=3) as stage:
        for _ in range(3):
            await stage.supervisor.start(request)
        await stage.supervisor.suspend()
    async with supervising(journal=journal, slots=2) as stage:
        recovered = await recover(journal, SystemClock(), stage.supervisor)
        assert recovered == Recovered(["ep-0003", "ep-0002"], ["ep-0001"])
        assert len(stage.supervisor.running()) == 2
    await journal.aclose()


LIVE = """
    import asyncio, sys
    from spectator.clock import SystemClock, timestamp
    from spectator.journal.sql_journal import SqlJournal
    from tests.episodes.harness import recover, supervising
    async def main():
        async with supervising(journal=await SqlJournal.open(sys.argv[1])) as stage:
            recovered = await recover(stage.journal, SystemClock(), stage.supervisor)
            if not recovered.playing:
                await stage.start(options={"turns": 1500, "payload_bytes": 200})
            (episode,) = stage.supervisor.running()
            while not episode.ended:
                print(episode.head_seq, flush=True)
                await asyncio.sleep(0.005)
            print("over", flush=True)
    asyncio.run(main())
"""


def test_killed_at_many_moments_it_comes_to_the_same_end(tmp_path: Path) -> None:
    """Real kills; each process dies somewhere within the next hundred events."""
    kills, over = 0, False
    while not over:
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(LIVE), url_of(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        ) as playing:
            assert playing.stdout is not None
            first = playing.stdout.readline()
            assert first, "it could not be played on"
            for line in playing.stdout:
                over = line == "over\n"
                if kills < 4 and not over and int(line) > int(first) + 100:
                    playing.kill()
                    kills += 1
                    break

    async def scenario() -> None:
        whole = await played(tmp_path, options={"turns": 1500, "payload_bytes": 200})
        journal = await SqlJournal.open(url_of(tmp_path))
        events = await journal.read("ep-0001")
        await journal.aclose()
        assert end_of(events)["reason"] == "finished"
        assert sum(one.event.type == "episode.recovered" for one in events) == kills > 0
        assert told(events) == told(whole)

    asyncio.run(scenario())

"""Episodes of a trainer are recorded in a folder of runs while it plays them, and never hinder it."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from spectator.clock import SystemClock
from spectator.episodes.replayer import verify
from spectator.errors import ConfigurationError, JournalError, reward_of_end
from spectator.events import RecordedEvent
from spectator.journal.contract import EpisodeFilter, EpisodeSummary
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.policy import ScriptedPolicy
from spectator.training import recorded_run
from spectator.training.recorded_run import BATCH_S, RecordedRun
from spectator.training.text_episode import TextEpisode
from spectator.training.trl import world_environment
from tests.fakes import until


def count(episode: TextEpisode, seed: int, turns: int) -> None:
    episode.reset(seed=seed)
    for number in range(1, turns + 1):
        episode.use("say", {"text": f"ACTION: {number}"})


async def recorded(folder: Path) -> list[EpisodeSummary]:
    """What is recorded there, in the order in which it began."""
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", writable=False)
    found = await journal.episodes(EpisodeFilter(limit=1000))
    await journal.aclose()
    return sorted(found, key=lambda one: one.started_at)


@contextmanager
def trainer_of(script: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A trainer in a process of its own, which has come to the end of its script."""
    arguments = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as trainer:
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == b"\n"
        yield trainer


class HeldClock(SystemClock):
    """A clock whose waits for a batch end only when a test lets them, from any thread.

    The wait before a commit is tried again, as when the test reads the file at that moment, is real.
    """

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._sleeping: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def sleep(self, seconds: float) -> None:
        if seconds != recorded_run.BATCH_S:
            await super().sleep(seconds)
            return
        self.asked.append(seconds)
        over = asyncio.Event()
        self._sleeping.append((asyncio.get_running_loop(), over))
        await over.wait()

    def end_sleep(self) -> None:
        loop, over = self._sleeping.pop()
        loop.call_soon_threadsafe(over.set)


async def said_in(folder: Path) -> list[int]:
    """How many answers of each episode are recorded, the largest number first."""
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", writable=False)
    counts = []
    for one in await journal.episodes(EpisodeFilter(limit=1000)):
        types = [each.type for each in await journal.read(one.episode_id)]
        counts.append(types.count("decision.made"))
    await journal.aclose()
    return sorted(counts, reverse=True)


async def wait_for(folder: Path, counts: Sequence[int]) -> None:
    async with asyncio.timeout(20):
        while True:
            if await said_in(folder) == list(counts):
                return
            await asyncio.sleep(0.02)  # readers without a pause would hold up the writer


async def test_episodes_of_one_seed_are_groups_with_their_rewards(tmp_path: Path) -> None:
    with RecordedRun(tmp_path / "first", group_size=2, model="Tiny") as run:
        kind: Any = world_environment("counting", {"turns": 2}, run=run)
        siblings = [kind() for _ in range(4)]
        for _ in range(2):
            for place, one in enumerate(siblings):
                one.reset(seed=place // 2)
                one.say(text="ACTION: 1")
                one.say(text="ACTION: 2" if place % 2 else "ACTION: 7")
    found = await recorded(tmp_path / "first")
    assert sorted((one.group_id, one.seed, one.score) for one in found) == [
        (f"g-{number:06d}", number % 2, score) for number in range(4) for score in (0.0, 1.0)
    ]
    assert {(one.run_id, one.reason, one.turns) for one in found} == {("first", "finished", 2)}


@pytest.mark.parametrize("world", ["counting", "cricket"])
async def test_what_is_recorded_is_played_again_event_for_event(tmp_path: Path, world: str) -> None:
    options = {"turns": 3} if world == "counting" else {"max_overs": 1, "decisions": "over"}
    with RecordedRun(tmp_path) as run:
        episode = TextEpisode(world, options, run=run)
        episode.reset(seed=5)
        while not episode.done:
            for action in episode.observation.legal_actions:
                episode.use(action["tool"], {"text": "ACTION: 1"} if world == "counting" else {})
    (one,) = await recorded(tmp_path)
    assert one.reason == "finished"
    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}", writable=False)
    assert await verify(journal.stream(one.episode_id)) == []
    await journal.aclose()


async def test_one_that_is_left_keeps_what_it_was_rewarded_with(tmp_path: Path) -> None:
    with RecordedRun(tmp_path) as run:
        episode = TextEpisode("counting", {"turns": 3}, run=run)
        count(episode, 1, 1)
        count(episode, 2, 3)
        episode.use("say", {"text": "ACTION: 4"})  # of an episode that is over
        count(episode, 3, 0)
        episode.close()
        count(TextEpisode("counting", {"turns": 3}, run=run), 4, 2)
    found = sorted(await recorded(tmp_path), key=lambda one: one.seed)
    assert [one.reason for one in found] == ["step_cap", "finished", "step_cap", "step_cap"]
    assert [one.turns for one in found] == [1, 3, 0, 2]
    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}", writable=False)
    ends = [(await journal.read(one.episode_id))[-1].event.data for one in found]
    assert [await verify(journal.stream(one.episode_id)) for one in found] == [[]] * 4
    await journal.aclose()
    assert [reward_of_end(one) for one in ends] == pytest.approx([1 / 3, 1.0, 0.0, 2 / 3])
    assert [one["score"] for one in ends] == [None, 1.0, None, None]
    assert [one.detail for one in found][::2] == ["another episode was started", "the agent was closed"]
    assert found[-1].detail == "the run was closed"


async def test_where_steps_are_rewarded_one_that_is_left_keeps_their_sum(tmp_path: Path) -> None:
    total = 0.0
    with RecordedRun(tmp_path) as run:
        options = {"max_overs": 5, "decisions": "over", "reward": "decision_value"}
        episode = TextEpisode("cricket", options, run=run)
        episode.reset(seed=5)
        captain = episode.world.captains["aggressive"].build(1)
        assert isinstance(captain, ScriptedPolicy)
        for _ in range(12):
            episode.act(captain.choose(episode.observation).action)
            total += episode.observation.reward
    (one,) = await recorded(tmp_path)
    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}", writable=False)
    ended = (await journal.read(one.episode_id))[-1].event.data
    await journal.aclose()
    assert total != 0.0
    assert ended["total_reward"] == pytest.approx(total)
    assert (ended["reason"], ended["score"]) == ("step_cap", None)


async def test_an_environment_that_fails_has_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RecordedRun(tmp_path) as run:
        episode = TextEpisode("counting", {"turns": 3}, run=run)
        count(episode, 1, 1)
        monkeypatch.setattr(type(episode.world.environment()), "step", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            episode.use("say", {"text": "ACTION: 2"})
    (one,) = await recorded(tmp_path)
    assert (one.reason, one.score, one.detail) == ("environment_error", None, "division by zero")


def test_what_a_killed_trainer_left_is_ended_and_groups_go_on(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys, time\n"
        "from spectator.training.recorded_run import RecordedRun\n"
        "from spectator.training.text_episode import TextEpisode\n"
        "run = RecordedRun(sys.argv[1], group_size=2)\n"
        "whole, half = (TextEpisode('counting', {'turns': 1}, run=run) for _ in range(2))\n"
        "whole.reset(seed=1)\n"
        "whole.use('say', {'text': 'ACTION: 1'})\n"
        "half.reset(seed=1)\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
    )
    with trainer_of(script, tmp_path) as trainer:
        with pytest.raises(ConfigurationError):
            RecordedRun(tmp_path)
        while len(asyncio.run(recorded(tmp_path))) < 2:
            assert trainer.poll() is None
        trainer.kill()
    with RecordedRun(tmp_path, group_size=2) as run:
        count(TextEpisode("counting", {"turns": 1}, run=run), 1, 1)
    found = asyncio.run(recorded(tmp_path))
    assert sorted((one.group_id, one.reason) for one in found) == [
        ("g-000000", "finished"),
        ("g-000000", "interrupted"),
        ("g-000001", "finished"),
    ]


async def test_a_journal_that_cannot_be_written_does_not_hinder_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise JournalError("no space left")

    with RecordedRun(tmp_path) as run, caplog.at_level(logging.WARNING):
        episode = TextEpisode("counting", {"turns": 2}, run=run)
        monkeypatch.setattr(SqlJournal, "append", fail)
        count(episode, 1, 2)
        assert episode.value == 1.0
    assert "is not recorded: no space left" in caplog.text
    assert await recorded(tmp_path) == []


async def test_agents_on_several_threads_share_a_run(tmp_path: Path) -> None:
    with RecordedRun(tmp_path, group_size=4) as run, ThreadPoolExecutor(4) as threads:

        def play(place: int) -> None:
            episode = TextEpisode("counting", {"turns": 50}, run=run)
            for seed in range(8):
                count(episode, seed, 50)

        list(threads.map(play, range(4)))
    found = await recorded(tmp_path)
    assert [one.turns for one in found] == [50] * 32
    assert {one.score for one in found} == {1.0}
    for seed in range(8):
        assert len({one.group_id for one in found if one.seed == seed}) == 1


async def test_environments_of_gymnasium_are_recorded(tmp_path: Path) -> None:
    with RecordedRun(tmp_path) as run:
        env = gymnasium.make("spectator.training.gymnasium_env:spectator/counting-v1", run=run, turns=1)
        env.reset(seed=1)
        said = '{"tool": "say", "arguments": {"text": "ACTION: 1"}}'
        assert env.step(said)[2]
        env.close()
        several = gymnasium.make_vec(
            "spectator.training.gymnasium_env:spectator/counting-v1", num_envs=2, run=run, turns=1
        )
        several.reset(seed=1)
        several.step((said, said))
        several.close()
    assert [one.reason for one in await recorded(tmp_path)] == ["finished"] * 3


def test_what_cannot_be_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="group_size must be at least 1, not 0"):
        RecordedRun(tmp_path, group_size=0)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError):
        RecordedRun(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.fixture
def appends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of events of each append to a journal."""
    sizes: list[int] = []
    append = SqlJournal.append

    async def counted(self: SqlJournal, events: Sequence[RecordedEvent], **more: Any) -> None:
        sizes.append(len(events))
        await append(self, events, **more)

    monkeypatch.setattr(SqlJournal, "append", counted)
    return sizes


async def test_answers_are_recorded_together_once_their_time_is_over(
    tmp_path: Path, appends: list[int]
) -> None:
    clock = HeldClock()
    with RecordedRun(tmp_path, clock=clock) as run:
        several = [TextEpisode("counting", {"turns": 50}, run=run) for _ in range(2)]
        for count_to, episode in enumerate(several, 3):
            count(episode, 1, count_to)
        await until(lambda: bool(clock.asked))
        assert await said_in(tmp_path) == [] == appends
        clock.end_sleep()
        await wait_for(tmp_path, [4, 3])
        assert len(appends) == 2, "one for each episode"
        several[0].use("say", {"text": "ACTION: 4"})
        await until(lambda: len(clock.asked) == 2)
        assert await said_in(tmp_path) == [4, 3]
        clock.end_sleep()
        await wait_for(tmp_path, [4, 4])
    assert clock.asked == [BATCH_S] * 2
    assert len(appends) == 5, "and the two ends"


async def test_a_full_batch_is_recorded_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = 4  # the start, the first observation, two answers: one more would wait for its own batch
    monkeypatch.setattr("spectator.training.recorded_run.BATCH", parts)
    with RecordedRun(tmp_path, clock=HeldClock()) as run:
        count(TextEpisode("counting", {"turns": 50}, run=run), 1, 2)
        await wait_for(tmp_path, [2])


async def test_an_end_is_recorded_at_once_with_all_before_it(tmp_path: Path, appends: list[int]) -> None:
    with RecordedRun(tmp_path, clock=HeldClock()) as run:
        open_one, ended, left = (TextEpisode("counting", {"turns": 5}, run=run) for _ in range(3))
        count(open_one, 1, 2)
        count(ended, 2, 5)
        await wait_for(tmp_path, [5, 2])
        count(left, 3, 3)
        left.close()
        await wait_for(tmp_path, [5, 3, 2])
        assert len(appends) == 3


async def test_a_flush_records_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append, appended = SqlJournal.append, threading.Event()

    async def slow(self: SqlJournal, *given: Any, **more: Any) -> None:
        for _ in range(5000):
            await asyncio.sleep(0)
        await append(self, *given, **more)
        appended.set()

    monkeypatch.setattr(SqlJournal, "append", slow)
    with RecordedRun(tmp_path, clock=HeldClock()) as run:
        count(TextEpisode("counting", {"turns": 5}, run=run), 1, 3)
        run.flush()
        assert appended.is_set()
        assert await said_in(tmp_path) == [3]
        run.flush()
    run.flush()


async def test_a_close_records_what_waits(tmp_path: Path) -> None:
    with RecordedRun(tmp_path, clock=HeldClock()) as run:
        episode = TextEpisode("counting", {"turns": 5}, run=run)
        count(episode, 1, 3)
    assert await said_in(tmp_path) == [3]
    with pytest.raises(ConfigurationError, match="is closed; open its folder again"):
        episode.reset(seed=2)


async def test_the_trainer_does_not_wait_for_a_slow_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = threading.Event()
    append = SqlJournal.append

    async def slow(self: SqlJournal, *given: Any, **more: Any) -> None:
        await asyncio.to_thread(ready.wait)
        await append(self, *given, **more)

    monkeypatch.setattr(SqlJournal, "append", slow)
    with RecordedRun(tmp_path) as run:
        episode = TextEpisode("counting", {"turns": 5}, run=run)
        for seed in range(3):
            count(episode, seed, 5)
        assert await said_in(tmp_path) == []
        ready.set()
    assert await said_in(tmp_path) == [5] * 3


async def test_a_full_disk_loses_nothing_that_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun, ready = threading.Event(), threading.Event()

    async def fail(*_: Any, **__: Any) -> None:
        begun.set()
        await asyncio.to_thread(ready.wait)
        full.undo()
        raise JournalError("no space left")

    clock = HeldClock()
    with RecordedRun(tmp_path, clock=clock) as run, caplog.at_level(logging.WARNING):
        episode = TextEpisode("counting", {"turns": 9}, run=run)
        count(episode, 1, 3)
        run.flush()
        with monkeypatch.context() as full:
            full.setattr(SqlJournal, "append", fail)
            episode.use("say", {"text": "ACTION: 4"})
            await until(lambda: len(clock.asked) == 2)
            clock.end_sleep()
            await asyncio.to_thread(begun.wait)
            episode.use("say", {"text": "ACTION: 5"})  # taken before the failure is known
            ready.set()
            run.flush()
        episode.use("say", {"text": "ACTION: 6"})
        run.flush()
        assert await said_in(tmp_path) == [3], "nothing after the failure"
        count(episode, 2, 9)
    warned = [one.message for one in caplog.records if one.levelno >= logging.WARNING]
    assert [one.partition(" is not recorded: ")[2] for one in warned] == ["no space left"]
    assert await said_in(tmp_path) == [9, 3]
    journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}", writable=False)
    (whole,) = [one for one in await recorded(tmp_path) if one.reason == "finished"]
    assert await verify(journal.stream(whole.episode_id)) == []
    await journal.aclose()


def test_a_killed_trainer_loses_at_most_its_last_batch(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from spectator.training.recorded_run import RecordedRun\n"
        "from spectator.training.text_episode import TextEpisode\n"
        "from tests.training.test_recorded_run import HeldClock, count\n"
        "run = RecordedRun(sys.argv[1], clock=HeldClock())\n"
        "episode = TextEpisode('counting', {'turns': 9}, run=run)\n"
        "count(episode, 1, 3)\n"
        "run.flush()\n"
        "episode.use('say', {'text': 'ACTION: 4'})\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
    )
    with trainer_of(script, tmp_path) as trainer:
        trainer.kill()
    RecordedRun(tmp_path).close()
    (one,) = asyncio.run(recorded(tmp_path))
    assert (one.reason, one.score) == ("interrupted", None)
    assert asyncio.run(said_in(tmp_path)) == [3]

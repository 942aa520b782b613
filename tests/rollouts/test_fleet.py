"""A run of rollouts against an endpoint on a real socket: nothing is lost, nothing is asked twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.environments.counting.world import CountingEnvironment
from spectator.environments.world import World
from spectator.errors import ConfigurationError, InvalidRequest
from spectator.journal.contract import EpisodeFilter, EpisodeSummary
from spectator.journal.sql_journal import SqlJournal
from spectator.rollouts.fleet import FleetReport, run_rollouts
from spectator.rollouts.fleet_plan import Deadlines
from spectator.rollouts.handlers import EpisodeContext, EpisodeOutcome
from spectator.rollouts.request import RolloutRequest
from tests.llm.brains import Said, counter
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import FakeModelServer, Mode

TURNS = 4


def request(fake: FakeModelServer | str, **changes: Any) -> RolloutRequest:
    base_url = fake if isinstance(fake, str) else fake.base_url
    model = {"label": "m", "model": "m-1", "base_url": base_url, "stream": False, "timeout_s": 30.0}
    fields = {"environment": "counting", "options": {"turns": TURNS}, "episodes": 12, "group_size": 3}
    return RolloutRequest.model_validate(
        {**fields, **changes, "model": {**model, **changes.get("model", {})}}
    )


def run(asked: RolloutRequest, folder: Path, **changes: Any) -> FleetReport:
    settings: dict[str, Any] = {
        "concurrency": 4, "clock": SystemClock(), "load": load_world, "rng": random.Random(1),
        "deadlines": Deadlines(startup_jitter_s=0.0), **changes,
    }  # fmt: skip
    return asyncio.run(run_rollouts(asked, folder, **settings))


def recorded(folder: Path) -> list[EpisodeSummary]:
    async def read() -> Sequence[EpisodeSummary]:
        journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", writable=False)
        try:
            return await journal.episodes(EpisodeFilter(limit=1000))
        finally:
            await journal.aclose()

    return list(asyncio.run(read()))


def decisions(folder: Path) -> dict[tuple[str | None, int], list[tuple[Any, ...]]]:
    """By group and seed, what each finished episode decided and scored, in an order of its own."""

    async def read() -> dict[tuple[str | None, int], list[tuple[Any, ...]]]:
        journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}", writable=False)
        found: dict[tuple[str | None, int], list[tuple[Any, ...]]] = {}
        try:
            for summary in await journal.episodes(EpisodeFilter(limit=1000)):
                if summary.reason != "finished":
                    continue
                events = [one.event for one in await journal.read(summary.episode_id)]
                made = [event.data for event in events if event.type == "decision.made"]
                played = tuple((one["source"], json.dumps(one["action"], sort_keys=True)) for one in made)
                found.setdefault((summary.group_id, summary.seed), []).append((summary.score, *played))
        finally:
            await journal.aclose()
        return {key: sorted(value, key=repr) for key, value in found.items()}

    return asyncio.run(read())


def test_a_run_plays_every_episode_of_every_group(tmp_path: Path) -> None:
    with endpoint(counter) as fake:
        report = run(request(fake), tmp_path)
        assert (report.over, report.total, report.halted) == (12, 12, None)
        assert report.report.succeeded
        assert len(fake.received) == 12 * TURNS
        again = run(request(fake), tmp_path)
        assert (again.over, len(again.report.results)) == (12, 0)
        assert len(fake.received) == 12 * TURNS, "nothing is asked again"
    found = recorded(tmp_path)
    assert Counter(summary.group_id for summary in found) == {f"g-{n:06d}": 3 for n in range(4)}
    seeds: dict[str | None, set[int]] = {summary.group_id: set() for summary in found}
    for summary in found:
        seeds[summary.group_id].add(summary.seed)
    assert all(len(of_group) == 1 for of_group in seeds.values()), "the episodes of a group have one task"
    assert {summary.run_id for summary in found} == {"rollouts"}


def test_the_samples_of_a_group_are_drawn_apart(tmp_path: Path) -> None:
    """The same seed for all would make an endpoint that honours it answer the same for all."""
    with endpoint(counter) as fake:
        run(request(fake, episodes=4, group_size=4), tmp_path)
        seeds = [body["seed"] for body in fake.bodies]
    assert len(set(seeds)) == len(seeds) == 4 * TURNS


def test_a_run_can_be_made_longer(tmp_path: Path) -> None:
    with endpoint(counter) as fake:
        run(request(fake, episodes=3), tmp_path)
        report = run(request(fake, episodes=6), tmp_path)
        assert (report.over, len(report.report.results)) == (6, 3)
        before = (tmp_path / "rollouts.json").read_bytes()
        with pytest.raises(InvalidRequest, match=r"episodes: .* a run of 6 episodes"):
            run(request(fake, episodes=3), tmp_path)
    assert (tmp_path / "rollouts.json").read_bytes() == before, "it said that all of 3 were over"


KILLED = """
import asyncio, random, sys
from pathlib import Path
from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.rollouts.fleet_plan import Deadlines
from spectator.rollouts.fleet import run_rollouts
from spectator.rollouts.request import RolloutRequest
request = RolloutRequest.model_validate_json(sys.argv[1])
report = asyncio.run(run_rollouts(
    request, Path(sys.argv[2]), concurrency=8, clock=SystemClock(), load=load_world, rng=random.Random(1),
    deadlines=Deadlines(startup_jitter_s=0.0),
))
sys.exit(0 if report.report.succeeded and report.over == report.total else 1)
"""


@pytest.mark.timeout(300)
def test_killed_at_any_moment_the_same_command_finishes_the_rest(tmp_path: Path) -> None:
    """The finished episodes equal those of an unbroken run, decision by decision."""
    with endpoint(counter, [Mode.SLOW], pause_s=0.01) as fake:
        asked = request(fake, episodes=40, group_size=4, options={"turns": 6})
        run(asked, tmp_path / "whole", concurrency=16)
        rng, kills, folder = random.Random(7), 0, tmp_path / "killed"
        command = [sys.executable, "-c", KILLED, asked.model_dump_json(), str(folder)]
        for _ in range(60):
            running = subprocess.Popen(command)
            began = len(fake.received)
            limit = time.monotonic() + 60
            wanted = rng.randrange(20, 80)
            while running.poll() is None and len(fake.received) - began < wanted and time.monotonic() < limit:
                time.sleep(0.002)
            if running.poll() is not None:
                break
            running.send_signal(signal.SIGKILL)
            running.wait(20)
            kills += 1
        assert running.returncode == 0
        assert kills >= 3
    assert decisions(folder) == decisions(tmp_path / "whole")
    assert {summary.reason for summary in recorded(folder)} == {"finished"}, "no death leaves a verdict"
    assert len(recorded(folder)) == 40, "no episode was begun twice"


def test_an_endpoint_that_is_down_halts_the_run_and_loses_nothing(tmp_path: Path) -> None:
    asked = request("http://127.0.0.1:9/v1", model={"timeout_s": 2.0, "retries": 0})
    report = run(asked, tmp_path)
    assert report.halted is not None and "cannot be asked" in report.halted
    assert not report.report.succeeded
    assert report.over < report.total
    with endpoint(counter) as fake:
        report = run(request(fake, model={"timeout_s": 30.0}), tmp_path)
    assert (report.over, report.halted) == (12, None)
    assert sum(map(len, decisions(tmp_path).values())) == 12


def test_a_key_that_is_refused_halts_the_run(tmp_path: Path) -> None:
    with endpoint(counter, [Mode.UNAUTHORIZED]) as fake:
        report = run(request(fake), tmp_path)
    assert report.halted is not None and "key" in report.halted


def test_storms_of_429_and_500_are_ridden_out(tmp_path: Path) -> None:
    rng = random.Random(3)
    with endpoint(
        counter,
        [rng.choice([Mode.OK, Mode.OK, Mode.OK, Mode.BUSY_FOR, Mode.BROKEN]) for _ in range(5_000)],
        retry_after="0",
    ) as fake:
        report = run(request(fake), tmp_path, concurrency=12)
    assert (report.over, report.halted) == (12, None)
    assert report.report.succeeded


def garbler(body: Mapping[str, Any]) -> Said:
    return Said(text="I would rather not say.")


def test_an_answer_that_is_no_action_is_a_labelled_fallback_or_the_end(tmp_path: Path) -> None:
    with endpoint(garbler) as fake:
        run(request(fake, episodes=1, group_size=1, on_invalid="fallback"), tmp_path / "fallback")
        ended = run(request(fake, episodes=1, group_size=1, on_invalid="end"), tmp_path / "end")
    (played,) = decisions(tmp_path / "fallback").values()
    assert [source for source, _ in played[0][1:]] == ["fallback"] * TURNS
    (result,) = ended.report.results
    assert (result.end_reason, result.failure_class, result.total_reward) == (
        "policy_error",
        "unparsable",
        None,
    )


class FailingEnvironment(CountingEnvironment):
    """Raises in every third task."""

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Any:
        self._fails = seed % 3 == 0
        return super().reset(seed=seed, episode_id=episode_id, options=options)

    def step(self, action: Mapping[str, Any]) -> Any:
        if self._fails:
            raise RuntimeError("the simulator crashed")
        return super().step(action)


def failing_world(name: str) -> World:
    return replace(load_world(name), environment=FailingEnvironment)


def test_an_environment_that_raises_is_tried_again_and_ends_nothing_else(tmp_path: Path) -> None:
    with endpoint(counter) as fake:
        asked = request(fake, episodes=12, group_size=1, attempts=2)
        report = run(asked, tmp_path, load=failing_world)
    failed = [one for one in report.report.last if one.failure_class == "env_infra"]
    assert 0 < len(failed) < 12
    assert all(one.total_reward is None for one in failed), "no verdict, and no reward of 0"
    assert all(one.job.attempt == 2 for one in failed)
    assert report.over == 12
    assert not report.report.succeeded
    assert sum(map(len, decisions(tmp_path).values())) == 12 - len(failed)


def test_a_cap_on_turns_truncates(tmp_path: Path) -> None:
    with endpoint(counter) as fake:
        report = run(request(fake, episodes=2, group_size=1, max_turns=2), tmp_path)
    assert {(one.end_reason, one.truncated, one.turns) for one in report.report.results} == {
        ("step_cap", True, 2)
    }


def test_a_cut_sends_system_task_and_the_newest_exchanges(tmp_path: Path) -> None:
    with endpoint(counter) as fake:
        asked = request(fake, episodes=1, group_size=1, options={"turns": 8}, message_cut=2)
        run(asked, tmp_path)
        sizes = [len(body["messages"]) for body in fake.bodies]
        roles = [message["role"] for message in fake.bodies[-1]["messages"]]
    assert max(sizes) <= 2 + 4
    assert roles[:2] == ["system", "user"]


class Adviser:
    """A handler that adds one line and remembers every end."""

    def __init__(self) -> None:
        self.ends: list[tuple[EpisodeContext, EpisodeOutcome]] = []

    def handle(self, messages: Sequence[Any], context: EpisodeContext) -> Sequence[Any]:
        first = {**messages[0], "content": f"{messages[0]['content']}\nADVICE {context.step}"}
        return [first, *messages[1:]]

    def on_episode_end(self, context: EpisodeContext, outcome: EpisodeOutcome) -> None:
        self.ends.append((context, outcome))


def test_what_a_handler_adds_is_sent_and_recorded(tmp_path: Path) -> None:
    adviser = Adviser()
    with endpoint(counter) as fake:
        report = run(request(fake, episodes=3, group_size=3), tmp_path, handler=adviser)
        advised = [body["messages"][0]["content"].rpartition("ADVICE ")[2] for body in fake.bodies]
    assert sorted(advised) == sorted(["1", "2", "3", "4"] * 3)
    assert {context.env_id for context, _ in adviser.ends} == {
        one.episode_id for one in report.report.results
    }
    assert [outcome.total_reward for _, outcome in adviser.ends] == [1.0] * 3
    info = {"end_reason": "finished", "turns": TURNS}
    assert all(info.items() <= outcome.info.items() for _, outcome in adviser.ends)

    async def told() -> list[str]:
        journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}", writable=False)
        try:
            (call, *_) = [one async for one in journal.calls(report.report.results[0].episode_id)]
            return [str(message.get("content")) for message in call.call.messages]
        finally:
            await journal.aclose()

    assert "ADVICE 1" in asyncio.run(told())[0]


def test_a_second_command_in_the_same_folder_plays_the_run_together_with_the_first(tmp_path: Path) -> None:
    with endpoint(counter, [Mode.SLOW], pause_s=0.05) as fake:
        asked = request(fake, episodes=30, group_size=1)
        first = subprocess.Popen([sys.executable, "-c", KILLED, asked.model_dump_json(), str(tmp_path)])
        try:
            limit = time.monotonic() + 60
            while not fake.received and time.monotonic() < limit:
                time.sleep(0.01)
            report = run(asked, tmp_path)
            assert first.wait(60) == 0
        finally:
            first.kill()
            first.wait(20)
        assert len(fake.received) == 30 * TURNS, "no question is asked twice"
    assert (report.over, report.halted, list(report.failed_elsewhere)) == (30, None, [])
    assert 0 < len(report.report.results) < 30
    assert Counter(one.reason for one in recorded(tmp_path)) == {"finished": 30}


def test_a_folder_that_is_written_by_another_program_is_refused(tmp_path: Path) -> None:
    async def hold() -> None:
        journal = await SqlJournal.open(f"sqlite:///{tmp_path / 'journal.db'}")
        try:
            with pytest.raises(ConfigurationError, match="another process"):
                await run_rollouts(
                    asked, tmp_path, concurrency=1, clock=SystemClock(), load=load_world, rng=random.Random(1)
                )
        finally:
            await journal.aclose()

    with endpoint(counter) as fake:
        asked = request(fake, episodes=3, group_size=1)
        run(asked, tmp_path)
        asyncio.run(hold())


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 2}, "seed"),
        ({"group_size": 4}, "group_size"),
        ({"options": {"turns": 5}}, "options"),
        ({"model": {"model": "m-2"}}, r"run \(model\.model 'm-1', now 'm-2'\);"),
        ({"message_cut": 3}, "message_cut"),
        ({"attempts": 2}, "attempts 3, now 2, which may be more but not fewer"),
    ],
)
def test_another_run_in_the_folder_is_refused_by_what_differs(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    with endpoint(counter) as fake:
        run(request(fake, episodes=12), tmp_path)
        before = (tmp_path / "rollouts.json").read_bytes()
        with pytest.raises(InvalidRequest, match=named):
            run(request(fake, **{"episodes": 12, **changes}), tmp_path)
    assert (tmp_path / "rollouts.json").read_bytes() == before


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("{", "cannot be read"),
        ("[]", "does not describe"),
        ('{"request": {"format": 9}, "began_ms": 1}', "version 9"),
        ('{"request": {"format": 1}, "began_ms": 1}', "environment"),
    ],
)
def test_a_damaged_manifest_is_refused_and_left_alone(tmp_path: Path, damage: str, named: str) -> None:
    (tmp_path / "rollouts.json").write_text(damage)
    with pytest.raises(InvalidRequest, match=named):
        run(request("http://127.0.0.1:9/v1"), tmp_path)
    assert (tmp_path / "rollouts.json").read_text() == damage
    assert os.listdir(tmp_path) == ["rollouts.json"]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InvalidRequest, match="is not a folder"):
        run(request("http://127.0.0.1:9/v1"), tmp_path / "file" / "below")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"environment": "chess"}, "environment"),
        ({"options": {"turns": 0}}, "options.turns"),
        ({"opponent": "nobody"}, "^opponent:"),
        ({"pack": "none"}, "^pack:"),
    ],
)
def test_a_wrong_request_writes_nothing(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        run(request("http://127.0.0.1:9/v1", **changes), tmp_path / "new")
    assert not (tmp_path / "new").exists()

"""Workers that Ray places on two nodes: with one killed, and the run itself, the result is equal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from spectator.clock import SystemClock
from spectator.errors import ConfigurationError
from spectator.rollouts.workers.link import WorkerLink
from spectator.rollouts.workers.ray_cluster import RayLauncher
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import Mode
from tests.postgres import Cluster
from tests.rollouts.joint.joint_runs import digests, summaries
from tests.rollouts.joint.test_joint_runs import assert_whole, held
from tests.rollouts.test_fleet import request
from tests.rollouts.workers.test_workers import assert_equal_to, leases, wait_until, whole

QUIET = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture
def nodes(ray_python: str) -> Iterator[tuple[str, Sequence[int]]]:
    """A cluster's address, and the processes of its two nodes."""
    command = [ray_python, "-m", "tests.rollouts.workers.ray_nodes"]
    cluster = subprocess.Popen(command, env=QUIET, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert cluster.stdout is not None
        told = json.loads(cluster.stdout.readline())
        yield told["address"], told["raylets"]
    finally:
        cluster.communicate(timeout=60)


def playing(raylet: int, task: str = "work_for") -> list[int]:
    """Workers of ours on a node: the processes that carry out our task for it."""
    told = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(raylet)], capture_output=True, text=True, check=False
    )
    lines = [line.split(None, 1) for line in told.stdout.splitlines()]
    return [int(pid) for pid, args in lines if args.startswith(f"ray::{task}")]


def test_a_run_on_two_nodes_survives_its_worker_and_itself(
    ray_python: str, nodes: tuple[str, Sequence[int]], tmp_path: Path
) -> None:
    (address, raylets), folder = nodes, tmp_path / "killed"
    with endpoint(counter, [Mode.SLOW], pause_s=0.01) as fake:
        asked = request(fake, episodes=40, group_size=4, options={"turns": 6})
        unbroken = whole(fake, asked, tmp_path / "whole")
        command = [
            ray_python, "-m", "spectator.cli", "rollouts", "run", "--env", "counting",
            "--option", "turns=6", "--base-url", fake.base_url, "--model", "m-1", "--episodes", "40",
            "--group-size", "4", "--concurrency", "8", "--ray", address, "--startup-jitter", "0",
            "--out", str(folder),
        ]  # fmt: skip
        began, fake.pause_s = len(fake.received), 0.8  # a new worker may take long to begin
        running = subprocess.Popen(command, env=QUIET)
        try:
            wait_until(lambda: all(map(playing, raylets)) and len(fake.received) > began + 16)
            (victim,) = playing(raylets[1])
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: playing(raylets[1]) not in ([], [victim]))
            (replaced,), played = playing(raylets[1]), len(fake.received)
            wait_until(lambda: len(fake.received) > played + 16)
            assert running.poll() is None, "it is over before it could be killed"
        finally:
            running.kill()
            running.wait(20)
        assert "died" in (folder / "rollouts.log").read_text()
        wait_until(lambda: not Path(f"/proc/{replaced}").exists(), 15.0)
        assert leases(folder), "a killed run cannot clean up"
        fake.pause_s = 0.01
        finished = subprocess.run(
            [*command, "--resume"], env=QUIET, capture_output=True, text=True, check=False
        )
        assert finished.returncode == 0, finished.stderr
        assert "40 of 40 episodes are over" in finished.stdout
    assert_equal_to(unbroken, folder, 40)


def shares(raylets: Sequence[int]) -> list[list[int]]:
    """The workers of a run in a database, by node."""
    return [playing(one, "play_share") for one in raylets]


@pytest.mark.timeout(300)
def test_a_run_in_a_database_is_played_on_two_nodes_whoever_dies(
    ray_python: str, nodes: tuple[str, Sequence[int]], postgres: Cluster
) -> None:
    (address, raylets), whole_url, url = nodes, *(postgres.url(postgres.make()) for _ in range(2))
    with endpoint(counter, [Mode.SLOW], pause_s=0.01) as fake:
        asked = [
            "-m", "spectator.cli", "rollouts", "run", "--env", "counting", "--option", "turns=6",
            "--base-url", fake.base_url, "--model", "m-1", "--episodes", "24", "--group-size", "4",
            "--concurrency", "8", "--startup-jitter", "0", "--run", "first",
        ]  # fmt: skip
        subprocess.run([sys.executable, *asked, "--journal", whole_url], check=True)
        command = [ray_python, *asked, "--ray", address, "--journal", url]
        began, fake.pause_s = len(fake.received), 0.8  # a new worker may take long to begin
        running = subprocess.Popen(command, env=QUIET)
        try:
            wait_until(lambda: all(shares(raylets)) and len(fake.received) > began + 16)
            ((victim,),) = shares(raylets[1:])
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: shares(raylets[1:]) not in ([[]], [[victim]]))
            assert running.poll() is None, "it is over before it could be killed"
        finally:
            running.kill()
            running.wait(20)
        wait_until(lambda: not any(shares(raylets)), 30.0)
        assert held(postgres, url), "who is killed cannot give its leases back"
        fake.pause_s = 0.01
        done = subprocess.run([*command, "--resume"], env=QUIET, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert "24 of 24 episodes are over; the record is in the journal, run first" in done.stdout
    assert_whole(url, digests(whole_url), 24)
    assert held(postgres, url) == []


def test_an_interrupt_lets_the_nodes_finish_what_they_play(
    ray_python: str, nodes: tuple[str, Sequence[int]], postgres: Cluster
) -> None:
    address, url = nodes[0], postgres.url(postgres.make())
    with endpoint(counter, [Mode.SLOW], pause_s=0.3) as fake:
        command = [
            ray_python, "-m", "spectator.cli", "rollouts", "run", "--env", "counting",
            "--option", "turns=4", "--base-url", fake.base_url, "--model", "m-1", "--episodes", "48",
            "--concurrency", "4", "--ray", address, "--startup-jitter", "0", "--journal", url,
            "--run", "first",
        ]  # fmt: skip
        running = subprocess.Popen(command, env=QUIET, stdout=subprocess.PIPE, text=True)
        wait_until(lambda: len(fake.received) > 6)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)[0]
        assert running.returncode == 130, said
    ended = [one.reason for one in summaries(url)]
    assert 0 < len(ended) < 48
    assert set(ended) == {"finished"}, "what was played came to its end"
    assert held(postgres, url) == []


def launched(address: str) -> None:
    async def launch() -> None:
        launcher = RayLauncher(address)
        await launcher.launch(WorkerLink("w-1", SystemClock(), lambda message: None))

    asyncio.run(launch())


def test_without_ray_the_install_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigurationError, match=r"ray is not installed; .*openenv-spectator\[ray\]"):
        launched("auto")

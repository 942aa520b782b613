"""SIGKILLs of workers, runs and a server of environments: the outcome is that of an undisturbed run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from benchmarks.kills_rollouts import EnvironmentServer, Fleet
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import FakeModelServer, Mode
from tests.rollouts.test_fleet import decisions, request
from tests.rollouts.test_remote_fleet import sayer
from tests.rollouts.test_worker_processes import assert_equal_to, leases, wait_until, whole


def further(fleet: Fleet, fake: FakeModelServer, wanted: int) -> bool:
    fleet.go_on_if_halted()  # too many workers died in a row: the same command resumes
    return len(fake.received) >= wanted or fleet.over


def disturb(fleet: Fleet, fake: FakeModelServer, victims: Mapping[str, int], most: int) -> None:
    """Kill so many of each, in any order, each after at most so many further questions to the model."""
    chance = random.Random(1)
    order = [victim for victim, count in victims.items() for _ in range(count)]
    chance.shuffle(order)
    for victim in order:
        killed = False
        while not killed:
            wanted = len(fake.received) + chance.randint(1, most)
            wait_until(partial(further, fleet, fake, wanted))
            assert not fleet.over, f"it is over after {dict(fleet.killed)}"
            killed = fleet.kill_one(victim, chance)


def survive(fleet: Fleet, fake: FakeModelServer, victims: Mapping[str, int], most: int) -> None:
    """Start the run, kill so many of each while the model takes its time, and let it finish."""
    fake.pause_s = 0.4
    fleet.start()
    try:
        disturb(fleet, fake, victims, most)
        fake.pause_s = 0.005
        assert fleet.finish() == 0
    finally:
        fleet.kill_for_good()
    assert fleet.killed == Counter(victims)


def play(
    arguments: Sequence[str], folder: Path, fake: FakeModelServer, server: EnvironmentServer | None = None
) -> Fleet:
    """A run by two workers that is to be killed."""
    asked = ["--base-url", fake.base_url, "--model", "m-1", "--concurrency", "12", "--workers", "2"]
    return Fleet([*arguments, *asked, "--startup-jitter", "0", "--attempts", "100"], folder, server)


@pytest.mark.timeout(300)
def test_kills_of_workers_and_runs_change_nothing(tmp_path: Path) -> None:
    """So often in a row; `benchmarks/kills_rollouts.py` kills a thousand times."""
    victims = {"worker": 5, "run": 1}
    with endpoint(counter, [Mode.SLOW], pause_s=0.005) as fake:
        asked = request(fake, episodes=32, group_size=4, options={"turns": 6}, attempts=100)
        unbroken = whole(fake, asked, tmp_path / "whole")
        arguments = ["--env", "counting", "--option", "turns=6", "--episodes", "32", "--group-size", "4"]
        survive(play(arguments, tmp_path / "killed", fake), fake, victims, most=9)
    assert_equal_to(unbroken, tmp_path / "killed", 32)


@pytest.mark.timeout(300)
def test_kills_around_a_server_of_environments_change_nothing(tmp_path: Path) -> None:
    """What was played on a server that died is played again from its beginning, as another attempt."""
    victims = {"worker": 1, "run": 1, "server": 2}
    server = EnvironmentServer(places=24, turns=3)
    with endpoint(sayer, [Mode.SLOW], pause_s=0.005) as fake:
        server.start()
        try:
            asked = request(fake, environment=server.url, options={}, episodes=40, group_size=4)
            unbroken = whole(fake, asked, tmp_path / "whole")
            arguments = ["--env", server.url, "--episodes", "40", "--group-size", "4"]
            survive(play(arguments, tmp_path / "killed", fake, server), fake, victims, most=12)
        finally:
            server.kill()
    assert sum(map(len, unbroken.values())) == 40
    assert decisions(tmp_path / "killed") == unbroken
    assert leases(tmp_path / "killed") == []

"""Runs by worker processes: whatever dies or stalls, the result is that of an undisturbed run."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.rollouts.fleet import FleetReport, RunningFleet
from spectator.rollouts.fleet_plan import Deadlines, FleetPlan
from spectator.rollouts.folder_workers import run_workers
from spectator.rollouts.request import RolloutRequest
from spectator.rollouts.status import read_status
from spectator.runs import worker_processes
from spectator.runs.worker_processes import FRUITLESS_DEATHS, WorkerProcesses
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import FakeModelServer, Mode
from tests.rollouts.pooled_server import PooledServer
from tests.rollouts.test_fleet import decisions, recorded, request, run
from tests.rollouts.test_remote_fleet import TURNS, pooled, sayer

QUICK = Deadlines(startup_jitter_s=0.0)

INTERVAL_S = 0.3
"""Seconds between two heartbeats: others are missed after 1.5 s and not after 10."""

QUICK_WORKER = f"""
import sys
from functools import partial
from spectator.cli import main, rollouts_run
setattr(rollouts_run, "_worker", partial(rollouts_run._worker, interval_s={INTERVAL_S}))
main(["rollouts", "worker", *sys.argv[1:]])
"""

Disturb = Callable[[WorkerProcesses], Awaitable[None]]


async def nothing(supervisor: WorkerProcesses) -> None:
    return


def run_two(
    asked: RolloutRequest, folder: Path, disturb: Disturb = nothing, **changes: Any
) -> tuple[FleetReport, WorkerProcesses]:
    """A run by two workers, disturbed meanwhile; its report, and what kept the workers at work."""
    running: list[RunningFleet] = []
    deadlines = changes.pop("deadlines", QUICK)

    async def carry_out() -> FleetReport:
        settings: dict[str, Any] = {
            "workers": 2, "concurrency": 8, "clock": SystemClock(), "load": load_world,
            "rng": random.Random(1), "interval_s": INTERVAL_S,
            "command": [sys.executable, "-c", QUICK_WORKER], **changes,
        }  # fmt: skip
        plan = FleetPlan.of(asked, deadlines=deadlines)
        playing = asyncio.create_task(run_workers(plan, folder, on_begin=running.append, **settings))
        try:
            await until(lambda: bool(running) or playing.done())
            if running:
                await disturb(supervisor())
            return await playing
        finally:
            playing.cancel()

    def supervisor() -> WorkerProcesses:
        assert isinstance(running[0].interactor, WorkerProcesses)
        return running[0].interactor

    report = asyncio.run(carry_out())
    return report, supervisor()


async def until(true: Callable[[], bool], limit_s: float = 60.0) -> None:
    limit = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < limit, "it did not come to pass"
        await asyncio.sleep(0.005)


def wait_until(true: Callable[[], bool], limit_s: float = 60.0) -> None:
    asyncio.run(until(true, limit_s))


def leases(folder: Path) -> list[Any]:
    with closing(sqlite3.connect(folder / "journal.db")) as database:
        return database.execute("SELECT * FROM leases").fetchall()


def whole(fake: FakeModelServer, asked: RolloutRequest, folder: Path) -> Any:
    """What an undisturbed run in one process decides."""
    run(asked, folder, concurrency=16, deadlines=QUICK)
    return decisions(folder)


def assert_equal_to(unbroken: Any, folder: Path, episodes: int) -> None:
    assert decisions(folder) == unbroken
    found = recorded(folder)
    assert {summary.reason for summary in found} == {"finished"}, "no death leaves a verdict"
    assert len(found) == episodes, "no episode was begun twice"
    assert leases(folder) == [], "no lease is left"


async def playing(supervisor: WorkerProcesses, workers: int = 2) -> None:
    """Wait until so many workers play."""
    await until(lambda: len({flight.why for flight in supervisor.in_flight}) >= workers)


async def kill_one(supervisor: WorkerProcesses, fake: FakeModelServer, further: int) -> None:
    """Kill a worker that plays, after so many further questions, and wait until it is replaced."""
    wanted = len(fake.received) + further
    await until(lambda: len(fake.received) >= wanted)
    await playing(supervisor, 1)
    victim = next(flight.why for flight in supervisor.in_flight if flight.why in supervisor.pids)
    os.kill(supervisor.pids[victim], signal.SIGKILL)
    await until(lambda: victim not in supervisor.pids)


def test_workers_play_what_one_process_plays_and_ask_as_often(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """What workers warn of is logged by the run, and does not cross its screen."""
    with endpoint(counter, [*[Mode.OK] * 48, Mode.BROKEN, Mode.OK]) as fake:
        asked = request(fake, episodes=12)
        unbroken = whole(fake, asked, tmp_path / "whole")
        before = len(fake.received)
        report, supervisor = run_two(asked, tmp_path / "workers")
        assert len(fake.received) == 2 * before + 1
        assert (report.over, report.total, report.halted) == (12, 12, None)
        assert report.report.succeeded and report.succeeded
        assert len(report.report.results) == 12
        assert (supervisor.halted, supervisor.pids) == (None, {})
        again, _ = run_two(asked, tmp_path / "workers")
        assert (again.over, len(again.report.results)) == (12, 0)
        assert len(fake.received) == 2 * before + 1, "nothing is asked again"
    assert_equal_to(unbroken, tmp_path / "workers", 12)
    (told,) = [one for one in caplog.records if "a request to a model failed" in one.getMessage()]
    assert told.getMessage().startswith("worker w-") and told.levelname == "WARNING"
    assert "a request to a model failed" not in capfd.readouterr().err


def test_episodes_of_a_killed_worker_go_on_elsewhere_at_once(tmp_path: Path) -> None:
    """It is not waited for until its heartbeat is missed, which takes 10 s by default."""

    async def kill(supervisor: WorkerProcesses) -> None:
        for _ in range(3):
            await kill_one(supervisor, fake, 10)

    with endpoint(counter, [Mode.SLOW], pause_s=0.05) as fake:
        asked = request(fake, episodes=24, group_size=4, options={"turns": 6})
        unbroken = whole(fake, asked, tmp_path / "whole")
        before = len(fake.received)
        report, _ = run_two(asked, tmp_path / "killed", kill)
        again = len(fake.received) - 2 * before
    assert (report.over, report.halted) == (24, None)
    assert again <= 3 * 4 * 2, "only those whose answers are not recorded: one, and one while it is committed"
    assert_equal_to(unbroken, tmp_path / "killed", 24)


def test_status_says_which_worker_plays_what_and_a_stopped_one_is_replaced(tmp_path: Path) -> None:
    found: list[set[str | None]] = []

    async def stop(supervisor: WorkerProcesses) -> None:
        await playing(supervisor)
        status = await read_status(tmp_path / "stopped", SystemClock().now())
        found.append({one.worker for one in status.unended})
        victim, pid = next(iter(supervisor.pids.items()))
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: victim not in supervisor.pids)

    with endpoint(counter, [Mode.SLOW], pause_s=0.05) as fake:
        asked = request(fake, episodes=24, group_size=4, options={"turns": 8})
        unbroken = whole(fake, asked, tmp_path / "whole")
        fake.pause_s = 0.3
        report, _ = run_two(asked, tmp_path / "stopped", stop)
    assert (report.over, report.halted) == (24, None)
    assert {f"w-1-{os.getpid()}", f"w-2-{os.getpid()}"} <= found[0], found
    assert_equal_to(unbroken, tmp_path / "stopped", 24)


STOPS_WITHIN_A_COMMIT = """
import os, pathlib, signal, sys
from spectator.journal import inserts
add = inserts.Insertion.add
def stop_inside(self, connection, rows):
    add(self, connection, rows)
    stopped = pathlib.Path(sys.argv[1], "stopped")
    if any(row[1] > 6 for row in rows.events) and not stopped.exists():
        stopped.touch()
        os.kill(os.getpid(), signal.SIGSTOP)
setattr(inserts.Insertion, "add", stop_inside)
from spectator.cli import main
main(["rollouts", "worker", *sys.argv[1:]])
"""


def test_a_worker_that_is_stopped_while_it_writes_holds_nobody_up_for_long(tmp_path: Path) -> None:
    with endpoint(counter, [Mode.SLOW], pause_s=0.01) as fake:
        asked = request(fake, episodes=12)
        unbroken = whole(fake, asked, tmp_path / "whole")
        command = [sys.executable, "-c", STOPS_WITHIN_A_COMMIT]
        report, _ = run_two(asked, tmp_path / "stopped", command=command, interval_s=2.0)
    assert (tmp_path / "stopped" / "stopped").exists()
    assert (report.over, report.halted) == (12, None)
    assert_equal_to(unbroken, tmp_path / "stopped", 12)


def test_workers_that_cannot_play_halt_the_run_and_say_why(tmp_path: Path) -> None:
    with endpoint(counter, [Mode.UNAUTHORIZED]) as fake:
        report, _ = run_two(request(fake), tmp_path / "refused")
        assert report.halted is not None and "key" in report.halted
        assert (report.over, report.report.drained, leases(tmp_path / "refused")) == (0, True, [])
        asked = request(fake, model={"api_key_env": "A_KEY_OF_NOBODY"})
        report, _ = run_two(asked, tmp_path / "keyless")
    assert report.halted == "there is no key in the variable A_KEY_OF_NOBODY"


def test_workers_that_die_in_a_row_without_progress_halt_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_processes, "PAUSE_S", 0.0)
    dies = [sys.executable, "-S", "-c", "import os; os.kill(os.getpid(), 9)"]
    with endpoint(counter) as fake:
        report, _ = run_two(request(fake), tmp_path, command=dies, workers=1)
    assert report.halted is not None
    assert report.halted.startswith(
        f"{FRUITLESS_DEATHS} workers in a row died (exit code -9) without any progress"
    )


def test_an_interrupt_lets_running_episodes_finish(tmp_path: Path) -> None:
    async def interrupt(supervisor: WorkerProcesses) -> None:
        await playing(supervisor)
        supervisor.drain()

    with endpoint(counter, [Mode.SLOW], pause_s=0.1) as fake:
        report, _ = run_two(request(fake, episodes=60), tmp_path, interrupt)
    assert 0 < report.over < 60 and report.halted is None and report.report.drained
    assert {one.reason for one in recorded(tmp_path)} == {"finished"}
    assert leases(tmp_path) == []


def children(pid: int) -> list[int]:
    told = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(one) for one in told.stdout.split()]


def test_a_killed_run_takes_its_workers_along_and_the_same_command_finishes(tmp_path: Path) -> None:
    with endpoint(counter, [Mode.SLOW], pause_s=0.05) as fake:
        asked = request(fake, episodes=24, group_size=4, options={"turns": 6})
        command = [
            sys.executable, "-m", "spectator.cli", "rollouts", "run", "--env", "counting",
            "--option", "turns=6", "--base-url", fake.base_url, "--model", "m-1", "--episodes", "24",
            "--group-size", "4", "--concurrency", "8", "--workers", "2", "--startup-jitter", "0",
            "--out", str(tmp_path / "killed"),
        ]  # fmt: skip
        unbroken = whole(fake, asked, tmp_path / "whole")
        began = len(fake.received)
        running = subprocess.Popen(command)
        wait_until(lambda: len(fake.received) > began + 40)
        workers = children(running.pid)
        assert len(workers) == 2
        running.kill()
        running.wait(20)
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), 10.0)
        assert leases(tmp_path / "killed"), "a killed run cannot clean up"
        finished = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False)
        assert finished.returncode == 0, finished.stderr
        assert "24 of 24 episodes are over" in finished.stdout
    assert_equal_to(unbroken, tmp_path / "killed", 24)


def test_a_worker_killed_while_it_gives_an_environment_back_leaves_none_behind(tmp_path: Path) -> None:
    """Its request never arrives: the episode has no end yet, and the worker that resumes it gives it back."""
    lost: list[str] = []

    async def lose(asked: web.Request) -> web.Response:
        await until(lambda: asked.transport is None)  # its worker is dead
        return web.Response(status=500)

    def lose_the_first(server: PooledServer, asked: web.Request) -> Awaitable[web.Response] | None:
        if lost:
            return None
        lost.append(asked.match_info["env_id"])
        return lose(asked)

    async def kill(supervisor: WorkerProcesses) -> None:
        await until(lambda: bool(lost))
        for pid in supervisor.pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    server = PooledServer(places=4, turns=TURNS, wrong={"done": lose_the_first})
    with pooled(server) as url, endpoint(sayer) as fake:
        asked = request(fake, environment=f"{url}/qa", options={}, episodes=6, group_size=3)
        report, _ = run_two(asked, tmp_path, kill, workers=1, concurrency=2)
    assert (report.over, report.halted) == (6, None)
    assert {one.total_reward for one in report.report.last} == {0.5 * TURNS}
    assert server.kept == {}, "a place is lost"


def test_a_server_without_room_halts_workers_in_the_words_of_one_process(tmp_path: Path) -> None:
    with pooled(PooledServer(places=0)) as url, endpoint(sayer) as fake:
        asked = request(fake, environment=f"{url}/qa", options={}, episodes=4, group_size=1)
        patience = Deadlines(env_wait_s=0.5, startup_jitter_s=0.0)
        report, _ = run_two(asked, tmp_path, deadlines=patience)
    assert report.halted is not None and report.halted.startswith(
        "no environment could be made for 0.5 s (env_infra): reset: the server answers 503"
    )
    assert (list(report.report.results), leases(tmp_path), recorded(tmp_path)) == ([], [], [])

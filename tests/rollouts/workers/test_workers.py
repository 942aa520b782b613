"""Runs by worker processes: whatever dies or stalls, the finished episodes are those of an unbroken run."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spectator.clock import SystemClock
from spectator.rollouts.deadlines import Deadlines
from spectator.rollouts.fleet import FleetReport, Underway
from spectator.rollouts.request import RolloutRequest
from spectator.rollouts.status import read_status
from spectator.rollouts.workers.desk import Desk
from spectator.rollouts.workers.launching import LocalLauncher, LocalWorker
from spectator.rollouts.workers.link import WorkerLink
from spectator.rollouts.workers.members import Member
from spectator.rollouts.workers.running import run_by_workers
from tests.llm.brains import counter
from tests.llm.endpoints import endpoint
from tests.llm.fake_server import FakeModelServer, Mode
from tests.rollouts.test_fleet import decisions, recorded, request, run

QUICK = Deadlines(startup_jitter_s=0.0)

Disturb = Callable[["Watched", Desk], Awaitable[None]]


class Watched(LocalLauncher):
    """Starts workers, and keeps what it started."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[LocalWorker] = []

    async def launch(self, link: WorkerLink) -> LocalWorker:
        worker = await super().launch(link)
        self.started.append(worker)
        return worker

    def pids(self) -> list[int]:
        """Processes of the workers that were started, oldest first."""
        return [worker.process.pid or 0 for worker in self.started]


async def nothing(launcher: Watched, desk: Desk) -> None:
    return


def run_workers(
    asked: RolloutRequest, folder: Path, disturb: Disturb = nothing, **changes: Any
) -> tuple[FleetReport, Desk]:
    """A run by two workers, disturbed meanwhile; its report, and the desk as it stood at the end."""
    desks: list[Desk] = []

    def begin(underway: Underway) -> None:
        assert isinstance(underway.interactor, Desk)
        desks.append(underway.interactor)

    async def carry_out() -> FleetReport:
        launcher = changes.pop("launcher", None) or Watched()
        settings: dict[str, Any] = {
            "workers": 2, "concurrency": 8, "clock": SystemClock(), "deadlines": QUICK, **changes,
        }  # fmt: skip
        playing = asyncio.create_task(
            run_by_workers(asked, folder, launcher=launcher, on_begin=begin, **settings)
        )
        try:
            await until(lambda: bool(desks) or playing.done())
            if desks:
                await disturb(launcher, desks[0])
            return await playing
        finally:
            for worker in launcher.started:
                with suppress(ValueError):  # it is gone
                    worker.process.kill()

    return asyncio.run(carry_out()), desks[0]


async def until(true: Callable[[], bool], limit_s: float = 60.0) -> None:
    limit = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < limit, "it did not come to pass"
        await asyncio.sleep(0.005)


def turns(desk: Desk) -> int:
    return desk.state.turns


def gets_on(member: Member) -> bool:
    return any(held.turn > 0 for held in member.held.values())


def leases(folder: Path) -> list[Any]:
    with closing(sqlite3.connect(folder / "journal.db")) as database:
        return database.execute("SELECT * FROM leases").fetchall()


def whole(fake: FakeModelServer, asked: RolloutRequest, folder: Path) -> Any:
    """What an unbroken run in one process decides."""
    run(asked, folder, concurrency=16, deadlines=QUICK)
    return decisions(folder)


def assert_equal_to(unbroken: Any, folder: Path, episodes: int) -> None:
    assert decisions(folder) == unbroken
    found = recorded(folder)
    assert {summary.reason for summary in found} == {"finished"}, "no death leaves a verdict"
    assert len(found) == episodes, "no episode was begun twice"
    assert leases(folder) == [], "no lease is left"


def test_workers_play_what_one_process_plays_and_ask_as_often(tmp_path: Path) -> None:
    with endpoint(counter) as fake:
        asked = request(fake, episodes=12)
        unbroken = whole(fake, asked, tmp_path / "whole")
        before = len(fake.received)
        report, desk = run_workers(asked, tmp_path / "workers")
        assert len(fake.received) == 2 * before
        assert (report.over, report.total, report.halted) == (12, 12, None)
        assert report.report.succeeded
        assert (desk.deaths, desk.refused, desk.state.turns, desk.state.own) == (0, 0, 48, 48)
        again, _ = run_workers(asked, tmp_path / "workers")
        assert (again.over, len(again.report.results)) == (12, 0)
        assert len(fake.received) == 2 * before, "nothing is asked again"
    assert_equal_to(unbroken, tmp_path / "workers", 12)


async def further(desk: Desk, count: int, *, or_finished: bool = False) -> None:
    """Wait for so many turns more."""
    wanted = turns(desk) + count
    await until(lambda: turns(desk) >= wanted or (or_finished and desk.finished))


def started(launcher: Watched, count: int) -> bool:
    return len(launcher.started) >= count


async def kill_newest(launcher: Watched, desk: Desk) -> None:
    """Kill the newest worker, and wait until the desk knows."""
    deaths = desk.deaths
    os.kill(launcher.started[-1].process.pid or 0, signal.SIGKILL)
    await until(lambda: desk.deaths > deaths)


def test_what_workers_warn_of_is_told_by_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Their warnings went across the screen of the run, past its log."""
    with endpoint(counter, [Mode.BROKEN, *[Mode.OK] * 1000]) as fake:
        report, _ = run_workers(request(fake, episodes=2, group_size=1), tmp_path)
    assert report.succeeded
    (told,) = [one for one in caplog.records if "a request to a model failed" in one.getMessage()]
    assert told.getMessage().startswith("worker ") and told.levelname == "WARNING"
    assert "a request to a model failed" not in capfd.readouterr().err


def test_a_killed_worker_is_noticed_without_its_lease_and_its_episodes_go_on_elsewhere(
    tmp_path: Path,
) -> None:
    async def kill(launcher: Watched, desk: Desk) -> None:
        for number in range(3):
            await further(desk, 10)
            await kill_newest(launcher, desk)
            await until(partial(started, launcher, number + 3))

    with endpoint(counter, [Mode.SLOW], pause_s=0.01) as fake:
        asked = request(fake, episodes=40, group_size=4, options={"turns": 6})
        unbroken = whole(fake, asked, tmp_path / "whole")
        before = len(fake.received)
        report, desk = run_workers(asked, tmp_path / "killed", kill, lease_s=3600.0)
        again = len(fake.received) - 2 * before
    assert (report.over, report.halted, desk.deaths) == (40, None, 3)
    assert again <= 3 * 4, "only questions whose answers were not recorded are asked again"
    assert_equal_to(unbroken, tmp_path / "killed", 40)


def test_status_says_which_worker_plays_what_until_it_was_not_heard_of(tmp_path: Path) -> None:
    """Both are stopped while the status is read, however long that takes."""
    found: list[set[str | None]] = []

    async def look(launcher: Watched, desk: Desk) -> None:
        await until(lambda: len(desk.members) == 2 and all(map(gets_on, desk.members.values())))
        for pid in launcher.pids():
            os.kill(pid, signal.SIGSTOP)
        try:
            await see()
        finally:
            for pid in launcher.pids():
                os.kill(pid, signal.SIGCONT)

    async def see() -> None:
        for later_s in (0, 3600):
            now = SystemClock().now() + timedelta(seconds=later_s)
            status = await read_status(tmp_path, now)
            found.append({one.worker for one in status.unended})
        printed = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "spectator.cli", "rollouts", "status", str(tmp_path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "played by w-1 (" in printed.stdout, printed.stdout

    with endpoint(counter, [Mode.SLOW], pause_s=0.05) as fake:
        asked = request(fake, episodes=24, options={"turns": 20})
        report, _ = run_workers(asked, tmp_path, look, lease_s=120.0)
    assert (report.over, report.halted) == (24, None)
    assert {"w-1", "w-2"} <= found[0], found
    assert found[1] == {None}


class Unreachable(Watched):
    """Starts workers that nobody can end, as behind a broken network: they have to be refused."""

    async def launch(self, link: WorkerLink) -> LocalWorker:
        worker = await super().launch(link)
        return _Unreachable(worker.process)


class _Unreachable(LocalWorker):
    def _stop(self) -> None:
        self.process.join()
        self.process.close()


def test_a_stopped_worker_is_deposed_and_refused_when_it_wakes(tmp_path: Path) -> None:
    """SIGSTOP for longer than the lease, while its answers come in, then SIGCONT."""

    async def stop(launcher: Watched, desk: Desk) -> None:
        await until(lambda: len(desk.members) == 2 and all(map(gets_on, desk.members.values())))
        victim = launcher.started[0].process
        os.kill(victim.pid or 0, signal.SIGSTOP)
        await until(lambda: desk.deaths == 1)
        await until(lambda: len(launcher.started) == 3)
        await until(lambda: desk.owed == 0)
        os.kill(victim.pid or 0, signal.SIGCONT)
        await until(lambda: desk.refused > 0)

    with endpoint(counter, [Mode.SLOW], pause_s=0.05) as fake:
        asked = request(fake, episodes=24, group_size=4, options={"turns": 12})
        unbroken = whole(fake, asked, tmp_path / "whole")
        report, desk = run_workers(asked, tmp_path / "stopped", stop, launcher=Unreachable(), lease_s=1.5)
    assert (report.over, report.halted) == (24, None)
    assert desk.refused >= 1
    assert_equal_to(unbroken, tmp_path / "stopped", 24)


def workers_of(pid: int) -> list[int]:
    """The workers of a run: its grandchildren, by way of the process that forks them."""
    found = [pid]
    for _ in range(2):
        told = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", ",".join(map(str, found))],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        found = [int(one) for one in told.stdout.split()]
    return found


def wait_until(true: Callable[[], bool], limit_s: float = 60.0) -> None:
    asyncio.run(until(true, limit_s))


def test_a_killed_run_takes_its_workers_along_and_the_same_command_finishes(tmp_path: Path) -> None:
    with endpoint(counter, [Mode.SLOW], pause_s=0.02) as fake:
        asked = request(fake, episodes=40, group_size=4, options={"turns": 6})
        command = [
            sys.executable, "-m", "spectator.cli", "rollouts", "run", "--env", "counting",
            "--option", "turns=6", "--base-url", fake.base_url, "--model", "m-1", "--episodes", "40",
            "--group-size", "4", "--concurrency", "8", "--workers", "2", "--startup-jitter", "0",
            "--out", str(tmp_path / "killed"),
        ]  # fmt: skip
        unbroken = whole(fake, asked, tmp_path / "whole")
        began = len(fake.received)
        running = subprocess.Popen(command)
        wait_until(lambda: len(fake.received) > began + 40)
        workers = workers_of(running.pid)
        assert len(workers) == 2
        running.kill()
        running.wait(20)
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), 10.0)
        assert leases(tmp_path / "killed"), "a killed run cannot clean up"
        finished = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False)
        assert finished.returncode == 0, finished.stderr
        assert "40 of 40 episodes are over" in finished.stdout
        status = subprocess.run(
            [*command[:4], "status", str(tmp_path / "killed")], capture_output=True, text=True, check=True
        )
        assert "40" in status.stdout
    assert_equal_to(unbroken, tmp_path / "killed", 40)

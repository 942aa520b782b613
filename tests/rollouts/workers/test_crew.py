"""Dead, stalled and slow workers are told apart; time passes only where a test lets it."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from spectator.rollouts.deadlines import Deadlines
from spectator.rollouts.fleet import Underway
from spectator.rollouts.workers.crew import LEASE_S
from spectator.rollouts.workers.desk import Desk
from spectator.rollouts.workers.link import WorkerLink
from spectator.rollouts.workers.members import SLOW_S, Member
from spectator.rollouts.workers.running import run_by_workers
from spectator.rollouts.workers.wire import BEAT_S, Beat, Frames, HaltRun, Want, frame
from tests.fakes import ManualClock
from tests.rollouts.test_fleet import request

EACH = 4
"""Episodes that a worker asks for."""


class Posed(asyncio.WriteTransport):
    """A worker that plays nothing: it asks for episodes and then says what a test has it say."""

    def __init__(self, link: WorkerLink) -> None:
        super().__init__()
        self.link = link
        self.told = f"posed as {link.name}"
        self.stopped = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """What the desk says is not read."""

    def abort(self) -> None:
        self.link.connection_lost(None)

    async def stop(self) -> None:
        self.stopped = True

    def say(self, *messages: object) -> None:
        self.link.data_received(frame(list(messages)))


class Poses:
    """Starts posed workers."""

    def __init__(self) -> None:
        self.started: list[Posed] = []

    async def launch(self, link: WorkerLink) -> Posed:
        worker = Posed(link)
        self.started.append(worker)
        link.connection_made(worker)
        worker.say(*[Want() for _ in range(EACH)])
        return worker

    async def aclose(self) -> None:
        return


class Stage:
    """A run by two posed workers, each of which holds :data:`EACH` episodes."""

    def __init__(self, desk: Desk, poses: Poses, clock: ManualClock) -> None:
        self.desk, self.poses, self.clock = desk, poses, clock

    def member(self, name: str) -> Member:
        return self.desk.members[name]

    async def pass_time(self, seconds: float, *silent: Posed, busy: Posed | None = None) -> None:
        """Let time pass in steps of a beat; all but the silent say that they live, one that it computes."""
        began = self.clock.monotonic()
        while (passed := self.clock.monotonic() - began) < seconds:
            for worker in self.poses.started:
                if worker not in silent:
                    worker.say(Beat(passed if worker is busy else 0.0))
            self.clock.advance(BEAT_S)
            await self.settle()

    async def settle(self) -> None:
        """Let everybody do what can be done now, until somebody waits for time to pass."""
        for _ in range(20):
            await asyncio.sleep(0)
        await self.until(lambda: self.clock.sleepers > 0 or self.desk.finished)

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for something that takes none of the run's time."""
        async with asyncio.timeout(30):
            while not true():  # noqa: ASYNC110 - the journal's thread is waited for
                await asyncio.sleep(0.001)


def played(folder: Path, act: Callable[[Stage], Awaitable[None]]) -> Desk:
    """A run that is halted after ``act``; its desk."""

    async def scenario() -> Desk:
        clock, poses, desks = ManualClock(), Poses(), list[Desk]()

        def begin(underway: Underway) -> None:
            assert isinstance(underway.interactor, Desk)
            desks.append(underway.interactor)

        running = asyncio.create_task(
            run_by_workers(
                request("http://127.0.0.1:9/v1", episodes=3 * EACH, group_size=1), folder,
                workers=2, concurrency=2 * EACH, clock=clock, launcher=poses, on_begin=begin,
                deadlines=Deadlines(startup_jitter_s=0.0),
            )
        )  # fmt: skip
        try:
            async with asyncio.timeout(30):
                while not (desks and len(desks[0].members) == 2):
                    assert not running.done(), running
                    await asyncio.sleep(0.001)
            stage = Stage(desks[0], poses, clock)
            await stage.until(lambda: all(len(one.held) == EACH for one in desks[0].members.values()))
            await act(stage)
            poses.started[0].say(HaltRun("the test is over"))
            for worker in poses.started:
                worker.abort()
            async with asyncio.timeout(30):
                while not running.done():
                    await stage.pass_time(BEAT_S)
                    await asyncio.sleep(0.001)
            running.result()
            assert all(worker.stopped for worker in poses.started)
        finally:
            running.cancel()
        return desks[0]

    return asyncio.run(scenario())


def test_a_dead_worker_is_noticed_before_any_time_has_passed(tmp_path: Path) -> None:
    """Its connection closes with it; no lease has to run out, so two seconds are never taken."""

    async def kill(stage: Stage) -> None:
        await stage.pass_time(3.0)
        died_s, held = stage.clock.monotonic(), set(stage.member("w-1").held)
        stage.poses.started[0].abort()
        await stage.until(lambda: stage.desk.deaths == 1)
        assert "w-1" not in stage.desk.members
        stage.poses.started[1].say(*[Want() for _ in range(EACH)])
        await stage.until(lambda: len(stage.member("w-2").held) == 2 * EACH)
        assert stage.clock.monotonic() == died_s
        assert not held & set(stage.member("w-2").held), "under leases of their own"

    assert played(tmp_path, kill).halted == "the test is over"


def test_one_that_is_silent_stalls_and_one_that_computes_is_slow(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "spectator")

    async def stop(stage: Stage) -> None:
        stopped, busy = stage.poses.started
        await stage.pass_time(LEASE_S - 1, stopped, busy=busy)
        assert stage.desk.deaths == 0, "its lease is not over"
        await stage.pass_time(2.0, stopped, busy=busy)
        await stage.until(lambda: stage.desk.deaths == 1)
        await stage.until(lambda: stopped.stopped)
        await stage.pass_time(10 * LEASE_S, stopped, busy=busy)
        assert stage.desk.deaths == 1 and not busy.stopped
        assert len(stage.member("w-2").held) == EACH, "it keeps its episodes"
        assert stage.member("w-2").stood_still_s > SLOW_S

    played(tmp_path, stop)
    told = [record.getMessage() for record in caplog.records]
    assert any(one.startswith("worker w-1 stalls: not a word in") for one in told), told
    assert any(one.startswith("worker w-2 is slow: it computes for") for one in told), told
    assert not any("w-2 stalls" in one or "w-1 is slow" in one for one in told), told


def test_a_run_that_stood_still_itself_blames_nobody(tmp_path: Path) -> None:
    """Its machine slept; what its workers said meanwhile still waits to be read."""

    async def sleep(stage: Stage) -> None:
        await stage.pass_time(1.0)
        stage.clock.advance(10 * LEASE_S)
        await stage.settle()
        await stage.pass_time(1.0)
        assert stage.desk.deaths == 0

    played(tmp_path, sleep)


def test_a_worker_says_that_it_lives_while_an_environment_holds_its_event_loop() -> None:
    ours, theirs = socket.socketpair()
    frames, told = Frames(), 0.0
    ours.settimeout(120)
    with ours:
        with theirs:
            command = [sys.executable, "-m", "tests.rollouts.workers.computing", str(theirs.fileno())]
            worker = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        try:
            while told < 2 * BEAT_S:
                for message in frames.take(ours.recv(4096)):
                    assert isinstance(message, Beat)
                    told = max(told, message.stood_still_s)
        finally:
            worker.kill()
            worker.wait()
        while ours.recv(4096):
            pass  # its death ends what can be read: no lease is waited for

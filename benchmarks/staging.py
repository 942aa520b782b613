"""The set-up of a fan-out measurement: a server on the first core, its viewers on the last.

On the server's core, too, a process sends the same bytes to as many sockets at the same pace and does nothing
else. Whoever has no turn is stopped, or rests. CPU time is each one's own.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import httpx

from benchmarks.crowd import Crowd, crowd
from benchmarks.outside import install_measured_world
from benchmarks.sending import Sending, sending
from benchmarks.serving import server_process

WORLD = "measured"
OPTIONS = {"turns": 100_000, "payload_bytes": 720}
"""Makes an event of 1 KB."""

EVENTS = 3
"""Events of a step, written at once, unless a measurement asks for more."""

BEAT_S = 2.0
"""What a beat takes at the pace ``broadcast``."""

CALM_STEP_S = 0.5
"""How long a step takes at the pace ``broadcast``."""

QUICK_STEP_S = 0.1
"""The same at the pace ``fast``."""

FIRST_CORE = min(os.sched_getaffinity(0))
"""The server's."""

REST_S = 6.0
"""How long a server's rest is looked at."""

FEW = 200
"""Viewers with whom a server knows its work: its data gives way to theirs in the processor's caches."""

WARM_S = 2.0
"""A server's first turn, which does not count."""

WHOLE = 0.98
"""Share of the steps that must have been writes of their own, or a row is refused."""

QUIET_S = 0.15
"""Nothing arrives for so long once a turn is over."""


class TurnCost(NamedTuple):
    """What a turn has been, to all viewers together.

    Args:
        cpu_s: CPU seconds of the server, all threads; what its rest would have cost is left out.
        steps: Steps of the world that a viewer has seen; a part of one where it was cut short.
        writes: Writes to a viewer.
        bytes: What one viewer has received of a step.
    """

    cpu_s: float
    steps: float
    writes: float
    bytes: int


class Stage:
    """A server that plays long episodes, with its viewers.

    Args:
        base: Where it is.
        process_id: Its process.
        viewers: Those who watch it.
        events: Events of a step.
    """

    def __init__(self, base: str, process_id: int, viewers: Crowd, events: int = EVENTS) -> None:
        self.viewers = viewers
        self.events = events
        self.port = int(base.rpartition(":")[2])
        self._clock = (~process_id << 3) | 2  # the CPU clock of another process, see clock_getcpuclockid(3)
        self._process_id = process_id
        self._resting = 0.0
        self.client = httpx.Client(base_url=base, timeout=30)

    def start(self, **body: object) -> str:
        """Start an episode; returns its id."""
        asked = {"environment": WORLD, "options": OPTIONS, **body}
        answer = self.client.post("/custom/start_episode", json=asked).raise_for_status()
        return str(answer.json()["episode_id"])

    def say(self, command: str, **body: object) -> None:
        """Control the episode."""
        self.client.post(f"/custom/{command}", json=body).raise_for_status()

    def cpu_s(self) -> float:
        """CPU seconds of the server so far, all threads."""
        return time.clock_gettime(self._clock)

    def rss_kb(self) -> int:
        """Resident memory of the server."""
        text = Path(f"/proc/{self._process_id}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])

    def rest(self, seconds: float = REST_S) -> None:
        """Learn what the server spends while nothing is played: it asks its viewers whether they live."""
        before = self.cpu_s()
        time.sleep(seconds)
        self._resting = (self.cpu_s() - before) / seconds

    def show(self, viewers: int) -> None:
        """Start an episode for so many, see what their rest costs, and stop the server until its turns."""
        self.start(pace="broadcast")
        self.viewers.join(self.port, 1, "/live")
        self.say("pause")
        self.viewers.join(self.port, viewers, "/live")
        self.viewers.settle(1.5)
        self.rest()
        self.say("resume")
        self.turn(WARM_S)

    def turn(self, seconds: float) -> TurnCost:
        """Let the server, and with it the episode, go on for a while."""
        before = self._sums()
        cpu_s = self.cpu_s()
        os.kill(self._process_id, signal.SIGCONT)
        time.sleep(seconds)
        os.kill(self._process_id, signal.SIGSTOP)
        self.viewers.settle(QUIET_S)
        spent = self.cpu_s() - cpu_s - self._resting * seconds
        events, writes, received = (
            (now - then) / len(self.viewers.seats) for now, then in zip(self._sums(), before, strict=True)
        )
        steps = events / self.events
        return TurnCost(spent, steps, writes, round(received / steps))

    def release(self) -> None:
        """Let the server run from now on."""
        os.kill(self._process_id, signal.SIGCONT)

    def _sums(self) -> tuple[int, int, int]:
        viewers = self.viewers
        return sum(viewers.events()), viewers.segments(self.port), viewers.received()


@contextmanager
def stage(
    events: int = EVENTS,
    *,
    step_s: float = CALM_STEP_S,
    nursery: Sequence[str] = ("benchmarks.nursery",),
    **settings: str,
) -> Iterator[Stage]:
    """A server on the first core, the rest of us on the last."""
    cores = sorted(os.sched_getaffinity(0))
    with (
        TemporaryDirectory() as folder,
        server_process(settings, python_path=_worlds(Path(folder), events, step_s), nursery=nursery) as (
            base,
            process_id,
        ),
        crowd() as viewers,
    ):
        on_the_servers_core(process_id)
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(thread.name), {cores[-1]})
        on_stage = Stage(base, process_id, viewers, events)
        try:
            yield on_stage
        finally:
            on_stage.release()
            for thread in Path("/proc/self/task").iterdir():
                os.sched_setaffinity(int(thread.name), cores)


def _worlds(folder: Path, events: int, step_s: float) -> Path:
    install_measured_world(folder, events, beats=step_s / BEAT_S)
    return folder


@contextmanager
def limit() -> Iterator[tuple[Sending, Crowd]]:
    """The limit on the server's core, with a crowd of its own."""
    with sending() as process, crowd() as viewers:
        on_the_servers_core(process.process.pid)
        yield process, viewers


def on_the_servers_core(process_id: int) -> None:
    """Let a process run where the server runs, all its threads."""
    for thread in Path(f"/proc/{process_id}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {FIRST_CORE})

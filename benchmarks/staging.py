"""Owns the stage of a measurement of the fan-out: a server on the first core, its viewers on the last.

At the same time, on the server's core, a process sends the same bytes to as many sockets at the same pace and
does nothing else. CPU time is each one's own.
"""

from __future__ import annotations

import os
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

SHORTER = 4
"""A short play is so much shorter than a long one."""

WHOLE = 0.98
"""Share of the steps that must have been writes of their own, or a row is refused."""

PAUSES = 2
"""Events of a window that are no steps: it is resumed, and paused."""


class Window(NamedTuple):
    """What happened from a resume to a pause.

    Args:
        cpu_s: CPU seconds of the server, all threads.
        steps: Steps of the world.
        bytes: What one viewer has received.
        writes: Writes to a viewer.
    """

    cpu_s: float
    steps: int
    bytes: float
    writes: float


class Step(NamedTuple):
    """What one step of the world is to all viewers together; resuming and pausing are left out.

    Args:
        cpu_s: CPU seconds of the server, all threads.
        bytes: What one viewer receives.
        writes: Writes to a viewer; fewer than one when steps are merged, a little more when a pause was.
    """

    cpu_s: float
    bytes: int
    writes: float

    def slope_s(self, few: Step, viewers: int) -> float:
        """CPU seconds of a write to one viewer, between :data:`FEW` viewers and so many."""
        return (self.cpu_s - few.cpu_s) / (viewers - FEW) / self.writes


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

    def window(self, seconds: float) -> Window:
        """Play for a while; what resting costs is left out.

        Raises:
            RuntimeError: The viewers have not all received the same.
        """
        before, bytes_before = self.viewers.events(), self.viewers.received()
        began, cpu, segments = time.monotonic(), self.cpu_s(), self.viewers.segments(self.port)
        self.say("resume")
        time.sleep(seconds)
        self.say("pause")
        self.viewers.settle()
        spent = self.cpu_s() - cpu - self._resting * (time.monotonic() - began)
        writes = self.viewers.segments(self.port) - segments
        got = [now - then for now, then in zip(self.viewers.events(), before, strict=True)]
        if min(got) != max(got):
            raise RuntimeError(f"viewers received from {min(got)} to {max(got)} events")
        received = (self.viewers.received() - bytes_before) / len(got)
        return Window(spent, (got[0] - PAUSES) // self.events, received, writes / len(got))

    def step(self, seconds: float) -> Step:
        """Play for a while, and shortly: the difference is what steps are.

        Raises:
            RuntimeError: The viewers have not all received the same.
        """
        short, long = self.window(seconds / SHORTER), self.window(seconds)
        cpu_s, steps, received, writes = (more - less for more, less in zip(long, short, strict=True))
        return Step(cpu_s / steps, round(received / steps), writes / steps)

    def few(self, seconds: float, rounds: int) -> Step:
        """Start an episode for :data:`FEW` viewers: the middle one of some steps. It stands still then."""
        self.start(pace="broadcast")
        self.viewers.join(self.port, 1, "/live")
        self.say("pause")
        self.fill(FEW)
        return sorted((self.step(seconds) for _ in range(rounds)), key=lambda step: step.cpu_s)[rounds // 2]

    def fill(self, viewers: int) -> None:
        """Let viewers come until there are so many, and see what their rest costs."""
        self.viewers.join(self.port, viewers, "/live")
        self.viewers.settle(1.5)
        self.rest()


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
        try:
            yield Stage(base, process_id, viewers, events)
        finally:
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

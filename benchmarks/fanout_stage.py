"""The set-up of a fan-out measurement: a server on the first core, its viewers on the last.

The limit runs on the server's core too: a process that only calls ``send()`` with the same bytes on as many
sockets, by the server's own loop in C if it was built, else by one in Python. A server is stopped (SIGSTOP)
while it has no turn. CPU time is counted per process. ``python -m benchmarks.fanout_stage`` is the limit.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import httpx

from benchmarks.crowd import Crowd, crowd
from benchmarks.serving import install_measured_world, server_process
from server.transport.fast_path import compiled

SEND_TO_EACH = compiled()

LOOP = "a Python loop of send()" if SEND_TO_EACH is None else "a C loop of send()"
"""Name of the limit."""


def main() -> None:
    """Print a port, then carry out lines ``accept COUNT`` and ``send BYTES TIMES INTERVAL_S``.

    The answer to ``send`` is its CPU seconds, without the waits between the sends.
    """
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    print(listener.getsockname()[1], flush=True)
    viewers: list[socket.socket] = []
    for line in sys.stdin:
        command, *numbers = line.split()
        if command == "accept":
            viewers += [_accept(listener) for _ in range(int(numbers[0]) - len(viewers))]
            print("accepted", flush=True)
        else:
            print(_send(viewers, int(numbers[0]), int(numbers[1]), float(numbers[2])), flush=True)


def _accept(listener: socket.socket) -> socket.socket:
    """Accept a viewer as a server would: answer its handshake without delay."""
    viewer, _ = listener.accept()
    viewer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    viewer.recv(4096)
    viewer.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
    return viewer


def _send(viewers: list[socket.socket], size: int, times: int, interval_s: float) -> float:
    descriptors = array("i", [viewer.fileno() for viewer in viewers])
    spent = 0.0
    for _ in range(times):
        message = f"{time.time():.6f} ".encode().ljust(size, b".")
        began = time.process_time()
        _send_to_each(viewers, descriptors, message)
        spent += time.process_time() - began
        time.sleep(interval_s)
    return spent


def _send_to_each(viewers: list[socket.socket], descriptors: array[int], message: bytes) -> None:
    if SEND_TO_EACH is None:
        for viewer in viewers:
            viewer.sendall(message)
    elif SEND_TO_EACH(descriptors, message):
        raise RuntimeError("a viewer's socket is full; lower the number of viewers or the size")


class Sending:
    """The limit's process.

    Args:
        process: The process.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.port = int(self._answer())

    def admit(self, viewers: Crowd, count: int) -> None:
        """Let viewers connect up to ``count``."""
        self._say(f"accept {count}")
        viewers.join(self.port, count, "/")
        self._answer()

    def send(self, size: int, times: int, interval_s: float) -> float:
        """Send ``size`` bytes to every viewer, ``times`` times; returns CPU seconds."""
        self._say(f"send {size} {times} {interval_s}")
        return float(self._answer())

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@contextmanager
def sending() -> Iterator[Sending]:
    """Run the limit's process."""
    command = [sys.executable, "-m", "benchmarks.fanout_stage"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Sending(process)
        finally:
            process.kill()


WORLD = "measured"
OPTIONS = {"turns": 100_000, "payload_bytes": 720}
"""Options for events of 1 KB."""

EVENTS = 3
"""Default number of events of a step, written at once."""

BEAT_S = 2.0
"""Seconds of a beat at the pace ``broadcast``."""

CALM_STEP_S = 0.5
"""Seconds of a step at the pace ``broadcast``."""

QUICK_STEP_S = 0.1
"""Seconds of a step at the pace ``fast``."""

FIRST_CORE = min(os.sched_getaffinity(0))
"""The server's core."""

REST_S = 6.0
"""Seconds over which an idle server is measured."""

FEW = 200
"""Viewers of the smaller server: enough to displace the server's own data from the processor's caches."""

WARM_S = 2.0
"""Seconds of a server's first turn, which is not counted."""

WHOLE = 0.98
"""Least share of steps that were separate writes; below it a row is invalid."""

QUIET_S = 0.15
"""Seconds without arrivals that end a turn."""


class TurnCost(NamedTuple):
    """Cost of a turn to all viewers together.

    Args:
        cpu_s: CPU seconds of the server, all threads, less those of an idle server.
        steps: Steps that a viewer has seen; the last one may be partial.
        writes: Writes to a viewer.
        bytes: Bytes of a step to one viewer.
    """

    cpu_s: float
    steps: float
    writes: float
    bytes: int


class Stage:
    """A server that plays long episodes, with its viewers.

    Args:
        base: Its URL.
        process_id: Its process id.
        viewers: Its viewers.
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
        """Send a control command for the episode."""
        self.client.post(f"/custom/{command}", json=body).raise_for_status()

    def cpu_s(self) -> float:
        """Return the CPU seconds of the server so far, all threads."""
        return time.clock_gettime(self._clock)

    def rss_kb(self) -> int:
        """Return the resident memory of the server."""
        text = Path(f"/proc/{self._process_id}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])

    def rest(self, seconds: float = REST_S) -> None:
        """Measure the CPU time of the server while nothing is played: it pings its viewers."""
        before = self.cpu_s()
        time.sleep(seconds)
        self._resting = (self.cpu_s() - before) / seconds

    def show(self, viewers: int) -> None:
        """Start an episode for ``viewers``, measure its idle cost, and stop the server."""
        self.start(pace="broadcast")
        self.viewers.join(self.port, 1, "/live")
        self.say("pause")
        self.viewers.join(self.port, viewers, "/live")
        self.viewers.settle(1.5)
        self.rest()
        self.say("resume")
        self.turn(WARM_S)

    def turn(self, seconds: float) -> TurnCost:
        """Let the server and its episode run for ``seconds``."""
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
        """Let the server run until the end."""
        os.kill(self._process_id, signal.SIGCONT)

    def _sums(self) -> tuple[int, int, int]:
        viewers = self.viewers
        return sum(viewers.events()), viewers.segments(self.port), viewers.received()


@contextmanager
def stage(
    events: int = EVENTS,
    *,
    step_s: float = CALM_STEP_S,
    fork_server: Sequence[str] = ("benchmarks.fork_server",),
    **settings: str,
) -> Iterator[Stage]:
    """Run a server on the first core; this process moves to the last."""
    cores = sorted(os.sched_getaffinity(0))
    with TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        install_measured_world(Path(folder), events, beats=step_s / BEAT_S)
        server = server_process(settings, python_path=Path(folder), fork_server=fork_server)
        base, process_id = stack.enter_context(server)
        viewers = stack.enter_context(crowd())
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


@contextmanager
def limit() -> Iterator[tuple[Sending, Crowd]]:
    """Run the limit on the server's core, with its own crowd."""
    with sending() as process, crowd() as viewers:
        on_the_servers_core(process.process.pid)
        yield process, viewers


def on_the_servers_core(process_id: int) -> None:
    """Pin all threads of a process to the server's core."""
    for thread in Path(f"/proc/{process_id}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {FIRST_CORE})


if __name__ == "__main__":
    main()

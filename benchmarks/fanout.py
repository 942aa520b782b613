"""Owns the figures of the fan-out to viewers: ``python -m benchmarks fanout``.

The server has one core, the viewers have another; at the same time, on the server's core, a process sends the
same bytes to as many sockets at the same pace and does nothing else. CPU time is each one's own. Each step of
the counting world is one write of three events, the middle one of 1 KB. What the episode itself costs is
measured with one viewer and taken off.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import httpx

from benchmarks.crowd import Crowd, crowd, stall
from benchmarks.figures import Figure, ms, percentile
from benchmarks.sending import Sending, sending
from benchmarks.serving import server_process

ROUNDS = 5
WINDOW_S = 1.5
STEP_S = 0.1
"""How long the pace ``fast`` takes for a step."""

EVENTS = 3
"""Events of a step of the counting world, written at once."""

OPTIONS = {"turns": 100_000, "payload_bytes": 720}
SIZES = (100, 1_000, 2_000, 5_000)
QUICK_VIEWERS = 2_000
"""At ten writes a second: 20,000 deliveries a second."""


class Stage:
    """A server that plays one long episode, with its viewers.

    Args:
        base: Where it is.
        process_id: Its process.
        viewers: Those who watch it.
    """

    def __init__(self, base: str, process_id: int, viewers: Crowd) -> None:
        self.viewers = viewers
        self.port = int(base.rpartition(":")[2])
        self._clock = (~process_id << 3) | 2  # the CPU clock of another process, see clock_getcpuclockid(3)
        self._process_id = process_id
        self.client = httpx.Client(base_url=base, timeout=30)

    def start(self, **body: object) -> None:
        """Start the episode; it is paused until somebody measures."""
        self.client.post("/custom/start_episode", json={"environment": "counting", **body}).raise_for_status()

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

    def window(self, seconds: float = WINDOW_S) -> tuple[float, float, int]:
        """Play for a while: CPU seconds, steps, and bytes of a step."""
        before, bytes_before = self.viewers.events(), self.viewers.received()
        cpu = self.cpu_s()
        self.say("resume")
        time.sleep(seconds)
        self.say("pause")
        self.viewers.settle()
        spent = self.cpu_s() - cpu
        got = [now - then for now, then in zip(self.viewers.events(), before, strict=True)]
        if min(got) != max(got):
            raise RuntimeError(f"viewers received from {min(got)} to {max(got)} events")
        steps = (got[0] - 2) / EVENTS  # paused and resumed are events, too
        return spent, steps, round((self.viewers.received() - bytes_before) / len(got) / steps)


@contextmanager
def stage(**settings: str) -> Iterator[Stage]:
    """A server on the first core, the rest of us on the last."""
    cores = sorted(os.sched_getaffinity(0))
    with server_process(settings) as (base, process_id), crowd() as viewers:
        for thread in Path(f"/proc/{process_id}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {cores[0]})
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(thread.name), {cores[-1]})
        try:
            yield Stage(base, process_id, viewers)
        finally:
            for thread in Path("/proc/self/task").iterdir():
                os.sched_setaffinity(int(thread.name), cores)


@contextmanager
def limit() -> Iterator[tuple[Sending, Crowd]]:
    """The limit on the server's core, with a crowd of its own."""
    here = os.sched_getaffinity(0)
    with sending() as process, crowd() as viewers:
        os.sched_setaffinity(process.process.pid, {0} if 0 in here else {min(here)})
        yield process, viewers


def cpu_per_delivery() -> list[Figure]:
    """CPU of a delivery, and what an idle viewer takes."""
    figures = []
    with stage() as ours, limit() as (bare, bare_viewers):
        ours.start(pace="fast", options=OPTIONS)
        ours.viewers.join(ours.port, 1, "/live")
        ours.say("pause")
        ours.viewers.settle()
        alone = statistics.median([spent / steps for spent, steps, _ in _windows(ours)])
        empty_kb = 0
        for size in SIZES:
            ours.viewers.join(ours.port, size, "/live")
            bare_viewers.join(bare.port, size)
            bare.accept(size)
            ours.viewers.settle(0.5)
            if size == SIZES[1]:  # from here on no memory of the start is left to be used up
                empty_kb = ours.rss_kb()
            figures.append(_rounds(ours, bare, size, alone))
        each_kb = (ours.rss_kb() - empty_kb) / (SIZES[-1] - SIZES[1])
        figures.append(_quick(ours))
    figures.append(
        Figure("memory of an idle viewer, the kernel's left out", f"{each_kb:.1f} KB", "< 20 KB", "-")
    )
    return figures


def _windows(ours: Stage) -> Iterator[tuple[float, float, int]]:
    for _ in range(ROUNDS):
        yield ours.window()


def _rounds(ours: Stage, bare: Sending, size: int, alone: float) -> Figure:
    """Both at the same time on the one core: each step of the one falls between two sends of the other."""
    deliveries, limits, ratios = [], [], []
    times = round(WINDOW_S / STEP_S)
    _, _, step_bytes = ours.window()
    with ThreadPoolExecutor(1) as aside:
        for _ in range(ROUNDS):
            sent = aside.submit(bare.send, step_bytes, times, STEP_S)
            spent, steps, _ = ours.window()
            deliveries.append((spent / steps - alone) / (size - 1))
            limits.append(sent.result() / times / size)
            ratios.append(deliveries[-1] / limits[-1])
    cost, least = statistics.median(deliveries), statistics.median(limits)
    value = (
        f"{1e6 * cost:.1f} us ({1e6 * cost / EVENTS:.1f} us an event), {statistics.median(ratios):.2f} x the "
        f"limit ({min(ratios):.2f} to {max(ratios):.2f})"
    )
    return Figure(
        f"CPU to write a step of three events to one of {size:,} viewers",
        value,
        "<= 1.45 x",
        f"send() loop {1e6 * least:.1f} us",
    )


def _quick(ours: Stage) -> Figure:
    """How long other requests take while everybody is being told, and while nobody is."""
    calm = _answers(ours, 3.0)
    ours.say("pace", pace="broadcast")
    ours.say("resume")
    times = _answers(ours, 8.0)
    ours.say("pause")
    return Figure(
        f"/health while every two seconds {SIZES[-1]:,} viewers are written to",
        f"median {ms(percentile(times, 0.5))}, p99 {ms(percentile(times, 0.99))} of {len(times):,}",
        "p99 < 50 ms",
        f"while paused: median {ms(percentile(calm, 0.5))}, p99 {ms(percentile(calm, 0.99))}",
    )


def _answers(ours: Stage, seconds: float) -> list[float]:
    times = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        ours.client.get("/health").raise_for_status()
        times.append(time.perf_counter() - began)
        time.sleep(0.003)
    return times


def latency() -> Figure:
    """From the stamp of a step's events to their arrival, at 20,000 deliveries a second."""
    with stage() as ours:
        ours.start(pace="fast", options=OPTIONS)
        ours.viewers.join(ours.port, QUICK_VIEWERS, "/live")
        ours.viewers.settle(0.5)
        delays = _delays(ours.viewers.noted(5.0))
    with limit() as (bare, viewers):
        viewers.join(bare.port, QUICK_VIEWERS)
        bare.accept(QUICK_VIEWERS)
        viewers.arrivals = []
        bare.send(2000, 20, STEP_S)
        least = [arrived - float(chunk.split(b" ", 1)[0]) for arrived, chunk in viewers.arrivals]
    return Figure(
        f"event stamped to received, {QUICK_VIEWERS:,} viewers, 20,000 deliveries/s",
        f"median {ms(percentile(delays, 0.5))}, p99 {ms(percentile(delays, 0.99))} of {len(delays):,}",
        "p99 < 50 ms",
        f"send() loop median {ms(percentile(least, 0.5))}, p99 {ms(percentile(least, 0.99))}",
    )


def _delays(arrivals: list[tuple[float, bytes]]) -> list[float]:
    known: dict[bytes, float] = {}
    delays = []
    for arrived, chunk in arrivals:
        _, found, rest = chunk.rpartition(b'"at":"')
        if found and b'"type":' in rest:
            stamp = rest.split(b'"', 1)[0]
            if stamp not in known:
                known[stamp] = datetime.fromisoformat(stamp.decode()).timestamp()
            delays.append(arrived - known[stamp])
    return delays


def stalled(count: int = 10, turns: int = 3_600) -> Figure:
    """What viewers that read nothing cost while 20 MB of events go by."""
    with stage() as ours, contextlib.ExitStack() as stack:
        ours.viewers.join(ours.port, count, "/live")
        calm_kb, _ = _peak(ours, turns)
        calm_kb, calm = _peak(ours, turns)
        for _ in range(count):
            stack.enter_context(stall(ours.port, "/live"))
        peak_kb, disturbed = _peak(ours, turns)
        closed = ours.client.get("/metrics").text.split('spectator_viewers_closed_total{code="4008"} ')[1]
    value = (
        f"+{(peak_kb - calm_kb) / 1024:.1f} MB, {closed.split()[0]} closed with 4008; "
        f"the others have all {disturbed:,} events"
    )
    if calm != disturbed:
        raise RuntimeError(f"with stalled viewers the others received {disturbed} events, not {calm}")
    return Figure(f"{count} stalled viewers, 20 MB of events", value, "<= +12 MB", "-")


def _peak(ours: Stage, turns: int) -> tuple[int, int]:
    """Play an episode of 20 MB at full speed: the most memory meanwhile, and events at each viewer."""
    before = ours.viewers.events()
    ours.start(pace="max", options={"turns": turns, "payload_bytes": 4_700})
    most = 0
    while ours.client.get("/custom/status").json()["running"]:
        most = max(most, ours.rss_kb())
        time.sleep(0.02)
    ours.viewers.settle()
    got = {now - then for now, then in zip(ours.viewers.events(), before, strict=True)}
    if len(got) != 1:
        raise RuntimeError(f"viewers received from {min(got)} to {max(got)} events")
    return most, got.pop()


def measure() -> list[Figure]:
    """All figures of the fan-out."""
    return [*cpu_per_delivery(), latency(), stalled()]

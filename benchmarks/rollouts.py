"""Measure a fleet of rollouts: ``python -m benchmarks rollouts``.

First a call alone, recorded and durable (:mod:`benchmarks.recorded_call`), which has the targets. Then a
whole turn, everything that ``spectator rollouts run`` does for a call: the episode's share of its start and
end, the prompt, the request, the answer, the decision, the world's step, its events, and the durable record
of events and call. Counted is the processor time of the whole process, user and system, all threads, on one
core, as for a worker if there is one per core. In the same run aiohttp with orjson makes the same calls on
asyncio's own loop, the usual setup: it encodes the same bodies, with as many in flight, decodes the same
answers, and records nothing. The endpoint is another process.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import pty
import statistics
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import uvloop

from benchmarks import recorded_call, turns
from benchmarks.endpoint import endpoint
from benchmarks.figures import Figure, spread
from benchmarks.fleets import (
    TURNS,
    CallCost,
    asked,
    bare,
    bare_on_asyncio,
    bodies_of,
    fleet,
    one_core,
    summaries,
)
from spectator.catalog import load_world
from spectator.cli.rollouts_run import collect_rarely
from spectator.cli.rollouts_view import FleetView

ROUNDS = 3
MANY = 512
"""Episodes in flight in the larger measurements."""

WATCHED = 2048
"""Episodes of the run with a live view: 15 s, so that its start matters little."""

LATENCY_S = 0.05


async def cost_of_a_turn(name: str, *, episodes: int, in_flight: int, tokens: bool = False) -> Figure:
    """Measure a whole turn; the fleet and bare aiohttp take turns."""
    ratios, ours, plain = [], [], []
    with endpoint() as port, one_core(), TemporaryDirectory(prefix="spectator-") as kept:
        await fleet(port, Path(kept, "first"), episodes=1, in_flight=1, tokens=tokens)
        bodies = await bodies_of(Path(kept, "first"), tokens=tokens)
        await bare(port, bodies, episodes=in_flight, in_flight=in_flight)
        for number in range(ROUNDS):
            folder = Path(kept, str(number))
            own = await fleet(port, folder, episodes=episodes, in_flight=in_flight, tokens=tokens)
            other = await bare_on_asyncio(port, bodies, episodes=episodes, in_flight=in_flight)
            ours.append(own.us)
            plain.append(other.us)
            ratios.append(own.us / other.us)
    value = f"{spread(ratios)} x: {statistics.median(ours):.0f} us"
    return Figure(name, value, "-", f"aiohttp and orjson {statistics.median(plain):.0f} us")


async def cost_without_a_model() -> Figure:
    """Measure a recorded turn of the same world without a model."""
    found = [
        (await turns.driven("counting", range(1, 17), view="derived", at_once=16)).us for _ in range(ROUNDS)
    ]
    return Figure("of it: a turn of that world without a model", f"{spread(found)} us", "-", "-")


async def many_in_flight() -> list[Figure]:
    """Measure many episodes in flight, at a latency like that of a model."""
    ratios, ours, unfair = [], [], []
    with (
        endpoint(latency_s=LATENCY_S) as port,
        one_core(),
        TemporaryDirectory(prefix="spectator-") as kept,
    ):
        await fleet(port, Path(kept, "first"), episodes=1, in_flight=1)
        bodies = await bodies_of(Path(kept, "first"), tokens=False)
        for number in range(ROUNDS):
            folder = Path(kept, str(number))
            own = await fleet(port, folder, episodes=MANY, in_flight=MANY)
            other = await bare_on_asyncio(port, bodies, episodes=MANY, in_flight=MANY)
            ours.append(own.us)
            ratios.append(own.us / other.us)
            waits = [_took(one.started_at, one.ended_at) for one in await summaries(folder)]
            unfair.append(max(waits) / statistics.median(waits))
    at = f"{MANY} in flight, {1000 * LATENCY_S:.0f} ms latency"
    bound = MANY / LATENCY_S
    return [
        Figure(f"CPU of a whole turn, {at}", f"{spread(ratios)} x: {statistics.median(ours):.0f} us",
               "-", f"aiohttp and orjson {other.us:.0f} us"),
        Figure(f"whole turns a second a core has room for, {at}", f"{1e6 / statistics.median(ours):.0f}",
               "-", f"aiohttp and orjson {1e6 / other.us:.0f}, latency alone {bound:.0f}"),
        Figure(f"longest episode over the median one, {at}", f"{spread(unfair)} x", "none starves", "1 x"),
    ]  # fmt: skip


def _took(began: str, ended: str | None) -> float:
    assert ended is not None
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()


async def grown_records() -> Figure:
    """Compare bytes and writer time of a turn in episodes ten times as long."""
    size: dict[int, list[float]] = {100: [], 1000: []}
    cpu: dict[int, list[float]] = {100: [], 1000: []}
    with endpoint() as port, TemporaryDirectory(prefix="spectator-") as kept:
        for number in range(ROUNDS):
            for length, episodes in ((100, 10), (1000, 1)):
                folder = Path(kept, f"{number}-{length}")
                used, _ = await _with_time_of(
                    "journal-write",
                    lambda length=length, episodes=episodes, folder=folder: fleet(  # type: ignore[misc]
                        port, folder, episodes=episodes, in_flight=1, turns=length
                    ),
                )
                cpu[length].append(1e6 * used / (length * episodes))
                size[length].append((folder / "journal.db").stat().st_size / (length * episodes))
    bytes_ratio = statistics.median(size[1000]) / statistics.median(size[100])
    ratios = [long / short for long, short in zip(cpu[1000], cpu[100], strict=True)]
    return Figure(
        "a recorded turn of 1,000 over one of 100, whole history in each prompt",
        f"bytes {bytes_ratio:.2f} x, CPU of the writer {spread(ratios)} x",
        "<= 1.1 x",
        f"{statistics.median(size[100]):.0f} bytes, {statistics.median(cpu[100]):.0f} us",
    )


async def _with_time_of(name: str, work: Callable[[], Awaitable[CallCost]]) -> tuple[float, CallCost]:
    """Run ``work`` and return the CPU seconds of the threads of a name, and its cost."""
    before = {one.native_id: _time_of(one.native_id) for one in threading.enumerate()}
    used: dict[int | None, float] = {}

    async def watch() -> None:
        while True:
            for one in threading.enumerate():
                if one.name.startswith(name):
                    spent = _time_of(one.native_id) - before.get(one.native_id, 0.0)
                    used[one.native_id] = max(used.get(one.native_id, 0.0), spent)
            await asyncio.sleep(0.02)

    watching = asyncio.get_running_loop().create_task(watch())
    cost = await work()
    watching.cancel()
    return sum(used.values()), cost


def _time_of(thread: int | None) -> float:
    """Return the CPU seconds of a thread; 0.0 once it has ended."""
    try:
        return int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return 0.0


def memory() -> Figure:
    """Measure an episode in flight and a task of bare aiohttp, in separate processes."""
    own = [_in_a_process("memory")["kB"] for _ in range(ROUNDS)]
    other = [_in_a_process("memory of aiohttp")["kB"] for _ in range(ROUNDS)]
    return Figure(
        f"memory of one of {MANY} episodes in flight, up to {TURNS} turns old",
        f"{spread(own)} kB",
        "< 100 kB",
        f"aiohttp and orjson, a task and its connection {spread(other)} kB",
    )


def watching() -> Figure:
    """Compare a run with and without its live view, which has its own thread."""
    found = [_in_a_process("watched") for _ in range(ROUNDS)]
    taken = statistics.median([1000 * one["view_s"] / one["wall_s"] for one in found])
    return Figure(
        "CPU of a run with its live view on over one without",
        f"{spread([one['whole_s'] / (one['whole_s'] - one['view_s']) for one in found])} x",
        "<= 1.03 x",
        f"the view {taken:.1f} ms a second",
    )


def own_share_of_a_turn() -> Figure:
    """Measure a cricket turn inline, without the world and its captain."""

    async def shares() -> list[float]:
        fleet_of = range(1, 17)
        await turns.driven("cricket", [99], view="derived", at_once=1)
        found = []
        for _ in range(ROUNDS):
            played = turns.bare(load_world("cricket"), fleet_of)
            whole = await turns.driven("cricket", fleet_of, view="derived", at_once=16)
            found.append(whole.us - played.us)
        return found

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        own = runner.run(shares())
    return Figure(
        "a cricket turn's own share, inline, scripted captains", f"{spread(own)} us", "<= 150 us", "-"
    )


def measure() -> list[Figure]:
    """Return all figures."""
    collect_rarely()  # as the command does
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(_measure())
    return [*found, memory(), watching(), own_share_of_a_turn()]


async def _measure() -> list[Figure]:
    return [
        *await recorded_call.measure(),
        await cost_of_a_turn("CPU of a whole turn, 64 in flight", episodes=128, in_flight=64),
        await cost_of_a_turn(
            "the same with token ids and log probabilities", episodes=128, in_flight=64, tokens=True
        ),
        await cost_without_a_model(),
        *await many_in_flight(),
        await grown_records(),
    ]


def _resident() -> float:
    """Return the resident memory of this process, kB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1000


async def _most_held(work: Callable[[], Awaitable[Any]]) -> float:
    """Return the peak memory of ``work`` above that before it, kB."""
    gc.collect()
    before = most = _resident()

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, _resident())
            await asyncio.sleep(0.05)

    watching = asyncio.get_running_loop().create_task(watch())
    await work()
    watching.cancel()
    return most - before


async def _memory(*, of_fleet: bool) -> dict[str, float]:
    with endpoint(latency_s=1.0) as slow, endpoint() as fast, TemporaryDirectory(prefix="spectator-") as kept:
        await fleet(fast, Path(kept, "first"), episodes=16, in_flight=16)
        bodies = await bodies_of(Path(kept, "first"), tokens=False)
        await bare(fast, bodies, episodes=16, in_flight=16)
        held = await _most_held(
            lambda: (
                fleet(slow, Path(kept, "held"), episodes=MANY, in_flight=MANY)
                if of_fleet
                else bare(slow, bodies[:3], episodes=MANY, in_flight=MANY)
            )
        )
    return {"kB": held / MANY}


async def _watched() -> dict[str, float]:
    with endpoint() as port, TemporaryDirectory(prefix="spectator-") as kept:
        await fleet(port, Path(kept, "first"), episodes=1, in_flight=1)
        with FleetView(asked(port, WATCHED, TURNS)) as view:
            view_s, cost = await _with_time_of(
                "rollouts-view",
                lambda: fleet(port, Path(kept, "run"), episodes=WATCHED, in_flight=64, on_begin=view.begin),
            )
    return {"view_s": view_s, "whole_s": cost.cpu_s, "wall_s": cost.wall_s}


PASSES: Final[dict[str, Callable[[], Coroutine[Any, Any, dict[str, float]]]]] = {
    "memory": lambda: _memory(of_fleet=True),
    "memory of aiohttp": lambda: _memory(of_fleet=False),
    "watched": _watched,
}


def _in_a_process(name: str) -> dict[str, float]:
    """Measure in a new process whose standard error is a terminal, for the live view."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "benchmarks.rollouts", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        drain = threading.Thread(target=_drain, args=(ours,), daemon=True)
        drain.start()
        output, _ = process.communicate()
    drain.join()
    os.close(ours)
    found: dict[str, float] = json.loads(output)
    return found


def _drain(terminal: int) -> None:
    with suppress(OSError):  # its other end is closed
        while os.read(terminal, 65_536):
            pass


def main() -> None:
    """Run one pass in this process."""
    collect_rarely()  # as the command does
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.stdout.write(json.dumps(runner.run(PASSES[sys.argv[1]]())))


if __name__ == "__main__":
    main()

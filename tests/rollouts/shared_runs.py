"""Runs that several processes play: begun here, played here or by processes that can be killed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from ulid import ULID

from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.journal.contract import EpisodeFilter, EpisodeSummary
from spectator.journal.coordination import FleetRow
from spectator.journal.postgres import is_server, telling
from spectator.journal.sql_journal import SqlJournal
from spectator.rollouts.fleet import FleetReport, Worker, begin_run, play_run
from spectator.rollouts.fleet_plan import Deadlines, FleetPlan, find_rows
from spectator.rollouts.request import RolloutRequest
from spectator.runs.worker_processes import write_lock_holder

NAME = "first"

INTERVAL_S = 0.3
"""Seconds between two heartbeats: others are missed after 1.5 s and not after 10."""

Result = TypeVar("Result")

WORKER = """
import asyncio, logging, pathlib, sys
from tests.rollouts.shared_runs import play
logging.basicConfig(level=logging.WARNING)
begun = {"on_begin": lambda *_: pathlib.Path(sys.argv[4]).touch()} if len(sys.argv) > 4 else {}
report = asyncio.run(play(sys.argv[1], sys.argv[2], int(sys.argv[3]), **begun))
print(report.over, report.total, report.halted, flush=True)
sys.exit(0 if report.over == report.total else 3)
"""


async def at(
    url: str, work: Callable[[Worker], Awaitable[Result]], concurrency: int = 4, **changes: Any
) -> Result:
    """Do ``work`` with a journal that is open meanwhile."""
    journal = await SqlJournal.open(url, shared_as=str(ULID()))
    try:
        settings, clock = {"interval_s": INTERVAL_S, **changes}, SystemClock()
        async with telling(url, clock) if is_server(url) else nullcontext() as recorded:
            if recorded is not None:
                settings["recorded"] = recorded
            return await work(Worker(journal, concurrency, clock, load_world, random.Random(1), **settings))
    finally:
        await journal.aclose()


def begin(url: str, asked: RolloutRequest, name: str = NAME, **more: Any) -> FleetRow:
    """Begin a run; nothing is played."""
    plan = FleetPlan.of(asked, deadlines=Deadlines(startup_jitter_s=0.0), **more)
    return asyncio.run(at(url, lambda worker: begin_run(name, plan, worker)))


async def play(url: str, name: str = NAME, concurrency: int = 4, **changes: Any) -> FleetReport:
    """Play what remains of a run."""

    async def work(worker: Worker) -> FleetReport:
        (row,) = await find_rows(worker.journal, name)
        return await play_run(row, worker)

    return await at(url, work, concurrency, **changes)


def worker(
    url: str, concurrency: int = 6, name: str = NAME, begun: Path | None = None
) -> subprocess.Popen[str]:
    """A process that plays a run; it makes the file ``begun`` once it knows what remains."""
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, url, name, str(concurrency), *([str(begun)] if begun else [])],
        cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def stop(process: subprocess.Popen[str], url: str) -> None:
    """Stop a process, but not within a commit to a file, which would hold all others up."""
    while True:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        if is_server(url) or write_lock_holder(Path(url.removeprefix("sqlite:///"))) != process.pid:
            return
        process.send_signal(signal.SIGCONT)


def summaries(url: str, name: str | None = NAME) -> list[EpisodeSummary]:
    """The episodes of a run."""

    async def read() -> list[EpisodeSummary]:
        journal = await SqlJournal.open(url, writable=False)
        try:
            return await journal.episodes(EpisodeFilter(run_id=name, limit=1000))
        finally:
            await journal.aclose()

    return asyncio.run(read())


@contextmanager
def open_leases(url: str) -> Iterator[Callable[[], list[tuple[str, str]]]]:
    """Reads which episodes are leased, each with its owner, as often as it is called."""
    with asyncio.Runner() as runner:
        journal = runner.run(SqlJournal.open(url, writable=False))
        try:
            yield lambda: [(one.episode_id, one.owner) for one in runner.run(journal.leases())]
        finally:
            runner.run(journal.aclose())


def held(url: str) -> list[tuple[str, str]]:
    """The episodes that are leased now, each with its owner."""
    with open_leases(url) as leased:
        return leased()


def types(url: str, *episode_ids: str) -> dict[str, list[str]]:
    """The types of the events of episodes, by episode."""

    async def read() -> dict[str, list[str]]:
        journal = await SqlJournal.open(url, writable=False)
        try:
            return {one: [event.type for event in await journal.read(one)] for one in episode_ids}
        finally:
            await journal.aclose()

    return asyncio.run(read())


OF_THE_PROCESS = ("episode.recovered",)
"""What says that another process played on, and nothing of what was played."""

TIMES = ("at", "latency_s", "duration_s", "exchanges")


def digests(url: str, name: str = NAME) -> dict[str, str]:
    """By group and member's seed, a digest of all that was played, but for times and who played."""

    async def read() -> dict[str, str]:
        journal = await SqlJournal.open(url, writable=False)
        found: dict[str, list[str]] = {}
        try:
            for summary in await journal.episodes(EpisodeFilter(run_id=name, limit=1000)):
                told = hashlib.sha256()
                for one in await journal.read(summary.episode_id):
                    if one.type not in OF_THE_PROCESS:
                        told.update(_played(one.event.type, one.event.turn, one.event.data))
                calls = [call async for call in journal.calls(summary.episode_id)]
                told.update(repr([(call.call.messages, call.call.reply) for call in calls]).encode())
                found.setdefault(str(summary.group_id), []).append(told.hexdigest())
        finally:
            await journal.aclose()
        return {group: " ".join(sorted(of_group)) for group, of_group in found.items()}

    return asyncio.run(read())


def _played(kind: str, turn: int, data: Any) -> bytes:
    return json.dumps([kind, turn, _untimed(data)], sort_keys=True).encode()


def _untimed(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _untimed(value) for name, value in data.items() if name not in TIMES}
    return [_untimed(one) for one in data] if isinstance(data, list) else data

"""Playing episodes in processes of their own: handed over whole, recorded by the process that asked."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import connection, get_context, parent_process

from spectator.catalog import LoadWorld, load_world
from spectator.clock import SystemClock
from spectator.errors import EpisodeError, SpectatorError
from spectator.events import RecordedEvent, decode
from spectator.journal.contract import Attachments
from spectator.policies.spending import Caps, SpendLedger
from spectator.runs.in_memory import EpisodeInMemory
from spectator.runs.jobs import Job, job_plan
from spectator.runs.playing import Venue, play_here
from spectator.steppers.local import inline

MakeWorlds = Callable[[], LoadWorld]
"""Makes, in any process, what finds worlds with everybody who plays in them; a function of a module."""


def plain_worlds() -> LoadWorld:
    """The worlds of the catalogue, with the captains that they bring themselves."""
    return load_world


@dataclass(frozen=True, slots=True)
class Order:
    """An episode for another process.

    Args:
        job: What is played.
        episode_id: Its id.
        attempt: Number of the attempt.
        run_id: The run that it is played for, if that has a name.
        worlds: Makes what finds the job's world there.
    """

    job: Job
    episode_id: str
    attempt: int = 1
    run_id: str | None = None
    worlds: MakeWorlds = plain_worlds


async def play_in(pool: ProcessPoolExecutor, order: Order) -> tuple[list[RecordedEvent], Attachments]:
    """Play an episode in one of the processes of ``pool``; its events, in order, and what belongs to them.

    Args:
        pool: The processes.
        order: What is played.

    Raises:
        EpisodeError: It could not be played, or the process died.
    """
    playing = asyncio.get_running_loop().run_in_executor(pool, play_apart, order)
    try:
        texts, attachments = await playing
    except BrokenProcessPool as error:
        raise EpisodeError(
            "a process that played episodes died; nothing is lost: run the same command again"
        ) from error
    return [decode(text) for text in texts], attachments


def play_apart(order: Order) -> tuple[list[str], Attachments]:
    """Play an episode without a journal; its events' texts, in order, and what belongs to them.

    Raises:
        EpisodeError: It could not be played; the only error, since others do not travel between processes.
    """
    gathered = EpisodeInMemory()
    try:
        asyncio.run(_play_apart(order, gathered))
    except (SpectatorError, LookupError) as error:
        raise EpisodeError(f"{order.episode_id} could not be played: {error}") from None
    return gathered.texts, Attachments(gathered.calls, gathered.truth)


async def _play_apart(order: Order, gathered: EpisodeInMemory) -> None:
    clock, load = SystemClock(), _loader(order.worlds)
    venue = Venue(gathered, clock, load, SpendLedger(Caps(), Caps(), clock), open_stepper=inline)  # type: ignore[arg-type]
    plan = job_plan(order.job, load(order.job.environment), order.attempt, order.run_id)
    await play_here(plan, order.episode_id, venue)


@lru_cache(maxsize=4)
def _loader(worlds: MakeWorlds) -> LoadWorld:
    """What ``worlds`` makes, once a process."""
    return worlds()


@asynccontextmanager
async def processes(count: int) -> AsyncIterator[ProcessPoolExecutor | None]:
    """A pool whose processes end with this one, however it ends; ``None`` for none."""
    if not count:
        yield None
        return
    pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_follow_parent)
    try:
        yield pool
    finally:
        await asyncio.to_thread(pool.shutdown, cancel_futures=True)


def _follow_parent() -> None:
    """Let this process end with the one that started it, however that ends; a pool's initializer.

    An interrupt from the keyboard goes to all of them; the one that started it sees to an orderly end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)

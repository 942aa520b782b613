"""The crew of a run: keeps so many workers at work, replaces those that die, and deposes those that stall."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final

from spectator.clock import Clock, first_of
from spectator.rollouts.workers.desk import Desk
from spectator.rollouts.workers.launching import Launched, Launcher
from spectator.rollouts.workers.link import WorkerLink
from spectator.rollouts.workers.members import Member
from spectator.rollouts.workers.wire import BEAT_S, WorkerSetup

logger = logging.getLogger(__name__)

LEASE_S: Final = 10.0
"""Seconds without a word of a worker after which its episodes are given to others.

A worker says something four times a second, even while an environment computes; so one that is silent stands
still as a whole: it was stopped, its machine sleeps, or the network to it is gone.
"""

START_S: Final = 120.0
"""Seconds that a worker may take to say its first word, on a machine that does much else."""

RENEWED: Final = 4
"""Looks at the workers between two notes in the journal that they were heard of."""

PAUSE_S: Final = 0.2
"""Seconds before a worker is replaced, for each that went away in a row while nothing got any further."""

LONGEST_PAUSE_S: Final = 5.0


class Crew:
    """Workers at work for one desk.

    Args:
        desk: Gives out what they play.
        launcher: Starts them.
        size: Workers at once, at least 1.
        setup: What each is told first, but for what was spent until then.
        clock: Time.
        lease_s: See :data:`LEASE_S`.
    """

    def __init__(
        self, desk: Desk, launcher: Launcher, size: int, setup: WorkerSetup, clock: Clock, lease_s: float
    ) -> None:
        self._desk = desk
        self._launcher = launcher
        self._size = size
        self._setup = setup
        self._clock = clock
        self._lease_s = lease_s
        self._links: dict[WorkerLink, Member] = {}
        self._named = 0
        self._tasks: asyncio.TaskGroup

    async def run(self) -> None:
        """Keep workers at work until there is nothing more to give out.

        Raises:
            SpectatorError: A worker cannot be started; in a group.
        """
        async with asyncio.TaskGroup() as self._tasks:
            watching = self._tasks.create_task(self._watch())
            serving = self._tasks.create_task(self._desk.serve())
            places = [self._tasks.create_task(self._keep()) for _ in range(self._size)]
            await asyncio.wait([serving, *places])
            watching.cancel()

    async def _keep(self) -> None:
        """Keep one worker at work, one after another."""
        while True:
            await self._clock.sleep(min(LONGEST_PAUSE_S, PAUSE_S * self._desk.barren))
            if self._desk.finished:  # perhaps since the pause began
                return
            self._named += 1
            await self._employ(f"w-{self._named}")

    async def _employ(self, name: str) -> None:
        """Start a worker, and stay until it is gone or deposed."""
        link = WorkerLink(name, self._clock, lambda message: self._desk.take(member, message))
        member = self._desk.join(name, link.send)
        today, whole = self._desk.spent
        answered = self._setup.answered or self._desk.state.own > 0
        link.send(replace(self._setup, today=today, whole=whole, answered=answered))
        try:
            worker = await self._launcher.launch(link)
        except BaseException:
            link.close()
            raise
        logger.info("worker %s is %s", name, worker.told)
        self._links[link] = member
        try:
            await first_of(link.lost.wait(), link.silent.wait())
        except BaseException:
            await _dismiss(worker, link)
            raise
        finally:
            del self._links[link]
        self._tasks.create_task(_dismiss(worker, link))
        await self._desk.leave(member, "died" if link.lost.is_set() else "stalls")

    async def _watch(self) -> None:
        """Find out who has been silent for too long."""
        looks, last_s = 0, self._clock.monotonic()
        while True:
            await self._clock.sleep(BEAT_S)
            looks += 1
            now = self._clock.monotonic()
            late_s, last_s = now - last_s - BEAT_S, now
            if late_s < self._lease_s / 2:  # else we stood still ourselves, and what they said still waits
                self._find_silent(now)
            self._desk.tell_spending()
            self._desk.note_shortage()
            if looks % RENEWED == 0:
                await self._desk.renew()

    def _find_silent(self, now: float) -> None:
        for link in self._links:
            patience_s = self._lease_s if link.spoke else max(START_S, self._lease_s)
            if now - link.heard_s > patience_s and not link.silent.is_set():
                logger.error("worker %s stalls: not a word in %.1f s", link.name, now - link.heard_s)
                link.silent.set()


async def _dismiss(worker: Launched, link: WorkerLink) -> None:
    try:
        await worker.stop()
    finally:
        link.close()

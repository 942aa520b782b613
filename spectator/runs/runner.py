"""Playing what a run owes: many episodes at once, until all are over or the run is halted.

An episode is in the journal whole or not at all when it is played in a process of its own, and turn by turn
when it is played here (captains that wait for an endpoint); what was left unfinished there is played on. So a
run that is killed at any moment owes exactly what is not in its journal, and finds that out from the ids.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

from spectator.episodes.plan import EpisodePlan
from spectator.errors import JournalError, failure_of_end
from spectator.events import RecordedEvent
from spectator.runs.affording import Purchases
from spectator.runs.halting import Halt
from spectator.runs.jobs import RunPlan, job_plan
from spectator.runs.owed import Attempt, next_attempt
from spectator.runs.playing import Venue, play_here, resume
from spectator.runs.workers import MakeWorlds, Order, plain_worlds, play_in, processes

logger = logging.getLogger(__name__)

Over = Callable[[Attempt, Sequence[RecordedEvent]], Awaitable[None]]
"""Called with each attempt that counts for its job, and its whole record, as soon as it is over."""


class Runner:
    """Plays the episodes that a run owes.

    Args:
        run: The run.
        venue: What its episodes are played with in this process.
        halt: Halts it.
        over: Hears of each job that is over.
        worlds: Makes what finds worlds in another process; the plain catalogue when left out.
    """

    def __init__(
        self, run: RunPlan, venue: Venue, halt: Halt, over: Over, *, worlds: MakeWorlds | None = None
    ) -> None:
        self._run = run
        self._venue = venue
        self._halt = halt
        self._over = over
        self._worlds = worlds
        self._purchases = Purchases(venue.ledger)

    async def play(self, owed: Sequence[Attempt], jobs: int) -> None:
        """Play ``owed``, at most ``jobs`` at once here and as many in other processes, unless it is halted.

        Raises:
            EpisodeError: An episode could not be played or recorded; in an exception group.
        """
        here: list[Attempt] = []
        apart: list[Attempt] = []
        for one in owed:
            (here if one.begun or self._stays(one) else apart).append(one)
        async with processes(jobs if apart else 0) as pool, asyncio.TaskGroup() as tasks:
            lanes = {
                tasks.create_task(self._lane(following, where))
                for where, attempts in ((None, here), (pool, apart))
                for following in [iter(attempts)]
                for _ in range(min(jobs, len(attempts)))
            }
            halted = tasks.create_task(self._halt.wait())
            while lanes and not halted.done():
                await asyncio.wait({halted, *lanes}, return_when=asyncio.FIRST_COMPLETED)
                lanes = {lane for lane in lanes if not lane.done()}
            for task in (halted, *lanes):
                task.cancel()

    async def _lane(self, attempts: Iterable[Attempt], pool: ProcessPoolExecutor | None) -> None:
        for first in attempts:
            due: Attempt | None = first
            while due is not None:
                plan = self._plan(due)
                if not any(plan.preset(actor).costs_money for actor in plan.world.actors):
                    due = await self._settle(due, await self._record_of(due, pool))
                    continue
                if (refusal := await self._purchases.begin(begun=due.begun)) is not None:
                    return self._halt.because(refusal)
                recorded: Sequence[RecordedEvent] = ()
                try:
                    recorded = await self._record_of(due, pool)
                finally:
                    await self._purchases.end(recorded)
                due = await self._settle(due, recorded)

    async def _settle(self, attempt: Attempt, recorded: Sequence[RecordedEvent]) -> Attempt | None:
        """What is due after an attempt; ``None`` when nothing is."""
        last = recorded[-1].event
        if last.type != "episode.ended":
            return None  # suspended: it stays owed
        failure_class = failure_of_end(last.data)
        reaction = self._run.policy.after(failure_class, attempt.attempt)
        if reaction == "halt":
            self._halt.because(f"{attempt.episode_id} failed: {failure_class}: {last.data['detail']}")
            return None
        if reaction == "retry":
            logger.warning("%s is tried again: %s", attempt.episode_id, failure_class)
            return next_attempt(self._run, attempt)
        await self._over(attempt, recorded)
        return None

    async def _record_of(self, attempt: Attempt, pool: ProcessPoolExecutor | None) -> Sequence[RecordedEvent]:
        """Play one attempt, or play it on; its whole record."""
        journal = self._venue.journal
        if attempt.begun:
            await resume(attempt.episode_id, self._venue)
        elif pool is None:
            await play_here(self._plan(attempt), attempt.episode_id, self._venue)
        else:
            job, worlds = self._run.jobs[attempt.number], self._worlds or plain_worlds
            order = Order(job, attempt.episode_id, attempt.attempt, self._run.run_id, worlds)
            recorded, attachments = await play_in(pool, order)
            await journal.append(recorded, attachments=attachments or None)
            return recorded
        recorded = await journal.read(attempt.episode_id, checked=False)
        if not recorded:
            raise JournalError(f"there is no record of {attempt.episode_id}")
        return recorded

    def _plan(self, attempt: Attempt) -> EpisodePlan:
        job = self._run.jobs[attempt.number]
        return job_plan(job, self._venue.load(job.environment), attempt.attempt, self._run.run_id)

    def _stays(self, attempt: Attempt) -> bool:
        """Whether it is played here.

        Where a captain waits for an endpoint, or where it or the world is known to this process alone.
        """
        plan = self._plan(attempt)
        presets = [plan.preset(actor) for actor in plan.world.actors]
        if any(preset.source in ("model", "human") for preset in presets):
            return True
        if self._worlds is not None:
            return False
        plain = plain_worlds()(plan.world.name)
        known = (*plain.captains.values(), *plain.opponents.values())
        return plan.world.environment is not plain.environment or any(one not in known for one in presets)

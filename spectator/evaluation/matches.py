"""Plays single matches of an evaluation, and measures those that are over."""

from __future__ import annotations

import asyncio

from spectator.catalog import load_world
from spectator.clock import Clock
from spectator.environments.world import World
from spectator.episodes.recorded_calls import spent_in
from spectator.errors import JournalError, SpectatorError
from spectator.evaluation.figures import EpisodeFigures, figures_of
from spectator.evaluation.match_budget import MatchBudget
from spectator.evaluation.store import FigureStore
from spectator.journal.contract import EpisodeLog
from spectator.policies.policy import Preset
from spectator.policies.spending import SpendLedger
from spectator.runs.actors import ActorHandle
from spectator.runs.halting import Halt, HaltingRule
from spectator.runs.in_flight import InFlight
from spectator.runs.jobs import Job, RunPlan
from spectator.runs.lease_pool import Handle, Result
from spectator.runs.owed import Attempt
from spectator.runs.playing import Venue, play_here, resume
from spectator.runs.scheduler import result_of
from spectator.steppers.local import on_a_thread, preferred_stepper


class MatchPlayer:
    """Plays attempts at the matches of an evaluation; see :class:`~spectator.runs.lease_pool.AttemptPlayer`.

    Args:
        run: The matches.
        world: What is played.
        log: Where they are recorded.
        clock: Time.
        ledger: What asking models may take.
        store: Keeps the figures of those that are over.
    """

    def __init__(
        self,
        run: RunPlan,
        world: World,
        log: EpisodeLog,
        clock: Clock,
        ledger: SpendLedger,
        store: FigureStore,
    ) -> None:
        self._run = run
        self._world = world
        self._log = log
        self._clock = clock
        self._store = store
        self._budget = MatchBudget(ledger)
        self.halt = Halt(ledger)

    async def open(self, attempt: Attempt) -> Handle:
        """Open the environment of an attempt, on a thread where it is resumed: that replays all of it."""
        job, world, episode_id = self._run.jobs[attempt.number], self._world, attempt.episode_id
        if attempt.begun:
            stepper = on_a_thread(world, episode_id)
        else:
            stepper = preferred_stepper(world, episode_id, job.options)
        return ActorHandle(
            world.name, episode_id, job.group, "inproc", None, stepper, attempt, attempt.attempt
        )

    async def play(self, handle: Handle, flight: InFlight) -> Result:
        """Play an attempt, from its beginning or from where its record stops."""
        attempt, job = handle.job, self._run.jobs[handle.job.number]
        presets = _presets(job, self._world)
        if not any(preset.costs_money for preset in presets):
            return await self._played(handle)
        if (refusal := await self._budget.begin(begun=attempt.begun)) is not None:
            self.halt.because(refusal)
            return result_of(attempt, handle.group_id, None)
        spent = None
        try:
            result = await self._played(handle)
            if result.end_reason is not None:
                spent = spent_in(await self._log.read(attempt.episode_id, checked=False))
        finally:
            await self._budget.end(spent)
        return result

    async def _played(self, handle: Handle) -> Result:
        attempt = handle.job
        venue = Venue(
            self._log,
            self._clock,
            lambda name: self._world,
            self.halt.ledger,
            lambda plan: HaltingRule(plan, self.halt),
            lambda world, episode_id: handle.stepper,
        )
        if attempt.begun:
            ended = await resume(await self._log.read(attempt.episode_id, checked=False), venue)
        else:
            plan = self._run.plan(self._run.jobs[attempt.number], attempt.attempt, self._world)
            ended = await play_here(plan, attempt.episode_id, venue)
        result = result_of(attempt, handle.group_id, ended)
        if ended is not None and self._run.policy.after(result.failure_class, attempt.attempt) == "keep":
            await measure(attempt.episode_id, self._log, self._store)
        return result


async def measure(episode_id: str, journal: EpisodeLog, store: FigureStore) -> EpisodeFigures:
    """Measure a match that is over, and keep its figures.

    Raises:
        JournalError: Its record cannot be read, or has no end; or the figures cannot be kept.
    """
    figures = figures_of(await journal.read(episode_id))
    if figures is None:
        raise JournalError(f"the record of {episode_id} has no end")
    await asyncio.to_thread(store.save, [figures])
    return figures


def plays_anywhere(job: Job, world: World) -> bool:
    """Whether any process can play a match: its captains wait for nothing, and are those of the catalogue.

    Args:
        job: The match.
        world: Its world in this process.
    """
    presets = _presets(job, world)
    if any(preset.source in ("model", "human") for preset in presets):
        return False
    try:
        plain = load_world(job.environment)
    except SpectatorError:
        return False
    known = (*plain.captains.values(), *plain.opponents.values())
    return world.environment is plain.environment and all(one in known for one in presets)


def _presets(job: Job, world: World) -> list[Preset]:
    """Who plays a match."""
    opponents = {**world.captains, **world.opponents}
    return [world.captains[job.captain], *([] if job.opponent is None else [opponents[job.opponent]])]

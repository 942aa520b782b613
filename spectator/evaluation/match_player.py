"""Play one match of an evaluation within its budget, and measure it."""

from __future__ import annotations

import asyncio

from spectator.catalog import load_world
from spectator.clock import Clock
from spectator.environments.world import World
from spectator.episodes.recorded_calls import spent_in
from spectator.errors import JournalError, SpectatorError
from spectator.evaluation.figure_store import FigureStore
from spectator.evaluation.figures import EpisodeFigures, recorded_figures
from spectator.journal.contract import EpisodeLog
from spectator.policies.policy import Preset
from spectator.policies.spending import SpendLedger, Spent
from spectator.runs.actors import ActorHandle
from spectator.runs.attempts import EpisodeSetup, Halt, HaltingRule, play_episode, resume
from spectator.runs.interactor import InFlight
from spectator.runs.run_plan import Attempt, Job, RunPlan
from spectator.runs.scheduler import Handle, Result, result_of
from spectator.steppers.local import on_a_thread, preferred_stepper


class MatchBudget:
    """Admits a match with paid models only if the remaining budget covers all matches in progress.

    A match is expected to cost the mean of the finished ones; until one has finished, matches are played one
    at a time. Only the cap of the whole evaluation is considered: without one, every match may start.

    Args:
        ledger: Caps and usage.
        finished: Paid matches that finished before, which made the ledger's usage so far.
    """

    def __init__(self, ledger: SpendLedger, finished: int = 0) -> None:
        self._ledger = ledger
        self._changed = asyncio.Condition()
        self._playing = 0
        self._ended = finished
        self._spent = ledger.whole if finished else Spent()

    async def begin(self, *, begun: bool) -> str | None:
        """Wait until a match may start or resume.

        Args:
            begun: Whether it was started before, so that part of its cost is already spent.

        Returns:
            ``None`` if it may start, or why no match may start any more.
        """
        async with self._changed:
            while True:
                refusal = self._ledger.refusal() and await self._ledger.reserve()
                if refusal is not None:
                    return refusal
                if self._may_begin(begun):
                    self._playing += 1
                    return None
                if not self._playing:
                    return (
                        "the remaining budget would not finish an episode: "
                        f"{self._ended} took {self._shown()} each"
                    )
                await self._changed.wait()

    async def end(self, spent: Spent | None) -> None:
        """Record that a match stopped.

        Args:
            spent: What the match cost in all; ``None`` if it has not ended.
        """
        async with self._changed:
            self._playing -= 1
            if spent is not None:
                self._ended += 1
                self._spent += spent
            self._changed.notify_all()

    def _may_begin(self, begun: bool) -> bool:
        if not self._ledger.limits_whole:
            return True
        if not self._ended or begun:
            return not self._playing
        return self._ledger.affords(self._mean.times(self._playing + 1))

    @property
    def _mean(self) -> Spent:
        return self._spent.times(1 / max(1, self._ended))

    def _shown(self) -> str:
        mean = self._mean
        money = f" and US${mean.cost:.4g}" if mean.cost else ""
        return f"{mean.tokens:,} tokens{money}"


class MatchPlayer:
    """Plays the matches of an evaluation; an :class:`~spectator.runs.scheduler.AttemptPlayer`.

    Args:
        run: The matches.
        ledger: Caps and usage of models.
        store: Keeps the figures of finished matches.
        finished: Paid matches that finished before.
    """

    def __init__(
        self,
        run: RunPlan,
        world: World,
        log: EpisodeLog,
        clock: Clock,
        ledger: SpendLedger,
        store: FigureStore,
        finished: int = 0,
    ) -> None:
        self._run = run
        self._world = world
        self._log = log
        self._clock = clock
        self._store = store
        self._budget = MatchBudget(ledger, finished)
        self.halt = Halt(ledger)

    async def open(self, attempt: Attempt) -> Handle:
        """Open the environment of an attempt; on a thread if it is resumed, which replays it."""
        job, world, episode_id = self._run.jobs[attempt.number], self._world, attempt.episode_id
        if attempt.begun:
            stepper = on_a_thread(world, episode_id)
        else:
            stepper = preferred_stepper(world, episode_id, job.options)
        return ActorHandle(
            world.name, episode_id, job.group, "inproc", None, stepper, attempt, attempt.attempt
        )

    async def play(self, handle: Handle, flight: InFlight) -> Result:
        """Play an attempt from its start, or from the end of its record."""
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
        setup = EpisodeSetup(
            self._log,
            self._clock,
            lambda name: self._world,
            self.halt.ledger,
            lambda plan: HaltingRule(plan, self.halt),
            lambda world, episode_id: handle.stepper,
        )
        if attempt.begun:
            ended = await resume(await self._log.read(attempt.episode_id, checked=False), setup)
        else:
            plan = self._run.plan(self._run.jobs[attempt.number], attempt.attempt, self._world)
            ended = await play_episode(plan, attempt.episode_id, setup)
        result = result_of(attempt, handle.group_id, ended)
        if ended is not None and self._run.policy.after(result.failure_class, attempt.attempt) == "keep":
            await measure(attempt.episode_id, self._log, self._store)
        return result


async def measure(episode_id: str, journal: EpisodeLog, store: FigureStore) -> EpisodeFigures:
    """Measure a finished match, and store its figures.

    Raises:
        JournalError: Its record is unreadable or has no end, or the figures cannot be stored.
    """
    figures = await recorded_figures(journal, episode_id)
    if figures is None:
        raise JournalError(f"the record of {episode_id} has no end")
    await asyncio.to_thread(store.save, [figures])
    return figures


def plays_anywhere(job: Job, world: World) -> bool:
    """Whether any process can play a match: all captains are scripted and in the catalogue.

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
    opponents = {**world.captains, **world.opponents}
    return [world.captains[job.captain], *([] if job.opponent is None else [opponents[job.opponent]])]

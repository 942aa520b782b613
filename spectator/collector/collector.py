"""Collect episodes that a model in this process plays, with each step's prompt."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from tempfile import TemporaryDirectory
from typing import Any, Final

from spectator.catalog import LoadWorld, load_world, world_names
from spectator.clock import Clock, SystemClock
from spectator.collector.generation import (
    GenerateBatchFn,
    GenerateFn,
    GeneratingEndpoint,
    ModelThread,
    PromptFn,
    one_by_one,
)
from spectator.collector.recording import Seen, record_of, steps_of
from spectator.collector.records import EpisodeRecord
from spectator.core_events import CALLS_BEHIND
from spectator.environments.contract import Environment, Stepped, Stepper
from spectator.environments.world import World
from spectator.episodes.controls import EpisodeLimits, Pace
from spectator.episodes.plan import EpisodePlan, EpisodeRequest, plan_episode
from spectator.errors import ConfigurationError, EpisodeError
from spectator.events import Event, encode_json, record
from spectator.journal.contract import Attachments, Journal
from spectator.journal.sql_journal import SqlJournal
from spectator.model_calls import ModelCall
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.policies.model import ModelPolicy
from spectator.policies.model_settings import ModelSettings
from spectator.policies.policy import Action, Policy, Preset, ScriptedPolicy
from spectator.policies.spending import Caps, SpendLedger
from spectator.runs.actors import ActorHandle
from spectator.runs.attempts import AgentRule, EpisodeSetup, Halt, play_episode
from spectator.runs.interactor import InFlight, RunState
from spectator.runs.leased_log import LeasedLog
from spectator.runs.run_plan import Attempt, FailurePolicy, Job, RunPlan
from spectator.runs.scheduler import Handle, Result, Scheduler, result_of
from spectator.steppers.local import inline

ACTOR: Final = "collector"
"""Name of the preset in the agent's seat."""

ANSWER_S: Final = 600.0
"""Default seconds that an answer of the model may take."""

KEEP_ALL: Final = FailurePolicy(retry=frozenset(), halt=frozenset())
"""Play each episode once, and keep it however it ends."""


@dataclass(frozen=True, slots=True)
class CollectTask:
    """One episode to collect.

    Args:
        seed: Its seed, 0 .. 2**53 - 1.
        scenario: The world's option ``scenario``; ``None`` omits it.
        difficulty: The world's option ``difficulty``; ``None`` omits it.
        group: Name of the group of one task within which it is compared; ``None`` for none.
    """

    seed: int
    scenario: str | None = None
    difficulty: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class CollectedEpisode:
    """A collected episode, with its events, its hidden truth and its model calls.

    Args:
        record: The episode.
        events: The episode as events, for viewers, replays and exports.
        truth: The hidden truth; empty if the world hides nothing or the episode did not finish.
        calls: The calls to the model behind each decision, in order.
    """

    record: EpisodeRecord
    events: Sequence[Event]
    truth: Mapping[str, Any]
    calls: Sequence[Sequence[ModelCall]] = ()


def collect_episode(
    env: str | World | Environment,
    seed: int,
    scenario: str | None,
    difficulty: str | None,
    prompt_fn: PromptFn,
    generate_fn: GenerateFn,
    config: Any = None,
    max_steps: int | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    model: str = "model",
    answer_s: float = ANSWER_S,
    invalid: InvalidAnswers | None = None,
    load: LoadWorld = load_world,
    clock: Clock | None = None,
) -> CollectedEpisode:
    """Play one episode with ``generate_fn`` and keep every step.

    If ``generate_fn`` fails twice or takes too long, or the environment fails, the episode ends without a
    verdict. With ``on_invalid="fallback"`` the world's default captain decides in place of any failed answer;
    its decisions are labelled and its reward is counted separately. In a running event loop, await
    :func:`collect_episodes` instead.

    Args:
        env: The world, by its name or itself, or an environment of a world in the catalogue.
        seed: Its seed, 0 .. 2**53 - 1.
        scenario: The world's option ``scenario``; ``None`` omits it.
        difficulty: The world's option ``difficulty``; ``None`` omits it.
        prompt_fn: Renders the conversation.
        generate_fn: Continues it.
        config: Passed to ``generate_fn`` unchanged.
        max_steps: Actions after which the episode is truncated, at least 1; ``None`` for the world's own cap.
        options: Further options of the world.
        model: The model's name, for the record.
        answer_s: Seconds that an answer may take.
        invalid: What an answer that is not an action does; if omitted, it is asked for again, then penalised.
        load: Finds the world.
        clock: Time; the system's if omitted.

    Raises:
        InvalidRequest: An option or the seed is invalid.
        ConfigurationError: ``max_steps`` is less than 1, or ``env`` belongs to no world of the catalogue.
    """
    (collected,) = asyncio.run(
        collect_episodes(
            env if isinstance(env, str | World) else _world_around(env, load),
            [CollectTask(seed, scenario, difficulty)],
            prompt_fn,
            one_by_one(generate_fn),
            config,
            max_steps,
            concurrency=1, options=options, model=model, answer_s=answer_s, invalid=invalid, load=load,
            clock=clock,
        )
    )  # fmt: skip
    return collected


async def collect_episodes(
    env: str | World,
    tasks: Iterable[CollectTask],
    prompt_fn: PromptFn,
    generate_batch_fn: GenerateBatchFn,
    config: Any = None,
    max_steps: int | None = None,
    *,
    concurrency: int = 16,
    on_collected: Callable[[CollectedEpisode], None] = lambda collected: None,
    options: Mapping[str, Any] | None = None,
    model: str = "model",
    answer_s: float = ANSWER_S,
    invalid: InvalidAnswers | None = None,
    load: LoadWorld = load_world,
    clock: Clock | None = None,
) -> list[CollectedEpisode]:
    """Play episodes concurrently, and ask the model for several answers in one call.

    Args:
        env: The world, by its name or itself.
        tasks: The episodes to collect.
        prompt_fn: Renders a conversation.
        generate_batch_fn: Continues several; called with at most ``concurrency`` prompts.
        config: Passed to ``generate_batch_fn`` unchanged.
        max_steps: As for :func:`collect_episode`.
        concurrency: Episodes at once, at least 1.
        on_collected: Called with each episode as soon as it is over, to save or count it.
        options: Further options of the world.
        model: The model's name, for the record.
        answer_s: Seconds that an answer may take.
        invalid: What an answer that is not an action does; if omitted, it is asked for again, then penalised.
        load: Finds the world.
        clock: Time; the system's if omitted.

    Returns:
        The episodes in the order of their tasks.

    Raises:
        InvalidRequest: An option or a seed is invalid.
        ConfigurationError: ``max_steps`` or ``concurrency`` is less than 1, or ``answer_s`` is not positive.
        EpisodeError: An episode could not be played or recorded.
    """
    _check_figures(max_steps, concurrency, answer_s)
    thread = ModelThread(generate_batch_fn, config, answer_s=answer_s, largest=concurrency)
    clock, invalid = clock or SystemClock(), invalid or InvalidAnswers()
    world = load(env) if isinstance(env, str) else env
    seat = _Seat(world, prompt_fn, thread, config, max_steps, model, answer_s, clock, invalid)
    plans = [seat.plan(task, options or {}) for task in tasks]
    try:
        return await _play(seat, plans, concurrency, on_collected)
    finally:
        thread.close()


def _world_around(environment: Environment, load: LoadWorld) -> World:
    """Return the world of ``environment``, which plays in this very object.

    Raises:
        ConfigurationError: No world of the catalogue has such environments.
    """
    for world in map(load, world_names()):
        if isinstance(world.environment, type) and isinstance(environment, world.environment):
            return replace(world, environment=lambda: environment)
    raise ConfigurationError(
        f"{type(environment).__name__} is not the environment of a world in the catalogue; pass its World"
    )


async def _play(
    seat: _Seat,
    plans: Sequence[EpisodePlan],
    concurrency: int,
    on_collected: Callable[[CollectedEpisode], None],
) -> list[CollectedEpisode]:
    """Play the planned episodes; returns them in the order of their plans.

    Raises:
        EpisodeError: One could not be played or recorded.
    """
    clock = seat.clock
    jobs = [Job.of(plan, group=plan.group_id, member=number) for number, plan in enumerate(plans)]
    run = RunPlan(jobs, int(clock.now().timestamp() * 1000), policy=KEEP_ALL)
    async with _journal() as journal:
        log = LeasedLog(journal, clock, 0.0)
        player = _Collector(seat, run, log, journal)
        scheduler = Scheduler(
            run, journal, log, player, clock, random.SystemRandom(), concurrency=concurrency,
            state=RunState(len(jobs), 0, clock.monotonic()),
            on_result=lambda result: player.report(result, on_collected),
        )  # fmt: skip
        await scheduler.play(player.halt.ledger)
    if (reason := player.halt.reason or scheduler.left) is not None:
        raise EpisodeError(reason)
    return [player.collected[number] for number in range(len(jobs))]


@asynccontextmanager
async def _journal() -> AsyncIterator[SqlJournal]:
    """Open a temporary journal for the episodes that are being collected."""
    with TemporaryDirectory(prefix="spectator-") as folder:
        journal = await SqlJournal.open(f"sqlite:///{folder}/journal.db", shared_as="collector")
        try:
            yield journal
        finally:
            await journal.aclose()


def _check_figures(max_steps: int | None, concurrency: int, answer_s: float) -> None:
    for name, number in (("max_steps", 1 if max_steps is None else max_steps), ("concurrency", concurrency)):
        if not _is_whole(number) or number < 1:
            raise ConfigurationError(f"{name} must be a whole number of at least 1, not {number!r}")
    if not answer_s > 0:
        raise ConfigurationError(f"answer_s must be more than 0, not {answer_s!r}")


def _is_whole(number: Any) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool)


@dataclass(frozen=True, slots=True)
class _Seat:
    """A world with the model in the agent's seat."""

    world: World
    prompt_fn: PromptFn
    thread: ModelThread
    config: Any
    max_steps: int | None
    model: str
    answer_s: float
    clock: Clock
    invalid: InvalidAnswers

    def plan(self, task: CollectTask, options: Mapping[str, Any]) -> EpisodePlan:
        """Plan a task; raises before anything is played if it is invalid."""
        world = self.world_with(self.endpoint())
        given = {
            **world.collected_options,
            "scenario": task.scenario,
            "difficulty": task.difficulty,
            **options,
        }
        return replace(_plan(world, task.seed, given), group_id=task.group)

    def endpoint(self) -> GeneratingEndpoint:
        """Make the endpoint of one episode."""
        return GeneratingEndpoint(self.prompt_fn, self.thread)

    def world_with(self, endpoint: GeneratingEndpoint) -> World:
        """Return the world with ``endpoint`` in the agent's seat."""
        return _seated(
            self.world, endpoint, self.model, self.clock, self.max_steps, self.answer_s, self.invalid
        )


class _Collector:
    """Plays the tasks and keeps their observations."""

    def __init__(self, seat: _Seat, run: RunPlan, log: LeasedLog, journal: SqlJournal) -> None:
        self._seat = seat
        self._run = run
        self._log = log
        self._journal = journal
        self.halt = Halt(SpendLedger(Caps(), Caps(), seat.clock))
        self.collected: dict[int, CollectedEpisode] = {}

    async def open(self, attempt: Attempt) -> Handle:
        """Open the environment of a task."""
        world, job = self._seat.world, self._run.jobs[attempt.number]
        stepper = _Watched(inline(world, attempt.episode_id), Seen())
        return ActorHandle(world.name, attempt.episode_id, job.group, "inproc", None, stepper, attempt)

    async def play(self, handle: Handle, flight: InFlight) -> Result:
        """Play a task."""
        attempt, seat, endpoint = handle.job, self._seat, self._seat.endpoint()
        world = seat.world_with(endpoint)
        limits = EpisodeLimits.patient(4 * seat.answer_s)
        venue = EpisodeSetup(
            self._log, seat.clock, lambda _: world, self.halt.ledger,
            lambda plan: None if seat.invalid.on_invalid == "fallback" else AgentRule(plan, seat.invalid),
            lambda world, episode_id: handle.stepper, limits,
        )  # fmt: skip
        plan = self._run.plan(self._run.jobs[attempt.number], attempt.attempt, world)
        ended = await play_episode(plan, attempt.episode_id, venue)
        assert isinstance(handle.stepper, _Watched)
        self.collected[attempt.number] = await self._collected(handle, handle.stepper.seen, endpoint, plan)
        return result_of(attempt, handle.group_id, ended)

    def report(self, result: Result, on_collected: Callable[[CollectedEpisode], None]) -> None:
        """Pass a collected episode to ``on_collected``."""
        if (collected := self.collected.get(result.job.number)) is not None:
            on_collected(collected)

    async def _collected(
        self, handle: Handle, seen: Seen, endpoint: GeneratingEndpoint, plan: EpisodePlan
    ) -> CollectedEpisode:
        events = [one.event for one in await self._journal.read(handle.env_id)]
        behind: dict[int, list[ModelCall]] = {}
        async for one in self._journal.calls(handle.env_id):
            behind.setdefault(one.decided.seq, []).append(one.call)
        steps = steps_of(events, seen, endpoint.exchanges, plan.agent)
        record = record_of(
            events, steps, seen, began=events[0].at, model=self._seat.model, config=self._seat.config
        )
        truth = await self._journal.truth(handle.env_id)
        calls = tuple(tuple(behind.get(event.seq, ())) for event in events if event.type in CALLS_BEHIND)
        return CollectedEpisode(record, events, json.loads(truth) if truth else {}, calls)


def _plan(world: World, seed: int, given: Mapping[str, Any]) -> EpisodePlan:
    """Plan an episode with the options that are not ``None``."""
    request = EpisodeRequest(
        world.name,
        captain=ACTOR,
        seed=seed,
        pace=Pace.MAX,
        narration=False,
        view="derived",
        options={name: value for name, value in given.items() if value is not None},
    )
    return plan_episode(request, draw_seed=lambda: seed, load=lambda _: world)


class _Watched:
    """A stepper that keeps its observations."""

    def __init__(self, stepper: Stepper, seen: Seen) -> None:
        self._stepper = stepper
        self.seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stepper, name)

    async def reset(self, **given: Any) -> Stepped:
        return self.seen.keep(await self._stepper.reset(**given))

    async def step(self, action: Action, *, limit_s: float | None) -> Stepped:
        return self.seen.keep(await self._stepper.step(action, limit_s=limit_s))


def _seated(
    world: World,
    endpoint: GeneratingEndpoint,
    model: str,
    clock: Clock,
    max_steps: int | None,
    answer_s: float,
    invalid: InvalidAnswers,
) -> World:
    """Return the world with the model as a captain, and with the given step cap."""

    def build(seed: int) -> Policy:
        fallback = world.captains[world.default_captain].build(seed)
        if not isinstance(fallback, ScriptedPolicy):
            raise ConfigurationError("the fallback of a model must be a scripted policy")
        settings = ModelSettings(
            model=model, style="json", stream=False, timeout_s=answer_s, context_tokens=1_000_000
        )
        return ModelPolicy(
            endpoint, settings, world.briefing, fallback=fallback, seed=seed, clock=clock,
            retries=invalid.invalid_retries,
        )  # fmt: skip

    seat = Preset(ACTOR, model, "A model in this process.", "model", build)
    cap = max_steps
    return replace(
        world,
        captains={**world.captains, ACTOR: seat},
        step_cap=world.step_cap if cap is None else lambda options: min(cap, world.step_cap(options)),
    )


async def record_episode(collected: CollectedEpisode, journal: Journal) -> None:
    """Append a collected episode, its model calls and its sealed truth in one transaction.

    Args:
        collected: The episode.
        journal: The journal, such as ``await SqlJournal.open("sqlite:///runs/first/journal.db")``.

    Raises:
        SequenceConflict: The journal has it already.
        JournalError: It could not be recorded.
    """
    truth = encode_json(dict(collected.truth)) if collected.events[-1].data.get("truth") else None
    attachments = Attachments(calls=collected.calls, truth=truth)
    await journal.append([record(event) for event in collected.events], attachments=attachments)

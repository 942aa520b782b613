"""Collects one episode: a model in this process plays it, and every step is kept with what it was shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from spectator.catalog import LoadWorld, load_world
from spectator.clock import Clock, SystemClock, timestamp
from spectator.collector.records import EpisodeRecord, StepRecord
from spectator.environments.base import World
from spectator.episodes.run.pacing import Pace
from spectator.episodes.run.plan import EpisodePlan, EpisodeRequest, plan_episode
from spectator.errors import ConfigurationError, EndpointUnavailable
from spectator.events import Event, decode
from spectator.failures import failure_of_decision, failure_of_end
from spectator.llm.chat import ChatAnswer, ChatRequest, Message, OnDelta
from spectator.observations import Observation
from spectator.policies.base import Action, Policy, Preset, ScriptedPolicy
from spectator.policies.model import ModelPolicy
from spectator.policies.model_settings import ModelSettings
from spectator.policies.spending import Caps, SpendLedger
from spectator.runs.in_memory import EpisodeInMemory
from spectator.runs.jobs import derived_id
from spectator.runs.playing import Venue, play_here
from spectator.steppers.base import Stepped, Stepper
from spectator.steppers.opening import inline

PromptFn = Callable[[Sequence[Message]], str]
"""Renders a conversation as the text that the model is given, such as by a tokenizer's chat template."""

GenerateFn = Callable[[str, Any], str]
"""Continues a text; called on a thread of its own with the prompt and the config."""

ACTOR: Final = "collector"
"""Name of the preset in the agent's seat."""

SUMMARY_KEYS: Final = (
    "step_index",
    "selected_channel",
    "selected_beam_energy",
    "candidate_masses_gev",
    "cumulative_significance",
    "resource_usage",
    "rule_violations",
)
"""Fields of an observation that are kept with each step, where the world has them."""


@dataclass(frozen=True, slots=True)
class CollectedEpisode:
    """A collected episode and what must be kept apart from it.

    Args:
        record: The episode.
        events: The same as events, as every viewer, replay and export of this library reads them.
        truth: What was hidden; empty where the world hides nothing or the episode did not come to its end.
    """

    record: EpisodeRecord
    events: Sequence[Event]
    truth: Mapping[str, Any]


def collect_episode(
    env: str,
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
    load: LoadWorld = load_world,
    clock: Clock | None = None,
) -> CollectedEpisode:
    """Play one episode with ``generate_fn`` and keep every step; see :func:`collect`.

    Not to be called where an event loop runs; await :func:`collect` there.
    """
    collecting = collect(
        env,
        seed,
        scenario,
        difficulty,
        prompt_fn,
        generate_fn,
        config,
        max_steps,
        options=options,
        model=model,
        load=load,
        clock=clock,
    )
    return asyncio.run(collecting)


async def collect(
    env: str,
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
    load: LoadWorld = load_world,
    clock: Clock | None = None,
) -> CollectedEpisode:
    """Play one episode with ``generate_fn`` and keep every step.

    Nothing loses the episode. Where an answer is no action even when asked for once more, or ``generate_fn``
    fails, the world's usual captain decides, labelled, its reward apart. A failing environment ends it.

    Args:
        env: Name of the world.
        seed: Its seed, 0 .. 2**53 - 1.
        scenario: The world's option ``scenario``; ``None`` leaves it out.
        difficulty: The world's option ``difficulty``; ``None`` leaves it out.
        prompt_fn: Renders the conversation.
        generate_fn: Continues it.
        config: Handed to ``generate_fn`` as it is.
        max_steps: Actions after which the episode is truncated, at least 1; ``None`` for the world's own cap.
        options: Further options of the world.
        model: The model's name, for the record.
        load: Finds the world.
        clock: Time; the system's when left out.

    Raises:
        InvalidRequest: An option or the seed is wrong.
        ConfigurationError: ``max_steps`` is less than 1.
    """
    if max_steps is not None and max_steps < 1:
        raise ConfigurationError(f"max_steps must be at least 1, not {max_steps}")
    clock = clock or SystemClock()
    endpoint = _Generating(prompt_fn, generate_fn, config)
    world = _seated(load(env), endpoint, model, clock, max_steps)
    plan = _plan(world, seed, {"scenario": scenario, "difficulty": difficulty, **(options or {})})
    began = clock.now()
    episode_id = derived_id(int(began.timestamp() * 1000), [env, world.version, seed, dict(plan.options)])
    kept, seen = EpisodeInMemory(), _Seen()
    venue = Venue(
        kept,  # type: ignore[arg-type] # all of a journal that playing needs
        clock,
        lambda _: world,
        SpendLedger(Caps(), Caps(), clock),
        open_stepper=lambda world, episode_id: _Watched(inline(world, episode_id), seen),
    )
    await play_here(plan, episode_id, venue)
    events = [decode(text).event for text in kept.texts]
    steps = _steps(events, seen, endpoint, plan.agent)
    record = _record(events, steps, seen, began=timestamp(began), model=model, options=plan.options)
    return CollectedEpisode(record, events, json.loads(kept.truth) if kept.truth else {})


def _plan(world: World, seed: int, given: Mapping[str, Any]) -> EpisodePlan:
    """How the episode is played, with the options that are not ``None``."""
    asked = EpisodeRequest(
        world.name,
        captain=ACTOR,
        seed=seed,
        pace=Pace.MAX,
        narration=False,
        view="derived",
        options={name: value for name, value in given.items() if value is not None},
    )
    return plan_episode(asked, draw_seed=lambda: seed, load=lambda _: world)


class _Generating:
    """Answers as an endpoint does, by ``generate_fn``; keeps what was shown and written for each decision."""

    def __init__(self, prompt_fn: PromptFn, generate_fn: GenerateFn, config: Any) -> None:
        self._prompt_fn = prompt_fn
        self._generate_fn = generate_fn
        self._config = config
        self.exchanges: list[tuple[str, str]] = []

    async def complete(
        self,
        request: ChatRequest,
        *,
        deadline: float,
        session: str | None = None,
        on_delta: OnDelta | None = None,
    ) -> ChatAnswer:
        prompt = self._prompt_fn(list(request.messages))
        try:
            text = await asyncio.to_thread(self._generate_fn, prompt, self._config)
        except (RuntimeError, ValueError, OSError, MemoryError, TypeError, LookupError) as error:
            raise EndpointUnavailable(f"generate_fn failed: {type(error).__name__}: {error}") from error
        self.exchanges.append((prompt, text))
        return ChatAnswer(text=text, finish_reason="stop", model=request.model)

    async def aclose(self) -> None:
        """Nothing is held."""


class _Seen:
    """What the environment showed, oldest first."""

    def __init__(self) -> None:
        self.shown: list[Observation] = []
        self.state: Mapping[str, Any] = {}


class _Watched:
    """A stepper that keeps what it shows."""

    def __init__(self, stepper: Stepper, seen: _Seen) -> None:
        self._stepper = stepper
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stepper, name)

    async def reset(self, **given: Any) -> Stepped:
        return self._keep(await self._stepper.reset(**given))

    async def step(self, action: Action, *, limit_s: float | None) -> Stepped:
        return self._keep(await self._stepper.step(action, limit_s=limit_s))

    def _keep(self, stepped: Stepped) -> Stepped:
        self._seen.shown.append(stepped.observation)
        if stepped.observation.done:
            self._seen.state = stepped.state
        return stepped


def _seated(world: World, endpoint: _Generating, model: str, clock: Clock, max_steps: int | None) -> World:
    """The world with the model as a captain, and with the cap that was asked for."""

    def build(seed: int) -> Policy:
        fallback = world.captains[world.default_captain].build(seed)
        if not isinstance(fallback, ScriptedPolicy):
            raise ConfigurationError("the fallback of a model must be a scripted policy")
        settings = ModelSettings(
            model=model, style="json", stream=False, timeout_s=3600.0, context_tokens=1_000_000
        )
        return ModelPolicy(endpoint, settings, world.briefing, fallback=fallback, seed=seed, clock=clock)

    seat = Preset(ACTOR, model, "A model in this process.", "model", build)
    cap = max_steps
    return replace(
        world,
        captains={**world.captains, ACTOR: seat},
        step_cap=world.step_cap if cap is None else lambda options: min(cap, world.step_cap(options)),
    )


def _steps(events: Sequence[Event], seen: _Seen, endpoint: _Generating, agent: str) -> list[StepRecord]:
    """One record for each decision of the agent that was carried out or refused."""
    decided = [event.data for event in events if event.type == "decision.made"]
    exchanges = iter(endpoint.exchanges)
    steps: list[StepRecord] = []
    for place, data in enumerate(decided):
        if data["actor"] != agent or place + 1 >= len(seen.shown):
            continue
        before, after = seen.shown[place], seen.shown[place + 1]
        asked = [exchange for _, exchange in zip(data.get("exchanges", ()), exchanges, strict=False)]
        prompt, completion = asked[-1] if asked else ("", "")
        steps.append(_step(len(steps) + 1, data, before, after, prompt, completion))
    return steps


def _step(
    number: int,
    data: Mapping[str, Any],
    before: Observation,
    after: Observation,
    prompt: str,
    completion: str,
) -> StepRecord:
    own = data["source"] == "model"
    refused = [] if after.refused is None else [after.refused.rule]
    return StepRecord(
        step=number,
        prompt=prompt,
        completion=completion,
        action=data["action"],
        parsed_ok=own,
        source="model" if own else "fallback",
        failure_class=failure_of_decision(data),
        reward=after.reward,
        done=after.done,
        terminated=after.done,
        rule_violations=(*after.content.get("rule_violations", ()), *refused),
        observation_summary=_summary(before),
        outcome_summary=_summary(after),
        latency_s=data.get("latency_s"),
    )


def _summary(observation: Observation) -> dict[str, Any]:
    return {name: observation.content[name] for name in SUMMARY_KEYS if name in observation.content}


def _record(
    events: Sequence[Event],
    steps: Sequence[StepRecord],
    seen: _Seen,
    *,
    began: str,
    model: str,
    options: Mapping[str, Any],
) -> EpisodeRecord:
    started, ended = events[0], events[-1].data
    failure, state = failure_of_end(ended), seen.state
    truncated = bool(ended["truncated"])
    if steps and truncated and not steps[-1].done:
        steps = [*steps[:-1], steps[-1].model_copy(update={"truncated": True})]
    verdict = failure is None or failure == "truncated"

    def earned(source: str) -> float | None:
        return sum(one.reward or 0.0 for one in steps if one.source == source) if verdict else None

    return EpisodeRecord(
        episode_id=started.episode_id,
        environment=started.data["environment"],
        environment_version=started.data["environment_version"],
        seed=started.data["seed"],
        scenario=options.get("scenario"),
        difficulty=options.get("difficulty"),
        model=model,
        end_reason=ended["reason"],
        failure_class=failure,
        terminated=bool(ended["terminated"]),
        truncated=truncated,
        total_reward=sum(one.reward or 0.0 for one in steps) if verdict else None,
        model_reward=earned("model"),
        fallback_reward=earned("fallback"),
        cumulative_reward=state.get("cumulative_reward"),
        terminal_reward=state.get("terminal_reward"),
        discovered=state.get("discovered"),
        correct_mass=state.get("correct_mass"),
        correct_channel=state.get("correct_channel"),
        correct_spin=state.get("correct_spin"),
        started_at=began,
        steps=tuple(steps),
    )

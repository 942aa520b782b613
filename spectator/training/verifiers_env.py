"""verifiers: a world's episodes as tasks and an environment, scored by the world.

``vf-eval spectator`` and ``vf.load_environment`` find them through the package root, because verifiers
imports an environment by the name of a package.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Self

import verifiers.v1 as vf
from openai import APIStatusError, AsyncOpenAI
from pydantic import Field, model_validator
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harnesses.utils.compaction import is_context_overflow

from spectator.environments.world import MAX_SEED
from spectator.errors import InvalidRequest
from spectator.policies.prompts import TEXT_ALONE, answer_form
from spectator.training.recorded_run import RecordedRun
from spectator.training.text_episode import TextEpisode

__all__ = ["WorldEnv", "WorldHarness", "WorldTaskset"]


INFO: Final = "spectator"
"""Where ``trace.info`` has what became of the episode."""

_NAMES: Final = {"environment": "world", "opponent_choice": "opponent", "eval_pack_id": "pack"}
"""Fields of a request as the configuration calls them."""

Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


class WorldTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]  # the package is not where types are checked
    """Which world, and which of its episodes: ``--env.taskset.*``, or ``[env.taskset]`` in TOML.

    Raises:
        ValidationError: There is no such world, opponent or pack, or an option or a seed is wrong.
    """

    world: str = "counting"
    """Name in the catalogue."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The world's options, for every episode; those left out take their defaults."""
    opponent: str | None = None
    """Preset that takes every other seat; ``None`` for the world's default."""
    pack: str = "default"
    """Evaluation pack."""
    num_tasks: int = Field(64, ge=1)
    """How many episodes, one task each; their seeds count up from ``first_seed``."""
    first_seed: Seed = 0
    """Seed of the first episode."""
    seeds: list[Seed] | None = Field(None, min_length=1)
    """The seeds themselves; then ``num_tasks`` and ``first_seed`` do not count."""

    @model_validator(mode="after")
    def _can_be_played(self) -> Self:
        if self.seeds is not None and len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: must be different from one another")
        if self.chosen_seeds()[-1] > MAX_SEED:
            raise ValueError(f"num_tasks: the last seed is beyond {MAX_SEED}")
        try:
            self.begin(self.chosen_seeds()[0])[0].close()
        except InvalidRequest as error:
            wrong = (f"{_NAMES.get(one.field, one.field)}: {one.rule}" for one in error.fields)
            raise ValueError("; ".join(wrong)) from None
        return self

    def chosen_seeds(self) -> Sequence[int]:
        """The seed of each task."""
        return self.seeds or range(self.first_seed, self.first_seed + self.num_tasks)

    def begin(self, seed: int) -> tuple[TextEpisode, str]:
        """An episode that has begun, and its prompt.

        Raises:
            InvalidRequest: A field is wrong.
        """
        episode = TextEpisode(self.world, self.options, opponent=self.opponent, pack=self.pack)
        return episode, episode.reset(seed)


class WorldTaskData(vf.TaskData):  # type: ignore[misc]  # the same
    """One episode, as its trace keeps it."""

    world: str
    options: dict[str, Any]
    opponent: str | None
    pack: str
    seed: int

    def episode(self, run: RecordedRun | None = None) -> TextEpisode:
        """The episode, not yet begun; recorded in ``run`` where there is one."""
        return TextEpisode(self.world, self.options, opponent=self.opponent, pack=self.pack, run=run)


class WorldTask(vf.Task[WorldTaskData, vf.State, vf.TaskConfig]):  # type: ignore[misc]  # the same
    """A task that is scored by its world.

    A rollout that failed has no reward, for then verifiers calls none of these.
    """

    @property
    def key(self) -> str:
        """The same for the same episode, wherever it stands among the tasks."""
        return str(self.with_data(idx=None).hash)

    @vf.reward  # type: ignore[untyped-decorator]  # the same
    async def value(self, trace: Any) -> float:
        """The score; where the episode was cut short, what it is worth so far."""
        return float(trace.info[INFO]["value"])

    @vf.metric  # type: ignore[untyped-decorator]  # the same
    async def parts(self, trace: Any) -> Mapping[str, float]:
        """The parts of the score; whether the episode came to its own end; how many actions were refused."""
        told = trace.info[INFO]
        return {**told["rubric"], "finished": float(told["finished"]), "refused": float(told["refused"])}


class WorldTaskset(vf.Taskset[WorldTask, WorldTasksetConfig]):  # type: ignore[misc]  # the same
    """One task a seed; all rollouts of a task are episodes of its seed."""

    def load(self) -> Iterator[WorldTask]:
        """The tasks; the prompt is the brief and the whole situation."""
        for seed in self.config.chosen_seeds():
            episode, prompt = self.config.begin(seed)
            episode.close()
            data = WorldTaskData(
                name=f"{self.config.world}#{seed}",
                prompt=prompt,
                world=self.config.world,
                options=self.config.options,
                opponent=self.config.opponent,
                pack=self.config.pack,
                seed=seed,
            )
            yield WorldTask(data, self.config.task)


OUT_OF_ROOM = "context_overflow"
"""What stopped a rollout whose conversation no longer fits the model."""

Message = dict[str, Any]


class WorldHarnessConfig(vf.HarnessConfig):  # type: ignore[misc]  # the package is not where types are checked
    """How the model plays: ``--env.agent.harness.*``."""

    tools: bool = True
    """Whether the world's tools are offered as tools; if not, an action is written in the answer's text."""


@dataclass(slots=True)
class PlayedEpisode:
    """An episode with what its answers earned; used from one thread at a time.

    Args:
        episode: The episode, begun.
    """

    episode: TextEpisode
    rewards: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    refused: int = 0

    def take(self, answer: Any) -> list[Message]:
        """Carry out an answer; returns the messages that follow it, unless the episode is over.

        Every tool call is an action, in order. An answer without one is read for an action in its text.
        What names no legal action is refused and counted.
        """
        self.rewards.append(0.0)
        if answer.tool_calls:
            told = [self._call(call) for call in answer.tool_calls]
        else:
            told = [{"role": "user", "content": self._earned(self.episode.answer(answer.content or ""))}]
        self.values.append(self.episode.value)
        return told

    def _call(self, call: Any) -> Message:
        if self.episode.done:
            text = "The episode is over; this was not carried out."
        else:
            text = self._earned(self._carry_out(call))
        return {"role": "tool", "tool_call_id": call.id, "content": text}

    def _carry_out(self, call: Any) -> str:
        try:
            name, arguments = call.function.name, json.loads(call.function.arguments or "{}")
        except (AttributeError, ValueError):
            return self.episode.act({})
        return self.episode.use(name, arguments) if isinstance(arguments, dict) else self.episode.act({})

    def _earned(self, text: str) -> str:
        seen = self.episode.observation
        self.rewards[-1] += float(seen.reward)
        self.refused += seen.refused is not None
        return text

    def told(self) -> dict[str, Any]:
        """What a trace keeps of it, as plain JSON."""
        return {
            "rewards": list(self.rewards),
            "values": list(self.values),
            "value": self.episode.value,
            "rubric": self.episode.rubric,
            "finished": self.episode.done and not self.episode.truncated,
            "truncated": self.episode.truncated,
            "refused": self.refused,
        }


class WorldHarness(vf.Harness[WorldHarnessConfig]):  # type: ignore[misc]  # the same
    """Plays an episode in this process: an answer of the model is an action, what follows is told to it.

    ``trace.info["spectator"]`` holds ``rewards``, one for each answer, ``values``, what the episode was worth
    after each, ``value``, ``rubric``, ``finished``, ``truncated`` and ``refused``. A conversation that no
    longer fits the model ends the rollout with what the episode is worth so far.
    """

    APPENDS_SYSTEM_PROMPT: ClassVar[bool] = True
    EXECUTES_CODE: ClassVar[bool] = False
    NEEDS_CONTAINER: ClassVar[bool] = False

    recorded: RecordedRun | None = None
    """Where the episodes are recorded while they are played; nowhere if ``None``."""

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: Any,
        tool_interception_url: str | None = None,
    ) -> Any:
        """Play until the episode is over, a limit of the run stops it, or something fails.

        Raises:
            TypeError: The task is of another taskset.
            EpisodeError: The opponent or the world failed; the rollout has no reward.
        """
        if not isinstance(data, WorldTaskData):
            raise TypeError("this harness plays the tasks of the taskset 'spectator'")
        loop, episode = asyncio.get_running_loop(), data.episode(self.recorded)
        with ThreadPoolExecutor(1) as thread:

            def run(work: Callable[..., Any], *given: Any) -> asyncio.Future[Any]:
                return loop.run_in_executor(thread, work, *given)

            try:
                await run(episode.reset, data.seed)
                async with AsyncOpenAI(base_url=endpoint, api_key=secret) as client:
                    await self._play(client, ctx.model, trace, data, PlayedEpisode(episode), run)
            except Exception as error:
                if trace.stop_condition is None:  # else a limit of the run cut it short
                    await run(episode.break_off, str(error) or type(error).__name__)
                raise
            finally:
                thread.submit(episode.close)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")

    async def _play(
        self,
        client: AsyncOpenAI,
        model: str,
        trace: Any,
        data: WorldTaskData,
        played: PlayedEpisode,
        run: Callable[..., asyncio.Future[Any]],
    ) -> None:
        messages = self._opening(data, played.episode)
        offered = {"tools": played.episode.functions} if self.config.tools else {}
        trace.info[INFO] = played.told()
        while not played.episode.done:
            try:
                said = await client.chat.completions.create(model=model, messages=messages, **offered)
            except APIStatusError as error:
                if not is_context_overflow(error):
                    raise
                trace.stop(OUT_OF_ROOM)
                return
            answer = said.choices[0].message
            messages.append({"content": "", **answer.model_dump(exclude_none=True)})
            messages += await run(played.take, answer)
            trace.info[INFO] = played.told()

    def _opening(self, data: WorldTaskData, episode: TextEpisode) -> list[Message]:
        system, prompt = self.resolve_prompt(data)
        if not self.config.tools:
            free = episode.world.briefing.text_field is not None
            form = TEXT_ALONE if free else answer_form("json", several=False)
            system = form if system is None else f"{system}\n\n{form}"
        asked = (
            [{"role": "user", "content": prompt}] if isinstance(prompt, str) else map(message_to_wire, prompt)
        )
        return [*([{"role": "system", "content": system}] if system else []), *asked]


class WorldEnvConfig(vf.EnvConfig):  # type: ignore[misc]  # the same
    """Who plays: ``--env.agent.*``. The episode is played in this process, so no sandbox is needed."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    run: str | None = None
    """Folder of a run that a server shows: the episodes are recorded there while they are played."""
    group_size: int = Field(1, ge=1)
    """Rollouts of a task that are compared there: as many as ``-r``; 1 for no groups."""


class WorldEnv(vf.Env[WorldEnvConfig]):  # type: ignore[misc]  # the same
    """One agent plays one episode, which is recorded where a run is named."""

    _recorded: RecordedRun | None = None

    async def start(self) -> None:
        """Open the folder of the run.

        Raises:
            ConfigurationError: Another process records in it.
            JournalError: It cannot be written.
        """
        if self.config.run is not None:
            opened = partial(RecordedRun, self.config.run, group_size=self.config.group_size)
            self._recorded = await asyncio.to_thread(opened)

    async def stop(self) -> None:
        """Record what waits, and let the folder go."""
        if self._recorded is not None:
            await asyncio.to_thread(self._recorded.close)
            self._recorded = None

    async def run(self, task: Any, agents: Any) -> None:
        """Play it."""
        agents.agent.harness.recorded = self._recorded
        await agents.agent.run(task)

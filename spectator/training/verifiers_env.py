"""A world's episodes as tasks and an environment of verifiers, scored by the world.

``vf-eval spectator`` and ``vf.load_environment`` find them in the package root, because verifiers imports an
environment by the name of its package.
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
from spectator.errors import EpisodeError, InvalidRequest
from spectator.llm.answers import Assembly
from spectator.llm.chat import ChatRequest
from spectator.llm.exchanges import call_answered
from spectator.model_calls import ModelCall
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.training.recorded_run import RecordedRun
from spectator.training.text_episode import CALL_A_TOOL, TextEpisode

__all__ = ["WorldEnv", "WorldHarness", "WorldTaskset"]


INFO: Final = "spectator"
"""Key of the episode's result in ``trace.info``."""

_NAMES: Final = {"environment": "world", "opponent_choice": "opponent", "eval_pack_id": "pack"}
"""Names in the configuration, by field of a request."""

Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


class WorldTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]  # not installed where types are checked
    """The world and its episodes: ``--env.taskset.*``, or ``[env.taskset]`` in TOML.

    Raises:
        ValidationError: World, opponent or pack is unknown, or an option or a seed is invalid.
    """

    world: str = "counting"
    """Name in the catalogue."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The world's options, for every episode; omitted ones have their defaults."""
    opponent: str | None = None
    """Preset for all other seats; ``None`` for the world's default."""
    pack: str = "default"
    """Evaluation pack."""
    invalid: InvalidAnswers = InvalidAnswers()
    """What an answer that is not an action does; ``mask`` and ``end`` leave the rollout without a reward."""
    num_tasks: int = Field(64, ge=1)
    """Number of episodes, one task each; their seeds count up from ``first_seed``."""
    first_seed: Seed = 0
    """Seed of the first episode."""
    seeds: list[Seed] | None = Field(None, min_length=1)
    """The seeds; then ``num_tasks`` and ``first_seed`` are ignored."""

    @model_validator(mode="after")
    def _can_be_played(self) -> Self:
        if self.seeds is not None and len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: must be unique")
        if self.chosen_seeds()[-1] > MAX_SEED:
            raise ValueError(f"num_tasks: the last seed must be at most {MAX_SEED}")
        try:
            self.begin(self.chosen_seeds()[0])[0].close()
        except InvalidRequest as error:
            problems = (f"{_NAMES.get(one.field, one.field)}: {one.rule}" for one in error.fields)
            raise ValueError("; ".join(problems)) from None
        return self

    def chosen_seeds(self) -> Sequence[int]:
        """Return the seed of each task."""
        return self.seeds or range(self.first_seed, self.first_seed + self.num_tasks)

    def begin(self, seed: int) -> tuple[TextEpisode, str]:
        """Start an episode; return it and its prompt.

        Raises:
            InvalidRequest: A field is invalid.
        """
        episode = TextEpisode(
            self.world, self.options, opponent=self.opponent, pack=self.pack, invalid=self.invalid
        )
        return episode, episode.reset(seed)


class WorldTaskData(vf.TaskData):  # type: ignore[misc]  # the same
    """One episode, as saved in its trace."""

    world: str
    options: dict[str, Any]
    opponent: str | None
    pack: str
    seed: int
    invalid: InvalidAnswers = InvalidAnswers()

    def episode(self, run: RecordedRun | None = None) -> TextEpisode:
        """Return the episode, not yet started; recorded in ``run``, if given."""
        return TextEpisode(
            self.world, self.options, opponent=self.opponent, pack=self.pack, run=run, invalid=self.invalid
        )


class WorldTask(vf.Task[WorldTaskData, vf.State, vf.TaskConfig]):  # type: ignore[misc]  # the same
    """A task scored by its world.

    For a failed rollout verifiers calls none of the scoring methods, so it has no reward.
    """

    @property
    def key(self) -> str:
        """Identity of the episode, independent of its position among the tasks."""
        return str(self.with_data(idx=None).hash)

    @vf.reward  # type: ignore[untyped-decorator]  # the same
    async def value(self, trace: Any) -> float:
        """Return the score, or the value so far if the episode was cut short."""
        return float(trace.info[INFO]["value"])

    @vf.metric  # type: ignore[untyped-decorator]  # the same
    async def parts(self, trace: Any) -> Mapping[str, float]:
        """Return the parts of the score, ``finished``, ``refused``, ``own_share`` and ``penalised``."""
        info = trace.info[INFO]
        names = ("finished", "refused", "own_share", "penalised")
        return {**info["rubric"], **{name: float(info[name] or 0.0) for name in names}}


class WorldTaskset(vf.Taskset[WorldTask, WorldTasksetConfig]):  # type: ignore[misc]  # the same
    """One task per seed; all rollouts of a task are episodes of its seed."""

    def load(self) -> Iterator[WorldTask]:
        """Yield the tasks; the prompt is the brief and the whole situation."""
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
                invalid=self.config.invalid,
            )
            yield WorldTask(data, self.config.task)


OUT_OF_ROOM = "context_overflow"
"""Stop condition of a rollout whose conversation exceeds the model's context."""

Message = dict[str, Any]


class WorldHarnessConfig(vf.HarnessConfig):  # type: ignore[misc]  # not installed where types are checked
    """How the model plays: ``--env.agent.harness.*``."""

    tools: bool = True
    """Whether to offer the world's tools as tools; if not, the answer's text contains the action."""


@dataclass(slots=True)
class PlayedEpisode:
    """An episode with the rewards of its answers; used from one thread at a time.

    Args:
        episode: The started episode.
    """

    episode: TextEpisode
    rewards: list[float] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    refused: int = 0

    def take(self, answer: Any, call: ModelCall | None) -> list[Message]:
        """Carry out an answer; return the messages that follow it.

        Every tool call is an action, in order. If there is none, the action is read from the text. Illegal
        actions are rejected and counted.

        Args:
            answer: The endpoint's message.
            call: The model call, for the record; ``None`` if the episode is not recorded.
        """
        behind = () if call is None else (call,)
        self.rewards.append(0.0)
        if answer.tool_calls:
            messages = [self._call(one, behind[place:]) for place, one in enumerate(answer.tool_calls)]
        else:
            text = self._count(self.episode.answer(answer.content or "", behind))
            messages = [{"role": "user", "content": text}]
        self.values.append(self.episode.value)
        return messages

    def _call(self, call: Any, behind: Sequence[ModelCall]) -> Message:
        if self.episode.done:
            text = "The episode is over; this was not carried out."
        else:
            text = self._count(self._carry_out(call, behind))
        return {"role": "tool", "tool_call_id": call.id, "content": text}

    def _carry_out(self, call: Any, behind: Sequence[ModelCall]) -> str:
        try:
            name, arguments = call.function.name, json.loads(call.function.arguments or "{}")
        except (AttributeError, ValueError):
            arguments = None
        if not isinstance(arguments, dict):
            return self.episode.reject("the arguments are not a JSON object", calls=behind)
        return self.episode.use(name, arguments, behind)

    def _count(self, text: str) -> str:
        """Count the last action's reward and rejection; return ``text``."""
        seen = self.episode.observation
        self.rewards[-1] += float(seen.reward)
        self.refused += seen.refused is not None
        return text

    def info(self) -> dict[str, Any]:
        """Return the result for the trace, as plain JSON."""
        return {
            "rewards": list(self.rewards),
            "values": list(self.values),
            "value": self.episode.value,
            "rubric": self.episode.rubric,
            "finished": self.episode.done and not self.episode.truncated,
            "truncated": self.episode.truncated,
            "refused": self.refused,
            "own_share": self.episode.own.share,
            "penalised": self.episode.penalised,
        }


class WorldHarness(vf.Harness[WorldHarnessConfig]):  # type: ignore[misc]  # the same
    """Plays an episode in this process: each answer of the model is an action.

    ``trace.info["spectator"]`` has ``rewards`` (one per answer), ``values`` (of the episode after each
    answer), ``value``, ``rubric``, ``finished``, ``truncated`` and ``refused``. If the conversation exceeds
    the model's context, the rollout ends with the value so far.
    """

    APPENDS_SYSTEM_PROMPT: ClassVar[bool] = True
    EXECUTES_CODE: ClassVar[bool] = False
    NEEDS_CONTAINER: ClassVar[bool] = False

    recorded: RecordedRun | None = None
    """Run that records the episodes; ``None`` for no recording."""

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
        """Play until the episode ends, a limit of the run stops it, or something fails.

        Raises:
            TypeError: The task is from another taskset.
            EpisodeError: The opponent or the world failed; the rollout has no reward.
        """
        if not isinstance(data, WorldTaskData):
            raise TypeError("this harness plays only tasks of the taskset 'spectator'; use WorldTaskset")
        loop, episode = asyncio.get_running_loop(), data.episode(self.recorded)
        with ThreadPoolExecutor(1) as thread:

            def run(work: Callable[..., Any], *given: Any) -> asyncio.Future[Any]:
                return loop.run_in_executor(thread, work, *given)

            try:
                await run(episode.reset, data.seed)
                async with AsyncOpenAI(base_url=endpoint, api_key=secret) as client:
                    await self._play(client, ctx.model, trace, data, PlayedEpisode(episode), run)
            except Exception as error:
                if trace.stop_condition is None:  # otherwise a limit of the run cut it short
                    await run(episode.fail, str(error) or type(error).__name__)
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
        trace.info[INFO] = played.info()
        while not played.episode.done:
            try:
                completion = await client.chat.completions.create(model=model, messages=messages, **offered)
            except APIStatusError as error:
                if not is_context_overflow(error):
                    raise
                trace.stop(OUT_OF_ROOM)
                if played.episode.sent_back:
                    await run(played.episode.stop, "there is no room to ask again")
                    trace.info[INFO] = played.info()
                return
            answer = completion.choices[0].message
            tools = offered.get("tools", ())
            request = ChatRequest(model=model, messages=list(messages), tools=tools)
            call = None if self.recorded is None else _call_of(completion, request)
            messages.append({"content": "", **answer.model_dump(exclude_none=True)})
            messages += await run(played.take, answer, call)
            trace.info[INFO] = played.info()
        if played.episode.value is None:
            raise EpisodeError("an answer was not an action, and the episode has no verdict")

    def _opening(self, data: WorldTaskData, episode: TextEpisode) -> list[Message]:
        system, prompt = self.resolve_prompt(data)
        if self.config.tools:
            episode.form = CALL_A_TOOL
        else:
            system = episode.form if system is None else f"{system}\n\n{episode.form}"
        messages = (
            [{"role": "user", "content": prompt}] if isinstance(prompt, str) else map(message_to_wire, prompt)
        )
        return [*([{"role": "system", "content": system}] if system else []), *messages]


def _call_of(completion: Any, request: ChatRequest) -> ModelCall:
    """Return the model call of a completion, with its tokens."""
    read = Assembly()
    read.feed(completion.model_dump(exclude_none=True))
    return call_answered(request, read.answer(latency_s=0.0, first_token_s=None, attempts=1))


class WorldEnvConfig(vf.EnvConfig):  # type: ignore[misc]  # the same
    """The agent, ``--env.agent.*``; it needs no sandbox."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    run: str | None = None
    """Folder of a run that records the episodes, so that a server can show them."""
    group_size: int = Field(1, ge=1)
    """Number of rollouts of a task that form a group there: as many as ``-r``; 1 for no groups."""


class WorldEnv(vf.Env[WorldEnvConfig]):  # type: ignore[misc]  # the same
    """One agent plays one episode, recorded in the configured run."""

    _recorded: RecordedRun | None = None

    async def start(self) -> None:
        """Open the folder of the run.

        Raises:
            ConfigurationError: Another process records in it.
            JournalError: The folder cannot be written.
        """
        if self.config.run is not None:
            opened = partial(RecordedRun, self.config.run, group_size=self.config.group_size)
            self._recorded = await asyncio.to_thread(opened)

    async def stop(self) -> None:
        """Record everything and close the folder."""
        if self._recorded is not None:
            await asyncio.to_thread(self._recorded.close)
            self._recorded = None

    async def run(self, task: Any, agents: Any) -> None:
        """Play the episode."""
        agents.agent.harness.recorded = self._recorded
        await agents.agent.run(task)

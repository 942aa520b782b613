"""Sessions of a world for OpenEnv's harness, such as ``MCPHarnessAdapter``."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.mcp_types import Tool
from openenv.core.harness import ResourceSession, ResourceSessionFactory, ToolResult, VerifyResult

from spectator.llm.chat import ChatAnswer, ToolCall
from spectator.model_calls import ModelCall
from spectator.policies.invalid_answers import InvalidAnswers
from spectator.training.text_episode import CALL_A_TOOL, TextEpisode

if TYPE_CHECKING:
    from spectator.training.recorded_run import RecordedRun


class WorldSession(ResourceSession):  # type: ignore[misc]  # the package has no types
    """One episode, driven by a harness.

    Args:
        episode: The episode; it is started here.
        seed: Its seed; ``None`` for a random one.
        options: Further options of the world.
    """

    def __init__(self, episode: TextEpisode, seed: int | None, options: Mapping[str, Any]) -> None:
        self._episode = episode
        episode.form = CALL_A_TOOL
        self._prompt = episode.reset(seed, options)
        self._rewards: list[float] = []
        self._calls: Sequence[ModelCall] | None = None

    def initial_messages(self) -> list[dict[str, Any]]:
        """Return the brief and the whole situation."""
        return [{"role": "user", "content": self._prompt}]

    def list_tools(self) -> list[Any]:
        """Return every tool of the world."""
        return [
            Tool(
                name=one["tool"],
                description=str(one["arguments"].get("description", one["tool"])),
                input_schema=dict(one["arguments"]),
            )
            for one in self._episode.tools
        ]

    def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Use a tool; the reward is in the result's metadata, as in OpenEnv's sessions."""
        calls, self._calls = self._calls, None if self._calls is None else ()
        text = self._episode.use(name, arguments, calls)
        seen = self._episode.observation
        self._rewards.append(float(seen.reward))
        metadata = {"reward": float(seen.reward), "value": self._episode.value}
        refused = None if seen.refused is None else seen.refused.rule
        return ToolResult(data=text, done=self._episode.done, metadata=metadata, error=refused)

    def recorded(self, model_step: Callable[[list[Any], list[Any], dict[str, Any]], Any]) -> Any:
        """Wrap ``model_step`` so that its messages, words and tokens are recorded."""

        def step(messages: list[Any], tools: list[Any], sampling: dict[str, Any]) -> Any:
            asked = [dict(message) for message in messages]
            result = model_step(messages, tools, sampling)
            call = self._call(asked, result)
            self._calls = None if call is None else [call]
            return result

        return step

    def _call(self, messages: list[Any], result: Any) -> ModelCall | None:
        said = result.response
        calls = [ToolCall(one.id, one.name, json.dumps(one.args, default=str)) for one in said.tool_calls]
        answer = ChatAnswer(
            text=said.content or "",
            tool_calls=calls,
            token_ids=array("q", result.completion_ids) or None,
            prompt_token_ids=array("q", result.prompt_ids) or None,
            logprobs=array("d", result.logprobs) or None,
        )
        return self._episode.call(messages, answer)

    def verify(self, transcript: list[dict[str, Any]], final_state: Any | None = None) -> Any:
        """Return the reward, value, rubric and own share so far.

        A harness ends its rollout at an answer without a tool call: if that is the last message of the
        transcript, the episode has ended at an answer that was not an action.
        """
        episode, last = self._episode, transcript[-1] if transcript else {}
        if not episode.done and last.get("role") == "assistant" and not last.get("tool_calls"):
            episode.stop("the answer calls no tool", self._calls or ())
            self._calls = None
            if episode.penalised:
                self._rewards.append(float(episode.observation.reward))
        own = episode.own
        metrics = {
            "value": episode.value,
            **episode.rubric,
            "own_share": own.share,
            "refusals": own.refused,
            "penalised": episode.penalised,
        }
        reward = None if episode.value is None else sum(self._rewards)
        return VerifyResult(env_reward=reward, done=episode.done, metrics=metrics)

    def close(self) -> None:
        """Close the episode."""
        if self._calls:
            self._episode.note_unused(self._calls)
        self._episode.close()


class WorldSessionFactory(ResourceSessionFactory):  # type: ignore[misc]  # the package has no types
    """Creates a session for each rollout.

    Args:
        world: Name in the catalogue.
        options: The world's options, for every episode.
        opponent: Preset for all other seats.
        run: Run that records the episodes; optional.
        invalid: What an answer that is not an action does; see :class:`TextEpisode`.
    """

    def __init__(
        self,
        world: str,
        options: Mapping[str, Any] | None = None,
        *,
        opponent: str | None = None,
        run: RecordedRun | None = None,
        invalid: InvalidAnswers | None = None,
    ) -> None:
        self._world = world
        self._options = dict(options or {})
        self._opponent = opponent
        self._run = run
        self._invalid = invalid

    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> WorldSession:
        """Return a session with a new episode.

        Args:
            task: Options of the world for this episode, or ``None``.
            seed: Its seed; ``None`` for a random one.
            episode_id: Ignored.

        Raises:
            InvalidRequest: The world is unknown, or an option is invalid.
        """
        options = dict(task) if isinstance(task, Mapping) else {}
        episode = TextEpisode(
            self._world, self._options, opponent=self._opponent, run=self._run, invalid=self._invalid
        )
        return WorldSession(episode, seed, options)

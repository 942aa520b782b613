"""Sessions of a world for OpenEnv's harness, such as ``MCPHarnessAdapter``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openenv.core.env_server.mcp_types import Tool
from openenv.core.harness import ResourceSession, ResourceSessionFactory, ToolResult, VerifyResult

from spectator.training.text_episode import TextEpisode


class WorldSession(ResourceSession):  # type: ignore[misc]  # the package has no types
    """One episode, driven by a harness.

    Args:
        episode: The episode; it is started here.
        seed: Its seed; ``None`` for a random one.
        options: Further options of the world.
    """

    def __init__(self, episode: TextEpisode, seed: int | None, options: Mapping[str, Any]) -> None:
        self._episode = episode
        self._prompt = episode.reset(seed, options)
        self._rewards: list[float] = []

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
        text = self._episode.use(name, arguments)
        seen = self._episode.observation
        self._rewards.append(float(seen.reward))
        metadata = {"reward": float(seen.reward), "value": self._episode.value}
        refused = None if seen.refused is None else seen.refused.rule
        return ToolResult(data=text, done=seen.done, metadata=metadata, error=refused)

    def verify(self, transcript: list[dict[str, Any]], final_state: Any | None = None) -> Any:
        """Return the reward, value and rubric so far."""
        metrics = {"value": self._episode.value, **self._episode.rubric}
        reward = sum(self._rewards)
        return VerifyResult(env_reward=reward, done=self._episode.done, metrics=metrics)

    def close(self) -> None:
        """Close the episode."""
        self._episode.close()


class WorldSessionFactory(ResourceSessionFactory):  # type: ignore[misc]  # the package has no types
    """Creates a session for each rollout.

    Args:
        world: Name in the catalogue.
        options: The world's options, for every episode.
        opponent: Preset for all other seats.
    """

    def __init__(
        self, world: str, options: Mapping[str, Any] | None = None, *, opponent: str | None = None
    ) -> None:
        self._world = world
        self._options = dict(options or {})
        self._opponent = opponent

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
        episode = TextEpisode(self._world, self._options, opponent=self._opponent)
        return WorldSession(episode, seed, options)

"""OpenEnv's harness: sessions of a world for ``MCPHarnessAdapter`` and whatever else drives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openenv.core.env_server.mcp_types import Tool
from openenv.core.harness import ResourceSession, ResourceSessionFactory, ToolResult, VerifyResult

from spectator.training.text_episode import TextEpisode


class WorldSession(ResourceSession):  # type: ignore[misc]  # the package has no types
    """One episode, as a harness drives it.

    Args:
        episode: The episode; it is begun here.
        seed: Its seed; ``None`` has one drawn.
        options: Further options of the world.
    """

    def __init__(self, episode: TextEpisode, seed: int | None, options: Mapping[str, Any]) -> None:
        self._episode = episode
        self._prompt = episode.reset(seed, options)
        self._rewards: list[float] = []

    def initial_messages(self) -> list[dict[str, Any]]:
        """The brief and the whole situation."""
        return [{"role": "user", "content": self._prompt}]

    def list_tools(self) -> list[Any]:
        """Every tool of the world."""
        return [
            Tool(
                name=one["tool"],
                description=str(one["arguments"].get("description", one["tool"])),
                input_schema=dict(one["arguments"]),
            )
            for one in self._episode.tools
        ]

    def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Use a tool; the reward is in the result's metadata, as OpenEnv's own sessions have it."""
        text = self._episode.use(name, arguments)
        seen = self._episode.observation
        self._rewards.append(float(seen.reward))
        metadata = {"reward": float(seen.reward), "value": self._episode.value}
        refused = None if seen.refused is None else seen.refused.rule
        return ToolResult(data=text, done=seen.done, metadata=metadata, error=refused)

    def verify(self, transcript: list[dict[str, Any]], final_state: Any | None = None) -> Any:
        """What the world rewarded; the value and the rubric so far, also of an episode cut short."""
        metrics = {"value": self._episode.value, **self._episode.rubric}
        reward = sum(self._rewards)
        return VerifyResult(env_reward=reward, done=self._episode.done, metrics=metrics)

    def close(self) -> None:
        """Let go of the episode."""
        self._episode.close()


class WorldSessionFactory(ResourceSessionFactory):  # type: ignore[misc]  # the package has no types
    """Makes a session for each rollout.

    Args:
        world: Name in the catalogue.
        options: The world's options, for every episode.
        opponent: Preset that takes every other seat.
    """

    def __init__(
        self, world: str, options: Mapping[str, Any] | None = None, *, opponent: str | None = None
    ) -> None:
        self._world = world
        self._options = dict(options or {})
        self._opponent = opponent

    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> WorldSession:
        """A session with an episode of its own.

        Args:
            task: Options of the world for this episode, or ``None``.
            seed: Its seed; ``None`` has one drawn.
            episode_id: Not needed here.

        Raises:
            InvalidRequest: There is no such world, or an option is wrong.
        """
        options = dict(task) if isinstance(task, Mapping) else {}
        episode = TextEpisode(self._world, self._options, opponent=self._opponent)
        return WorldSession(episode, seed, options)

"""A Gymnasium wrapper that makes episodes watchable."""

from __future__ import annotations

from typing import Any

import gymnasium

from spectator.watchable.watched_env import EnvTap


class WatchedGymnasium(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A watched Gymnasium environment; can be wrapped further.

    Args:
        env: The environment.
        tap: Reports to the run.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], tap: EnvTap) -> None:
        super().__init__(env)
        self.tap = tap

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and begin an episode."""
        returned = self.env.reset(seed=seed, options=options)
        self.tap.begin(returned, seed)
        return returned

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step the environment and record the step."""
        answer: tuple[Any, Any, bool, bool, dict[str, Any]] = self.tap.stepped(self.env.step, action)
        return answer

    def close(self) -> None:
        """Close the environment, and its run if it owns one."""
        self.tap.close()
        super().close()

"""A Gymnasium wrapper whose episodes are watched."""

from __future__ import annotations

from typing import Any

import gymnasium

from spectator.watchable.watched_loop import EnvTap


class WatchedGymnasium(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment of Gymnasium, watched, to be wrapped further like any other.

    Args:
        env: The environment.
        tap: Tells its run.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], tap: EnvTap) -> None:
        super().__init__(env)
        self.tap = tap

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; as the environment does."""
        shown = self.env.reset(seed=seed, options=options)
        self.tap.begin(shown, seed)
        return shown

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Carry out an action; as the environment does."""
        answer: tuple[Any, Any, bool, bool, dict[str, Any]] = self.tap.stepped(self.env.step, action)
        return answer

    def close(self) -> None:
        """Let the environment go, and its run."""
        self.tap.close()
        super().close()

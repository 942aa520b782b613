"""An environment with ``reset`` and ``step`` whose episodes are watched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spectator.watchable.watched_episode import WatchedEpisode
from spectator.watchable.watched_loop import WatchedLoop


class EnvTap:
    """Tells a run what an environment was asked, and what it answered.

    Args:
        run: The run.
        owned: Whether the run is closed with the environment.
    """

    def __init__(self, run: WatchedLoop, *, owned: bool) -> None:
        self._run = run
        self._owned = owned
        self._episode: WatchedEpisode | None = None

    def begin(self, shown: Any, seed: object) -> None:
        """``reset`` was answered."""
        self.leave("it was reset before its end")
        pair = isinstance(shown, tuple) and len(shown) == 2 and isinstance(shown[1], Mapping)
        self._episode = self._run.episode(seed=seed, observation=shown[0] if pair else shown)

    def stepped(self, step: Callable[..., Any], action: Any, *given: Any, **named: Any) -> Any:
        """What ``step`` answers to an action; the run is told of it, or of what it raises."""
        try:
            answer = step(action, *given, **named)
        except BaseException as error:
            self.fail(error)
            raise
        self.take(action, answer)
        return answer

    def take(self, action: Any, answer: Any) -> None:
        """``step`` was answered: in the form of Gymnasium or of Gym before it, or as one observation."""
        episode = self._episode
        if episode is None:
            return
        observation, reward, done, truncated = _parts(answer)
        episode.step(action=action, observation=observation, reward=reward)
        if done or truncated:
            episode.end(truncated=bool(truncated) and not done)
            self._episode = None

    def fail(self, error: BaseException) -> None:
        """It raised."""
        if self._episode is not None:
            self._episode.fail(error)
            self._episode = None

    def leave(self, why: str) -> None:
        """The episode under way goes no further."""
        if self._episode is not None:
            self._episode.end(truncated=why)
            self._episode = None

    def close(self) -> None:
        """The environment is closed."""
        self.leave("the environment was closed before its end")
        if self._owned:
            self._run.close()


class WatchedEnv:
    """An environment like those of Gymnasium, watched; whatever else it has is reached through this one.

    Args:
        env: The environment.
        tap: Tells its run.
    """

    def __init__(self, env: Any, tap: EnvTap) -> None:
        self.env = env
        self.tap = tap

    def __getattr__(self, name: str) -> Any:
        if name in ("env", "tap"):
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset(self, *given: Any, **named: Any) -> Any:
        """Begin an episode; as the environment does."""
        shown = self.env.reset(*given, **named)
        self.tap.begin(shown, named.get("seed"))
        return shown

    def step(self, action: Any, *given: Any, **named: Any) -> Any:
        """Carry out an action; as the environment does."""
        return self.tap.stepped(self.env.step, action, *given, **named)

    def close(self) -> None:
        """Let the environment go, where it can be, and its run."""
        self.tap.close()
        if callable(close := getattr(self.env, "close", None)):
            close()


def _parts(answer: Any) -> tuple[Any, Any, Any, Any]:
    """Observation, reward, and whether it is over or was cut short."""
    if isinstance(answer, tuple) and len(answer) == 5:
        return answer[0], answer[1], answer[2], answer[3]
    if isinstance(answer, tuple) and len(answer) == 4:
        cut = isinstance(answer[3], Mapping) and bool(answer[3].get("TimeLimit.truncated"))
        return answer[0], answer[1], answer[2] and not cut, cut
    observation = getattr(answer, "observation", answer)
    return observation, getattr(answer, "reward", None), getattr(answer, "done", False), False

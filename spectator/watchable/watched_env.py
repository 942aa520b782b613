"""Environments of other libraries, watched by being wrapped.

Known forms of ``reset`` and ``step``: Gymnasium and Gym, batches of Stable-Baselines3 (``num_envs``),
PettingZoo in parallel and in turns, ``TimeStep`` of dm_env and OpenSpiel, ``(done, info)`` of TextArena, and
objects with ``observation``, ``reward`` and ``done``. Once a loop runs, a watched environment raises nothing
of its own: what cannot be read ends the episode's record with a warning.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from spectator.watchable.recorder_client import attempted, words_of

if TYPE_CHECKING:
    from spectator.watchable.watched_loop import WatchedEpisode, WatchedLoop

LARGEST_BATCH = 1024
"""Maximum number of environments in a batch, each of which has episodes of its own."""


class StepReading(NamedTuple):
    """What a step returned, in one form.

    Args:
        observation: The observation after the action.
        reward: The reward; of several agents, the sum of theirs; ``None`` if unknown.
        ended: Whether the episode ended by the rules.
        cut: Whether it was cut short.
    """

    observation: Any
    reward: Any
    ended: bool
    cut: bool


@dataclass(slots=True)
class EnvTap:
    """Reports an environment's resets and steps to a run.

    Args:
        run: The run.
        owned: Whether to close the run with the environment.
    """

    run: WatchedLoop
    owned: bool
    episode: WatchedEpisode | None = None

    def begin(self, returned: Any, seed: object) -> None:
        """Begin an episode with what ``reset`` returned."""
        self.attempt(lambda: self.open(_first_observation(returned), seed))

    def open(self, observation: Any, seed: object = None) -> None:
        """Begin an episode with its first observation."""
        self.leave("it was reset before its end")
        self.episode = self.run.episode(seed=seed, observation=observation)

    def stepped(self, step: Callable[..., Any], action: Any, *given: Any, **named: Any) -> Any:
        """Call ``step`` with an action, report its result or exception, and pass it on."""
        try:
            answer = step(action, *given, **named)
        except BaseException as error:
            self.fail(error)
            raise
        self.attempt(lambda: self.take(action, step_of(answer)))
        return answer

    def take(self, action: Any, step: StepReading) -> None:
        """Report a step."""
        if self.episode is None:
            return
        self.episode.step(action=action, observation=step.observation, reward=step.reward)
        if step.ended or step.cut:
            self.episode.end(truncated=step.cut and not step.ended)
            self.episode = None

    def attempt(self, report: Callable[[], None]) -> None:
        """Report; if that fails, end the episode instead of raising into the loop."""
        _, error = attempted(report)
        if error is not None:
            kind = type(error).__name__
            self.run.warn("form", f"an episode is not recorded completely: {kind}: {words_of(error)}")
            self.leave("what the environment returned cannot be read")

    def fail(self, error: BaseException) -> None:
        """End the episode as failed."""
        if self.episode is not None:
            self.episode.fail(error)
            self.episode = None

    def leave(self, why: str) -> None:
        """End the current episode as cut short."""
        if self.episode is not None:
            self.episode.end(truncated=why)
            self.episode = None

    def close(self) -> None:
        """End the current episode, and close the run if it is owned."""
        self.leave("the environment was closed before its end")
        if self.owned:
            self.run.close()


class WatchedEnv:
    """A watched environment; passes other attributes through.

    Args:
        env: The environment.
        run: The run.
        owned: Whether to close the run with the environment.
    """

    def __init__(self, env: Any, run: WatchedLoop, owned: bool) -> None:
        self.env = env
        self.tap = EnvTap(run, owned)

    def __getattr__(self, name: str) -> Any:
        if name in ("env", "tap"):
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset(self, *given: Any, **named: Any) -> Any:
        """Reset the environment and begin an episode."""
        returned = self.env.reset(*given, **named)
        self.tap.begin(returned, named.get("seed"))
        return returned

    def step(self, action: Any, *given: Any, **named: Any) -> Any:
        """Step the environment and record the step."""
        return self.tap.stepped(self.env.step, action, *given, **named)

    def close(self) -> Any:
        """Close the environment if it can be closed, and its run if it owns one."""
        self.tap.close()
        return close() if callable(close := getattr(self.env, "close", None)) else None


class WatchedTurns(WatchedEnv):
    """A watched PettingZoo environment in turns (AEC), whose ``reset`` and ``step`` return nothing."""

    def reset(self, *given: Any, **named: Any) -> Any:
        """Reset the environment and begin an episode."""
        returned = self.env.reset(*given, **named)
        self.tap.attempt(lambda: self.tap.open(self._observation(), named.get("seed")))
        return returned

    def step(self, action: Any, *given: Any, **named: Any) -> Any:
        """Step the environment and record the step of the agent whose turn it was."""
        agent = getattr(self.env, "agent_selection", None)
        try:
            answer = self.env.step(action, *given, **named)
        except BaseException as error:
            self.tap.fail(error)
            raise
        self.tap.attempt(lambda: self.tap.take({"agent": agent, "action": action}, self._taken()))
        return answer

    def _observation(self) -> Any:
        return self.env.observe(self.env.agent_selection) if self.env.agents else None

    def _taken(self) -> StepReading:
        ends, cuts = self.env.terminations, self.env.truncations
        over = all(ends[agent] or cuts.get(agent) for agent in ends)
        return StepReading(self._observation(), _total(self.env.rewards), over and any(ends.values()), over)


class WatchedBatch(WatchedEnv):
    """A watched batch of environments that reset themselves, in the form of Stable-Baselines3.

    Each environment of the batch has episodes of its own. The observation in a step that ends an episode is
    ``terminal_observation`` of its info, if given; that of the batch begins the next one.
    """

    def __init__(self, env: Any, run: WatchedLoop, owned: bool) -> None:
        super().__init__(env, run, owned)
        self.taps = [EnvTap(run, False) for _ in range(env.num_envs)]

    def reset(self, *given: Any, **named: Any) -> Any:
        """Reset the batch and begin an episode of each environment."""
        returned = self.env.reset(*given, **named)
        self.tap.attempt(lambda: self._begin(returned))
        return returned

    def step(self, action: Any, *given: Any, **named: Any) -> Any:
        """Step the batch and record a step of each environment."""
        try:
            answer = self.env.step(action, *given, **named)
        except BaseException as error:
            for tap in self.taps:
                tap.fail(error)
            raise
        self.tap.attempt(lambda: self._take(action, answer))
        return answer

    def close(self) -> Any:
        """Close the batch, and its run if it owns one."""
        for tap in self.taps:
            tap.leave("the environment was closed before its end")
        return super().close()

    def _begin(self, returned: Any) -> None:
        observations = _first_observation(returned)
        for index, tap in enumerate(self.taps):
            tap.open(_of(observations, index))

    def _take(self, action: Any, answer: Any) -> None:
        observations, rewards, dones, infos = answer
        for index, tap in enumerate(self.taps):
            ended = bool(dones[index])
            info = infos[index] if isinstance(infos[index], Mapping) else {}
            cut = ended and bool(info.get("TimeLimit.truncated"))
            last = info.get("terminal_observation", _of(observations, index))
            seen = last if ended else _of(observations, index)
            tap.take(_of(action, index), StepReading(seen, rewards[index], ended and not cut, cut))
            if ended:
                tap.open(_of(observations, index))


def is_environment(what: Any) -> bool:
    """Whether an object has ``reset`` and ``step``."""
    return callable(getattr(what, "reset", None)) and callable(getattr(what, "step", None))


def wrapper_of(what: Any) -> Callable[[Any, WatchedLoop, bool], Any]:
    """Return what wraps an environment, given it, the run, and whether it owns the run.

    Raises:
        TypeError: ``what`` is no environment, or of a form that cannot be watched.
    """
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is not None:
        if isinstance(what, gymnasium.vector.VectorEnv):
            raise TypeError("cannot watch a vector environment; watch each of its environments instead")
        if isinstance(what, gymnasium.Env):
            from spectator.watchable.gymnasium_wrapper import WatchedGymnasium

            return lambda env, run, owned: WatchedGymnasium(env, EnvTap(run, owned))
    if not is_environment(what):
        raise TypeError(
            f"a {type(what).__name__} cannot be watched; pass a folder, an environment with reset and step, "
            "or a function"
        )
    if hasattr(what, "agent_selection") or callable(getattr(what, "agent_iter", None)):
        return WatchedTurns
    size = getattr(what, "num_envs", None)
    if size is None:
        return WatchedEnv
    if not isinstance(size, int) or not 1 <= size <= LARGEST_BATCH:
        raise TypeError(f"cannot watch a batch of {size} environments; watch at most {LARGEST_BATCH}")
    return WatchedBatch


def step_of(answer: Any) -> StepReading:
    """Read what ``step`` returned; see the forms that this module knows.

    Raises:
        ValueError: The ends of a batch whose form is not known.
    """
    if callable(last := getattr(answer, "last", None)) and hasattr(answer, "step_type"):
        over, discount = bool(last()), getattr(answer, "discount", None)
        cut = over and isinstance(discount, float | int) and discount > 0
        reward = getattr(answer, "reward", None)
        reward = getattr(answer, "rewards", None) if reward is None else reward
        return StepReading(_first_observation(answer), _total(reward), over and not cut, cut)
    if isinstance(answer, tuple) and len(answer) == 5:
        observation, reward, ended, cut, _ = answer
        if isinstance(ended, Mapping) or isinstance(cut, Mapping):
            if not (isinstance(ended, Mapping) and isinstance(cut, Mapping)):
                raise ValueError("terminated and truncated must both be mappings by agent, or both be flags")
            over = all(bool(ended[agent]) or bool(cut.get(agent)) for agent in ended)
            return StepReading(observation, _total(reward), over and any(map(bool, ended.values())), over)
        return StepReading(observation, _total(reward), bool(ended), bool(cut))
    if isinstance(answer, tuple) and len(answer) == 4:
        observation, reward, ended, info = answer
        if isinstance(ended, Mapping):
            over = bool(ended["__all__"]) if "__all__" in ended else all(map(bool, ended.values()))
            return StepReading(observation, _total(reward), over, False)
        cut = isinstance(info, Mapping) and bool(info.get("TimeLimit.truncated"))
        return StepReading(observation, _total(reward), bool(ended) and not cut, cut)
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], bool):
        return StepReading(answer[1], None, answer[0], False)
    observation = getattr(answer, "observation", answer)
    return StepReading(
        observation, getattr(answer, "reward", None), bool(getattr(answer, "done", False)), False
    )


def _first_observation(returned: Any) -> Any:
    """Return the observation in what ``reset`` returned: the first of a pair, or that of a ``TimeStep``."""
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], Mapping):
        return returned[0]
    if hasattr(returned, "step_type"):
        observation = getattr(returned, "observation", None)
        return getattr(returned, "observations", None) if observation is None else observation
    return returned


def _total(reward: Any) -> Any:
    """Return a reward, or the sum of the rewards of several agents."""
    if isinstance(reward, Mapping):
        return sum(reward.values()) if reward else None
    if isinstance(reward, list | tuple):
        return sum(reward) if reward else None
    return reward


def _of(batch: Any, index: int) -> Any:
    """Return one environment's part of a batch: a sequence, an array, or a mapping of those."""
    if isinstance(batch, Mapping):
        return {name: _of(part, index) for name, part in batch.items()}
    if (isinstance(batch, Sequence) and not isinstance(batch, str)) or hasattr(batch, "shape"):
        return batch[index] if getattr(batch, "ndim", 1) else batch
    return batch

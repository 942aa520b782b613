"""Environments of other libraries, watched by being wrapped.

A watched environment behaves as the one inside, also for ``isinstance``; only its resets and steps are read.
Known forms: Gymnasium and Gym, vector environments of Gymnasium, batches of Stable-Baselines3 and EnvPool,
PettingZoo in parallel and in turns, ``TimeStep`` of dm_env and OpenSpiel, TextArena, OpenEnv, and objects or
mappings with ``observation``, ``reward`` and ``done``; coroutines too. Once a loop runs, a watched
environment raises nothing of its own: what cannot be read ends the episode's record with a warning.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spectator.watchable.env_forms import resets_of, size_of
from spectator.watchable.loop_values import attempted, finite, plain
from spectator.watchable.step_reading import StepReading, cut_in, ends_of, first_observation, part_of, step_of

if TYPE_CHECKING:
    from spectator.watchable.watched_loop import WatchedEpisode, WatchedLoop


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
    waiting: tuple[Any, object] | None = None
    """Observation and seed of an episode that begins with its first step."""
    earned: dict[str, float] = field(default_factory=dict)
    """Sum of the rewards of each agent, if there are several."""

    def open(self, observation: Any, seed: object = None) -> None:
        """Begin an episode with its first observation once it is stepped: loops also reset after the last."""
        self._leave("it was reset before its end")
        copy, error = attempted(plain, observation)
        self.waiting = (copy if error is None else observation, seed)

    def see(self, observation: Any) -> None:
        """Begin the episode that waits, with another first observation."""
        if self.waiting is not None:
            self.waiting = (observation, self.waiting[1])
            self._begin()

    def take(self, action: Any, at: float, observation: Any, reward: Any, ended: bool, cut: bool) -> None:
        """Report a step, taken ``at`` a time of ``time.monotonic``."""
        self._begin()
        if self.episode is None:
            return
        if type(reward) is not float and isinstance(reward, Mapping | list | tuple):
            reward, error = attempted(self._sum, reward)
            if error is not None:
                self.give_up(error)
                return
        self.episode.record(at, reward, observation, action)
        if ended or cut:
            parts = [f"{agent} {total:g}" for agent, total in self.earned.items()]
            self.episode.end(truncated=cut and not ended, result=", ".join(parts) or None)
            self.episode = None

    def _sum(self, rewards: Any) -> Any:
        """Return the sum of the agents' rewards."""
        if isinstance(rewards, Mapping):
            for agent, part in rewards.items():
                self.earned[str(agent)] = self.earned.get(str(agent), 0.0) + (finite(part) or 0.0)
            rewards = [*rewards.values()]
        return sum(rewards) if rewards else None

    def attempt(self, read: Callable[..., None], *given: Any) -> None:
        """Read; if that fails, end the episode instead of raising into the loop."""
        error = attempted(read, *given)[1]
        if error is not None:
            self.run.later(self.give_up, error)

    def give_up(self, error: Exception) -> None:
        """End the episode because of something that cannot be read, and raise ``error`` to be logged."""
        self._begin()
        self._leave("what the environment returned cannot be read")
        raise error

    def fail(self, error: BaseException) -> None:
        """End the episode as failed."""
        self._begin()
        if self.episode is not None:
            self.episode.fail(error)
        self.episode = self.waiting = None

    def _begin(self) -> None:
        """Begin the episode that waits for its first step."""
        if self.waiting is not None:
            (observation, seed), self.waiting, self.earned = self.waiting, None, {}
            self.episode = self.run.episode(seed=seed, observation=observation)

    def _leave(self, why: str) -> None:
        if self.episode is not None:
            self.episode.end(truncated=why)
        self.episode = self.waiting = None

    def close(self) -> None:
        """End the current episode as cut short."""
        self._leave("the environment was closed before its end")


class WatchedEnv:
    """A watched environment; everything but its resets and steps passes through.

    Args:
        env: The environment.
        run: The run.
        owned: Whether to close the run with the environment.
    """

    def __init__(self, env: Any, run: WatchedLoop, owned: bool) -> None:
        self._ended: bool
        vars(self).update(
            env=env, _tap=EnvTap(run, owned), _later=run.later, _resets=resets_of(env), _ended=False
        )

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(vars(self)["env"])

    def __getattr__(self, name: str) -> Any:
        if name == "env" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        return getattr(self.env, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self):
            vars(self)[name] = value
        else:
            setattr(self.env, name, value)

    def __reduce__(self) -> Any:
        return wrapped, (self.env, self._tap.run, self._tap.owned)

    def __str__(self) -> str:
        return str(self.env)

    def __repr__(self) -> str:
        return f"<watched {self.env!r}>"

    def __enter__(self) -> Any:
        if hasattr(self.env, "__enter__"):
            self.env.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        try:
            return self.env.__exit__(*error) if hasattr(self.env, "__exit__") else None
        finally:
            self._tap.attempt(self._end)

    async def __aenter__(self) -> Any:
        await self.env.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        try:
            return await self.env.__aexit__(*error)
        finally:
            self._tap.attempt(self._end)

    def reset(self, *given: Any, **named: Any) -> Any:
        """Reset the environment and begin an episode."""
        report = self._resetting(named)
        return self._watched(self.env.reset(*given, **named), report)

    def step(self, *given: Any, **named: Any) -> Any:
        """Step the environment and record the step."""
        action = given[0] if given else next(iter(named.values()), None)
        try:
            answer = self.env.step(*given, **named)
        except BaseException as error:
            self._fail(error)
            raise
        if type(answer) is not tuple:
            return self._watched(answer, partial(self._take, action), steps=True)
        self._tap.attempt(self._take, action, answer)
        return answer

    def close(self, *given: Any, **named: Any) -> Any:
        """Close the environment if it can be closed, and its run if it owns one."""
        close = getattr(self.env, "close", None)
        answer = None
        try:
            answer = close(*given, **named) if callable(close) else None
            return answer
        finally:
            self._tap.attempt(self._end, answer)

    def _resetting(self, named: Mapping[str, Any]) -> Callable[[Any], None]:
        """Return what reports the reset that follows, given its arguments."""
        seed = named.get("seed")
        return lambda returned: self._later(self._tap.open, first_observation(returned), seed)

    def _take(self, action: Any, answer: Any) -> None:
        """Report what a step returned."""
        step = step_of(answer, self.env)
        if step is None or (self._ended and self._resets == "NEXT_STEP"):
            self._later(self._tap.open, first_observation(answer) if step is None else step.observation)
            self._ended = False
            return
        self._later(self._tap.take, action, time.monotonic(), *step)
        self._ended = step.ended or step.cut
        if self._ended and self._resets == "SAME_STEP":
            self._later(self._tap.open, step.observation)

    def _end(self, answer: Any = None) -> None:
        """Report that the environment was closed, and what ``close`` returned."""
        self._later(self._tap.close)
        if self._tap.owned:
            self._tap.run.close()

    def _fail(self, error: BaseException) -> None:
        self._later(self._tap.fail, error)

    def _tried(self, work: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        try:
            return work(*given, **named)
        except BaseException as error:
            self._fail(error)
            raise

    def _watched(self, answer: Any, report: Callable[[Any], None], *, steps: bool = False) -> Any:
        """Report an answer and return it; of a coroutine, when it is awaited."""
        awaited = partial(self._awaited, answer, report, steps)
        if type(answer) is not tuple and inspect.iscoroutine(answer):
            return awaited()
        if type(answer) is not tuple and hasattr(answer, "__await__"):
            return WatchedAnswer(answer, awaited, partial(self._tap.attempt, report))
        self._tap.attempt(report, answer)
        return answer

    async def _awaited(self, answer: Any, report: Callable[[Any], None], steps: bool) -> Any:
        try:
            found = await answer
        except BaseException as error:
            if steps:
                self._fail(error)
            raise
        self._tap.attempt(report, found)
        return found


class WatchedAnswer:
    """An answer that can be awaited, or used at once, as that of OpenEnv's client; reported when it is."""

    def __init__(self, answer: Any, awaited: Callable[[], Any], report: Callable[[Any], None]) -> None:
        self._answer, self._awaited, self._report = answer, awaited, report

    def __await__(self) -> Any:
        return self._awaited().__await__()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._answer, name)
        report, self._report = self._report, lambda _: None
        report(self._answer)
        return found


LOOKS: Final = {"last": 0, "observe": None, "get_observation": 1}
"""What a loop asks for an observation between steps, and the observation's place in the answer."""


class WatchedTurns(WatchedEnv):
    """A watched environment in turns: PettingZoo (AEC) and TextArena.

    The loop asks for observations between steps. A step is reported with the next one that it gets, so that
    the environment is never asked by its watcher. A step of PettingZoo for an agent that is out is not
    counted. TextArena gives the rewards at the end.
    """

    def __init__(self, env: Any, run: WatchedLoop, owned: bool) -> None:
        super().__init__(env, run, owned)
        vars(self).update(_held=None, _agent=None)

    _held: tuple[Any, StepReading] | None

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        return partial(self._look, found, LOOKS[name]) if name in LOOKS else found

    def _look(self, work: Callable[..., Any], place: int | None, *given: Any, **named: Any) -> Any:
        answer = work(*given, **named)
        self._tap.attempt(self._see, answer, place)
        return answer

    def _see(self, answer: Any, place: int | None) -> None:
        observation = answer if place is None else answer[place]
        if self._held is None:
            self._later(self._tap.see, observation)
        self._report(observation)

    def _report(self, observation: Any = None) -> None:
        """Report the step that waits for its observation."""
        if self._held is not None:
            (action, step), self._held = self._held, None
            self._later(self._tap.take, action, time.monotonic(), *step._replace(observation=observation))

    def _resetting(self, named: Mapping[str, Any]) -> Callable[[Any], None]:
        seed = named.get("seed")

        def report(_: Any) -> None:
            self._report()
            self._later(self._tap.open, None, seed)

        return report

    def step(self, *given: Any, **named: Any) -> Any:
        """Report the step before, step the environment, and keep the step until it is reported."""
        self._tap.attempt(self._report)
        self._agent = attempted(self._mover)[0]
        return super().step(*given, **named)

    def _mover(self) -> Any:
        """Return the agent whose turn it is; ``...`` if it is out."""
        if not hasattr(self.env, "agent_iter"):
            return self.env.state.current_player_id
        agent = self.env.agent_selection
        return ... if self.env.terminations[agent] or self.env.truncations[agent] else agent

    def _take(self, action: Any, answer: Any) -> None:
        agent = self._agent
        if agent is ...:
            return
        if agent is not None:
            action = {"agent": agent, "action": action}
        if isinstance(answer, tuple) and len(answer) == 2:
            rewards = getattr(getattr(self.env, "state", None), "rewards", None) if answer[0] else None
            step = StepReading(None, rewards, bool(answer[0]), False)
            shown = step.ended and rewards is not None
        else:
            ended, cut = ends_of(self.env.terminations, self.env.truncations, self.env.agents)
            step = StepReading(None, dict(self.env.rewards), ended, cut)
            shown = ended or cut
        self._held = (action, step)
        if shown:
            self._report()

    def _end(self, answer: Any = None) -> None:
        if self._held is not None and isinstance(answer, tuple) and answer and isinstance(answer[0], Mapping):
            self._held = (self._held[0], self._held[1]._replace(reward=answer[0]))
        self._report()
        super()._end(answer)


SENDS: Final = ("step_async", "send")
"""Methods of a batch that take actions, to be answered by one of :data:`RECEIVES`."""

RECEIVES: Final = ("step_wait", "recv")


class WatchedBatch(WatchedEnv):
    """A watched batch of environments: a vector environment of Gymnasium, of Stable-Baselines3 or EnvPool.

    Each environment has episodes of its own. One that has ended is reset in the same step
    (Stable-Baselines3), in the next step, whose action is ignored (EnvPool), or by a later call, as
    ``metadata["autoreset_mode"]`` says.
    """

    def __init__(self, env: Any, run: WatchedLoop, owned: bool) -> None:
        super().__init__(env, run, owned)
        size = size_of(env) or 0
        taps = [EnvTap(run, False) for _ in range(size)]
        self._taps: list[EnvTap]
        self._over: list[bool]
        vars(self).update(_taps=taps, _over=[False] * size, _sent=None)

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name in SENDS:
            return partial(self._send, found)
        if name in RECEIVES:
            return partial(self._receive, found)
        if name == "reset_wait":
            return lambda *given, **named: self._watched(found(*given, **named), self._resetting({}))
        return partial(self._reset_later, found) if name == "async_reset" else found

    def _send(self, work: Callable[..., Any], *given: Any, **named: Any) -> Any:
        self._sent = given[0] if given else next(iter(named.values()), None)
        return self._tried(work, given, named)

    def _receive(self, work: Callable[..., Any], *given: Any, **named: Any) -> Any:
        return self._watched(self._tried(work, given, named), partial(self._take, self._sent), steps=True)

    def _reset_later(self, work: Callable[..., Any], *given: Any, **named: Any) -> Any:
        self._later(self._end_all)
        return work(*given, **named)

    def _end_all(self) -> None:
        self._over = [True] * len(self._over)

    def _resetting(self, named: Mapping[str, Any]) -> Callable[[Any], None]:
        seed, options = named.get("seed"), named.get("options")
        mask = options.get("reset_mask") if isinstance(options, Mapping) else None
        rows = len(self._taps)
        return lambda returned: self._later(self._open, first_observation(returned), seed, mask, rows=rows)

    def _open(self, observations: Any, seed: Any, mask: Any) -> None:
        for index, tap in enumerate(self._taps):
            if mask is None or mask[index]:
                own = seed[index] if isinstance(seed, Sequence) else None if seed is None else seed + index
                self._over[index] = False
                tap.open(part_of(observations, index), own)

    def _take(self, action: Any, answer: Any) -> None:
        kinds = finals = None
        if hasattr(answer, "step_type"):
            observations, rewards, kinds = answer.observation, answer.reward, answer.step_type
            resets = "NEXT_STEP"
            ended, cuts = kinds == 2, (kinds == 2) & (answer.discount > 0)
        elif len(answer) == 4:
            observations, rewards, ended, infos = answer
            resets = self._resets or "SAME_STEP"
            if isinstance(infos, Mapping):
                cuts, finals = cut_in(infos), finals_in(infos)
            else:
                cuts = [bool(cut_in(info)) for info in infos]
                finals = [info.get("terminal_observation") for info in infos]
            ended = [bool(over) and not part_of(cuts, index) for index, over in enumerate(ended)]
        else:
            observations, rewards, ended, cuts, infos = answer
            resets, finals = self._resets, finals_in(infos)
            if resets is None:
                raise ValueError(
                    "the batch does not say when it resets its environments; set metadata['autoreset_mode']"
                )
        finals = finals if resets == "SAME_STEP" else None
        self._later(
            self._split, action, time.monotonic(), observations, rewards, ended, cuts, kinds, resets, finals,
            rows=len(self._taps),
        )  # fmt: skip

    def _split(
        self, action: Any, at: float, observations: Any, rewards: Any, ended: Any, cuts: Any, kinds: Any,
        resets: str, finals: Any,
    ) -> None:  # fmt: skip
        """Report a step of each environment."""
        for index, tap in enumerate(self._taps):
            seen = part_of(observations, index)
            if (self._over[index] and resets == "NEXT_STEP") or (kinds is not None and kinds[index] == 0):
                self._over[index] = False
                tap.open(seen)
                continue
            end, cut = bool(ended[index]), bool(part_of(cuts, index))
            over = self._over[index] = end or cut
            final = finals[index] if over and finals is not None else None
            tap.take(part_of(action, index), at, seen if final is None else final, rewards[index], end, cut)
            if over and resets == "SAME_STEP":
                tap.open(seen)

    def _end(self, answer: Any = None) -> None:
        for tap in self._taps:
            self._later(tap.close)
        super()._end(answer)

    def _fail(self, error: BaseException) -> None:
        for tap in self._taps:
            self._later(tap.fail, error)


def finals_in(infos: Mapping[str, Any]) -> Any:
    """Return the last observations of the environments of a batch that were reset in a step."""
    return infos.get("final_obs", infos.get("final_observation"))


def wrapped(env: Any, run: WatchedLoop, owned: bool) -> Any:
    """Return an environment of a form that can be watched, watched."""
    kind: type[WatchedEnv] = WatchedEnv
    if any(callable(getattr(env, name, None)) for name in ("agent_iter", "get_observation")):
        kind = WatchedTurns
    elif size_of(env) is not None:
        kind = WatchedBatch
    found = [name for name in PASSED if hasattr(type(env), name)]
    if found:
        kind = type(kind.__name__, (kind,), {name: _passing(name) for name in found})
    return kind(env, run, owned)


PASSED: Final = ("__len__", "__iter__", "__getitem__", "__contains__", "__call__")
"""Special methods that a watched environment has if the one inside has them."""


def _passing(name: str) -> Callable[..., Any]:
    return lambda self, *given: getattr(self.env, name)(*given)

"""Make a loop, an environment or a function watchable.

What a loop reports is sent to its recorder; nothing is returned to the loop, and no call raises.
"""

from __future__ import annotations

import inspect
import itertools
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, overload

from spectator.watchable.recorder_client import RecorderLine, attempted, encoded, finite, words_of

MAX_MESSAGE: Final = 4 * 1024 * 1024
"""Bytes of one step as JSON."""


class WatchedEpisode:
    """An episode that is recorded as it is played; nothing that it is told ever raises.

    As a context manager it ends with its block: with all its rewards, or as failed where an exception passes,
    which goes on untouched.

    Args:
        line: Where it is sent.
        number: Its own, in this process.
        begin: What is told of its beginning.
    """

    def __init__(self, line: RecorderLine, number: int, begin: Mapping[str, Any]) -> None:
        self._line = line
        self._number = number
        self._process = os.getpid()
        self._steps = self._left_out = 0
        self._total: float | None = None
        self._at = time.monotonic()
        self.over = False
        """Whether nothing more of it is recorded."""
        self._brief = line.busy
        if not self._send("begin", begin, needed=True):
            self.over = True
            if not line.gone:
                line.warn("full", "an episode is not recorded: the loop is faster than its recorder")

    def step(
        self,
        *,
        observation: object = None,
        action: object = None,
        reward: object = None,
        reply: object = None,
        messages: object = None,
        tokens: object = None,
        logprobs: object = None,
        prompt_tokens: object = None,
        model: str | None = None,
        usage: object = None,
    ) -> None:
        """Record a step.

        Args:
            observation: What came of it, as an environment's ``step`` returns it.
            action: What was done.
            reward: What it earned: a finite number; left out where nobody knows.
            reply: What a model answered: a text, or a message of the assistant.
            messages: What it was asked, whole: a text, or messages. Without ``reply`` its last is the answer.
            tokens: Ids of the answer's tokens, shape ``(n,)``.
            logprobs: Their log probabilities in nats, shape ``(n,)``.
            prompt_tokens: Ids of the prompt's tokens.
            model: Which model answered.
            usage: ``prompt_tokens`` and ``completion_tokens``, where counted.
        """
        if not self._open("a step"):
            return
        now = time.monotonic()
        told: dict[str, Any] = {"took_s": round(now - self._at, 6)}
        self._at = now
        self._steps += 1
        given = {
            "observation": observation, "action": action, "reply": reply, "messages": messages,
            "tokens": tokens, "logprobs": logprobs, "prompt_tokens": prompt_tokens, "model": model,
            "usage": usage,
        }  # fmt: skip
        told |= {name: value for name, value in given.items() if value is not None}
        if reward is not None:
            self._earn(reward, told)
        if self._brief or not self._send("step", told):
            self._left_out += 1
            if not self._line.gone:
                self._line.warn("busy", "the loop is faster than its recorder: some steps are not recorded")

    def end(self, *, truncated: str | bool = False, result: str | None = None) -> None:
        """End it, with the sum of its rewards. What it is told afterwards is not recorded.

        Args:
            truncated: Whether it was cut short, or why.
            result: What came of it, in words.
        """
        if not self._open("an end"):
            return
        if truncated:
            self._end("step_cap", truncated if isinstance(truncated, str) else "the loop cut it short")
        else:
            self._end("finished", None, result)

    def fail(self, error: BaseException | str) -> None:
        """End it without a verdict.

        Args:
            error: What went wrong.
        """
        if not self._open("a failure"):
            return
        words = error if isinstance(error, str) else f"{type(error).__name__}: {words_of(error)}"
        self._end("environment_error", words)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.over:
            return
        if error is None:
            self.end()
        else:
            self.fail(error)

    def _open(self, what: str) -> bool:
        """Whether it is recorded here, and not over yet."""
        if self._process != os.getpid():
            self._line.warn(
                "fork", f"{what} of an episode is not recorded: another process began the episode"
            )
            return False
        if self.over and not self._line.gone:
            self._line.warn("over", f"{what} of an episode is not recorded: the episode is over")
        return not self.over

    def _end(self, reason: str, detail: str | None, result: str | None = None) -> None:
        told = {"reason": reason, "detail": detail, "result": result, "total": self._total}
        self._send("end", {**told, "steps": self._steps, "left_out": self._left_out}, needed=True)
        self.over = True

    def _earn(self, reward: object, told: dict[str, Any]) -> None:
        earned = finite(reward)
        if earned is None:
            words = (
                f"the reward of step {self._steps} is {words_of(reward)}, not a finite number: it has none"
            )
            told["notes"] = [words]
            self._line.warn("reward", words)
        else:
            told["reward"] = earned
            self._total = (self._total or 0.0) + earned

    def _send(self, kind: str, told: Mapping[str, Any], *, needed: bool = False) -> bool:
        """Have it sent; what no JSON can be made of is replaced by a sentence that says so."""
        message = {"episode": self._number, kind: told}
        line, error = attempted(encoded, message, MAX_MESSAGE)
        if line is not None:
            return self._line.send(line, needed=needed)
        words = f"a part of an episode ({kind}) cannot be shown whole: {words_of(error)}"
        self._line.warn("json", words)
        kept = ("reward", "took_s", "reason", "steps", "total", "left_out", "environment", "agent", "group")
        short = {name: told[name] for name in kept if name in told} | {"notes": [words]}
        return self._line.send(encoded({"episode": self._number, kind: short}, MAX_MESSAGE), needed=needed)


CLOSE_S: Final = 30.0
"""How long ``close`` waits for what is still to be recorded."""


class WatchedLoop:
    """A run of a loop, which a server shows at ``/rollouts`` while it is played.

    A process of its own records it, so that the loop waits for nothing. Whatever goes wrong once it is open
    is logged, once, and the loop goes on. Threads, forks and processes that it is handed to may use it alike.

    Args:
        folder: Where it is kept; made when it is not there. It stands in the server's ``SPECTATOR_RUNS_DIR``.
        name: What it is called, for people.
        environment: What is played, for episodes that do not say.
        agent: Who decides, for the same.
        episodes: How many there will be, where that is known.

    Raises:
        ConfigurationError: The folder's name fits no address, it holds something else, another process
            records in it, or no process can be begun here.
        JournalError: It cannot be written.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        name: str = "",
        environment: str = "loop",
        agent: str = "Agent",
        episodes: int | None = None,
    ) -> None:
        from spectator.runs.run_folder import run_name
        from spectator.watchable.recorder_client import begin_recorder

        self.folder = Path(folder).resolve()
        """Where it is kept."""
        self.name = run_name(self.folder)
        """The run's, as the server's pages have it."""
        self._about = {"environment": environment, "agent": agent}
        self._numbers = itertools.count(1)
        self._recorder, address = begin_recorder(self.folder, {"name": name, "episodes": episodes})
        self._line = RecorderLine(address)
        self._line.send(b"{}\n", needed=True)
        self._closed = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_recorder": None, "_numbers": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _numbers=itertools.count(1))

    def __deepcopy__(self, memo: object) -> Self:
        """Itself: environments are copied with what they were made with, and there is one run."""
        return self

    def episode(
        self,
        *,
        group: object = None,
        seed: object = None,
        environment: str | None = None,
        agent: str | None = None,
        observation: object = None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> WatchedEpisode:
        """Begin an episode.

        Args:
            group: Episodes with the same are compared: a prompt, a task.
            seed: A whole number from 0 to 2**53 - 1; anything else is left out.
            environment: What is played.
            agent: Who decides.
            observation: What it begins with: a text, or anything.
            tools: What a model is offered, in the form of a chat endpoint.
        """
        if self._closed:
            self._line.warn("closed", "an episode is not recorded: its run was closed")
        begin: dict[str, Any] = {
            "environment": environment or self._about["environment"],
            "agent": agent or self._about["agent"],
            "group": group if isinstance(group, str) or group is None else words_of(group),
            "seed": _whole(seed),
        }
        if tools:
            begin["tools"] = tools
        if observation is not None:
            begin["observation"] = observation
        return WatchedEpisode(self._line, next(self._numbers), begin)

    def close(self) -> None:
        """Wait until what was told is recorded; episodes without an end are ended. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        answer = self._line.close(CLOSE_S)
        if self._recorder is None:
            return
        if answer is None and not self._line.gone:
            self._line.warn("slow", f"the record of {self.folder} is not complete after {CLOSE_S:g} s")
        elif answer is not None and not answer.get("others"):
            self._recorder.wait(CLOSE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _whole(seed: object) -> int | None:
    """A whole number of whatever type."""
    known = None if seed is None else finite(seed)
    return int(known) if known is not None and known.is_integer() and known >= 0 else None


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


@overload
def watch(what: str | Path, run: None = None, **about: Any) -> WatchedLoop: ...
@overload
def watch(what: Any, run: str | Path | WatchedLoop, **about: Any) -> Any: ...
def watch(what: Any, run: str | Path | WatchedLoop | None = None, **about: Any) -> Any:
    """Show what somebody else's code plays.

    Args:
        what: The folder of a run, for a loop that tells of its episodes itself. Or an environment with
            ``reset`` and ``step``, of Gymnasium or like one. Or a function, of which each call is an episode
            of one step: its arguments are what it was shown, what it returns is its action; a number that it
            returns, or ``"reward"`` in a mapping, is its reward.
        run: For the latter two: the folder of the run, or a run that is open.
        about: ``name``, ``environment``, ``agent`` and ``episodes`` of the run, see
            :class:`~spectator.watchable.watched_loop.WatchedLoop`.

    Returns:
        The run; or the environment or the function, to be used in place of what was handed over.

    Raises:
        TypeError: It is nothing of these, or an open run is described anew.
        ConfigurationError: The folder cannot be recorded in, and why.
        JournalError: It cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, watch(f"{folder}/mine", name="doubling") as run:
    ...     double = watch(lambda number: {"answer": 2 * number, "reward": 1.0}, run)
    ...     double(21)
    ...     with run.episode(group="prompt-17", seed=3) as episode:
    ...         episode.step(action="left", observation={"at": 1}, reward=0.5)
    {'answer': 42, 'reward': 1.0}
    """
    if isinstance(what, str | Path):
        if run is not None:
            raise TypeError(f"watch({what!r}, ...) opens a run by itself; hand over an environment first")
        return WatchedLoop(what, **about)
    if run is None:
        raise TypeError(f"watch() of a {type(what).__name__} needs the folder of its run")
    wrapper = _wrapper_of(what)
    owned = not isinstance(run, WatchedLoop)
    if isinstance(run, WatchedLoop):
        if about:
            raise TypeError(f"{', '.join(about)}: of a run that is open already")
    else:
        run = WatchedLoop(run, **{"environment": _name_of(what), **about})
    if wrapper is None:
        return _watched_function(what, run)
    return wrapper(what, EnvTap(run, owned=owned))


def _wrapper_of(what: Any) -> Callable[[Any, EnvTap], Any] | None:
    """What wraps an environment; ``None`` for a function.

    Raises:
        TypeError: Nothing does.
    """
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is not None:
        if isinstance(what, gymnasium.vector.VectorEnv):
            raise TypeError("a vector environment plays many episodes at once: wrap each of its environments")
        if isinstance(what, gymnasium.Env):
            from spectator.watchable.gymnasium_wrapper import WatchedGymnasium

            return WatchedGymnasium
    if callable(getattr(what, "reset", None)) and callable(getattr(what, "step", None)):
        return WatchedEnv
    if callable(what):
        return None
    raise TypeError(
        f"a {type(what).__name__} is not watchable: it is no folder, has no reset and step, and no function"
    )


def _name_of(what: Any) -> str:
    spec = getattr(what, "spec", None)
    return getattr(spec, "id", None) or getattr(what, "__name__", None) or type(what).__name__


def _watched_function(function: Callable[..., Any], run: WatchedLoop) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def watched_coroutine(*given: Any, **named: Any) -> Any:
            with run.episode(observation=_shown(given, named)) as episode:
                return _told(episode, await function(*given, **named))

        return watched_coroutine

    @wraps(function)
    def watched(*given: Any, **named: Any) -> Any:
        with run.episode(observation=_shown(given, named)) as episode:
            return _told(episode, function(*given, **named))

    return watched


def _shown(given: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """The arguments of a call, a single one by itself."""
    return given[0] if len(given) == 1 and not named else {"given": given, **named}


def _told(episode: WatchedEpisode, returned: Any) -> Any:
    if isinstance(returned, Mapping):
        episode.step(action=returned, reward=returned.get("reward"))
    else:
        episode.step(action=returned, reward=None if isinstance(returned, bool) else finite(returned))
    return returned

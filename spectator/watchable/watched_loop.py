"""Make a loop, an environment or a function watchable.

Reports of a loop are sent to its recorder in the background; reporting never blocks and never raises.
"""

from __future__ import annotations

import inspect
import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final, Self, overload

from spectator.watchable.env_forms import check_environment, is_environment
from spectator.watchable.loop_values import attempted, encoded, finite, words_of
from spectator.watchable.recorder_client import RecorderLine
from spectator.watchable.watched_env import wrapped

MAX_MESSAGE: Final = 4 * 1024 * 1024
"""Maximum size of one step as JSON, bytes."""

GIVEN: Final = (
    "observation", "action", "reply", "messages", "tokens", "logprobs", "prompt_tokens", "model", "usage",
)  # fmt: skip
"""Arguments of a step besides its reward."""


class WatchedEpisode:
    """An episode that is recorded while it is played; its methods never raise.

    As a context manager, it ends with its block: finished, or failed if an exception is raised, which is not
    suppressed.

    Args:
        line: Connection to the recorder.
        number: Number of the episode in this process.
        begin: Message of its beginning, without the observation.
        observation: The first observation, if known.
    """

    def __init__(
        self, line: RecorderLine, number: int, begin: Mapping[str, Any], observation: object
    ) -> None:
        self._line = line
        self._number = number
        self._process = os.getpid()
        self._steps = self._left_out = 0
        self._total: float | None = None
        self._at = time.monotonic()
        self.over = False
        """Whether further calls are not recorded."""
        self._brief = self._unknown = False
        line.later(self._begin, begin, observation)

    def _begin(self, begin: Mapping[str, Any], observation: object) -> None:
        if observation is not None:
            begin = {**begin, "observation": observation}
        self._brief = self._line.busy
        if not self._send("begin", begin, needed=True):
            self.over = self._unknown = True
            if not self._line.gone:
                self._line.warn("full", "an episode is not recorded: the loop is faster than its recorder")

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
            observation: The observation after the action, as an environment's ``step`` returns it.
            action: The action.
            reward: The reward, a finite number; omit it if unknown.
            reply: A model's answer: a text, or an assistant message.
            messages: The complete prompt: a text, or messages. Without ``reply``, the last message is the
                answer.
            tokens: Ids of the answer's tokens, shape ``(n,)``.
            logprobs: Their log probabilities in nats, shape ``(n,)``.
            prompt_tokens: Ids of the prompt's tokens.
            model: Name of the model.
            usage: ``prompt_tokens`` and ``completion_tokens``, if counted.
        """
        if self._open("a step"):
            self._line.later(
                self.record, time.monotonic(), reward, observation, action, reply, messages, tokens, logprobs,
                prompt_tokens, model, usage,
            )  # fmt: skip

    def record(self, at: float, reward: object, *given: object) -> None:
        """Record a step in a report, see :meth:`~.recorder_client.RecorderLine.later`.

        Args:
            at: When it was taken, by ``time.monotonic``.
            reward: The reward.
            given: Values of :data:`GIVEN`, and no more of them than are known.
        """
        if self._unknown:
            return
        step: dict[str, Any] = {"took_s": round(at - self._at, 6)}
        self._at = at
        self._steps += 1
        step |= {name: value for name, value in zip(GIVEN, given, strict=False) if value is not None}
        if reward is not None:
            self._add_reward(reward, step)
        if self._brief or not self._send("step", step):
            self._left_out += 1
            if not self._line.gone:
                self._line.warn("busy", "the loop is faster than its recorder: some steps are not recorded")

    def end(self, *, truncated: str | bool = False, result: str | None = None) -> None:
        """End the episode, with the sum of its rewards. Later calls are not recorded.

        Args:
            truncated: Whether it was cut short, or why.
            result: The result, as text.
        """
        if not self._open("an end"):
            return
        if attempted(bool, truncated)[0] is not False:
            self._end("step_cap", truncated if isinstance(truncated, str) else "the loop cut it short")
        else:
            self._end("finished", None, result)

    def fail(self, error: BaseException | str) -> None:
        """End the episode as failed, without a score.

        Args:
            error: The error.
        """
        if not self._open("a failure"):
            return
        detail = error if isinstance(error, str) else f"{type(error).__name__}: {words_of(error)}"
        self._end("environment_error", detail)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self.over:
            return
        if error is None:
            self.end()
        else:
            self.fail(error)

    def _open(self, what: str) -> bool:
        """Whether the episode can be recorded here; otherwise log a warning."""
        if self._process != os.getpid():
            self._line.warn(
                "fork", f"{what} of an episode is not recorded: another process began the episode"
            )
            return False
        if self.over and not self._line.gone:
            self._line.warn("over", f"{what} of an episode is not recorded: the episode is over")
        return not self.over

    def _end(self, reason: str, detail: str | None, result: str | None = None) -> None:
        self.over = True
        self._line.later(self._finish, reason, detail, result)

    def _finish(self, reason: str, detail: str | None, result: str | None) -> None:
        if self._unknown:
            return
        end = {"reason": reason, "detail": detail, "result": result, "total": self._total}
        self._send("end", {**end, "steps": self._steps, "left_out": self._left_out}, needed=True)

    def _add_reward(self, reward: object, step: dict[str, Any]) -> None:
        known = finite(reward)
        if known is None:
            note = (
                f"the reward of step {self._steps} is {words_of(reward)}, not a finite number: it is ignored"
            )
            step["notes"] = [note]
            self._line.warn("reward", note)
        else:
            step["reward"] = known
            self._total = (self._total or 0.0) + known

    def _send(self, kind: str, content: Mapping[str, Any], *, needed: bool = False) -> bool:
        """Send a message; if it cannot be encoded, send its essential members and a note."""
        message = {"episode": self._number, kind: content}
        line, error = attempted(encoded, message, MAX_MESSAGE)
        if line is not None:
            return self._line.send(line, needed=needed)
        note = f"a part of an episode ({kind}) cannot be shown completely: {words_of(error)}"
        self._line.warn("json", note)
        kept = ("reward", "took_s", "reason", "steps", "total", "left_out", "environment", "agent", "group")
        short = {name: content[name] for name in kept if name in content}
        short["notes"] = [*content.get("notes", ()), note]
        line, _ = attempted(encoded, {"episode": self._number, kind: short}, MAX_MESSAGE)
        return line is not None and self._line.send(line, needed=needed)


CLOSE_S: Final = 30.0
"""How long ``close`` waits until everything is recorded, seconds."""


class WatchedLoop:
    """A run of a loop, which a server shows at ``/rollouts`` while it is played.

    A separate process records it, so that the loop never waits. Errors after the start are logged, once per
    kind, and the loop continues. It can be used from threads, forks and spawned processes.

    Args:
        folder: Folder of the run; created if missing. A server shows the runs in its ``SPECTATOR_RUNS_DIR``.
        name: Display name.
        environment: Default of the episodes' environment.
        agent: Default of the episodes' agent.
        episodes: Planned number of episodes, if known.

    Raises:
        ConfigurationError: The folder's name is invalid, the folder contains something else, another process
            records in it, or no process can be started here.
        JournalError: The folder cannot be written.
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
        """Folder of the run."""
        self.name = run_name(self.folder)
        """Name of the run on the server's pages."""
        self._about = {"environment": environment, "agent": agent}
        self._numbers = itertools.count(1)
        self._recorder, address = begin_recorder(self.folder, {"name": name, "episodes": episodes})
        self._line = RecorderLine(address)
        attempted(self._line.connect)  # else the recorder ends with the first fork that came before
        self._line.send(b"{}\n", needed=True)
        self._closed = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_recorder": None, "_numbers": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _numbers=itertools.count(1))

    def __deepcopy__(self, memo: object) -> Self:
        """Return itself: copies of an environment share its run."""
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
            group: Group for comparisons, such as a prompt or a task.
            seed: An integer from 0 to 2**53 - 1; anything else is ignored.
            environment: Name of the environment.
            agent: Name of the agent.
            observation: The first observation: a text, or any other value.
            tools: The model's tools, in the form of chat completions.
        """
        if self._closed:
            self._line.warn("closed", "an episode is not recorded: its run was closed")
        begin: dict[str, Any] = {
            "environment": self._about["environment"] if environment is None else words_of(environment),
            "agent": self._about["agent"] if agent is None else words_of(agent),
            "group": group if isinstance(group, str) or group is None else words_of(group),
            "seed": _integer(seed),
        }
        if attempted(len, tools)[0]:
            begin["tools"] = tools
        return WatchedEpisode(self._line, next(self._numbers), begin, observation)

    def warn(self, kind: str, message: str) -> None:
        """Log a warning, once per kind and process."""
        self._line.warn(kind, message)

    @property
    def later(self) -> Callable[..., None]:
        """What calls a report in another thread: :meth:`~.recorder_client.RecorderLine.later`."""
        return self._line.later

    def close(self) -> None:
        """Wait until everything is recorded; end all open episodes. Safe to call twice."""
        if self._closed:
            return
        self._line.read()
        self._closed = True
        answer = self._line.close(CLOSE_S)
        if self._recorder is None:
            return
        if answer is None and not self._line.gone:
            self._line.warn("slow", f"the record of {self.folder} is still incomplete after {CLOSE_S:g} s")
        elif answer is not None and not answer.get("others"):
            attempted(self._recorder.wait, CLOSE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _integer(seed: object) -> int | None:
    """Return a non-negative integer of any numeric type; otherwise ``None``."""
    known = None if seed is None else finite(seed)
    return int(known) if known is not None and known.is_integer() and known >= 0 else None


@overload
def watch(what: str | Path, run: None = None, **about: Any) -> WatchedLoop: ...
@overload
def watch(what: Any, run: str | Path | WatchedLoop, **about: Any) -> Any: ...
def watch(what: Any, run: str | Path | WatchedLoop | None = None, **about: Any) -> Any:
    """Make a loop, an environment or a function watchable.

    Args:
        what: The folder of a run, for a loop that reports its episodes itself; or an environment with
            ``reset`` and ``step``, see :mod:`.watched_env`; or a function. Each call of a function is an
            episode of one step: its arguments are the observation, and its result is the action. A number
            that it returns, or ``"reward"`` in a mapping, is the reward.
        run: For an environment or a function: the folder of the run, or an open run.
        about: ``name``, ``environment``, ``agent`` and ``episodes`` of the run; see
            :class:`~spectator.watchable.watched_loop.WatchedLoop`.

    Returns:
        The run; or the watched environment or function, to use instead of the original.

    Raises:
        TypeError: ``what`` is none of these or of a form that cannot be watched, or ``about`` is given for an
            open run.
        ConfigurationError: The folder cannot be used for recording.
        JournalError: The folder cannot be written.

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
            raise TypeError(
                f"watch({what!r}) takes no run; pass an environment or a function as the first argument"
            )
        return WatchedLoop(what, **about)
    if run is None:
        raise TypeError(f"watch() of a {type(what).__name__} needs the folder of its run; pass run=FOLDER")
    function = callable(what) and not is_environment(what)
    if not function:
        check_environment(what)
    owned = not isinstance(run, WatchedLoop)
    if isinstance(run, WatchedLoop):
        if about:
            raise TypeError(f"{', '.join(about)} cannot be changed: the run is already open")
    else:
        run = WatchedLoop(run, **{"environment": _name_of(what), **about})
    return _watched_function(what, run) if function else wrapped(what, run, owned)


def _name_of(what: Any) -> str:
    spec = getattr(what, "spec", None)
    return getattr(spec, "id", None) or getattr(what, "__name__", None) or type(what).__name__


def _watched_function(function: Callable[..., Any], run: WatchedLoop) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def watched_coroutine(*given: Any, **named: Any) -> Any:
            with run.episode(observation=_arguments(given, named)) as episode:
                return _recorded(episode, await function(*given, **named))

        return watched_coroutine

    @wraps(function)
    def watched(*given: Any, **named: Any) -> Any:
        with run.episode(observation=_arguments(given, named)) as episode:
            return _recorded(episode, function(*given, **named))

    return watched


def _arguments(given: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Return the arguments of a call; a single positional one by itself."""
    return given[0] if len(given) == 1 and not named else {"given": given, **named}


def _recorded(episode: WatchedEpisode, returned: Any) -> Any:
    """Record the result of a call as the episode's only step, and return it."""
    if isinstance(returned, Mapping):
        episode.step(action=returned, reward=returned.get("reward"))
    else:
        episode.step(action=returned, reward=None if isinstance(returned, bool) else finite(returned))
    return returned

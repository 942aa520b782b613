"""Makes a loop, an environment or a function watchable, whichever is handed over."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, overload

from spectator.watchable.plain_json import finite
from spectator.watchable.watched_env import EnvTap, WatchedEnv
from spectator.watchable.watched_episode import WatchedEpisode
from spectator.watchable.watched_loop import WatchedLoop


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

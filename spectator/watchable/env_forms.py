"""Forms of environments of other libraries: which can be watched, their size, when they reset themselves."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any, Final

from spectator.watchable.loop_values import attempted

DEEPEST: Final = 32
"""Maximum number of wrappers in which one that resets an environment is found."""

LARGEST_BATCH: Final = 1024
"""Maximum number of environments in a batch, each of which has episodes of its own."""

ELSEWHERE: Final = {
    "brax.envs.base": "wrap it by brax.envs.wrappers.gym.GymWrapper",
    "jumanji.env": "wrap it by jumanji.wrappers.JumanjiToGymWrapper",
    "pyspiel": "use open_spiel.python.rl_environment.Environment",
    "verifiers": "save its results and show them by `spectator import`",
}
"""Modules whose objects cannot be watched as they are, with what to do instead."""


def is_environment(what: Any) -> bool:
    """Whether an object has ``reset`` and ``step``."""
    return callable(getattr(what, "reset", None)) and callable(getattr(what, "step", None))


def check_environment(what: Any) -> None:
    """Check that an object is an environment of a form that can be watched.

    Raises:
        TypeError: It is not.
    """
    name = type(what).__name__
    for module, instead in ELSEWHERE.items():
        if any(f"{kind.__module__}.".startswith(f"{module}.") for kind in type(what).__mro__):
            raise TypeError(f"a {name} of {module} cannot be watched as it is; {instead}")
    if not is_environment(what):
        raise TypeError(
            f"a {name} cannot be watched; pass a folder, an environment with reset and step, or a function"
        )
    if isinstance(what, type):
        raise TypeError(f"{what.__name__} is a class; pass an environment made of it")
    taken = attempted(lambda: list(inspect.signature(what.step).parameters))[0] or ()
    if len(taken) > 1 and "state" in taken[:2]:
        raise TypeError(f"step of a {name} takes its state; pass an environment that keeps its own")
    size = size_of(what)
    if size is None:
        return
    if not isinstance(size, int) or not 1 <= size <= LARGEST_BATCH:
        raise TypeError(f"cannot watch a batch of {size} environments; watch at most {LARGEST_BATCH}")
    if getattr(what, "is_async", False) is True:
        raise TypeError("cannot watch a batch that answers in parts; make it with batch_size = num_envs")
    if _pooled(what) and what.config.get("max_num_players", 1) != 1:
        raise TypeError("cannot watch a batch of games with several players; watch games of one player")
    vectors = sys.modules.get("gymnasium.vector")
    if vectors is not None and isinstance(what, vectors.VectorEnv) and resets_of(what) is None:
        raise TypeError(
            "cannot watch a vector environment that does not say when it resets its environments; "
            "use Gymnasium 1.1 or newer, or set metadata['autoreset_mode']"
        )


def _pooled(env: Any) -> bool:
    return isinstance(getattr(env, "config", None), Mapping) and callable(getattr(env, "async_reset", None))


def size_of(env: Any) -> Any:
    """Return the number of environments in a batch; ``None`` of a single environment."""
    if _pooled(env):
        return env.config.get("num_envs")
    size = getattr(env, "num_envs", None)
    gymnasium = sys.modules.get("gymnasium")
    alone = size == 1 and gymnasium is not None and isinstance(env, gymnasium.Env)
    return None if alone else size


WRAPPERS: Final = {"Autoreset": "NEXT_STEP", "AutoResetWrapper": "SAME_STEP"}
"""Wrappers of Gymnasium, and of brax and jumanji, that reset an environment, and when."""


def resets_of(env: Any) -> str | None:
    """Return when an environment resets itself: a name of Gymnasium's ``AutoresetMode``."""
    about, _ = attempted(getattr, env, "metadata", None)
    mode = about.get("autoreset_mode") if isinstance(about, Mapping) else None
    if mode is not None:
        return str(getattr(mode, "name", mode))
    within: Any = env
    for _ in range(DEEPEST):
        if within is None or type(within).__name__ in WRAPPERS:
            return WRAPPERS.get(type(within).__name__)
        # Not by vars(): a __dict__ that was asked for makes each attribute of the environment slower.
        inner = [attempted(object.__getattribute__, within, name)[0] for name in ("env", "_env")]
        within = inner[1] if inner[0] is None else inner[0]
    return None

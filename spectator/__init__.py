"""Spectator: the live cockpit for agents that play.

``from spectator import play, watch, run_rollouts, rollout_groups, export`` are the main functions:

* :func:`play` plays one episode in this process,
* :func:`watch` shows what your own loop, environment or function plays,
* :func:`run_rollouts` plays many episodes against a model endpoint,
* :func:`rollout_groups` does the same and yields each group as it completes, for a trainer's loop,
* :func:`export` writes recorded episodes for trainers.

They are imported when they are first used, so ``import spectator`` is cheap. verifiers finds an environment
by the name of a package, so the root also has the classes that it looks for: ``vf-eval spectator``.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spectator.exports.export import export as export
    from spectator.local_episode import play as play
    from spectator.rollouts.fleet import run_rollouts as run_rollouts
    from spectator.rollouts.group_stream import rollout_groups as rollout_groups
    from spectator.watchable.watched_loop import watch as watch

__version__: Final = "0.1.0"

_FUNCTIONS: Final = {
    "export": "spectator.exports.export",
    "play": "spectator.local_episode",
    "rollout_groups": "spectator.rollouts.group_stream",
    "run_rollouts": "spectator.rollouts.fleet",
    "watch": "spectator.watchable.watched_loop",
}
"""The main functions and their modules."""

_FOR_VERIFIERS: Final = ("WorldEnv", "WorldHarness", "WorldTaskset")


def __getattr__(name: str) -> Any:
    if name == "__all__":  # verifiers reads it; without verifiers, `import *` must not try its classes
        return ["__version__", *_FUNCTIONS, *(_FOR_VERIFIERS if find_spec("verifiers") else ())]
    if name in _FUNCTIONS:
        return getattr(import_module(_FUNCTIONS[name]), name)
    if name in _FOR_VERIFIERS:
        return getattr(import_module("spectator.training.verifiers_env"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

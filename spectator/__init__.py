"""Spectator: the live cockpit for agents that play.

The package root owns the version; everything else is imported from the room that owns it, so that
``import spectator`` costs nothing on a trainer's machine. verifiers finds an environment by the name of a
package, so the root hands out, when asked, the classes that it looks for: ``vf-eval spectator``.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

__version__: Final = "0.1.0"

_FOR_VERIFIERS: Final = ("WorldEnv", "WorldHarness", "WorldTaskset")


def __getattr__(name: str) -> Any:
    if name == "__all__":  # verifiers reads it; where it is not installed, `import *` finds what there is
        return ["__version__", *(_FOR_VERIFIERS if find_spec("verifiers") else ())]
    if name in _FOR_VERIFIERS:
        return getattr(import_module("spectator.training.verifiers_env"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

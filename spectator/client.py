"""The classes that OpenEnv's ``AutoEnv`` and ``AutoAction`` look up, for each world.

OpenEnv looks in the package for ``openenv.yaml`` and for classes named after the world: for a world
called ``ludo``, ``LudoEnv``, ``LudoAction`` and ``LudoObservation``. Needs ``openenv-spectator[openenv]``.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from openenv.core import GenericEnvClient
from pydantic import BaseModel

from spectator.catalog import known_worlds, load_world

_MODELS: Final = {"Action": "action_type", "Observation": "observation_type", "State": "state_type"}


class WorldClient(GenericEnvClient):  # type: ignore[misc]  # the package has no types
    """An asynchronous client of a world's endpoint; ``sync()`` returns a synchronous one.

    Actions are plain JSON or the world's action model. Observations are plain JSON, because ``observe`` of
    ``reset`` determines their form.

    Args:
        base_url: URL of the world, such as ``http://localhost:8000`` or ``http://localhost:8000/envs/NAME``.
    """

    def _step_payload(self, action: Any) -> dict[str, Any]:
        if isinstance(action, BaseModel):
            return action.model_dump(exclude_none=True)
        return dict(action)


@cache
def _client(name: str) -> type[WorldClient]:
    return type(name, (WorldClient,), {"__doc__": WorldClient.__doc__, "__module__": __name__})


def __getattr__(name: str) -> Any:
    for world in known_worlds():
        rest = name.removeprefix(world.title().replace("_", ""))
        if rest == name:
            continue
        if rest == "Env":
            return _client(name)
        if rest in _MODELS:
            return getattr(load_world(world), _MODELS[rest])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

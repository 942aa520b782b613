"""The routes of pooled rollout servers: ``/pooled/ENV_NAME/ENV_ID/`` and an operation."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spectator.catalog import world_names
from spectator.errors import SpectatorError
from spectator.events import encode_json

from ..security import faults
from ..security.bodies import read_object
from ..security.faults import Kind, Refused, documented
from .pooled import PooledEnvironment, read_reset, read_step
from .sessions import Sessions, SessionsFull
from .worlds import WireWorlds

CROWDED: Final = Kind("too-many-environments", 503, "No further environment can be opened now")


class PooledRoutes:
    """Environments that clients name themselves, kept until they are given back or silent for too long.

    Args:
        sessions: The environments that are open.
        worlds: The worlds that were asked for.
    """

    def __init__(self, sessions: Sessions, worlds: WireWorlds) -> None:
        self._sessions = sessions
        self._worlds = worlds
        self._open: dict[tuple[str, str], PooledEnvironment] = {}

    def router(self) -> APIRouter:
        """Its routes."""
        router = APIRouter(prefix="/pooled", tags=["pooled"])
        here = "/{env_name}/{env_id}"
        refusals = documented(
            faults.NOT_FOUND, faults.MALFORMED, faults.NOT_JSON, faults.INVALID, faults.TOO_MANY, CROWDED
        )
        common: dict[str, Any] = {"response_class": Response, "responses": refusals}
        router.add_api_route("/envs", self.environments)
        router.add_api_route(here + "/reset", self.reset, methods=["POST"], **common)
        router.add_api_route(here + "/step", self.step, methods=["POST"], **common)
        router.add_api_route(here + "/get_task_prompt", self.prompt, **common)
        router.add_api_route(here + "/is_done", self.is_done, **common)
        router.add_api_route(here + "/done", self.give_back, methods=["POST"], **common)
        router.add_api_route(here, self.give_back, methods=["DELETE"], **common)
        return router

    async def environments(self) -> list[str]:
        """Names of the environments."""
        return list(world_names())

    async def reset(self, env_name: str, env_id: str, request: Request) -> Response:
        """Begin an episode by `{"env_param", "seed"}`, in a new environment where this id has none."""
        asked = read_reset(env_id, await read_object(request))
        environment = await self._opened(env_name, env_id, request)
        try:
            await environment.reset(asked)
        except (SpectatorError, Refused):
            if environment.done:  # nobody plays in it
                await self.give_back(env_name, env_id)
            raise
        return _json({"ok": True, "step_ids": True})

    async def step(self, env_name: str, env_id: str, request: Request) -> Response:
        """Carry out `{"action", "step_id"}`; each `step_id` once, however often it is sent."""
        action, step_id = await read_step(request)
        found = self._found(env_name, env_id)
        return Response(await found.step(action, step_id), media_type="application/json")

    async def prompt(self, env_name: str, env_id: str) -> Response:
        """The chat messages that ask for the next decision; none when nothing is left to decide."""
        return _json(list(self._found(env_name, env_id).prompt()))

    async def is_done(self, env_name: str, env_id: str) -> Response:
        """Whether its episode is over."""
        return _json({"is_done": self._found(env_name, env_id).done})

    async def give_back(self, env_name: str, env_id: str) -> Response:
        """Let the environment go; one that is not there any more is gone already."""
        held = self._open.pop((env_name, env_id), None)
        if held is not None:
            self._sessions.close(held.session)
        return _json({"ok": True})

    async def _opened(self, env_name: str, env_id: str, request: Request) -> PooledEnvironment:
        held = self._living(env_name, env_id)
        if held is not None:
            return held
        if env_name not in world_names():
            raise Refused(faults.NOT_FOUND, f"There is no world {env_name[:80]!r}.")
        self._forget_closed()
        wire = await self._worlds.get(env_name)
        try:
            session = await self._sessions.open(wire, request, kept=True)
        except SessionsFull as error:
            kind = faults.TOO_MANY if error.of_address else CROWDED
            raise Refused(kind, f"{error}.", headers={"Retry-After": "1"}) from error
        other = self._open.get((env_name, env_id))
        if other is not None:  # two first resets at once
            self._sessions.close(session)
            return other
        made = self._open[env_name, env_id] = PooledEnvironment(session, wire.world)
        return made

    def _found(self, env_name: str, env_id: str) -> PooledEnvironment:
        held = self._living(env_name, env_id)
        if held is None:
            gone = "it was never begun, given back, or silent for too long"
            raise Refused(faults.NOT_FOUND, f"There is no environment {env_id[:80]!r}: {gone}.")
        return held

    def _living(self, env_name: str, env_id: str) -> PooledEnvironment | None:
        """The environment of this name, unless it was silent for too long, or given up."""
        held = self._open.get((env_name, env_id))
        if held is not None and self._sessions.find(held.session.session_id, held.session.wire) is None:
            del self._open[env_name, env_id]
            return None
        return held

    def _forget_closed(self) -> None:
        """Forget those that were silent for too long, so that their names do not pile up."""
        for env_name, env_id in list(self._open):
            self._living(env_name, env_id)


def _json(value: Any) -> Response:
    return Response(encode_json(value), media_type="application/json")

"""Routes of pooled rollout servers: ``/pooled/ENV_NAME/ENV_ID/`` and an operation.

They return chat messages and take text. Repeating a step returns its first answer again.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from spectator.catalog import world_names
from spectator.environments.world import World
from spectator.errors import FieldError, InvalidRequest, SpectatorError
from spectator.events import encode_json
from spectator.llm.chat import Message
from spectator.llm.tool_calls import CallRejected
from spectator.observations import Observation, Refusal
from spectator.policies.prompts import as_json, correction, form_of, instructions, question, situation
from spectator.policies.turns import History, TokenEstimate, Turn, action_in

from ..security import faults
from ..security.bodies import read_object
from ..security.faults import Kind, Refused, documented
from .messages import ResetRequest, wrong_fields
from .session import Session
from .session_registry import SessionRegistry, SessionsFull
from .worlds import WireWorlds

ROOM: Final = 32_000
"""Estimated tokens of a prompt beyond which the oldest turns are omitted."""

REMEMBERED: Final = 16
"""Newest steps per environment whose answers are kept for clients that retry."""

MAX_ACTION: Final = 64 * 1024
"""Most characters of an action."""


class PooledEnvironment:
    """One named environment and its agent's conversation."""

    def __init__(self, session: Session, world: World) -> None:
        self.session = session
        self._briefing = world.briefing
        self._turn = asyncio.Lock()
        self._answers: OrderedDict[str, str] = OrderedDict()
        self._stepping: set[asyncio.Task[str]] = set()
        self._shown: Observation | None = None
        self._history = History(ROOM, TokenEstimate())
        self._note = ""

    @property
    def done(self) -> bool:
        """Whether its episode is over, or none began."""
        return self._shown is None or self._shown.done

    async def reset(self, asked: ResetRequest) -> None:
        """Begin an episode and a new conversation.

        Raises:
            InvalidRequest: A parameter is invalid; the current episode continues.
        """
        async with self._turn:
            answer = await self.session.reset(asked)
            self._shown = _observation(answer.text)
            self._history, self._note = History(ROOM, TokenEstimate()), ""
            self._answers.clear()

    def prompt(self) -> Sequence[Message]:
        """Return the prompt of the next decision; empty after the end."""
        shown, briefing = self._shown, self._briefing
        if shown is None or shown.done:
            return []
        in_text = briefing.text_field is not None
        system = instructions(shown.actor or "", briefing.task, "json", 1, free_text=in_text)
        legal = () if in_text else briefing.legal(shown)
        return self._history.messages(system, question(self._text(shown), legal, "json", self._note))

    async def step(self, said: str, step_id: str | None) -> str:
        """Take the agent's action, once: a repeated ``step_id`` returns the first answer.

        The step completes even if its client disconnects.

        Raises:
            NoEpisode: There is no episode.
        """
        task = asyncio.get_running_loop().create_task(self._step(said, step_id))
        self._stepping.add(task)
        task.add_done_callback(self._stepping.discard)
        return await asyncio.shield(task)

    async def _step(self, said: str, step_id: str | None) -> str:
        async with self._turn:
            if step_id is not None and step_id in self._answers:
                return self._answers[step_id]
            answer = encode_json({**await self._take(said), "step_id": step_id})
            if step_id is not None:
                self._answers[step_id] = answer
                while len(self._answers) > REMEMBERED:
                    self._answers.popitem(last=False)
            return answer

    async def _take(self, said: str) -> dict[str, Any]:
        before = self._shown
        if before is not None and not before.done:
            try:
                action = action_in(said, self._briefing, before)
            except CallRejected as error:
                self._remember(before, said, correction(str(error), form_of(self._briefing, "json", 1)))
                return _result(0.0, False, None, {"refused": str(error)})
        else:
            action = {}  # the session raises NoEpisode
        answer = await self.session.step(dict(action))
        shown = self._shown = _observation(answer.text)
        if before is not None:
            self._remember(before, said, "")
        info = {} if shown.refused is None else {"refused": shown.refused.message}
        return _result(shown.reward, shown.done, shown.metadata.get("truncated"), info)

    def _remember(self, before: Observation, said: str, note: str) -> None:
        self._history.add(Turn(seen=situation(before), shown=self._text(before), text=said))
        self._note = note

    def _text(self, shown: Observation) -> str:
        render = self._briefing.render
        return as_json(situation(shown)) if render is None else render(shown)


def read_reset(env_id: str, sent: dict[str, Any]) -> ResetRequest:
    """Parse ``{"env_param", "seed"}``."""
    options = sent.get("env_param") or {}
    if not isinstance(options, dict):
        raise InvalidRequest([FieldError("env_param", "must be an object of the world's options")])
    if "observe" in options:
        raise InvalidRequest(
            [FieldError("observe", "is not available here: the prompt describes the situation")]
        )
    try:
        return ResetRequest.model_validate({"seed": sent.get("seed"), "episode_id": env_id, **options})
    except ValidationError as error:
        raise wrong_fields(error) from error


async def read_step(request: Request) -> tuple[str, str | None]:
    """Parse the action and the step's id."""
    sent = await read_object(request)
    action, step_id = sent.get("action"), sent.get("step_id")
    if not isinstance(action, str) or len(action) > MAX_ACTION:
        raise InvalidRequest([FieldError("action", f"must be a string of at most {MAX_ACTION} characters")])
    if step_id is not None and not (isinstance(step_id, str) and 0 < len(step_id) <= 255):
        raise InvalidRequest([FieldError("step_id", "must be a string of 1 to 255 characters, or omitted")])
    return action, step_id


def _observation(text: str) -> Observation:
    data = json.loads(text)
    shown = dict(data["observation"])
    actor, legal = shown.pop("actor", None), shown.pop("legal_actions", None) or []
    metadata = shown.pop("metadata", None) or {}
    shown.pop("refused", None)
    refused = data["observation"].get("refused")
    return Observation(
        actor, legal, shown, reward=data["reward"], done=data["done"],
        refused=None if refused is None else Refusal(refused["rule"], refused["message"]), metadata=metadata,
    )  # fmt: skip


def _result(reward: float, done: bool, truncated: object, info: dict[str, Any]) -> dict[str, Any]:
    cut = bool(done and truncated)
    return {"reward": reward, "terminated": done and not cut, "truncated": cut, "info": info}


CROWDED: Final = Kind("too-many-environments", 503, "No further environment can be opened now")


class PooledRoutes:
    """Environments named by clients, kept until released or idle too long."""

    def __init__(self, sessions: SessionRegistry, worlds: WireWorlds) -> None:
        self._sessions = sessions
        self._worlds = worlds
        self._open: dict[tuple[str, str], PooledEnvironment] = {}

    def router(self) -> APIRouter:
        """Return the routes."""
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
        """List the environments."""
        return list(world_names())

    async def reset(self, env_name: str, env_id: str, request: Request) -> Response:
        """Begin an episode with `{"env_param", "seed"}`.

        A new id gets a new environment.
        """
        asked = read_reset(env_id, await read_object(request))
        environment = await self._opened(env_name, env_id, request)
        try:
            await environment.reset(asked)
        except (SpectatorError, Refused):
            if environment.done:  # no episode began
                await self.give_back(env_name, env_id)
            raise
        return _json({"ok": True, "step_ids": True})

    async def step(self, env_name: str, env_id: str, request: Request) -> Response:
        """Take `{"action", "step_id"}`; a repeated `step_id` returns the first answer."""
        action, step_id = await read_step(request)
        found = self._found(env_name, env_id)
        return Response(await found.step(action, step_id), media_type="application/json")

    async def prompt(self, env_name: str, env_id: str) -> Response:
        """Return the chat messages of the next decision; empty after the end."""
        return _json(list(self._found(env_name, env_id).prompt()))

    async def is_done(self, env_name: str, env_id: str) -> Response:
        """Report whether its episode is over."""
        return _json({"is_done": self._found(env_name, env_id).done})

    async def give_back(self, env_name: str, env_id: str) -> Response:
        """Release the environment; succeeds if it is already gone."""
        held = self._open.pop((env_name, env_id), None)
        if held is not None:
            self._sessions.close(held.session)
        return _json({"ok": True})

    async def _opened(self, env_name: str, env_id: str, request: Request) -> PooledEnvironment:
        held = self._living(env_name, env_id)
        if held is not None:
            return held
        if env_name not in world_names():
            raise Refused(faults.NOT_FOUND, f"Unknown world {env_name[:80]!r}.")
        self._forget_closed()
        wire = await self._worlds.get(env_name)
        try:
            session = await self._sessions.open(wire, request, kept=True)
        except SessionsFull as error:
            kind = faults.TOO_MANY if error.of_address else CROWDED
            raise Refused(kind, f"{error}.", headers={"Retry-After": "1"}) from error
        other = self._open.get((env_name, env_id))
        if other is not None:  # two concurrent first resets
            self._sessions.close(session)
            return other
        made = self._open[env_name, env_id] = PooledEnvironment(session, wire.world)
        return made

    def _found(self, env_name: str, env_id: str) -> PooledEnvironment:
        held = self._living(env_name, env_id)
        if held is None:
            gone = "it was never reset, was released, or was idle for too long"
            raise Refused(faults.NOT_FOUND, f"Unknown environment {env_id[:80]!r}: {gone}.")
        return held

    def _living(self, env_name: str, env_id: str) -> PooledEnvironment | None:
        """Return the environment of this name, unless it was idle for too long or hung."""
        held = self._open.get((env_name, env_id))
        if held is not None and self._sessions.find(held.session.session_id, held.session.wire) is None:
            del self._open[env_name, env_id]
            return None
        return held

    def _forget_closed(self) -> None:
        """Remove expired environments, so that their names do not accumulate."""
        for env_name, env_id in list(self._open):
            self._living(env_name, env_id)


def _json(value: Any) -> Response:
    return Response(encode_json(value), media_type="application/json")

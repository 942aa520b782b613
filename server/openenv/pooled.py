"""Routes of pooled rollout servers: ``/pooled/ENV_NAME/ENV_ID/`` and an operation.

Chat messages go out, text comes in; a step that is sent again is answered again and not taken twice.
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
from spectator.policies.prompts import as_json, correction, instructions, question, situation
from spectator.policies.turns import History, TokenEstimate, Turn, action_in

from ..security import faults
from ..security.bodies import read_object
from ..security.faults import Kind, Refused, documented
from .messages import ResetRequest, wrong_fields
from .session import Session
from .session_registry import SessionRegistry, SessionsFull
from .worlds import WireWorlds

ROOM: Final = 32_000
"""Estimated tokens of a prompt; the oldest turns are left out beyond that."""

REMEMBERED: Final = 16
"""Newest steps of an environment whose answers are kept, for clients that ask again."""

MAX_ACTION: Final = 64 * 1024
"""Characters of an action beyond which it is refused."""


class PooledEnvironment:
    """One environment that a client named, with the conversation that its agent has.

    Args:
        session: The environment.
        world: What it plays.
    """

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
        """Whether its episode is over, or none was begun."""
        return self._shown is None or self._shown.done

    async def reset(self, asked: ResetRequest) -> None:
        """Begin an episode; what was said in the one before is forgotten.

        Raises:
            InvalidRequest: A parameter is wrong; the episode under way goes on.
            EpisodeError: The world failed.
        """
        async with self._turn:
            answer = await self.session.reset(asked)
            self._shown = _observation(answer.text)
            self._history, self._note = History(ROOM, TokenEstimate()), ""
            self._answers.clear()

    def prompt(self) -> Sequence[Message]:
        """What the agent is to be asked; empty when there is nothing more to decide."""
        shown, briefing = self._shown, self._briefing
        if shown is None or shown.done:
            return []
        in_text = briefing.text_field is not None
        system = instructions(shown.actor or "", briefing.task, "json", 1, free_text=in_text)
        legal = () if in_text else briefing.legal(shown)
        return self._history.messages(system, question(self._text(shown), legal, "json", self._note))

    async def step(self, said: str, step_id: str | None) -> str:
        """Carry out what the agent said, once: the same ``step_id`` is answered from memory.

        It is carried out to its end also when its client goes away meanwhile.

        Raises:
            NoEpisode: There is nothing to step.
            EpisodeError: The world failed.
        """
        task = asyncio.get_running_loop().create_task(self._step(said, step_id))
        self._stepping.add(task)
        task.add_done_callback(self._stepping.discard)
        return await asyncio.shield(task)

    async def _step(self, said: str, step_id: str | None) -> str:
        async with self._turn:
            if step_id is not None and step_id in self._answers:
                return self._answers[step_id]
            answer = encode_json({**await self._carried_out(said), "step_id": step_id})
            if step_id is not None:
                self._answers[step_id] = answer
                while len(self._answers) > REMEMBERED:
                    self._answers.popitem(last=False)
            return answer

    async def _carried_out(self, said: str) -> dict[str, Any]:
        before = self._shown
        if before is not None and not before.done:
            try:
                action = action_in(said, self._briefing, before)
            except CallRejected as error:
                self._remember(before, said, correction(str(error)))
                return _result(0.0, False, None, {"refused": str(error)})
        else:
            action = {}  # the session says that there is nothing to step
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
    """What is asked for by ``{"env_param", "seed"}``.

    Raises:
        InvalidRequest: Names every wrong field.
    """
    options = sent.get("env_param") or {}
    if not isinstance(options, dict):
        raise InvalidRequest([FieldError("env_param", "must be an object of the world's options")])
    if "observe" in options:
        raise InvalidRequest([FieldError("observe", "cannot be chosen here: the prompt tells the situation")])
    try:
        return ResetRequest.model_validate({"seed": sent.get("seed"), "episode_id": env_id, **options})
    except ValidationError as error:
        raise wrong_fields(error) from error


async def read_step(request: Request) -> tuple[str, str | None]:
    """The action and the step's id.

    Raises:
        InvalidRequest: Names the wrong field.
    """
    sent = await read_object(request)
    action, step_id = sent.get("action"), sent.get("step_id")
    if not isinstance(action, str) or len(action) > MAX_ACTION:
        raise InvalidRequest([FieldError("action", f"must be a text of at most {MAX_ACTION} characters")])
    if step_id is not None and not (isinstance(step_id, str) and 0 < len(step_id) <= 255):
        raise InvalidRequest([FieldError("step_id", "must be a text of 1 to 255 characters, or left out")])
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
    """Environments that clients name themselves, kept until they are given back or silent for too long.

    Args:
        sessions: The environments that are open.
        worlds: The worlds that were asked for.
    """

    def __init__(self, sessions: SessionRegistry, worlds: WireWorlds) -> None:
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

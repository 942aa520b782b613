"""Live routes: watch an episode or the wall, and publish an episode at ``/publish``."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from spectator.catalog import world_names
from spectator.core_events import EpisodeEnded, StepTaken, core_fact
from spectator.environments.world import MAX_SEED
from spectator.episodes.handle import ExternalDriver, external_plan
from spectator.episodes.steps import checked_decision
from spectator.errors import (
    EpisodeError,
    EpisodeNotFound,
    FieldError,
    InvalidRequest,
    PolicyError,
    ProtocolError,
    field_errors,
)
from spectator.events import Fact, encode_json
from spectator.policies.policy import Decision
from spectator.steppers.remote import observed
from spectator.text import clean_text

from ..security import faults
from ..security.bodies import parse_json
from ..security.faults import Refused, documented, problem
from ..services import Services, services_of
from ..transport import EventStream, serve_viewer
from ..viewers import wire
from ..viewers.boards import BoardFeed
from ..viewers.feed import EpisodeFeed
from ..viewers.viewer import SendFrames, Viewer
from ..viewers.wire import EPISODE_ID, Position

router = APIRouter(tags=["live"])


@router.get(
    "/live/wall",
    response_class=Response,
    responses={200: {"description": "Every live episode, as a tile", "content": {"application/json": {}}}},
)
async def wall_now(request: Request) -> Response:
    """Return all live episodes as tiles, for polling.

    It is the first frame of the WebSocket at this address.
    """
    wall = services_of(request).wall
    await wall.look_elsewhere()
    text = wall.now().text
    return Response(text, media_type="application/json", headers={"Cache-Control": "no-store"})


async def watch_wall(websocket: WebSocket) -> None:
    """Show all live episodes and every change, until the viewer or the server leaves."""
    services = services_of(websocket)

    def make(viewer: Viewer, send: SendFrames) -> BoardFeed:
        return BoardFeed(services.wall, viewer, send)

    await serve_viewer(websocket, make, services.transport)


async def watch_episode(websocket: WebSocket) -> None:
    """Show one episode to its end; without an id the newest, then the next."""
    services, query = services_of(websocket), websocket.query_params
    episode_id = websocket.path_params.get("episode_id")

    def make(viewer: Viewer, send: SendFrames) -> EpisodeFeed:
        return EpisodeFeed(services.feeds, viewer, send, episode_id, wire.asked_position(query))

    await serve_viewer(websocket, make, services.transport)


# Starlette's own routes: FastAPI's do more for a socket than needed here. No episode is called "wall".
router.routes.append(WebSocketRoute("/live/wall", watch_wall))
router.routes.append(WebSocketRoute("/live", watch_episode))
router.routes.append(WebSocketRoute("/live/{episode_id}", watch_episode))


@router.get(
    "/live/{episode_id}/events",
    response_class=Response,
    responses={
        200: {"description": "The live frames, one per event", "content": {"text/event-stream": {}}},
        204: {"description": "The episode is over; do not reconnect"},
        **documented(faults.NO_EPISODE, faults.INVALID, faults.FULL),
    },
)
async def watch_by_events(request: Request, episode_id: str) -> Response:
    """Show one episode by server-sent events.

    ``Last-Event-ID`` or ``?epoch=&seq=`` resumes.
    """
    services = services_of(request)
    asked = _asked_of(request)
    known = EPISODE_ID.fullmatch(episode_id)
    await services.readiness.recovery.settled(episode_id)
    if known and services.supervisor.live(episode_id) is None:
        summary = await services.public_views.episode(episode_id)
        known = None if summary is None else known
        if summary is not None and asked == Position(summary.epoch, summary.head_seq):
            return Response(status_code=204)
    if not known:
        raise EpisodeNotFound(episode_id[:64])

    def make(viewer: Viewer, send: SendFrames) -> EpisodeFeed:
        return EpisodeFeed(services.feeds, viewer, send, episode_id, asked)

    return EventStream(make, services.transport)


def _asked_of(request: Request) -> Position | None:
    """Return the position that a viewer by server-sent events resumes from, if any."""
    fields: dict[str, str] = dict(request.query_params)
    last = request.headers.get("last-event-id")
    if last:
        fields["epoch"], _, fields["seq"] = last.partition(":")
    try:
        return wire.asked_position(fields)
    except ProtocolError as error:
        where = "Last-Event-ID" if last else "seq"
        raise InvalidRequest([FieldError(where, str(error))]) from error


MAX_MESSAGE: Final = 256 * 1024
"""Longest message, in characters."""

IDLE_S: Final = 600.0
"""Seconds without a message after which an episode is no longer shown."""

BAD_MESSAGE: Final = 4400
REFUSED: Final = 4029


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class PublishedStart(_Message):
    """The start of an episode that runs elsewhere."""

    environment: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")
    title: str = Field(min_length=1, max_length=100)
    agent: str = Field(min_length=1, max_length=64)
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED)
    observation: dict[str, Any]


class PublishedStep(_Message):
    """One step of it."""

    action: dict[str, Any]
    reasoning: str = ""
    observation: dict[str, Any]
    reward: float = 0.0
    done: bool = False
    latency_s: float = Field(default=0.0, ge=0)
    duration_s: float = Field(default=0.0, ge=0)


class FirstMessage(_Message):
    """The first message of a socket."""

    begin: PublishedStart


class NextMessage(_Message):
    """Every other message of a socket."""

    step: PublishedStep


publish_router = APIRouter()


async def publish(websocket: WebSocket) -> None:
    """Show one episode of a client's environment while it sends steps."""
    services = services_of(websocket)
    try:
        services.guard.require_spender(websocket)
    except Refused as error:
        await websocket.send_denial_response(problem(error.kind, error.detail, instance="/publish"))
        return
    await websocket.accept()
    try:
        await _publish(websocket, services)
    except ValidationError as error:
        wrong = field_errors(error.errors(include_url=False, include_context=False, include_input=False))
        await _refuse(websocket, BAD_MESSAGE, "; ".join(f"{one.field}: {one.rule}" for one in wrong[:5]))
    except (EpisodeError, ValueError) as error:
        await _refuse(websocket, BAD_MESSAGE, str(error))
    except WebSocketDisconnect:
        return


async def _publish(websocket: WebSocket, services: Services) -> None:
    begin = FirstMessage.model_validate(await _receive(websocket)).begin
    if len(services.supervisor.external()) >= services.settings.openenv_max_published:
        await _refuse(websocket, REFUSED, "too many published episodes; try again later")
        return
    if begin.environment in world_names():
        raise ValueError(
            f"begin.environment: {begin.environment} is a world of this server; choose another name"
        )
    title, agent = clean_text(begin.title, 100), clean_text(begin.agent, 64)
    first = _seen(begin.observation)
    episode_id = services.supervisor.new_id()
    plan = external_plan(begin.environment, title, agent, begin.seed or 0)
    driver = await services.supervisor.show(plan, episode_id)
    try:
        await driver.record(0, [first])
        await websocket.send_text(
            encode_json({"episode_id": episode_id, "watch_url": f"/watch/{episode_id}"})
        )
        await _follow(websocket, driver)
    except ValueError:
        driver.give_up("interrupted", "a message of its client was invalid")
        raise
    finally:
        driver.give_up("interrupted", "its client disconnected before the end")


def _seen(observation: dict[str, Any], reward: float = 0.0, total: float = 0.0) -> Fact:
    return Fact("remote.observed", observed(observation, reward, total).model_dump(mode="json"))


async def _follow(websocket: WebSocket, driver: ExternalDriver) -> None:
    turn, total = 0, 0.0
    while not driver.over:
        step = NextMessage.model_validate(await _receive(websocket)).step
        turn, total = turn + 1, total + step.reward
        await driver.record(turn, _facts(step, total))
        if step.done:
            driver.finish(_ended(step, turn, total))
            await websocket.close(1000)


def _facts(step: PublishedStep, total: float) -> list[Fact]:
    decision = Decision(step.action, "remote", step.reasoning, latency_s=step.latency_s)
    try:
        _, decided = checked_decision("agent", decision, 0.0)
    except PolicyError as error:
        raise ValueError(f"step.action: {error}") from error
    taken = StepTaken(
        actor="agent",
        next_actor=None if step.done else "agent",
        reward=step.reward,
        done=step.done,
        duration_s=step.duration_s,
    )
    return [decided, _seen(step.observation, step.reward, total), core_fact(taken)]


def _ended(step: PublishedStep, turns: int, total: float) -> EpisodeEnded:
    return EpisodeEnded(
        reason="finished",
        score=total,
        result=f"{total:g} reward in {turns} steps",
        turns=turns,
        total_reward=total,
        terminated=True,
        truncated=False,
    )


async def _receive(websocket: WebSocket) -> Any:
    try:
        async with asyncio.timeout(IDLE_S):
            message = await websocket.receive()
    except TimeoutError as error:
        raise WebSocketDisconnect(1000) from error
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1000))
    text = message.get("text")
    if text is None or len(text) > MAX_MESSAGE:
        raise ValueError(f"a message must be JSON text of at most {MAX_MESSAGE} characters")
    try:
        return parse_json(text)
    except ValueError as error:
        raise ValueError(f"a message must be JSON: {error}") from error


async def _refuse(websocket: WebSocket, code: int, why: str) -> None:
    await websocket.send_text(encode_json({"refused": clean_text(why, 500)}))
    await websocket.close(code)


publish_router.routes.append(WebSocketRoute("/publish", publish))

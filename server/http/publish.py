"""The WebSocket ``/publish``, on which somebody's own environment publishes what happens in it."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from spectator.catalog import world_names
from spectator.environments.seeds import MAX_SEED
from spectator.episodes.host.external import ExternalDriver
from spectator.episodes.host.external_world import external_plan
from spectator.episodes.run.contract_checks import checked_decision
from spectator.errors import EpisodeError, PolicyError, field_errors
from spectator.events import EpisodeEnded, Fact, StepTaken, core_fact, encode_json
from spectator.policies.base import Decision
from spectator.steppers.remote import observed
from spectator.text import clean_text

from ..security.faults import Refused, problem
from ..services import Services, services_of

MAX_MESSAGE: Final = 256 * 1024
"""Longest message, in characters."""

IDLE_S: Final = 600.0
"""Silence after which an episode is shown no further."""

BAD_MESSAGE: Final = 4400
REFUSED: Final = 4029


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class PublishedStart(_Message):
    """An episode begins elsewhere."""

    environment: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")
    title: str = Field(min_length=1, max_length=100)
    agent: str = Field(min_length=1, max_length=64)
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED)
    observation: dict[str, Any]


class PublishedStep(_Message):
    """An action was carried out there."""

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
    """Every other one."""

    step: PublishedStep


router = APIRouter()


async def publish(websocket: WebSocket) -> None:
    """Show one episode of somebody's own environment, for as long as it is told of."""
    services = services_of(websocket)
    try:
        services.guard.require_spender(websocket)
    except Refused as error:
        await websocket.send_denial_response(problem(error.kind, error.detail, instance="/publish"))
        return
    await websocket.accept()
    try:
        await _show(websocket, services)
    except ValidationError as error:
        wrong = field_errors(error.errors(include_url=False, include_context=False, include_input=False))
        await _refuse(websocket, BAD_MESSAGE, "; ".join(f"{one.field}: {one.rule}" for one in wrong[:5]))
    except (EpisodeError, ValueError) as error:
        await _refuse(websocket, BAD_MESSAGE, str(error))
    except WebSocketDisconnect:
        return


async def _show(websocket: WebSocket, services: Services) -> None:
    begin = FirstMessage.model_validate_json(await _receive(websocket)).begin
    if len(services.supervisor.external()) >= services.settings.openenv_max_published:
        await _refuse(websocket, REFUSED, "as many such episodes are shown as may be; try again later")
        return
    if begin.environment in world_names():
        raise ValueError(f"begin.environment: {begin.environment} is played here; choose another name")
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
        driver.give_up("interrupted", "what was told of it could not be read")
        raise
    finally:
        driver.give_up("interrupted", "whoever told of it went away before the end")


def _seen(observation: dict[str, Any], reward: float = 0.0, total: float = 0.0) -> Fact:
    """That something was shown."""
    return Fact("remote.observed", observed(observation, reward, total).model_dump(mode="json"))


async def _follow(websocket: WebSocket, driver: ExternalDriver) -> None:
    turn, total = 0, 0.0
    while not driver.over:
        step = NextMessage.model_validate_json(await _receive(websocket)).step
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


async def _receive(websocket: WebSocket) -> str:
    try:
        async with asyncio.timeout(IDLE_S):
            message = await websocket.receive()
    except TimeoutError as error:
        raise WebSocketDisconnect(1000) from error
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1000))
    text = message.get("text")
    if text is None or len(text) > MAX_MESSAGE:
        raise ValueError(f"a message is JSON text of at most {MAX_MESSAGE} characters")
    return str(text)


async def _refuse(websocket: WebSocket, code: int, why: str) -> None:
    await websocket.send_text(encode_json({"refused": clean_text(why, 500)}))
    await websocket.close(code)


router.routes.append(WebSocketRoute("/publish", publish))

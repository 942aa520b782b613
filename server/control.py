"""Owns the control of episodes: ``/custom/*``."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, Field
from starlette.requests import HTTPConnection, Request

from spectator.catalog import load_world, world_names
from spectator.clock import timestamp
from spectator.environments.base import MAX_SEED, World
from spectator.episodes.pacing import Pace
from spectator.episodes.request import EpisodeRequest, plan_episode
from spectator.episodes.supervisor import LiveEpisode
from spectator.errors import EpisodeBusy, EpisodeNotFound, EpisodeOver, FieldError, InvalidRequest
from spectator.events import DecisionSource, EndReason
from spectator.policies.base import Preset

from . import faults
from .bodies import Body, body_of, documented_body, read_fields, read_object
from .faults import Refused, documented
from .wiring import Services, services_of

DEFAULT_OVERS: Final = 5
"""Length when none is asked for, in worlds that have an option of the name ``max_overs``."""

PaceName = Literal["broadcast", "fast", "max"]


class StartEpisode(Body):
    """What ``POST /custom/start_episode`` takes; everything may be left out."""

    environment: str | None = Field(
        default=None, max_length=64, description="World; the server's default when left out"
    )
    captain_preset: str = Field(default="heuristic", max_length=64, description="Who takes the agent's seat")
    opponent_choice: str = Field(
        default="heuristic", max_length=64, description="Who takes the other seats, in worlds that have any"
    )
    max_overs: int = Field(
        default=DEFAULT_OVERS,
        description="Short for the option of this name; a world without it takes only the default",
    )
    eval_pack_id: str = Field(default="default", max_length=64, description="Evaluation pack")
    enable_tts: bool = Field(default=True, description="Whether the commentary is spoken")
    seed: int | None = Field(
        default=None, ge=0, le=MAX_SEED, description="Seed; null to have one drawn and recorded"
    )
    pace: PaceName = Field(
        default="broadcast",
        description="`broadcast`: about 2 s a beat; `fast`: ten steps a second; `max`: no waiting",
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="The world's own options, see /custom/catalog"
    )


class ChooseEpisode(Body):
    """Which episode is meant."""

    episode_id: str | None = Field(
        default=None, max_length=64, description="The episode; the newest one that runs when left out"
    )


class ChoosePace(ChooseEpisode):
    """Which pace is wanted."""

    pace: PaceName = Field(default="broadcast", description="How fast to play from now on")


class StartedEpisode(BaseModel):
    """An episode that has begun."""

    episode_id: str
    watch_url: str = Field(description="Path of the page that shows it")
    live_url: str = Field(description="Path of the WebSocket that tells it")


class RunningEpisode(BaseModel):
    """An episode that runs."""

    episode_id: str
    environment: str
    captain_preset: str
    opponent_choice: str | None = Field(description="null in worlds without opponents")
    started_at: str = Field(description="RFC 3339")
    turn: int = Field(ge=0, description="Actions taken or refused so far")
    pace: PaceName
    paused: bool
    viewers: int = Field(ge=0, description="How many watch it on this server")


class StoppedEpisode(BaseModel):
    """An episode that was ended."""

    episode_id: str
    reason: EndReason
    turns: int = Field(ge=0)


class Status(BaseModel):
    """What runs here."""

    running: list[RunningEpisode]
    slots: int = Field(ge=1, description="Episodes that may run at once")


class CatalogPreset(BaseModel):
    """Somebody who can decide."""

    name: str
    label: str
    summary: str
    source: DecisionSource
    available: bool
    missing: str | None = Field(description="What is needed before it can be used here")
    costs_money: bool = Field(description="Whether starting it needs the operator")


class CatalogPack(BaseModel):
    """An evaluation pack."""

    name: str
    version: str
    summary: str
    options: dict[str, Any] = Field(description="Option values that it fixes")


class CatalogWorld(BaseModel):
    """A world that can be played."""

    name: str
    version: str
    title: str
    summary: str
    actors: list[str] = Field(description="Who may have to decide; the first is the agent's own seat")
    options: dict[str, Any] = Field(description="JSON schema of the world's options")
    captains: list[CatalogPreset]
    opponents: list[CatalogPreset]
    default_captain: str
    default_opponent: str | None
    packs: list[CatalogPack]


class Catalog(BaseModel):
    """Everything that can be asked for."""

    default_environment: str
    environments: list[CatalogWorld]
    paces: list[PaceName]


CHOSEN: Final = documented_body(ChooseEpisode)
CHANGE_PROBLEMS: Final = documented(
    faults.MALFORMED,
    faults.UNAUTHENTICATED,
    faults.FOREIGN_ORIGIN,
    faults.NO_EPISODE,
    faults.OVER,
    faults.TOO_LARGE,
    faults.NOT_JSON,
    faults.INVALID,
    faults.TOO_MANY,
    faults.NO_JOURNAL,
)

ServicesDep = Annotated[Services, Depends(services_of)]
ChosenDep = Annotated[ChooseEpisode, Depends(body_of(ChooseEpisode))]

router = APIRouter(prefix="/custom", tags=["control"])


def operator(connection: HTTPConnection) -> str:
    """Who asks; whoever may not stop or slow an episode is refused."""
    return services_of(connection).guard.require_operator(connection)


OperatorDep = Annotated[str, Depends(operator)]


@router.post(
    "/start_episode",
    status_code=202,
    responses={**CHANGE_PROBLEMS, **documented(faults.NOT_HERE, faults.BUSY)},
    openapi_extra=documented_body(StartEpisode),
)
async def start_episode(request: Request, response: Response, services: ServicesDep) -> StartedEpisode:
    """Start an episode; the answer comes once its first event is recorded."""
    services.guard.admit_start(request)
    wanted = await _wanted(await read_object(request), services)
    plan = plan_episode(wanted, draw_seed=lambda: 0)
    if plan.captain.costs_money or (plan.opponent is not None and plan.opponent.costs_money):
        services.guard.require_purse(request)
    try:
        live = await services.supervisor.start(wanted)
    except EpisodeBusy as error:
        running = [one.model_dump(mode="json") for one in _running(services)]
        raise Refused(faults.BUSY, str(error), extra={"running": running}) from error
    root = request.scope.get("root_path", "")
    response.headers["Location"] = f"{root}/api/episodes/{live.episode_id}"
    return StartedEpisode(
        episode_id=live.episode_id,
        watch_url=f"{root}/watch/{live.episode_id}",
        live_url=f"{root}/live/{live.episode_id}",
    )


@router.post("/stop_episode", responses=CHANGE_PROBLEMS, openapi_extra=CHOSEN)
async def stop_episode(chosen: ChosenDep, by: OperatorDep, services: ServicesDep) -> StoppedEpisode:
    """End an episode; the answer comes once its end is recorded."""
    live = await _find(services, chosen.episode_id)
    ended = await services.supervisor.stop(live.episode_id, by=by)
    return StoppedEpisode(episode_id=live.episode_id, reason=ended.reason, turns=ended.turns)


@router.post("/pause", responses=CHANGE_PROBLEMS, openapi_extra=CHOSEN)
async def pause(chosen: ChosenDep, by: OperatorDep, services: ServicesDep) -> RunningEpisode:
    """Let an episode stand still before its next step; twice changes nothing."""
    live = await _find(services, chosen.episode_id)
    return _described(await services.supervisor.pause(live.episode_id, by=by), services)


@router.post("/resume", responses=CHANGE_PROBLEMS, openapi_extra=CHOSEN)
async def resume(chosen: ChosenDep, by: OperatorDep, services: ServicesDep) -> RunningEpisode:
    """Let an episode go on; twice changes nothing."""
    live = await _find(services, chosen.episode_id)
    return _described(await services.supervisor.resume(live.episode_id, by=by), services)


@router.post("/pace", responses=CHANGE_PROBLEMS, openapi_extra=documented_body(ChoosePace))
async def pace(
    chosen: Annotated[ChoosePace, Depends(body_of(ChoosePace))], by: OperatorDep, services: ServicesDep
) -> RunningEpisode:
    """Play an episode at another pace, from the current wait on."""
    if "pace" not in chosen.model_fields_set:
        raise InvalidRequest([FieldError("pace", f"is needed: {', '.join(Pace)}")])
    live = await _find(services, chosen.episode_id)
    return _described(await services.supervisor.set_pace(live.episode_id, Pace(chosen.pace), by=by), services)


@router.get("/status")
async def status(services: ServicesDep) -> Status:
    """What runs here, oldest first."""
    return Status(running=_running(services), slots=services.supervisor.slots)


@router.get("/catalog")
async def catalog(services: ServicesDep) -> Catalog:
    """Worlds, captains, opponents and packs that can be asked for."""
    worlds = await asyncio.to_thread(lambda: [load_world(name) for name in world_names()])
    return Catalog(
        default_environment=services.settings.environment,
        environments=[_catalog_world(world) for world in worlds],
        paces=[pace.value for pace in Pace],
    )


async def _wanted(sent: dict[str, Any], services: Services) -> EpisodeRequest:
    """The request in the library's words, checked as a whole so that every wrong field is named."""
    reading = read_fields(StartEpisode, sent)
    wrong = list(reading.wrong)
    fields = reading.fields
    name = fields.environment or services.settings.environment
    try:
        world = await asyncio.to_thread(load_world, name)
    except InvalidRequest as error:
        raise InvalidRequest([*wrong, *error.fields]) from error
    options = dict(fields.options)
    if any(field.field == "environment" for field in wrong):
        raise InvalidRequest(wrong)
    shorthand = _spread_overs(world, fields, options, wrong)
    request = EpisodeRequest(
        environment=name,
        captain=fields.captain_preset,
        opponent=fields.opponent_choice,
        pack=fields.eval_pack_id,
        seed=fields.seed,
        pace=Pace(fields.pace),
        narration=fields.enable_tts,
        options=options,
    )
    try:
        plan_episode(request, draw_seed=lambda: 0)
    except InvalidRequest as error:
        wrong += [_as_spelt(field, shorthand) for field in error.fields]
    if wrong:
        raise InvalidRequest(wrong)
    return request


def _spread_overs(
    world: World, fields: StartEpisode, options: dict[str, Any], wrong: list[FieldError]
) -> bool:
    """Put ``max_overs`` into ``options`` where the world has it; whether it was put there."""
    explicit = "max_overs" in fields.model_fields_set
    if "max_overs" not in world.options_type.model_fields:
        if explicit and fields.max_overs != DEFAULT_OVERS:
            wrong.append(FieldError("max_overs", f"{world.name} has no such option; leave it out"))
        return False
    if "max_overs" in options:
        if explicit and options["max_overs"] != fields.max_overs:
            wrong.append(FieldError("max_overs", "contradicts options.max_overs; send one of them"))
        return False
    options["max_overs"] = fields.max_overs
    return True


def _as_spelt(field: FieldError, shorthand: bool) -> FieldError:
    if shorthand and field.field == "options.max_overs":
        return FieldError("max_overs", field.rule)
    return field


async def _find(services: Services, episode_id: str | None) -> LiveEpisode:
    """The episode if it runs; one that is only recorded is over.

    Raises:
        EpisodeNotFound: There is none.
        EpisodeOver: It has ended.
    """
    try:
        return services.supervisor.find(episode_id)
    except EpisodeNotFound:
        if episode_id is None or await services.journal.episode(episode_id) is None:
            raise
        raise EpisodeOver(episode_id) from None


def _running(services: Services) -> list[RunningEpisode]:
    return [_described(live, services) for live in services.supervisor.running()]


def _described(live: LiveEpisode, services: Services) -> RunningEpisode:
    opponent = live.plan.opponent
    return RunningEpisode(
        episode_id=live.episode_id,
        environment=live.plan.world.name,
        captain_preset=live.plan.captain.name,
        opponent_choice=None if opponent is None else opponent.name,
        started_at=timestamp(live.started_at),
        turn=live.turn,
        pace=live.pace.value,
        paused=live.paused,
        viewers=services.audience.count(live.episode_id),
    )


def _catalog_world(world: World) -> CatalogWorld:
    return CatalogWorld(
        name=world.name,
        version=world.version,
        title=world.title,
        summary=world.summary,
        actors=list(world.actors),
        options=world.options_type.model_json_schema(),
        captains=[_catalog_preset(preset) for preset in world.captains.values()],
        opponents=[_catalog_preset(preset) for preset in world.opponents.values()],
        default_captain=world.default_captain,
        default_opponent=world.default_opponent if world.opponents else None,
        packs=[
            CatalogPack(
                name=pack.name, version=pack.version, summary=pack.summary, options=dict(pack.options)
            )
            for pack in world.packs.values()
        ],
    )


def _catalog_preset(preset: Preset) -> CatalogPreset:
    return CatalogPreset(
        name=preset.name,
        label=preset.label,
        summary=preset.summary,
        source=preset.source,
        available=preset.missing is None,
        missing=preset.missing,
        costs_money=preset.costs_money,
    )

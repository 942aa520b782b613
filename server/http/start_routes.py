"""Routes that list the catalog, start an episode, and fork one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from math import ceil
from typing import Any, Final

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field
from starlette.requests import Request

from spectator.catalog import LoadWorld, load_world, world_names
from spectator.core_events import DecisionSource
from spectator.environments.world import World
from spectator.episodes.controls import Pace
from spectator.episodes.fork import ForkRequest, plan_fork
from spectator.episodes.handle import EpisodeHandle
from spectator.episodes.plan import EpisodePlan
from spectator.errors import EpisodeBusy, FieldError, InvalidRequest, JournalError
from spectator.observations import Profile
from spectator.policies.policy import Preset

from ..security import faults
from ..security.bodies import documented_body, read_object
from ..security.budget import AGAIN_S, Costly
from ..security.faults import Refused, documented
from ..security.requests import address_of
from ..security.slot_queue import OPERATOR, NoFreeSlot
from ..services import Services, ServicesDep
from .commands import Rights
from .control import ALWAYS, keep_starter, running_here
from .responses import MaskedRoute
from .start_requests import (
    ForkEpisode,
    PaceName,
    StartEpisode,
    VisitorModels,
    WantedSeat,
    brings_model,
    wanted_episode,
    wanted_fork,
)

catalogue_router = APIRouter(prefix="/custom", tags=["control"], route_class=MaskedRoute)


class CatalogPreset(BaseModel):
    """A captain that can take a seat."""

    name: str
    label: str
    summary: str
    source: DecisionSource
    available: bool
    missing: str | None = Field(description="What is missing before it can be used here")
    costs_money: bool = Field(description="Whether starting it needs the operator's token")


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
    actors: list[str] = Field(description="Actors that decide; the first is the agent's seat")
    options: dict[str, Any] = Field(description="JSON schema of the world's options")
    captains: list[CatalogPreset]
    opponents: list[CatalogPreset]
    default_captain: str
    default_opponent: str | None
    suggested_captain: str = Field(description="Captain of the match that the start form suggests")
    suggested_opponent: str | None = Field(description="Its opponent; null in worlds without opponents")
    packs: list[CatalogPack]
    profile: Profile = Field(description="When the agent is rewarded, and what actions are")


class Catalog(BaseModel):
    """Everything that can be started."""

    default_environment: str
    environments: list[CatalogWorld]
    paces: list[PaceName]


@catalogue_router.get("/catalog")
async def catalog(services: ServicesDep) -> Catalog:
    """List the worlds, captains, opponents and packs that can be started."""
    load = services.cast.load
    worlds = await asyncio.to_thread(lambda: [_catalog_world(load(name)) for name in world_names()])
    return Catalog(
        default_environment=services.settings.environment,
        environments=worlds,
        paces=[pace.value for pace in Pace],
    )


def _catalog_world(world: World) -> CatalogWorld:
    captain, opponent = load_world(world.name).pairings()[0]
    return CatalogWorld(
        **{name: getattr(world, name) for name in ("name", "version", "title", "summary", "profile")},
        actors=list(world.actors),
        options=world.options_type.model_json_schema(),
        captains=[_catalog_preset(preset) for preset in world.captains.values()],
        opponents=[_catalog_preset(preset) for preset in world.opponents.values()],
        default_captain=world.default_captain,
        default_opponent=world.default_opponent if world.opponents else None,
        suggested_captain=captain,
        suggested_opponent=opponent,
        packs=[
            CatalogPack(
                name=pack.name, version=pack.version, summary=pack.summary, options=pack.shown_options
            )
            for pack in world.packs.values()
        ],
    )


def _catalog_preset(preset: Preset) -> CatalogPreset:
    fields = {name: getattr(preset, name) for name in CatalogPreset.model_fields if name != "available"}
    return CatalogPreset(**fields, available=preset.missing is None)


logger = logging.getLogger(__name__)


class SeatLink(BaseModel):
    """How a person takes one seat."""

    key: str = Field(description="Key of this seat for the header X-Seat-Key; it is not shown again")
    url: str = Field(
        description="Path of the page that takes the seat; the key follows #, so browsers do not send it"
    )


class StartedEpisode(BaseModel):
    """A started episode."""

    episode_id: str
    watch_url: str = Field(description="Path of its page")
    live_url: str = Field(description="Path of its WebSocket")
    seats: dict[str, SeatLink] = Field(
        description="The seats that people play, by actor, each with its own key"
    )


START_PROBLEMS: Final = documented(*ALWAYS, faults.NOT_HERE, faults.BUSY, faults.SPENT, faults.PAUSED)
FORK_PROBLEMS: Final = {**START_PROBLEMS, **documented(faults.NO_EPISODE)}

router = APIRouter(prefix="/custom", tags=["control"])


@router.post(
    "/start_episode",
    status_code=202,
    responses=START_PROBLEMS,
    openapi_extra=documented_body(StartEpisode),
)
async def start_episode(request: Request, response: Response, services: ServicesDep) -> StartedEpisode:
    """Start an episode; answers once its first event is recorded."""
    services.readiness.need()
    with services.budget.spend(Costly.STARTS, request):
        sent, default = await read_object(request), services.settings.environment
        own = VisitorModels(request, services)
        plan, wait = await wanted_episode(sent, default, own, services.supervisor.plan)
        await Rights.of(request, services).need(plan, services)
        return await _started(
            plan, lambda: services.supervisor.start(plan), wait, request, response, services
        )


@router.post(
    "/fork",
    status_code=202,
    responses=FORK_PROBLEMS,
    openapi_extra=documented_body(ForkEpisode),
)
async def fork_episode(request: Request, response: Response, services: ServicesDep) -> StartedEpisode:
    """Continue from within an episode with other captains.

    Answers once the fork's past is recorded.
    """
    services.readiness.need()
    with services.budget.spend(Costly.STARTS, request):
        wanted, wait = wanted_fork(await read_object(request))
        return await _forked(wanted, wait, request, response, services)


async def start_fork(wanted: ForkRequest, request: Request, services: Services) -> StartedEpisode:
    """Start a fork that no JSON body describes; it counts as a start and needs the same rights."""
    services.readiness.need()
    with services.budget.spend(Costly.STARTS, request):
        return await _forked(wanted, ForkEpisode(), request, Response(), services)


async def _forked(
    wanted: ForkRequest, wait: ForkEpisode, request: Request, response: Response, services: Services
) -> StartedEpisode:
    last = await services.public_views.last_seen(wanted.episode_id)
    if last is not None and wanted.seq > last:  # later decisions are still withheld from viewers
        rule = f"must be from 1 to {last}, the last event that is shown so far"
        raise InvalidRequest([FieldError("seq", rule)])
    plan = await plan_fork(services.journal, wanted, await _load_for_fork(wanted, request, services))
    await Rights.of(request, services).need(plan, services)
    fork = services.supervisor.fork
    return await _started(plan, lambda: fork(wanted, plan), wait, request, response, services)


async def _load_for_fork(wanted: ForkRequest, request: Request, services: Services) -> LoadWorld:
    """Return a loader of worlds with the sender's own models instead of the parent's."""
    begun = await services.journal.read(wanted.episode_id, limit=1)
    seats = begun[0].event.data["seats"].items() if begun else ()
    before = {actor == begun[0].event.data["agent"]: seat["policy"] for actor, seat in seats}
    captain = WantedSeat("captain_preset", wanted.captain or before.get(True))
    opponent = WantedSeat("opponent_choice", wanted.opponent or before.get(False))
    load, _ = await VisitorModels(request, services).load((captain, opponent))
    return load


async def _started(
    plan: EpisodePlan,
    start: Callable[[], Coroutine[Any, Any, EpisodeHandle]],
    wait: StartEpisode | ForkEpisode,
    request: Request,
    response: Response,
    services: Services,
) -> StartedEpisode:
    whose = OPERATOR if services.guard.is_operator(request) else address_of(request)
    async with services.budget.spend_shared(Costly.STARTS, whose):
        await services.exhibition.make_way()
        try:
            episode_id = (await start()).episode_id
        except EpisodeBusy:
            episode_id = await _remote_or_queued(plan, start, wait, whose, request, services)
    services.budget.note_start(episode_id, whose)
    if services.starters is not None:
        await keep_starter(episode_id, whose, services.starters, services)
    if services.narration.charges and services.guard.may_spend(request):
        services.narration.pay_for(episode_id)
    root = request.scope.get("root_path", "")
    response.headers["Location"] = f"{root}/api/episodes/{episode_id}"
    people = [actor for actor in plan.world.actors if plan.preset(actor).source == "human"]
    keys = {actor: services.seat_keys.key(episode_id, actor) for actor in people}
    page = f"{root}/watch/{episode_id}#seat="
    return StartedEpisode(
        episode_id=episode_id,
        watch_url=f"{root}/watch/{episode_id}",
        live_url=f"{root}/live/{episode_id}",
        seats={actor: SeatLink(key=key, url=f"{page}{key}") for actor, key in keys.items()},
    )


async def _remote_or_queued(
    plan: EpisodePlan,
    start: Callable[[], Coroutine[Any, Any, EpisodeHandle]],
    wait: StartEpisode | ForkEpisode,
    whose: str,
    request: Request,
    services: Services,
) -> str:
    """Start the episode at another server with a free slot, or here after waiting.

    Forks start only here, since their past must be copied first, and so do matches with a visitor's model,
    whose key no other server has.
    """
    handed_over = plan if isinstance(wait, StartEpisode) and not brings_model(plan) else None
    if (episode_id := await _handed_over(handed_over, services)) is not None:
        return episode_id
    try:
        await services.slot_queue.take(whose, wait.wait_s, wait.ticket, request.receive)
        return (await start()).episode_id
    except (NoFreeSlot, EpisodeBusy) as error:
        if wait.wait_s and (episode_id := await _handed_over(handed_over, services)) is not None:
            return episode_id
        raise services.budget.refuse("max_episodes", _busy(error, services)) from None


async def _handed_over(plan: EpisodePlan | None, services: Services) -> str | None:
    """Start an episode at another server with a free slot; return its id, if any."""
    if services.takeover is None or plan is None:
        return None
    try:
        return await services.takeover.hand_over(plan)
    except (EpisodeBusy, JournalError) as error:
        logger.warning("cannot hand over a start: %s", error)
        return None


def _busy(error: NoFreeSlot | EpisodeBusy, services: Services) -> Refused:
    running = [one.model_dump(mode="json") for one in running_here(services)]
    if isinstance(error, EpisodeBusy):
        headers = {"Retry-After": str(AGAIN_S)}
        return Refused(faults.BUSY, str(error), headers=headers, extra={"running": running})
    position, supervisor = error.position, services.supervisor
    again_s = 0.0 if position.ticket else min(60.0, max(AGAIN_S, position.within_s or 30.0))
    return Refused(
        faults.BUSY,
        str(supervisor.busy()),
        headers={"Retry-After": str(ceil(again_s))},
        extra={"running": running, "queue": position},
    )

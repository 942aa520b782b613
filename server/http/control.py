"""Routes that start, stop, pause, pace and fork episodes: ``/custom/*``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from math import ceil
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import HTTPConnection, Request

from spectator.episodes.host.handle import EpisodeHandle
from spectator.episodes.replay.fork import plan_fork
from spectator.episodes.run.pacing import Pace
from spectator.episodes.run.plan import EpisodePlan
from spectator.errors import (
    EpisodeBusy,
    EpisodeOver,
    FieldError,
    InvalidRequest,
    JournalError,
    JournalUnavailable,
)
from spectator.journal.stores.commands import STOP

from ..security import faults
from ..security.bodies import Body, body_of, documented_body, read_object
from ..security.budget import AGAIN_S, Costly
from ..security.client_address import address_of
from ..security.faults import Refused, documented
from ..security.kept_starters import KeptStarters
from ..security.slot_queue import OPERATOR
from ..security.slot_tickets import NoSlot
from ..services import Services, ServicesDep
from .elsewhere import carried_out
from .rights import Rights
from .running import RunningEpisode, StoppedEpisode, described, described_elsewhere, find_live
from .starting import ForkEpisode, PaceName, StartEpisode, wanted_episode, wanted_fork
from .usage import DayUsage, usage_today

logger = logging.getLogger(__name__)


class ChooseEpisode(Body):
    """Which episode is meant."""

    episode_id: str | None = Field(
        default=None, max_length=64, description="The episode; the newest one that runs when left out"
    )


class ChoosePace(ChooseEpisode):
    """Which pace is wanted."""

    model_config = ConfigDict(json_schema_extra={"required": ["pace"]})

    pace: PaceName = Field(default="broadcast", description="How fast to play from now on")


class SeatLink(BaseModel):
    """How one person takes the seat that is theirs, and no other."""

    key: str = Field(description="Opens this seat alone, in the header X-Seat-Key; nobody is told it again")
    url: str = Field(
        description="Path of the page that takes the seat; the key is behind #, so it is not sent"
    )


class StartedEpisode(BaseModel):
    """An episode that has begun."""

    episode_id: str
    watch_url: str = Field(description="Path of the page that shows it")
    live_url: str = Field(description="Path of the WebSocket that tells it")
    seats: dict[str, SeatLink] = Field(
        description="The seats that people play, by actor, each with its own key"
    )


class Status(BaseModel):
    """What runs here."""

    running: list[RunningEpisode]
    slots: int = Field(ge=1, description="Episodes that may run at once")
    waiting: int = Field(ge=0, description="Starts that wait for a slot")
    models_today: DayUsage
    shown: list[RunningEpisode] = Field(
        description="Episodes that are played elsewhere and only shown here; they hold no slot"
    )


CHOSEN: Final = documented_body(ChooseEpisode)
ALWAYS: Final = (
    faults.MALFORMED,
    faults.UNAUTHENTICATED,
    faults.FOREIGN_ORIGIN,
    faults.TOO_LARGE,
    faults.NOT_JSON,
    faults.INVALID,
    faults.TOO_MANY,
    faults.NO_JOURNAL,
    faults.RECOVERING,
)
START_PROBLEMS: Final = documented(*ALWAYS, faults.NOT_HERE, faults.BUSY, faults.SPENT, faults.PAUSED)
FORK_PROBLEMS: Final = {**START_PROBLEMS, **documented(faults.NO_EPISODE)}
CHANGE_PROBLEMS: Final = documented(
    *ALWAYS, faults.NOT_YOURS, faults.NO_EPISODE, faults.OVER, faults.ELSEWHERE, faults.NO_PLAYER
)
RESUME_PROBLEMS: Final = {
    **CHANGE_PROBLEMS,
    **documented(faults.NOT_HERE, faults.BUSY, faults.SPENT, faults.DAMAGED),
}

ChosenDep = Annotated[ChooseEpisode, Depends(body_of(ChooseEpisode))]

router = APIRouter(prefix="/custom", tags=["control"])


async def controller(episode_id: str | None, connection: HTTPConnection, services: Services) -> str:
    """Who asks to stop or slow the episode, or the newest one that runs here; whoever may not is refused.

    Raises:
        Refused: It is somebody else's.
        JournalError: Who started it cannot be found out now.
    """
    running = services.supervisor.running()
    named = episode_id or (running[-1].episode_id if running else "")
    starter, address = services.budget.starter(named), address_of(connection)
    if starter is None and services.starters is not None:
        starter = address if await services.starters.started(named, address) else None
    return services.guard.require_control(connection, starter)


@router.post(
    "/start_episode",
    status_code=202,
    responses=START_PROBLEMS,
    openapi_extra=documented_body(StartEpisode),
)
async def start_episode(request: Request, response: Response, services: ServicesDep) -> StartedEpisode:
    """Start an episode; the answer comes once its first event is recorded."""
    services.readiness.need()
    with services.budget.spend(Costly.STARTS, request):
        sent, default = await read_object(request), services.settings.environment
        plan, wait = await wanted_episode(sent, default, services.cast.load, services.supervisor.plan)
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
    """Play on from within an episode with other captains; the answer comes once its past is recorded."""
    services.readiness.need()
    with services.budget.spend(Costly.STARTS, request):
        wanted, wait = wanted_fork(await read_object(request))
        last = await services.records.last_seen(wanted.episode_id)
        if last is not None and wanted.seq > last:  # it would show a decision that viewers may not see yet
            rule = f"must be from 1 to {last}: that is how much is shown yet"
            raise InvalidRequest([FieldError("seq", rule)])
        plan = await plan_fork(services.journal, wanted, services.cast.load)
        await Rights.of(request, services).need(plan, services)
        fork = services.supervisor.fork
        return await _started(plan, lambda: fork(wanted, plan), wait, request, response, services)


async def _started(
    plan: EpisodePlan,
    start: Callable[[], Coroutine[Any, Any, EpisodeHandle]],
    wait: StartEpisode | ForkEpisode,
    request: Request,
    response: Response,
    services: Services,
) -> StartedEpisode:
    whose = OPERATOR if services.guard.is_operator(request) else address_of(request)
    async with services.budget.spend_among_all(Costly.STARTS, whose):
        await services.exhibition.make_way()
        try:
            episode_id = (await start()).episode_id
        except EpisodeBusy:
            episode_id = await _elsewhere_or_in_turn(plan, start, wait, whose, request, services)
    services.budget.note_start(episode_id, whose)
    if services.starters is not None:
        await _keep_starter(episode_id, whose, services.starters, services)
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


async def _elsewhere_or_in_turn(
    plan: EpisodePlan,
    start: Callable[[], Coroutine[Any, Any, EpisodeHandle]],
    wait: StartEpisode | ForkEpisode,
    whose: str,
    request: Request,
    services: Services,
) -> str:
    """Have another server play it that has room, or start it here once it is this client's turn.

    A fork, whose past has to be copied first, is begun only where it is asked for.

    Raises:
        Refused: Nobody has room, and here there was none in time.
    """
    handed_over = plan if isinstance(wait, StartEpisode) else None
    if (episode_id := await _handed_over(handed_over, services)) is not None:
        return episode_id
    try:
        await services.queue.take(whose, wait.wait_s, wait.ticket, request.receive)
        return (await start()).episode_id
    except (NoSlot, EpisodeBusy) as error:
        if wait.wait_s and (episode_id := await _handed_over(handed_over, services)) is not None:
            return episode_id
        raise services.budget.refuse("max_episodes", _busy(error, services)) from None


async def _handed_over(plan: EpisodePlan | None, services: Services) -> str | None:
    """The id of the episode, where another server has room for it."""
    if services.takeover is None or plan is None:
        return None
    try:
        return await services.takeover.hand_over(plan)
    except (EpisodeBusy, JournalError) as error:
        logger.warning("a start cannot be handed over: %s", error)
        return None


def _busy(error: NoSlot | EpisodeBusy, services: Services) -> Refused:
    running = [one.model_dump(mode="json") for one in _running(services)]
    if isinstance(error, EpisodeBusy):
        headers = {"Retry-After": str(AGAIN_S)}
        return Refused(faults.BUSY, str(error), headers=headers, extra={"running": running})
    standing, supervisor = error.standing, services.supervisor
    again_s = 0.0 if standing.ticket else min(60.0, max(AGAIN_S, standing.within_s or 30.0))
    return Refused(
        faults.BUSY,
        str(supervisor.busy()),
        headers={"Retry-After": str(ceil(again_s))},
        extra={"running": running, "queue": standing},
    )


@router.post("/stop_episode", responses=CHANGE_PROBLEMS, openapi_extra=CHOSEN)
async def stop_episode(chosen: ChosenDep, request: Request, services: ServicesDep) -> StoppedEpisode:
    """End an episode; the answer comes once its end is recorded, or 503 with the reason why it is not yet."""
    sent = {"by": await controller(chosen.episode_id, request, services)}
    return await carried_out(STOP, stopped, services, chosen.episode_id, sent, StoppedEpisode)


@router.post("/pause", responses=CHANGE_PROBLEMS, openapi_extra=CHOSEN)
async def pause(chosen: ChosenDep, request: Request, services: ServicesDep) -> RunningEpisode:
    """Let an episode stand still before its next step; twice changes nothing."""
    sent = {"by": await controller(chosen.episode_id, request, services)}
    return await carried_out("pause", paused, services, chosen.episode_id, sent, RunningEpisode)


@router.post("/resume", responses=RESUME_PROBLEMS, openapi_extra=CHOSEN)
async def resume(chosen: ChosenDep, request: Request, services: ServicesDep) -> RunningEpisode:
    """Let an episode go on; twice changes nothing. One that is suspended takes a slot, as a start does."""
    by = await controller(chosen.episode_id, request, services)
    sent = {"by": by, "rights": Rights.of(request, services).told()}
    return await carried_out("resume", resumed, services, chosen.episode_id, sent, RunningEpisode)


@router.post("/pace", responses=CHANGE_PROBLEMS, openapi_extra=documented_body(ChoosePace))
async def pace(
    chosen: Annotated[ChoosePace, Depends(body_of(ChoosePace))], request: Request, services: ServicesDep
) -> RunningEpisode:
    """Play an episode at another pace, from the current wait on."""
    if "pace" not in chosen.model_fields_set:
        raise InvalidRequest([FieldError("pace", f"is needed: {', '.join(Pace)}")])
    sent = {"by": await controller(chosen.episode_id, request, services), "pace": chosen.pace}
    return await carried_out("pace", paced, services, chosen.episode_id, sent, RunningEpisode)


@router.get("/status")
async def status(services: ServicesDep) -> Status:
    """What runs here, and what is only shown here, each oldest first."""
    services.exhibition.note_visit()
    elsewhere = () if services.elsewhere is None else services.elsewhere.listed()
    return Status(
        running=_running(services),
        slots=services.supervisor.slots,
        waiting=services.queue.waiting,
        shown=[
            *(described(live, services) for live in services.supervisor.external()),
            *(described_elsewhere(one, services) for one in elsewhere),
        ],
        models_today=usage_today(services),
    )


async def stopped(services: Services, episode_id: str | None, sent: Mapping[str, Any]) -> StoppedEpisode:
    """End an episode that is played here; returns once its end is recorded."""
    live = await find_live(services, episode_id)
    try:
        ended = await services.supervisor.stop(live.episode_id, by=sent["by"])
    except JournalUnavailable as error:
        raise Refused(faults.NO_JOURNAL, f"The episode is stopped, but {error}.") from error
    return StoppedEpisode(episode_id=live.episode_id, reason=ended.reason, turns=ended.turns)


async def paused(services: Services, episode_id: str | None, sent: Mapping[str, Any]) -> RunningEpisode:
    """Let an episode that is played here stand still."""
    live = await find_live(services, episode_id)
    return described(await services.supervisor.pause(live.episode_id, by=sent["by"]), services)


async def resumed(services: Services, episode_id: str | None, sent: Mapping[str, Any]) -> RunningEpisode:
    """Let an episode that is played here go on, or play one on that was suspended here."""
    try:
        live = await find_live(services, episode_id)
    except EpisodeOver as over:
        rights = Rights.heard(sent["rights"])
        return described(await _played_on(over.episode_id, rights, services), services)
    return described(await services.supervisor.resume(live.episode_id, by=sent["by"]), services)


async def paced(services: Services, episode_id: str | None, sent: Mapping[str, Any]) -> RunningEpisode:
    """Play an episode that is played here at another pace."""
    live, pace = await find_live(services, episode_id), Pace(sent["pace"])
    return described(await services.supervisor.set_pace(live.episode_id, pace, by=sent["by"]), services)


async def _played_on(episode_id: str, rights: Rights, services: Services) -> EpisodeHandle:
    """Play a suspended episode on; whoever may not start it may not do that either."""
    services.readiness.need()
    budget = services.budget
    async with AsyncExitStack() as spent:
        if rights.whose != OPERATOR:
            spent.enter_context(budget.spend_of(Costly.STARTS, rights.whose))
        await spent.enter_async_context(budget.spend_among_all(Costly.STARTS, rights.whose))
        await services.exhibition.make_way()
        live = await services.suspended.play_on(episode_id, lambda plan: rights.need(plan, services))
    budget.note_start(live.episode_id, rights.whose)
    if services.starters is not None:
        await _keep_starter(live.episode_id, rights.whose, services.starters, services)
    services.signals.wake()
    return live


async def _keep_starter(episode_id: str, whose: str, starters: KeptStarters, services: Services) -> None:
    """Remember who started an episode for every server and across restarts."""
    live = services.supervisor.live(episode_id)
    runs = live is not None and not live.ended
    if whose != OPERATOR and (runs or services.commands is not None):  # or another server plays it
        await starters.note(episode_id, whose)


def _running(services: Services) -> list[RunningEpisode]:
    return [described(live, services) for live in services.supervisor.running()]

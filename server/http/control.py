"""Routes that stop, pause and pace episodes, and say what runs: ``/custom/*``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import HTTPConnection, Request

from spectator.episodes.host.handle import EpisodeHandle
from spectator.episodes.run.pacing import Pace
from spectator.errors import (
    EpisodeOver,
    FieldError,
    InvalidRequest,
    JournalUnavailable,
)
from spectator.journal.stores.commands import STOP

from ..security import faults
from ..security.bodies import Body, body_of, documented_body
from ..security.budget import Costly
from ..security.client_address import address_of
from ..security.faults import Refused, documented
from ..security.kept_starters import KeptStarters
from ..security.slot_queue import OPERATOR
from ..services import Services, ServicesDep
from .elsewhere import carried_out
from .rights import Rights
from .running import RunningEpisode, StoppedEpisode, described, described_elsewhere, find_live
from .starting import PaceName
from .usage import DayUsage, usage_today


class ChooseEpisode(Body):
    """Which episode is meant."""

    episode_id: str | None = Field(
        default=None, max_length=64, description="The episode; the newest one that runs when left out"
    )


class ChoosePace(ChooseEpisode):
    """Which pace is wanted."""

    model_config = ConfigDict(json_schema_extra={"required": ["pace"]})

    pace: PaceName = Field(default="broadcast", description="How fast to play from now on")


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
        running=running_here(services),
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
        await keep_starter(live.episode_id, rights.whose, services.starters, services)
    services.signals.wake()
    return live


async def keep_starter(episode_id: str, whose: str, starters: KeptStarters, services: Services) -> None:
    """Remember who started an episode for every server and across restarts."""
    live = services.supervisor.live(episode_id)
    runs = live is not None and not live.ended
    if whose != OPERATOR and (runs or services.commands is not None):  # or another server plays it
        await starters.note(episode_id, whose)


def running_here(services: Services) -> list[RunningEpisode]:
    """What runs here, the oldest first."""
    return [described(live, services) for live in services.supervisor.running()]

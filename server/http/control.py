"""Routes that stop, pause and pace episodes, and report running ones: ``/custom/*``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import HTTPConnection, Request

from spectator.clock import timestamp
from spectator.episodes.controls import Pace
from spectator.episodes.handle import EpisodeHandle
from spectator.errors import (
    EndReason,
    EpisodeNotFound,
    EpisodeOver,
    FieldError,
    InvalidRequest,
    JournalUnavailable,
)
from spectator.journal.commands import STOP
from spectator.journal.contract import EpisodeSummary

from ..background.exhibition import OWN
from ..security import faults
from ..security.bodies import Body, body_of, documented_body
from ..security.budget import Costly
from ..security.faults import Refused, documented
from ..security.permissions import StarterRegistry
from ..security.requests import address_of
from ..security.slot_queue import OPERATOR
from ..services import Services, ServicesDep
from .commands import Rights, run_command
from .start_requests import PaceName


class SeatUsage(BaseModel):
    """Usage of the model in one seat so far."""

    decisions: int = Field(ge=0, description="Decisions that it was asked for")
    fallbacks: int = Field(ge=0, description="Decisions that a scripted captain made instead")
    tokens_in: int = Field(ge=0)
    tokens_out: int = Field(ge=0)
    cost: float = Field(
        ge=0, description="US dollars, by the prices in the captains' catalog; 0 without prices"
    )
    latency_s: float = Field(ge=0, description="Total time of its decisions")


class DayUsage(BaseModel):
    """Usage of all models of this server today, UTC."""

    tokens: int = Field(ge=0)
    cost: float = Field(ge=0)
    seconds: float = Field(ge=0)
    refusal: str | None = Field(description="Why no episode with a model can start until tomorrow")


def usage_in(used: Mapping[str, Any]) -> dict[str, SeatUsage]:
    """Return the usage by actor from ``usage`` in the viewers' state."""
    return {actor: SeatUsage(**taken) for actor, taken in used.items()}


async def usage_of(summary: EpisodeSummary, services: Services) -> dict[str, SeatUsage]:
    """Return the usage by actor of a running or recorded episode."""
    live = services.supervisor.live(summary.episode_id)
    if live is not None:
        return usage_in(live.usage)
    snapshot = await services.snapshots.of(summary)
    return usage_in(json.loads(snapshot.text)["state"].get("usage", {}))


def usage_today(services: Services) -> DayUsage:
    """Return today's usage of all models."""
    spent = services.model_ledger.spent
    return DayUsage(
        tokens=spent.tokens,
        cost=round(spent.cost, 6),
        seconds=round(spent.seconds, 3),
        refusal=services.model_ledger.known_refusal(),
    )


class RunningEpisode(BaseModel):
    """A running episode."""

    episode_id: str
    environment: str
    captain_preset: str
    captain_label: str = Field(description="The captain's name for people")
    opponent_choice: str | None = Field(description="null in worlds without opponents")
    started_at: str = Field(description="RFC 3339")
    turn: int | None = Field(
        ge=0,
        description="Actions taken or rejected so far; null, as `pace`, for an episode of another server "
        "without viewers here",
    )
    pace: PaceName | None
    paused: bool
    trouble: str | None = Field(
        description="Why its record cannot be written, so that play waits; usually null"
    )
    viewers: int = Field(ge=0, description="Viewers at all servers")
    usage: dict[str, SeatUsage] = Field(description="Usage of models so far, by actor")
    exhibition: bool = Field(
        default=False, description="Whether the server plays it by itself, so that it gives way to any other"
    )


class StoppedEpisode(BaseModel):
    """A stopped episode."""

    episode_id: str
    reason: EndReason
    turns: int = Field(ge=0)


async def find_live(services: Services, episode_id: str | None) -> EpisodeHandle:
    """Return an episode that runs here.

    Raises:
        EpisodeNotFound: There is no such episode.
        EpisodeOver: It has ended.
        Recovering: It is being recovered.
    """
    try:
        return services.supervisor.find(episode_id)
    except EpisodeNotFound:
        services.readiness.need_of(episode_id)
        if episode_id is None or await services.journal.episode(episode_id) is None:
            raise
        raise EpisodeOver(episode_id) from None


def describe_running(live: EpisodeHandle, services: Services) -> RunningEpisode:
    """Describe an episode that runs here."""
    opponent = live.plan.opponent
    return RunningEpisode(
        episode_id=live.episode_id,
        environment=live.plan.world.name,
        captain_preset=live.plan.captain.name,
        captain_label=live.plan.captain.label,
        opponent_choice=None if opponent is None else opponent.name,
        started_at=timestamp(live.started_at),
        turn=live.turn,
        pace=live.pace.value,
        paused=live.paused,
        trouble=None if live.trouble is None else live.trouble.message,
        viewers=services.audience.total(live.episode_id),
        usage=usage_in(live.usage),
        exhibition=live.plan.run_id in OWN,
    )


def describe_remote(summary: EpisodeSummary, services: Services) -> RunningEpisode:
    """Describe an episode of another server, as far as known here."""
    view = None if services.remote_episodes is None else services.remote_episodes.view(summary.episode_id)
    shown = {} if view is None else view.state["episode"]
    trouble = None if view is None else view.trouble
    return RunningEpisode(
        episode_id=summary.episode_id,
        environment=summary.environment,
        captain_preset=summary.captain,
        captain_label=summary.captain_label,
        opponent_choice=summary.opponent or None,
        started_at=summary.started_at,
        turn=None if view is None else view.turn,
        pace=shown.get("pace"),
        paused=shown.get("status") == "paused",
        trouble=None if trouble is None else trouble.message,
        viewers=services.audience.total(summary.episode_id),
        usage={} if view is None else usage_in(view.state.get("usage", {})),
    )


class ChooseEpisode(Body):
    """The body that selects an episode."""

    episode_id: str | None = Field(
        default=None, max_length=64, description="The episode; the newest running one if omitted"
    )


class ChoosePace(ChooseEpisode):
    """The body that selects a pace."""

    model_config = ConfigDict(json_schema_extra={"required": ["pace"]})

    pace: PaceName = Field(default="broadcast", description="How fast to play from now on")


class Status(BaseModel):
    """Running and shown episodes."""

    running: list[RunningEpisode]
    slots: int = Field(ge=1, description="Episodes that may run at once")
    waiting: int = Field(ge=0, description="Starts that wait for a slot")
    models_today: DayUsage
    shown: list[RunningEpisode] = Field(
        description="Episodes that run elsewhere and are only shown here; they hold no slot"
    )


CHOSEN: Final = documented_body(ChooseEpisode)
ALWAYS: Final = (
    faults.MALFORMED, faults.UNAUTHENTICATED, faults.FOREIGN_ORIGIN, faults.TOO_LARGE, faults.NOT_JSON,
    faults.INVALID, faults.TOO_MANY, faults.NO_JOURNAL, faults.RECOVERING,
)  # fmt: skip
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
    """Require a client that may control an episode; return its role.

    Without an id, the newest episode here is meant.

    Raises:
        Refused: Another client started the episode.
        JournalError: The database with its starter cannot be read now.
    """
    running = services.supervisor.running()
    named = episode_id or (running[-1].episode_id if running else "")
    starter, address = services.budget.starter(named), address_of(connection)
    if starter is None and services.starters is not None:
        starter = address if await services.starters.started(named, address) else None
    return services.guard.require_control(connection, starter)


@router.post("/stop_episode", responses=CHANGE_PROBLEMS, openapi_extra=CHOSEN)
async def stop_episode(chosen: ChosenDep, request: Request, services: ServicesDep) -> StoppedEpisode:
    """End an episode; answers once its end is recorded, or with 503 and the reason."""
    sent = {"by": await controller(chosen.episode_id, request, services)}
    return await run_command(STOP, handle_stop, services, chosen.episode_id, sent, StoppedEpisode)


@router.post("/pause", responses=CHANGE_PROBLEMS, openapi_extra=CHOSEN)
async def pause(chosen: ChosenDep, request: Request, services: ServicesDep) -> RunningEpisode:
    """Pause an episode before its next step; repeating it changes nothing."""
    sent = {"by": await controller(chosen.episode_id, request, services)}
    return await run_command("pause", handle_pause, services, chosen.episode_id, sent, RunningEpisode)


@router.post("/resume", responses=RESUME_PROBLEMS, openapi_extra=CHOSEN)
async def resume(chosen: ChosenDep, request: Request, services: ServicesDep) -> RunningEpisode:
    """Resume an episode; repeating it changes nothing.

    A suspended episode needs a slot, like a start.
    """
    by = await controller(chosen.episode_id, request, services)
    sent = {"by": by, "rights": Rights.of(request, services).to_json()}
    return await run_command("resume", handle_resume, services, chosen.episode_id, sent, RunningEpisode)


@router.post("/pace", responses=CHANGE_PROBLEMS, openapi_extra=documented_body(ChoosePace))
async def pace(
    chosen: Annotated[ChoosePace, Depends(body_of(ChoosePace))], request: Request, services: ServicesDep
) -> RunningEpisode:
    """Change an episode's pace, starting with the current wait."""
    if "pace" not in chosen.model_fields_set:
        raise InvalidRequest([FieldError("pace", f"is required: one of {', '.join(Pace)}")])
    sent = {"by": await controller(chosen.episode_id, request, services), "pace": chosen.pace}
    return await run_command("pace", handle_pace, services, chosen.episode_id, sent, RunningEpisode)


@router.get("/status")
async def status(services: ServicesDep) -> Status:
    """List running episodes, and those only shown here, each oldest first."""
    services.exhibition.note_visit()
    elsewhere = () if services.remote_episodes is None else services.remote_episodes.listed()
    return Status(
        running=running_here(services),
        slots=services.supervisor.slots,
        waiting=services.slot_queue.waiting,
        shown=[
            *(describe_running(live, services) for live in services.supervisor.external()),
            *(describe_remote(one, services) for one in elsewhere),
        ],
        models_today=usage_today(services),
    )


async def handle_stop(services: Services, episode_id: str | None, sent: Mapping[str, Any]) -> StoppedEpisode:
    """End an episode that runs here; returns once its end is recorded."""
    live = await find_live(services, episode_id)
    try:
        ended = await services.supervisor.stop(live.episode_id, by=sent["by"])
    except JournalUnavailable as error:
        raise Refused(faults.NO_JOURNAL, f"The episode is stopped, but {error}.") from error
    return StoppedEpisode(episode_id=live.episode_id, reason=ended.reason, turns=ended.turns)


async def handle_pause(services: Services, episode_id: str | None, sent: Mapping[str, Any]) -> RunningEpisode:
    """Pause an episode that runs here."""
    live = await find_live(services, episode_id)
    return describe_running(await services.supervisor.pause(live.episode_id, by=sent["by"]), services)


async def handle_resume(
    services: Services, episode_id: str | None, sent: Mapping[str, Any]
) -> RunningEpisode:
    """Resume an episode that runs here, or that is suspended."""
    try:
        live = await find_live(services, episode_id)
    except EpisodeOver as over:
        rights = Rights.from_json(sent["rights"])
        return describe_running(await _resume_suspended(over.episode_id, rights, services), services)
    return describe_running(await services.supervisor.resume(live.episode_id, by=sent["by"]), services)


async def handle_pace(services: Services, episode_id: str | None, sent: Mapping[str, Any]) -> RunningEpisode:
    """Change the pace of an episode that runs here."""
    live, pace = await find_live(services, episode_id), Pace(sent["pace"])
    return describe_running(
        await services.supervisor.set_pace(live.episode_id, pace, by=sent["by"]), services
    )


async def _resume_suspended(episode_id: str, rights: Rights, services: Services) -> EpisodeHandle:
    """Resume a suspended episode, with the same rights as to start it."""
    services.readiness.need()
    budget = services.budget
    async with AsyncExitStack() as spent:
        if rights.whose != OPERATOR:
            spent.enter_context(budget.spend_of(Costly.STARTS, rights.whose))
        await spent.enter_async_context(budget.spend_shared(Costly.STARTS, rights.whose))
        await services.exhibition.make_way()
        live = await services.suspended_episodes.play_on(episode_id, lambda plan: rights.need(plan, services))
    budget.note_start(live.episode_id, rights.whose)
    if services.starters is not None:
        await keep_starter(live.episode_id, rights.whose, services.starters, services)
    services.bus.wake()
    return live


async def keep_starter(episode_id: str, whose: str, starters: StarterRegistry, services: Services) -> None:
    """Store who started an episode, for every server and across restarts."""
    live = services.supervisor.live(episode_id)
    runs = live is not None and not live.ended
    if whose != OPERATOR and (runs or services.commands is not None):  # or another server runs it
        await starters.note(episode_id, whose)


def running_here(services: Services) -> list[RunningEpisode]:
    """Describe the episodes that run here, oldest first."""
    return [describe_running(live, services) for live in services.supervisor.running()]

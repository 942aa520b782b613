"""Routes that stop, pause and pace episodes, and report what runs: ``/custom/*``."""

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
    EpisodeNotFound,
    EpisodeOver,
    FieldError,
    InvalidRequest,
    JournalUnavailable,
)
from spectator.evaluation.figures import EXHIBITION
from spectator.events import EndReason
from spectator.journal.commands import STOP
from spectator.journal.contract import EpisodeSummary

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
    """What the model in one seat took so far."""

    decisions: int = Field(ge=0, description="Decisions that were asked of it")
    fallbacks: int = Field(ge=0, description="How many of them a scripted captain made in its place")
    tokens_in: int = Field(ge=0)
    tokens_out: int = Field(ge=0)
    cost: float = Field(
        ge=0, description="US dollars, by the prices of the captains' catalogue; 0 where there are none"
    )
    latency_s: float = Field(ge=0, description="Time that its decisions took")


class DayUsage(BaseModel):
    """What all models of this server took today, UTC."""

    tokens: int = Field(ge=0)
    cost: float = Field(ge=0)
    seconds: float = Field(ge=0)
    refusal: str | None = Field(description="Why no episode with a model can be started until tomorrow")


def usage_in(used: Mapping[str, Any]) -> dict[str, SeatUsage]:
    """By actor, from ``usage`` of the viewers' state; empty where no model was asked."""
    return {actor: SeatUsage(**taken) for actor, taken in used.items()}


async def usage_of(summary: EpisodeSummary, services: Services) -> dict[str, SeatUsage]:
    """The same of a running or recorded episode."""
    live = services.supervisor.live(summary.episode_id)
    if live is not None:
        return usage_in(live.usage)
    snapshot = await services.snapshots.of(summary)
    return usage_in(json.loads(snapshot.text)["state"].get("usage", {}))


def usage_today(services: Services) -> DayUsage:
    """See :class:`DayUsage`."""
    spent = services.model_ledger.spent
    return DayUsage(
        tokens=spent.tokens,
        cost=round(spent.cost, 6),
        seconds=round(spent.seconds, 3),
        refusal=services.model_ledger.known_refusal(),
    )


class RunningEpisode(BaseModel):
    """An episode that runs."""

    episode_id: str
    environment: str
    captain_preset: str
    captain_label: str = Field(description="The captain's name for people")
    opponent_choice: str | None = Field(description="null in worlds without opponents")
    started_at: str = Field(description="RFC 3339")
    turn: int | None = Field(
        ge=0,
        description="Actions taken or refused so far; null of one that another server plays and nobody "
        "watches here, as is `pace`",
    )
    pace: PaceName | None
    paused: bool
    trouble: str | None = Field(
        description="What keeps its record from being written; play stands still meanwhile. null as a rule"
    )
    viewers: int = Field(ge=0, description="How many watch it, over all servers")
    usage: dict[str, SeatUsage] = Field(description="What models took so far, by actor")
    exhibition: bool = Field(
        default=False, description="Whether it is an exhibition match, which makes room for any other"
    )


class StoppedEpisode(BaseModel):
    """An episode that was ended."""

    episode_id: str
    reason: EndReason
    turns: int = Field(ge=0)


async def find_live(services: Services, episode_id: str | None) -> EpisodeHandle:
    """The episode if it runs here; one that is only recorded is over.

    Raises:
        EpisodeNotFound: There is none.
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
    """How answers describe an episode."""
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
        exhibition=live.plan.run_id == EXHIBITION,
    )


def describe_remote(summary: EpisodeSummary, services: Services) -> RunningEpisode:
    """The same of one that another server plays, as far as it is known here without asking."""
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
    return await run_command(STOP, handle_stop, services, chosen.episode_id, sent, StoppedEpisode)


@router.post("/pause", responses=CHANGE_PROBLEMS, openapi_extra=CHOSEN)
async def pause(chosen: ChosenDep, request: Request, services: ServicesDep) -> RunningEpisode:
    """Let an episode stand still before its next step; twice changes nothing."""
    sent = {"by": await controller(chosen.episode_id, request, services)}
    return await run_command("pause", handle_pause, services, chosen.episode_id, sent, RunningEpisode)


@router.post("/resume", responses=RESUME_PROBLEMS, openapi_extra=CHOSEN)
async def resume(chosen: ChosenDep, request: Request, services: ServicesDep) -> RunningEpisode:
    """Let an episode go on; twice changes nothing. One that is suspended takes a slot, as a start does."""
    by = await controller(chosen.episode_id, request, services)
    sent = {"by": by, "rights": Rights.of(request, services).told()}
    return await run_command("resume", handle_resume, services, chosen.episode_id, sent, RunningEpisode)


@router.post("/pace", responses=CHANGE_PROBLEMS, openapi_extra=documented_body(ChoosePace))
async def pace(
    chosen: Annotated[ChoosePace, Depends(body_of(ChoosePace))], request: Request, services: ServicesDep
) -> RunningEpisode:
    """Play an episode at another pace, from the current wait on."""
    if "pace" not in chosen.model_fields_set:
        raise InvalidRequest([FieldError("pace", f"is needed: {', '.join(Pace)}")])
    sent = {"by": await controller(chosen.episode_id, request, services), "pace": chosen.pace}
    return await run_command("pace", handle_pace, services, chosen.episode_id, sent, RunningEpisode)


@router.get("/status")
async def status(services: ServicesDep) -> Status:
    """What runs here, and what is only shown here, each oldest first."""
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
    """End an episode that is played here; returns once its end is recorded."""
    live = await find_live(services, episode_id)
    try:
        ended = await services.supervisor.stop(live.episode_id, by=sent["by"])
    except JournalUnavailable as error:
        raise Refused(faults.NO_JOURNAL, f"The episode is stopped, but {error}.") from error
    return StoppedEpisode(episode_id=live.episode_id, reason=ended.reason, turns=ended.turns)


async def handle_pause(services: Services, episode_id: str | None, sent: Mapping[str, Any]) -> RunningEpisode:
    """Let an episode that is played here stand still."""
    live = await find_live(services, episode_id)
    return describe_running(await services.supervisor.pause(live.episode_id, by=sent["by"]), services)


async def handle_resume(
    services: Services, episode_id: str | None, sent: Mapping[str, Any]
) -> RunningEpisode:
    """Let an episode that is played here go on, or play one on that was suspended here."""
    try:
        live = await find_live(services, episode_id)
    except EpisodeOver as over:
        rights = Rights.heard(sent["rights"])
        return describe_running(await _played_on(over.episode_id, rights, services), services)
    return describe_running(await services.supervisor.resume(live.episode_id, by=sent["by"]), services)


async def handle_pace(services: Services, episode_id: str | None, sent: Mapping[str, Any]) -> RunningEpisode:
    """Play an episode that is played here at another pace."""
    live, pace = await find_live(services, episode_id), Pace(sent["pace"])
    return describe_running(
        await services.supervisor.set_pace(live.episode_id, pace, by=sent["by"]), services
    )


async def _played_on(episode_id: str, rights: Rights, services: Services) -> EpisodeHandle:
    """Play a suspended episode on; whoever may not start it may not do that either."""
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
    """Remember who started an episode for every server and across restarts."""
    live = services.supervisor.live(episode_id)
    runs = live is not None and not live.ended
    if whose != OPERATOR and (runs or services.commands is not None):  # or another server plays it
        await starters.note(episode_id, whose)


def running_here(services: Services) -> list[RunningEpisode]:
    """What runs here, the oldest first."""
    return [describe_running(live, services) for live in services.supervisor.running()]

"""Routes that start, stop, pause, pace and fork episodes: ``/custom/*``."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from math import ceil
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import HTTPConnection, Request

from spectator.clock import timestamp
from spectator.episodes.host.handle import EpisodeHandle
from spectator.episodes.replay.fork import plan_fork
from spectator.episodes.run.pacing import Pace
from spectator.episodes.run.plan import EpisodePlan
from spectator.errors import (
    EpisodeBusy,
    EpisodeNotFound,
    EpisodeOver,
    FieldError,
    InvalidRequest,
    JournalUnavailable,
)
from spectator.events import EndReason

from ..security import faults
from ..security.bodies import Body, body_of, documented_body, read_object
from ..security.budget import AGAIN_S, Costly
from ..security.faults import Refused, documented
from ..security.guard import address_of
from ..security.slot_queue import OPERATOR
from ..security.slot_tickets import NoSlot
from ..services import Services, ServicesDep
from .starting import ForkEpisode, PaceName, StartEpisode, wanted_episode, wanted_fork
from .usage import DayUsage, SeatUsage, usage_in, usage_today


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
    trouble: str | None = Field(
        description="What keeps its record from being written; play stands still meanwhile. null as a rule"
    )
    viewers: int = Field(ge=0, description="How many watch it on this server")
    usage: dict[str, SeatUsage] = Field(description="What models took so far, by actor")


class StoppedEpisode(BaseModel):
    """An episode that was ended."""

    episode_id: str
    reason: EndReason
    turns: int = Field(ge=0)


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
    *ALWAYS, faults.NOT_YOURS, faults.NO_EPISODE, faults.OVER, faults.ELSEWHERE
)
RESUME_PROBLEMS: Final = {
    **CHANGE_PROBLEMS,
    **documented(faults.NOT_HERE, faults.BUSY, faults.SPENT, faults.DAMAGED),
}

ChosenDep = Annotated[ChooseEpisode, Depends(body_of(ChooseEpisode))]

router = APIRouter(prefix="/custom", tags=["control"])


class Controlled(NamedTuple):
    """One who may stop or slow an episode.

    Args:
        live: The episode.
        by: Who it is, in a word.
    """

    live: EpisodeHandle
    by: str


def controller(episode_id: str | None, connection: HTTPConnection, services: Services) -> str:
    """Who asks to stop or slow the episode, or the newest one that runs; whoever may not is refused."""
    running = services.supervisor.running()
    named = episode_id or (running[-1].episode_id if running else "")
    return services.guard.require_control(connection, services.budget.starter(named))


async def controlled(episode_id: str | None, connection: HTTPConnection, services: Services) -> Controlled:
    """The episode that is meant, for whoever may stop or slow it.

    Raises:
        Refused: It is somebody else's.
    """
    by = controller(episode_id, connection, services)
    return Controlled(await find_live(services, episode_id), by)


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
        _may_play(plan, request, services)
        return await _started(lambda: services.supervisor.start(plan), wait, request, response, services)


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
        _may_play(plan, request, services)
        fork = services.supervisor.fork
        return await _started(lambda: fork(wanted, plan), wait, request, response, services)


def _may_play(plan: EpisodePlan, request: Request, services: Services) -> None:
    """Let whoever may have this world, with these options and captains, through; see :class:`Guard`."""
    if not services.guard.is_operator(request):
        services.offer.check(plan.world.name, plan.options)
    if plan.captain.costs_money or (plan.opponent is not None and plan.opponent.costs_money):
        services.guard.require_spender(request)
        services.budget.need_money()
    if any(seat is not None and seat.source == "human" for seat in (plan.captain, plan.opponent)):
        services.guard.require_operator(request)


async def _started(
    start: Callable[[], Coroutine[Any, Any, EpisodeHandle]],
    wait: StartEpisode | ForkEpisode,
    request: Request,
    response: Response,
    services: Services,
) -> StartedEpisode:
    whose = OPERATOR if services.guard.is_operator(request) else address_of(request)
    await services.exhibition.make_way()
    try:
        live = await start()
    except EpisodeBusy:
        live = await _in_turn(start, wait, whose, request, services)
    services.budget.note_start(live.episode_id, whose)
    if services.narration.charges and services.guard.may_spend(request):
        services.narration.pay_for(live.episode_id)
    root = request.scope.get("root_path", "")
    response.headers["Location"] = f"{root}/api/episodes/{live.episode_id}"
    people = [actor for actor in live.plan.world.actors if live.plan.preset(actor).source == "human"]
    keys = {actor: services.seat_keys.key(live.episode_id, actor) for actor in people}
    page = f"{root}/watch/{live.episode_id}#seat="
    return StartedEpisode(
        episode_id=live.episode_id,
        watch_url=f"{root}/watch/{live.episode_id}",
        live_url=f"{root}/live/{live.episode_id}",
        seats={actor: SeatLink(key=key, url=f"{page}{key}") for actor, key in keys.items()},
    )


async def _in_turn(
    start: Callable[[], Coroutine[Any, Any, EpisodeHandle]],
    wait: StartEpisode | ForkEpisode,
    whose: str,
    request: Request,
    services: Services,
) -> EpisodeHandle:
    """Start once it is this client's turn; refused if that is not in time."""
    try:
        await services.queue.take(whose, wait.wait_s, wait.ticket, request.receive)
        return await start()
    except (NoSlot, EpisodeBusy) as error:
        raise services.budget.refuse("max_episodes", _busy(error, services)) from None


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
    live, by = await controlled(chosen.episode_id, request, services)
    try:
        ended = await services.supervisor.stop(live.episode_id, by=by)
    except JournalUnavailable as error:
        raise Refused(faults.NO_JOURNAL, f"The episode is stopped, but {error}.") from error
    return StoppedEpisode(episode_id=live.episode_id, reason=ended.reason, turns=ended.turns)


@router.post("/pause", responses=CHANGE_PROBLEMS, openapi_extra=CHOSEN)
async def pause(chosen: ChosenDep, request: Request, services: ServicesDep) -> RunningEpisode:
    """Let an episode stand still before its next step; twice changes nothing."""
    live, by = await controlled(chosen.episode_id, request, services)
    return _described(await services.supervisor.pause(live.episode_id, by=by), services)


@router.post("/resume", responses=RESUME_PROBLEMS, openapi_extra=CHOSEN)
async def resume(chosen: ChosenDep, request: Request, services: ServicesDep) -> RunningEpisode:
    """Let an episode go on; twice changes nothing. One that is suspended takes a slot, as a start does."""
    try:
        live, by = await controlled(chosen.episode_id, request, services)
    except EpisodeOver as over:
        return _described(await _played_on(over, request, services), services)
    return _described(await services.supervisor.resume(live.episode_id, by=by), services)


@router.post("/pace", responses=CHANGE_PROBLEMS, openapi_extra=documented_body(ChoosePace))
async def pace(
    chosen: Annotated[ChoosePace, Depends(body_of(ChoosePace))], request: Request, services: ServicesDep
) -> RunningEpisode:
    """Play an episode at another pace, from the current wait on."""
    if "pace" not in chosen.model_fields_set:
        raise InvalidRequest([FieldError("pace", f"is needed: {', '.join(Pace)}")])
    live, by = await controlled(chosen.episode_id, request, services)
    return _described(await services.supervisor.set_pace(live.episode_id, Pace(chosen.pace), by=by), services)


@router.get("/status")
async def status(services: ServicesDep) -> Status:
    """What runs here, oldest first."""
    services.exhibition.note_visit()
    return Status(
        running=_running(services),
        slots=services.supervisor.slots,
        waiting=services.queue.waiting,
        shown=[_described(live, services) for live in services.supervisor.external()],
        models_today=usage_today(services),
    )


async def _played_on(over: EpisodeOver, request: Request, services: Services) -> EpisodeHandle:
    """Play a suspended episode on; whoever may not start it may not do that either."""
    services.readiness.need()
    with services.budget.spend(Costly.STARTS, request):
        await services.exhibition.make_way()
        live = await services.suspended.play_on(
            over.episode_id, lambda plan: _may_play(plan, request, services)
        )
    whose = OPERATOR if services.guard.is_operator(request) else address_of(request)
    services.budget.note_start(live.episode_id, whose)
    services.signals.wake()
    return live


async def find_live(services: Services, episode_id: str | None) -> EpisodeHandle:
    """The episode if it runs; one that is only recorded is over.

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


def _running(services: Services) -> list[RunningEpisode]:
    return [_described(live, services) for live in services.supervisor.running()]


def _described(live: EpisodeHandle, services: Services) -> RunningEpisode:
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
        trouble=None if live.trouble is None else live.trouble.message,
        viewers=services.audience.count(live.episode_id),
        usage=usage_in(live.usage),
    )

"""What the operator sees and does: ``/operator``, and ``DELETE /api/episodes/{episode_id}``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Final

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import HTTPConnection

from spectator.clock import timestamp
from spectator.episodes.host.handle import EpisodeHandle
from spectator.errors import EpisodeNotFound, FieldError, InvalidRequest

from ..background.deletions import DeletedEpisode
from ..identifiers import EPISODE_ID
from ..security import faults
from ..security.bodies import Body, body_of, documented_body
from ..security.budget import WORDS
from ..security.client_address import masked
from ..security.faults import Refused, documented
from ..services import Services, ServicesDep, services_of
from .control import ALWAYS
from .usage import DayUsage, usage_today


class TakenEpisode(BaseModel):
    """A running or shown episode, and what it takes."""

    episode_id: str
    environment: str
    captain: str
    opponent: str | None
    address: str | None = Field(
        description="Who started it, without the last part; null if not known any more"
    )
    started_at: str = Field(description="RFC 3339")
    turn: int
    events: int
    paused: bool
    viewers: int
    shown: bool = Field(description="Whether it is played elsewhere and only shown here")


class TakenBudget(BaseModel):
    """One limit, and how much of it is taken now."""

    name: str = Field(description="Name of the limit")
    words: str = Field(description="What it limits, for people")
    used: float
    limit: float = Field(description="0 = none")
    addresses: dict[str, float] = Field(description="By address, without its last part, the largest first")


class JournalTaken(BaseModel):
    """The journal's size."""

    bytes: int | None = Field(description="null before housekeeping has looked")
    free_bytes: int | None
    episodes: int | None
    unended_bytes: int = Field(description="About what the episodes without an end take")
    limit_bytes: float = Field(description="SPECTATOR_KEEP_MB; 0 = none")


class OperatorStatus(BaseModel):
    """Who takes what."""

    paused_since: str | None = Field(description="RFC 3339; null while starts are open")
    hidden: list[str] = Field(description="Names that are shown to nobody")
    episodes: list[TakenEpisode]
    budgets: list[TakenBudget]
    refusals: dict[str, int] = Field(description="By limit, since the start")
    models_today: DayUsage
    characters_today: int = Field(description="Characters that paid voices were sent today")
    journal: JournalTaken
    loop_lag_s: float = Field(description="The longest of the last minute")
    deleted: list[DeletedEpisode] = Field(description="The newest deletions")


class ChooseName(Body):
    """Which name is meant."""

    model_config = ConfigDict(json_schema_extra={"required": ["name"]})

    name: str = Field(default="", max_length=64, description="A label, exactly as it is shown")


class HiddenNames(BaseModel):
    """The names that are shown to nobody."""

    hidden: list[str]


class StartsPaused(BaseModel):
    """Whether starts are paused."""

    paused_since: str | None = Field(description="RFC 3339; null while starts are open")


NETWORKS: Final = 8
"""Addresses that are named for each limit."""

PROBLEMS: Final = documented(*ALWAYS, faults.NOT_HERE)


async def _deleter(connection: HTTPConnection) -> None:
    """Whoever may not delete records and pause starts is refused."""
    services_of(connection).guard.require_deleter(connection)


router = APIRouter(tags=["operator"], dependencies=[Depends(_deleter)])


@router.get(
    "/operator/status",
    responses=documented(faults.UNAUTHENTICATED, faults.NOT_HERE, faults.TOO_MANY, faults.NO_JOURNAL),
)
async def operator_status(services: ServicesDep) -> OperatorStatus:
    """Who takes what now."""
    supervisor, budget, size = services.supervisor, services.budget, services.housekeeper.size
    return OperatorStatus(
        paused_since=services.orders.kept.paused_since,
        hidden=sorted(services.orders.kept.hidden),
        episodes=[
            *(_taken(live, services, shown=False) for live in supervisor.running()),
            *(_taken(live, services, shown=True) for live in supervisor.external()),
        ],
        budgets=_budgets(services),
        refusals=dict(budget.refused.most_common()),
        models_today=usage_today(services),
        characters_today=budget.characters.sent,
        journal=JournalTaken(
            bytes=None if size is None else size.bytes,
            free_bytes=None if size is None else size.free_bytes,
            episodes=None if size is None else size.episodes,
            unended_bytes=services.unended.bytes,
            limit_bytes=services.settings.keep_mb * 1e6,
        ),
        loop_lag_s=round(services.loop_lag.worst, 4),
        deleted=await services.deletions.newest(),
    )


def _taken(live: EpisodeHandle, services: Services, *, shown: bool) -> TakenEpisode:
    plan, starter = live.plan, services.budget.starter(live.episode_id)
    return TakenEpisode(
        episode_id=live.episode_id,
        environment=plan.world.name,
        captain=plan.captain.label,
        opponent=None if plan.opponent is None else plan.opponent.label,
        address=None if starter is None else masked(starter),
        started_at=timestamp(live.started_at),
        turn=live.turn,
        events=live.head_seq,
        paused=live.paused,
        viewers=services.audience.total(live.episode_id),
        shown=shown,
    )


def _budgets(services: Services) -> list[TakenBudget]:
    budget, settings = services.budget, services.settings
    running, sessions = len(services.supervisor.running()), budget.environments
    found = [
        _budget("max_episodes", "episodes at once", running, settings.max_episodes),
        _budget("max_waiting", "starts that wait for a slot", services.queue.waiting, settings.max_waiting),
        _budget("max_viewers", "viewers at once", len(services.audience), settings.max_viewers),
        _budget(
            "openenv_max_sessions",
            "OpenEnv environments at once",
            sessions.total(),
            settings.openenv_max_sessions,
            sessions,
        ),
    ]
    for what, rate in budget.rates.items():
        hour = rate.by_all.used().get("", 0)
        words = f"{WORDS[what]} in an hour; by address in a minute"
        found.append(_budget(f"{what}_per_hour", words, hour, rate.by_all.limit, rate.by_address.used()))
    for held, places in budget.places.items():
        taken = places.held
        found.append(_budget(f"max_{held}", f"{held} at once", sum(taken.values()), places.total, taken))
    recorded = {address: size / 1e6 for address, size in budget.recorded.used().items()}
    words, most = "million characters recorded by one address in an hour", max(recorded.values(), default=0.0)
    limit = settings.recorded_mb_per_hour
    found.append(_budget("recorded_mb_per_hour", words, round(most, 1), limit, recorded))
    for name, words, allowance in (
        ("openenv_compute_s_per_minute", "addresses whose environments computed too long", budget.compute),
        ("requests_per_minute", "addresses that sent too many requests", budget.requests),
    ):
        owed = allowance.owed()
        found.append(_budget(name, f"{words}; seconds to wait", len(owed), 0, owed))
    return found


def _budget(
    name: str, words: str, used: float, limit: float, addresses: Mapping[str, float] | None = None
) -> TakenBudget:
    by_network: dict[str, float] = {}
    for address, taken in (addresses or {}).items():
        by_network[masked(address)] = by_network.get(masked(address), 0.0) + taken
    largest = sorted(by_network.items(), key=lambda one: -one[1])[:NETWORKS]
    shown = {one: round(taken, 1) for one, taken in largest}
    return TakenBudget(name=name, words=words, used=used, limit=limit, addresses=shown)


@router.post("/operator/pause", responses=PROBLEMS)
async def pause_starts(services: ServicesDep) -> StartsPaused:
    """Let nobody but the operator start, fork or publish, until `/operator/resume`; kept across restarts."""
    if not services.orders.paused:
        now = timestamp(services.clock.now())
        await asyncio.to_thread(services.orders.give, paused_since=now)
    return StartsPaused(paused_since=services.orders.kept.paused_since)


@router.post("/operator/resume", responses=PROBLEMS)
async def resume_starts(services: ServicesDep) -> StartsPaused:
    """Let everybody start again."""
    await asyncio.to_thread(services.orders.give, paused_since=None)
    return StartsPaused(paused_since=None)


ChosenName = Annotated[ChooseName, Depends(body_of(ChooseName))]


@router.post("/operator/hide", responses=PROBLEMS, openapi_extra=documented_body(ChooseName))
async def hide_name(chosen: ChosenName, services: ServicesDep) -> HiddenNames:
    """Show a name to nobody, live or recorded, but to whoever sends the token; the record keeps it."""
    return await _hide(services, services.orders.kept.hidden | {_named(chosen)})


@router.post("/operator/unhide", responses=PROBLEMS, openapi_extra=documented_body(ChooseName))
async def show_name(chosen: ChosenName, services: ServicesDep) -> HiddenNames:
    """Show a name again."""
    return await _hide(services, services.orders.kept.hidden - {_named(chosen)})


def _named(chosen: ChooseName) -> str:
    if not chosen.name:
        raise InvalidRequest([FieldError("name", "is needed: a label, exactly as it is shown")])
    return chosen.name


async def _hide(services: Services, hidden: frozenset[str]) -> HiddenNames:
    await asyncio.to_thread(services.orders.give, hidden=hidden)
    await services.audience.show_again()
    return HiddenNames(hidden=sorted(hidden))


@router.delete(
    "/api/episodes/{episode_id}",
    tags=["history"],
    responses=documented(
        faults.UNAUTHENTICATED, faults.NOT_HERE, faults.FOREIGN_ORIGIN, faults.TOO_MANY, faults.NO_EPISODE,
        faults.UNENDED, faults.ELSEWHERE, faults.INVALID, faults.NO_JOURNAL,
    ),
)  # fmt: skip
async def delete_episode(episode_id: str, services: ServicesDep) -> DeletedEpisode:
    """Remove an ended episode from the record; `deleted.ndjson` keeps that it was there, and its digest."""
    summary = await services.journal.episode(episode_id) if EPISODE_ID.fullmatch(episode_id) else None
    if summary is None:
        raise EpisodeNotFound(episode_id[:64])
    if (run := services.runs.records.run_of(episode_id)) is not None:
        raise Refused(
            faults.ELSEWHERE, f"{episode_id} is in the record of the run {run}, which is only watched here"
        )
    if summary.ended_at is None:
        raise Refused(faults.UNENDED, f"{episode_id} has not ended; stop it first")
    return await services.deletions.delete(summary)

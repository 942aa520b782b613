"""Routes for operators: ``/readyz``, ``/metrics``, ``/operator``, deletion.

``/health`` is part of the OpenEnv contract.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, get_args

from fastapi import APIRouter, Depends
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse

from spectator.clock import timestamp
from spectator.episodes.handle import EpisodeHandle
from spectator.errors import EndReason, EpisodeNotFound, FieldError, InvalidRequest, JournalUnavailable

from ..background.housekeeping import DeletedEpisode
from ..security import faults
from ..security.bodies import Body, body_of, documented_body
from ..security.budget import WORDS, Held
from ..security.faults import Refused, documented
from ..security.requests import address_of, masked
from ..services import Services, ServicesDep, services_of
from ..trouble import KINDS, Trouble, commit_wait_s, find_troubles
from ..viewers.wire import EPISODE_ID
from .control import ALWAYS, DayUsage, usage_today

router = APIRouter(tags=["health"])


class CountedAddress(BaseModel):
    """The address that limits count a client as."""

    address: str


class Ready(BaseModel):
    """Episodes can start and be recorded now."""

    status: Literal["ready"] = "ready"
    unplayed: Sequence[str] | None = Field(None, description="Unended episodes that no server plays, if any")


@router.get(
    "/readyz",
    responses=documented(faults.NO_JOURNAL, faults.RECOVERING),
    response_model_exclude_none=True,
)
async def ready(services: ServicesDep) -> Ready:
    """Check that the server can start and record episodes.

    Earlier episodes are recovered, the journal works, and no episode waits for it.
    """
    services.readiness.need()
    await services.journal.check()
    for live in services.supervisor.showing():
        if live.trouble is not None:
            raise JournalUnavailable(live.trouble.message)
    return Ready(unplayed=services.unplayed_episodes.named or None)


@router.get("/api/address")
async def address(request: Request) -> CountedAddress:
    """Return the address that this client is counted as.

    Clients must not be able to forge it.
    """
    return CountedAddress(address=address_of(request))


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses=documented(faults.UNAUTHENTICATED, faults.TOO_MANY),
)
async def metrics(request: Request, services: ServicesDep) -> PlainTextResponse:
    """Return metrics in the Prometheus text format.

    Needs the operator's token if one is set.
    """
    services.guard.require_operator(request)
    state = CollectorRegistry()
    state.register(_ServiceFigures(services, await find_troubles(services)))
    ProcessCollector(registry=state)
    text = generate_latest(state) + generate_latest(services.timings.registry)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


@dataclass(eq=False)
class _ServiceFigures(Collector):
    services: Services
    troubles: Sequence[Trouble]

    def collect(self) -> Iterator[Metric]:
        services = self.services
        audience, supervisor, signals = services.audience, services.supervisor, services.bus
        housekeeper, counts = services.housekeeper, services.narration.tally
        yield _gauge("viewers", "Connected viewers", len(audience))
        codes: Counter[tuple[str, ...]] = Counter()
        for close, count in audience.closed.items():
            codes[(str(close.code),)] += count
        yield _counter("viewers_closed", "Viewer connections that this server closed", ["code"], codes)
        yield _gauge("episodes_running", "Running episodes", len(supervisor.running()))
        troubled = sum(live.trouble is not None for live in supervisor.showing())
        yield _gauge("episodes_troubled", "Episodes whose record cannot be written now", troubled)
        unplayed = len(services.unplayed_episodes.named)
        yield _gauge("episodes_unplayed", "Unended episodes that no server plays", unplayed)
        yield _gauge("episodes_shown", "Episodes of others that are shown here", len(supervisor.external()))
        yield _gauge("episode_slots", "Episodes that may run at once", supervisor.slots)
        yield _counter("episodes_started", "Started episodes", [], {(): signals.started})
        wait_s = commit_wait_s(services)
        yield _gauge("commit_wait_seconds", "How long the oldest unrecorded step waits", wait_s)
        kinds = Counter(one.kind for one in self.troubles)
        troubles = GaugeMetricFamily("spectator_troubles", "What is wrong now, by kind", labels=["kind"])
        for kind in KINDS:
            troubles.add_metric([kind], kinds[kind])
        yield troubles
        ended = {(reason,): signals.ended[reason] for reason in get_args(EndReason)}
        yield _counter("episodes_ended", "Ended episodes", ["reason"], ended)
        published = {(name,): count for name, count in signals.published.items()}
        yield _counter("events_published", "Recorded and published events", ["type"], published)
        size = housekeeper.size
        if size is not None:
            yield _gauge("journal_bytes", "Size of the journal", size.bytes)
            yield _gauge("journal_free_bytes", "Free space within the journal", size.free_bytes)
            yield _gauge("journal_episodes", "Episodes in the journal", size.episodes)
        yield _counter("episodes_pruned", "Removed old episodes", [], {(): housekeeper.removed})
        yield _counter("pruned_bytes", "Size of removed episodes", [], {(): housekeeper.removed_bytes})
        outcomes = {(name,): count for name, count in counts.outcomes.items()}
        yield _counter("lines", "Lines of commentary by outcome", ["outcome"], outcomes)
        summary = "Lines that a voice could not speak"
        yield _counter("voice_failures", summary, ["voice", "reason"], counts.failures)
        budget, spent = services.budget, services.model_ledger.spent
        refused = {(limit,): count for limit, count in budget.refused.items()}
        yield _counter("refusals", "Requests rejected by a limit", ["limit"], refused)
        yield _gauge("openenv_sessions", "Open private environments", budget.environments.total())
        reads, summary = budget.places[Held.READS], "Records and leaderboards being read now"
        yield _gauge("reads", summary, sum(reads.held.values()))
        yield _gauge("reads_waiting", "Requests that wait to read", reads.waiting)
        yield _gauge(
            "starts_paused", "Whether the operator has paused starts", services.operator_orders.paused
        )
        yield _gauge("starts_waiting", "Starts that wait for a slot", services.slot_queue.waiting)
        yield _gauge(
            "unended_bytes", "Approximate size of unfinished episodes", services.unfinished_quota.bytes
        )
        yield _gauge("model_tokens_today", "Tokens that models used today, UTC", spent.tokens)
        yield _gauge("model_cost_today", "Cost of models today, UTC, in US dollars", spent.cost)
        yield _gauge(
            "voice_characters_today", "Characters that paid voices were sent today", budget.characters.sent
        )


def _gauge(name: str, summary: str, value: float) -> Metric:
    return GaugeMetricFamily(f"spectator_{name}", summary, value=value)


def _counter(name: str, summary: str, labels: Sequence[str], samples: Mapping[Any, float]) -> Metric:
    family = CounterMetricFamily(f"spectator_{name}", summary, labels=labels)
    for values, count in samples.items():
        family.add_metric(values, count)
    return family


class EpisodeUsage(BaseModel):
    """A running or shown episode, and its usage."""

    episode_id: str
    environment: str
    captain: str
    opponent: str | None
    address: str | None = Field(description="Address of the starter, without the last part; null if unknown")
    started_at: str = Field(description="RFC 3339")
    turn: int
    events: int
    paused: bool
    viewers: int
    shown: bool = Field(description="Whether it runs elsewhere and is only shown here")


class BudgetUsage(BaseModel):
    """One limit and its current use."""

    name: str = Field(description="Name of the limit")
    words: str = Field(description="What it limits, for people")
    used: float
    limit: float = Field(description="0 = none")
    addresses: dict[str, float] = Field(description="By address, without its last part, largest first")


class JournalUsage(BaseModel):
    """The journal's size."""

    bytes: int | None = Field(description="null before the first housekeeping")
    free_bytes: int | None
    episodes: int | None
    unended_bytes: int = Field(description="Approximate size of unfinished episodes")
    limit_bytes: float = Field(description="SPECTATOR_KEEP_MB; 0 = none")


class OperatorStatus(BaseModel):
    """Usage and limits of the server."""

    trouble: list[Trouble] = Field(description="What is wrong now, the most urgent first")
    paused_since: str | None = Field(description="RFC 3339; null while starts are open")
    hidden: list[str] = Field(description="Hidden names")
    episodes: list[EpisodeUsage]
    unplayed: Sequence[str] = Field(description="Unended episodes that no server plays")
    budgets: list[BudgetUsage]
    refusals: dict[str, int] = Field(description="By limit, since the start")
    models_today: DayUsage
    characters_today: int = Field(description="Characters that paid voices were sent today")
    journal: JournalUsage
    loop_lag_s: float = Field(description="The longest lag of the last minute")
    deleted: list[DeletedEpisode] = Field(description="The newest deletions")


class ChooseName(Body):
    """The body that selects a name."""

    model_config = ConfigDict(json_schema_extra={"required": ["name"]})

    name: str = Field(default="", max_length=64, description="A label, exactly as shown")


class HiddenNames(BaseModel):
    """The hidden names."""

    hidden: list[str]


class StartsPaused(BaseModel):
    """Whether starts are paused."""

    paused_since: str | None = Field(description="RFC 3339; null while starts are open")


NETWORKS: Final = 8
"""Most addresses listed for each limit."""

PROBLEMS: Final = documented(*ALWAYS, faults.NOT_HERE)


async def _deleter(connection: HTTPConnection) -> None:
    """Require a client that may delete records and pause starts."""
    services_of(connection).guard.require_deleter(connection)


operator_router = APIRouter(tags=["operator"], dependencies=[Depends(_deleter)])


@operator_router.get(
    "/operator/status",
    responses=documented(faults.UNAUTHENTICATED, faults.NOT_HERE, faults.TOO_MANY, faults.NO_JOURNAL),
)
async def operator_status(services: ServicesDep) -> OperatorStatus:
    """Return the current usage and limits."""
    supervisor, budget, size = services.supervisor, services.budget, services.housekeeper.size
    return OperatorStatus(
        trouble=await find_troubles(services),
        paused_since=services.operator_orders.kept.paused_since,
        hidden=sorted(services.operator_orders.kept.hidden),
        episodes=[
            *(_taken(live, services, shown=False) for live in supervisor.running()),
            *(_taken(live, services, shown=True) for live in supervisor.external()),
        ],
        unplayed=services.unplayed_episodes.named,
        budgets=_budgets(services),
        refusals=dict(budget.refused.most_common()),
        models_today=usage_today(services),
        characters_today=budget.characters.sent,
        journal=JournalUsage(
            bytes=None if size is None else size.bytes,
            free_bytes=None if size is None else size.free_bytes,
            episodes=None if size is None else size.episodes,
            unended_bytes=services.unfinished_quota.bytes,
            limit_bytes=services.settings.keep_mb * 1e6,
        ),
        loop_lag_s=round(services.loop_lag.worst, 4),
        deleted=await services.deletions.newest(),
    )


def _taken(live: EpisodeHandle, services: Services, *, shown: bool) -> EpisodeUsage:
    plan, starter = live.plan, services.budget.starter(live.episode_id)
    return EpisodeUsage(
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


def _budgets(services: Services) -> list[BudgetUsage]:
    budget, settings = services.budget, services.settings
    running, sessions = len(services.supervisor.running()), budget.environments
    waiting = services.slot_queue.waiting
    found = [
        _budget("max_episodes", "episodes at once", running, settings.max_episodes),
        _budget("max_waiting", "starts that wait for a slot", waiting, settings.max_waiting),
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
        waits = allowance.waits()
        found.append(_budget(name, f"{words}; seconds to wait", len(waits), 0, waits))
    return found


def _budget(
    name: str, words: str, used: float, limit: float, addresses: Mapping[str, float] | None = None
) -> BudgetUsage:
    by_network: dict[str, float] = {}
    for address, taken in (addresses or {}).items():
        by_network[masked(address)] = by_network.get(masked(address), 0.0) + taken
    largest = sorted(by_network.items(), key=lambda one: -one[1])[:NETWORKS]
    shown = {one: round(taken, 1) for one, taken in largest}
    return BudgetUsage(name=name, words=words, used=used, limit=limit, addresses=shown)


@operator_router.post("/operator/pause", responses=PROBLEMS)
async def pause_starts(services: ServicesDep) -> StartsPaused:
    """Reject visitors' starts, forks and publishing until `/operator/resume`.

    The pause survives restarts.
    """
    if not services.operator_orders.paused:
        now = timestamp(services.clock.now())
        await asyncio.to_thread(services.operator_orders.give, paused_since=now)
    return StartsPaused(paused_since=services.operator_orders.kept.paused_since)


@operator_router.post("/operator/resume", responses=PROBLEMS)
async def resume_starts(services: ServicesDep) -> StartsPaused:
    """Accept visitors' starts again."""
    await asyncio.to_thread(services.operator_orders.give, paused_since=None)
    return StartsPaused(paused_since=None)


ChosenName = Annotated[ChooseName, Depends(body_of(ChooseName))]


@operator_router.post("/operator/hide", responses=PROBLEMS, openapi_extra=documented_body(ChooseName))
async def hide_name(chosen: ChosenName, services: ServicesDep) -> HiddenNames:
    """Hide a name from everyone without the token, live and recorded.

    The record keeps the name.
    """
    return await _hide(services, services.operator_orders.kept.hidden | {_named(chosen)})


@operator_router.post("/operator/unhide", responses=PROBLEMS, openapi_extra=documented_body(ChooseName))
async def show_name(chosen: ChosenName, services: ServicesDep) -> HiddenNames:
    """Show a name again."""
    return await _hide(services, services.operator_orders.kept.hidden - {_named(chosen)})


def _named(chosen: ChooseName) -> str:
    if not chosen.name:
        raise InvalidRequest([FieldError("name", "is required: a label, exactly as shown")])
    return chosen.name


async def _hide(services: Services, hidden: frozenset[str]) -> HiddenNames:
    await asyncio.to_thread(services.operator_orders.give, hidden=hidden)
    await services.audience.show_again()
    return HiddenNames(hidden=sorted(hidden))


@operator_router.delete(
    "/api/episodes/{episode_id}",
    tags=["history"],
    responses=documented(
        faults.UNAUTHENTICATED, faults.NOT_HERE, faults.FOREIGN_ORIGIN, faults.TOO_MANY, faults.NO_EPISODE,
        faults.UNENDED, faults.ELSEWHERE, faults.INVALID, faults.NO_JOURNAL,
    ),
)  # fmt: skip
async def delete_episode(episode_id: str, services: ServicesDep) -> DeletedEpisode:
    """Delete an ended episode; `deleted.ndjson` keeps its id and digest."""
    summary = await services.journal.episode(episode_id) if EPISODE_ID.fullmatch(episode_id) else None
    if summary is None:
        raise EpisodeNotFound(episode_id[:64])
    if (run := services.run_boards.records.run_of(episode_id)) is not None:
        raise Refused(faults.ELSEWHERE, f"{episode_id} belongs to the run {run}, which is only watched here")
    if summary.ended_at is None:
        raise Refused(faults.UNENDED, f"{episode_id} has not ended; stop it first")
    return await services.deletions.delete(summary)

"""Routes about the process: ``/readyz`` and ``/metrics``; ``/health`` is part of the OpenEnv contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from spectator.episodes.host.supervisor import Supervisor
from spectator.errors import JournalUnavailable
from spectator.narration.narrator import NarrationCounts

from ..background.housekeeping import Housekeeper
from ..security import faults
from ..security.budget import Held
from ..security.client_address import address_of
from ..security.faults import documented
from ..services import Services, ServicesDep
from ..viewers.audience import Audience
from ..viewers.episode_signals import EpisodeSignals

router = APIRouter(tags=["health"])


class CountedAddress(BaseModel):
    """Whom the limits take a client for."""

    address: str


class Ready(BaseModel):
    """Episodes can be started and recorded now."""

    status: Literal["ready"] = "ready"


@router.get("/readyz", responses=documented(faults.NO_JOURNAL, faults.RECOVERING))
async def ready(services: ServicesDep) -> Ready:
    """Whether what ran before this server is recovered, the journal can be written and read now, and nothing
    that is played waits for it."""
    services.readiness.need()
    await services.journal.check()
    for live in services.supervisor.showing():
        if live.trouble is not None:
            raise JournalUnavailable(live.trouble.message)
    return Ready()


@router.get("/api/address")
async def address(request: Request) -> CountedAddress:
    """The address as which whoever asks is counted; it must not follow what a client writes."""
    return CountedAddress(address=address_of(request))


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses=documented(faults.UNAUTHENTICATED, faults.TOO_MANY),
)
async def metrics(request: Request, services: ServicesDep) -> PlainTextResponse:
    """Figures of this process in the Prometheus text format; needs the operator's token when one is set."""
    services.guard.require_operator(request)
    state = CollectorRegistry()
    state.register(_ServiceFigures(services))
    text = generate_latest(state) + generate_latest(services.timings.registry)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


class _ServiceFigures(Collector):
    """What the services know when they are asked, as metrics."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def collect(self) -> Iterator[Metric]:
        """Every figure that is not counted by the library itself."""
        yield from _of_viewers(self._services.audience)
        yield from _of_episodes(self._services.supervisor, self._services.signals)
        yield from _of_the_record(self._services.housekeeper)
        yield from _of_speech(self._services.narration.tally)
        yield from _of_the_budget(self._services)


def _of_viewers(audience: Audience) -> Iterator[Metric]:
    yield _gauge("viewers", "Viewers that are connected", len(audience))
    codes: Counter[tuple[str, ...]] = Counter()
    for close, count in audience.closed.items():
        codes[(str(close.code),)] += count
    yield _counter("viewers_closed", "Viewers that this server closed", ["code"], codes)


def _of_episodes(supervisor: Supervisor, signals: EpisodeSignals) -> Iterator[Metric]:
    yield _gauge("episodes_running", "Episodes that run", len(supervisor.running()))
    troubled = sum(live.trouble is not None for live in supervisor.showing())
    yield _gauge("episodes_troubled", "Episodes whose record cannot be written now", troubled)
    yield _gauge("episodes_shown", "Episodes of others that are shown here", len(supervisor.external()))
    yield _gauge("episode_slots", "Episodes that may run at once", supervisor.slots)
    yield _counter("episodes_started", "Episodes that began", [], {(): signals.started})
    ended = {(reason,): count for reason, count in signals.ended.items()}
    yield _counter("episodes_ended", "Episodes that ended", ["reason"], ended)
    published = {(name,): count for name, count in signals.published.items()}
    yield _counter("events_published", "Events that were recorded and published", ["type"], published)


def _of_the_record(housekeeper: Housekeeper) -> Iterator[Metric]:
    size = housekeeper.size
    if size is not None:
        yield _gauge("journal_bytes", "What the journal takes", size.bytes)
        yield _gauge("journal_free_bytes", "The part that holds nothing", size.free_bytes)
        yield _gauge("journal_episodes", "Episodes in the journal", size.episodes)
    yield _counter("episodes_pruned", "Old episodes that were removed", [], {(): housekeeper.removed})
    yield _counter("pruned_bytes", "About what they took", [], {(): housekeeper.removed_bytes})


def _of_speech(counts: NarrationCounts) -> Iterator[Metric]:
    outcomes = {(name,): count for name, count in counts.outcomes.items()}
    yield _counter("lines", "What became of the lines that were to be spoken", ["outcome"], outcomes)
    summary = "Lines that a voice could not speak"
    yield _counter("voice_failures", summary, ["voice", "reason"], counts.failures)


def _of_the_budget(services: Services) -> Iterator[Metric]:
    budget, spent = services.budget, services.ledger.spent
    refused = {(limit,): count for limit, count in budget.refused.items()}
    yield _counter("refusals", "Requests that a limit refused", ["limit"], refused)
    yield _gauge("openenv_sessions", "Private environments that are open", budget.environments.total())
    reads, summary = budget.places[Held.READS], "Records and leaderboards that are read now"
    yield _gauge("reads", summary, sum(reads.held.values()))
    yield _gauge("reads_waiting", "Readers that wait for their turn", reads.waiting)
    yield _gauge("starts_paused", "Whether the operator has paused starts", services.orders.paused)
    yield _gauge("starts_waiting", "Starts that wait for a slot", services.queue.waiting)
    yield _gauge("unended_bytes", "About what episodes without an end take", services.unended.bytes)
    yield _gauge("model_tokens_today", "Tokens that models used today, UTC", spent.tokens)
    yield _gauge("model_cost_today", "The same in US dollars", spent.cost)
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

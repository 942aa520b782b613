"""Routes about the process: ``/readyz`` and ``/metrics``; ``/health`` is part of the OpenEnv contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from spectator.errors import JournalUnavailable

from ..background.housekeeping import Housekeeper
from ..security import faults
from ..security.faults import documented
from ..services import Services, ServicesDep

router = APIRouter(tags=["health"])


class Ready(BaseModel):
    """Episodes can be recorded now."""

    status: Literal["ready"] = "ready"


@router.get("/readyz", responses=documented(faults.NO_JOURNAL))
async def ready(services: ServicesDep) -> Ready:
    """Whether the journal can be written and read now, and nothing that is played waits for it."""
    await services.journal.check()
    for live in services.supervisor.showing():
        if live.trouble is not None:
            raise JournalUnavailable(live.trouble.message)
    return Ready()


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses=documented(faults.UNAUTHENTICATED, faults.TOO_MANY),
)
async def metrics(request: Request, services: ServicesDep) -> PlainTextResponse:
    """Figures of this process in the Prometheus text format; needs the operator's token when one is set."""
    services.guard.require_operator(request)
    return PlainTextResponse("".join(_exposition(services)), media_type="text/plain; version=0.0.4")


def _exposition(services: Services) -> Iterator[str]:
    audience, signals, supervisor = services.audience, services.signals, services.supervisor
    yield from _metric("viewers", "gauge", "Viewers that are connected", {"": len(audience)})
    closed: Counter[str] = Counter()
    for close, count in audience.closed.items():
        closed[f'{{code="{close.code}"}}'] += count
    yield from _metric("viewers_closed_total", "counter", "Viewers that this server closed", closed)
    yield from _metric("episodes_running", "gauge", "Episodes that run", {"": len(supervisor.running())})
    troubled = sum(live.trouble is not None for live in supervisor.showing())
    yield from _metric(
        "episodes_troubled", "gauge", "Episodes whose record cannot be written now", {"": troubled}
    )
    shown = {"": len(supervisor.external())}
    yield from _metric("episodes_shown", "gauge", "Episodes of others that are shown here", shown)
    yield from _metric("episode_slots", "gauge", "Episodes that may run at once", {"": supervisor.slots})
    yield from _metric("episodes_started_total", "counter", "Episodes that began", {"": signals.started})
    ended = {f'{{reason="{reason}"}}': count for reason, count in signals.ended.items()}
    yield from _metric("episodes_ended_total", "counter", "Episodes that ended", ended)
    published = {f'{{type="{name}"}}': count for name, count in signals.published.items()}
    yield from _metric(
        "events_published_total", "counter", "Events that were recorded and published", published
    )
    yield from _of_the_record(services.housekeeper)
    tally = services.narration.tally
    outcomes = {f'{{outcome="{name}"}}': count for name, count in tally.outcomes.items()}
    yield from _metric("lines_total", "counter", "What became of the lines that were to be spoken", outcomes)
    failures = {
        f'{{voice="{voice}",reason="{reason}"}}': count for (voice, reason), count in tally.failures.items()
    }
    yield from _metric("voice_failures_total", "counter", "Lines that a voice could not speak", failures)


def _of_the_record(housekeeper: Housekeeper) -> Iterator[str]:
    size = housekeeper.size
    if size is not None:
        yield from _metric("journal_bytes", "gauge", "What the journal takes", {"": size.bytes})
        yield from _metric(
            "journal_free_bytes", "gauge", "The part that holds nothing", {"": size.free_bytes}
        )
        yield from _metric("journal_episodes", "gauge", "Episodes in the journal", {"": size.episodes})
    yield from _metric(
        "episodes_pruned_total", "counter", "Old episodes that were removed", {"": housekeeper.removed}
    )
    yield from _metric(
        "pruned_bytes_total", "counter", "About what they took", {"": housekeeper.removed_bytes}
    )


def _metric(name: str, kind: str, summary: str, samples: Mapping[str, int]) -> Iterator[str]:
    yield f"# HELP spectator_{name} {summary}\n# TYPE spectator_{name} {kind}\n"
    for labels, value in samples.items():
        yield f"spectator_{name}{labels} {value}\n"

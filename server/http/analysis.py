"""Alternatives to a decision, and the reliability of reported chances.

Routes ``/api/episodes/{id}/alternatives``, ``/api/reliability`` and its page.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from spectator.catalog import load_world, world_names
from spectator.episodes.alternatives import AnalysisDiverged, AnalysisRequest, DecisionsOnRecord
from spectator.errors import ConfigurationError, FieldError, InvalidRequest
from spectator.evaluation.intervals import EVEN, Reliability, reliability_of
from spectator.journal.contract import EpisodeSummary

from ..background.child_processes import Key
from ..lru_cache import LruCache
from ..security import faults
from ..security.budget import Held
from ..security.faults import Refused, documented
from ..services import Services, ServicesDep, services_of
from ..viewers.wire import MAX_SEQ
from .episodes import summary_of
from .responses import MaskedRoute, lines_of, reading
from .templates import Page, Templates, static_path

EPISODES: Final = 8
"""Episodes whose decisions are cached, about 100 kB each."""


class DecisionReader:
    """Reads and caches the decisions of ended episodes."""

    def __init__(self) -> None:
        self._kept: LruCache[tuple[str, str], DecisionsOnRecord] = LruCache(EPISODES)

    async def of(self, services: Services, summary: EpisodeSummary) -> DecisionsOnRecord:
        """Return the decisions of an ended episode.

        Raises:
            InvalidRequest: It was played in another version of its world.
        """
        key = summary.episode_id, summary.epoch
        if (kept := self._kept.get(key)) is not None:
            return kept
        made = DecisionsOnRecord()
        async for piece in lines_of(
            services.public_views, summary.episode_id, 0, services.budget.reading_turn
        ):
            await run_in_threadpool(made.read, piece.splitlines())
        world = services.cast.load(summary.environment)
        if (played := made.started["environment_version"]) != world.version:
            rule = f"was played in version {played} of {world.name}; version {world.version} is installed"
            raise InvalidRequest([FieldError("episode_id", rule)])
        self._kept.keep(key, made)
        return made


NEAR: Final = 2
"""Decisions on either side that an error names for an event that is not a decision."""

PROBLEMS: Final = documented(
    faults.NO_EPISODE, faults.NOT_FOUND, faults.UNENDED, faults.INVALID, faults.TOO_MANY, faults.CROWDED,
    faults.TIMED_OUT, faults.NO_JOURNAL, faults.DAMAGED,
)  # fmt: skip


class AlternativeCall(BaseModel):
    """One possible call at a decision."""

    action: dict[str, Any] = Field(description="The call as sent")
    words: str = Field(description="The call in words")
    chance: float = Field(ge=0, le=1, description="Simulated chance that the deciding side wins after it")
    error: float = Field(ge=0, description="Its standard error")
    gain: float = Field(description="`chance` less that after what was decided")
    gain_error: float = Field(ge=0, description="Its standard error; both use the same random numbers")
    played: bool = Field(description="Whether it was decided")
    place: int = Field(ge=1, description="Its rank among all evaluated calls, 1 is the best")


class AlternativesAnswer(BaseModel):
    """The alternatives to one decision."""

    episode_id: str
    seq: int = Field(description="Number of the decision's event")
    actor: str = Field(description="The actor that decided, whose side's chances these are")
    best: list[AlternativeCall] = Field(
        description="Best first, including the decision; empty if nothing can be simulated"
    )
    weighed: int = Field(description="Number of evaluated calls")
    futures: int = Field(description="Number of simulated futures")
    how: str = Field(description="What is simulated, or why nothing is if ``best`` is empty")


def alternatives_router() -> APIRouter:
    """Return the route ``/api/episodes/{id}/alternatives``."""
    router = APIRouter(prefix="/api/episodes", tags=["history"], route_class=MaskedRoute)
    reader = DecisionReader()

    @router.get("/{episode_id}/alternatives", responses=PROBLEMS)
    async def get_alternatives(
        episode_id: str,
        request: Request,
        services: ServicesDep,
        seq: Annotated[int, Query(ge=1, le=MAX_SEQ, description="Number of a decision's event")],
    ) -> AlternativesAnswer:
        """Return the alternatives to a decision of an ended episode, best first.

        The answer is always the same, since simulations use the episode's seed.
        """
        async with reading(services, request):
            summary = await summary_of(services, episode_id)
            _need_analyst(services, summary)
            if summary.ended_at is None:  # better alternatives may reveal hidden information
                raise Refused(faults.UNENDED, "Alternatives are available once the episode has ended.")
            made = await reader.of(services, summary)
        place = _place_of(seq, made, summary)
        key = summary.episode_id, summary.epoch, seq
        found = await _alternatives(services, request, AnalysisRequest.of(episode_id, made, place), key)
        return AlternativesAnswer(episode_id=episode_id, seq=seq, actor=made.decisions[place].actor, **found)

    return router


async def _alternatives(
    services: Services, request: Request, wanted: AnalysisRequest, key: Key
) -> dict[str, Any]:
    """Return cached alternatives, or evaluate them now on the client's account."""
    if (known := services.alternatives_process.known(key)) is not None:
        return known
    services.budget.require_analysis(request)
    async with services.budget.hold(Held.ALTERNATIVES, request):
        try:
            found, seconds = await services.alternatives_process.weigh(wanted, key)
        except AnalysisDiverged as error:
            raise InvalidRequest([FieldError("seq", f"cannot be analyzed: {error}")]) from error
    services.budget.charge_analysis(request, seconds)
    return found


def _need_analyst(services: Services, summary: EpisodeSummary) -> None:
    name = summary.environment
    world = services.cast.load(name) if name in world_names() else None
    if world is None or world.analyst is None:
        raise HTTPException(404, f"{summary.title} does not support alternatives")


def _place_of(seq: int, made: DecisionsOnRecord, summary: EpisodeSummary) -> int:
    """Return the index of an event's decision among those of its episode."""
    if seq > summary.head_seq:
        raise InvalidRequest([FieldError("seq", f"must be from 1 to {summary.head_seq}, the last event")])
    numbers = [one.seq for one in made.decisions]
    place = bisect_left(numbers, seq)
    if place == len(numbers) or numbers[place] != seq:
        near = ", ".join(str(one) for one in numbers[max(0, place - NEAR) : place + NEAR]) or "none"
        raise InvalidRequest([FieldError("seq", f"must be the event of a decision; nearby ones: {near}")])
    return place


class ReliabilityBin(BaseModel):
    """The reported chances within one tenth."""

    low: float = Field(ge=0, lt=1, description="Its lower bound; the upper one is a tenth above")
    reported: int = Field(ge=0, description="Number of such reported chances")
    matches: int = Field(ge=0, description="Number of matches with such chances")
    promised: float | None = Field(description="Mean of the reported chances; null without any")
    happened: float | None = Field(description="Share that came true; a tie counts as half")
    happened_low: float | None = Field(description="Lower end of its 95 % interval over matches")
    happened_high: float | None = Field(description="Upper end of that interval")


class WorldReliability(BaseModel):
    """The reliability of one world's reported chances."""

    environment: str
    title: str
    matches: int = Field(description="Finished matches with reported chances, without forks")
    brier: float | None = Field(
        description="Mean squared difference of promise and outcome; always saying one half gives 0.25"
    )
    tenths: list[ReliabilityBin] = Field(description="Ten bins, least likely first")


class ReliabilityReport(BaseModel):
    """Promised and actual outcomes by world, for the agent's seat."""

    worlds: list[WorldReliability]
    pending: int = Field(description="Ended episodes that are not counted yet")


@dataclass(frozen=True, slots=True)
class ReliabilityPage(Page):
    """Context of ``reliability.html``.

    Args:
        even: The Brier score of always saying one half.
    """

    report: ReliabilityReport
    even: float


router = APIRouter(tags=["history"], route_class=MaskedRoute)


@router.get("/api/reliability", responses=documented(faults.TOO_MANY, faults.CROWDED))
async def reliability(request: Request, services: ServicesDep) -> ReliabilityReport:
    """Compare reported chances with outcomes.

    Of ten chances reported as 70 %, about seven should come true.
    """
    async with services.budget.hold(Held.READS, request):
        return await _report(services)


def reliability_page(templates: Templates) -> APIRouter:
    """Return the route ``/reliability``; it works without JavaScript."""
    pages = APIRouter(include_in_schema=False)

    @pages.get("/reliability")
    async def show(request: Request) -> Response:
        services = services_of(request)
        async with services.budget.hold(Held.READS, request):
            report = await _report(services)
        page = ReliabilityPage(
            root="./",
            static=f"./{static_path(request)}",
            title="Reliability · Spectator",
            report=report,
            even=EVEN,
        )
        return await run_in_threadpool(templates.render, "reliability.html", page)

    return pages


async def _report(services: Services) -> ReliabilityReport:
    keeper = services.scorekeeper
    known = list(keeper.known)
    found = await run_in_threadpool(reliability_of, known)
    worlds = [_world(name, one) for name, one in sorted(found.items())]
    return ReliabilityReport(worlds=worlds, pending=keeper.pending)


def _world(name: str, found: Reliability) -> WorldReliability:
    title = name
    if name in world_names():
        try:
            title = load_world(name).title
        except ConfigurationError:
            pass
    return WorldReliability(
        environment=name,
        title=title,
        matches=found.matches,
        brier=found.brier,
        tenths=[
            ReliabilityBin(
                low=one.low,
                reported=one.count,
                matches=one.matches,
                promised=one.promised,
                happened=one.happened and one.happened.value,
                happened_low=one.happened and max(0.0, one.happened.low),
                happened_high=one.happened and min(1.0, one.happened.high),
            )
            for one in found.tenths()
        ],
    )

"""Reliability of told chances, as JSON and as a page: promised against happened, over what ended here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from spectator.catalog import load_world, world_names
from spectator.errors import ConfigurationError
from spectator.evaluation.reliability import EVEN, PromisedTenth, Reliability, reliability_of

from ..security import faults
from ..security.budget import Held
from ..security.faults import documented
from ..services import Services, ServicesDep, services_of
from .masked_route import MaskedRoute
from .templates import Page, Templates, static_path


class TenthTold(BaseModel):
    """The chances that were told within one tenth."""

    low: float = Field(ge=0, lt=1, description="Its lower end; the upper one is a tenth above")
    told: int = Field(ge=0, description="How often such a chance was told")
    matches: int = Field(ge=0, description="In how many matches")
    promised: float | None = Field(description="Mean of what was told; null where nothing was")
    happened: float | None = Field(description="Share that came true, a tie as half")
    happened_low: float | None = Field(description="Lower end of its 95 % interval, which counts matches")
    happened_high: float | None = Field(description="Upper end likewise")


class WorldReliability(BaseModel):
    """What one world's told chances were worth."""

    environment: str
    title: str
    matches: int = Field(description="Finished matches in which chances were told, forks left out")
    brier: float | None = Field(description="Mean square of promise less outcome; 0.25 is always saying half")
    tenths: list[TenthTold] = Field(description="Ten, the least likely first")


class ReliabilityReport(BaseModel):
    """Promised against happened, by world, for the agent's seat."""

    worlds: list[WorldReliability]
    owed: int = Field(description="Ended episodes that are not in it yet")


@dataclass(frozen=True, slots=True)
class ReliabilityPage(Page):
    """What ``reliability.html`` is given.

    Args:
        report: What was found.
        even: The Brier score of whoever always says one half.
    """

    report: ReliabilityReport
    even: float


router = APIRouter(tags=["history"], route_class=MaskedRoute)


@router.get("/api/reliability", responses=documented(faults.TOO_MANY, faults.CROWDED))
async def reliability(request: Request, services: ServicesDep) -> ReliabilityReport:
    """Whether told chances came true: of ten that were told as 70 %, about seven should have."""
    async with services.budget.hold(Held.READS, request):
        return await _report(services)


def reliability_page(templates: Templates) -> APIRouter:
    """The route ``/reliability``; it works without a script."""
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
    return ReliabilityReport(worlds=worlds, owed=keeper.owed)


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
        tenths=_told(found.tenths()),
    )


def _told(tenths: Sequence[PromisedTenth]) -> list[TenthTold]:
    return [
        TenthTold(
            low=one.low,
            told=one.told,
            matches=one.matches,
            promised=one.promised,
            happened=None if one.happened is None else one.happened.value,
            happened_low=None if one.happened is None else max(0.0, one.happened.low),
            happened_high=None if one.happened is None else min(1.0, one.happened.high),
        )
        for one in tenths
    ]

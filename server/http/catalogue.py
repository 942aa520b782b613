"""The route ``/custom/catalog``: what can be asked for."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from spectator.catalog import load_world, world_names
from spectator.environments.world import World
from spectator.episodes.run.pacing import Pace
from spectator.events import DecisionSource
from spectator.policies.base import Preset
from spectator.profile import Profile

from ..services import ServicesDep
from .masked_route import MaskedRoute
from .starting import PaceName

router = APIRouter(prefix="/custom", tags=["control"], route_class=MaskedRoute)


class CatalogPreset(BaseModel):
    """Somebody who can decide."""

    name: str
    label: str
    summary: str
    source: DecisionSource
    available: bool
    missing: str | None = Field(description="What is needed before it can be used here")
    costs_money: bool = Field(description="Whether starting it needs the operator")


class CatalogPack(BaseModel):
    """An evaluation pack."""

    name: str
    version: str
    summary: str
    options: dict[str, Any] = Field(description="Option values that it fixes")


class CatalogWorld(BaseModel):
    """A world that can be played."""

    name: str
    version: str
    title: str
    summary: str
    actors: list[str] = Field(description="Who may have to decide; the first is the agent's own seat")
    options: dict[str, Any] = Field(description="JSON schema of the world's options")
    captains: list[CatalogPreset]
    opponents: list[CatalogPreset]
    default_captain: str
    default_opponent: str | None
    suggested_captain: str = Field(description="Of the match that the start form offers first")
    suggested_opponent: str | None = Field(description="The same; null in worlds without opponents")
    packs: list[CatalogPack]
    profile: Profile = Field(description="When the agent is rewarded, and what actions are")


class Catalog(BaseModel):
    """Everything that can be asked for."""

    default_environment: str
    environments: list[CatalogWorld]
    paces: list[PaceName]


@router.get("/catalog")
async def catalog(services: ServicesDep) -> Catalog:
    """Worlds, captains, opponents and packs that can be asked for."""
    load = services.cast.load
    worlds = await asyncio.to_thread(lambda: [_catalog_world(load(name)) for name in world_names()])
    return Catalog(
        default_environment=services.settings.environment,
        environments=worlds,
        paces=[pace.value for pace in Pace],
    )


def _catalog_world(world: World) -> CatalogWorld:
    captain, opponent = load_world(world.name).pairings()[0]
    return CatalogWorld(
        name=world.name,
        version=world.version,
        title=world.title,
        summary=world.summary,
        actors=list(world.actors),
        options=world.options_type.model_json_schema(),
        captains=[_catalog_preset(preset) for preset in world.captains.values()],
        opponents=[_catalog_preset(preset) for preset in world.opponents.values()],
        default_captain=world.default_captain,
        default_opponent=world.default_opponent if world.opponents else None,
        suggested_captain=captain,
        suggested_opponent=opponent,
        packs=[
            CatalogPack(
                name=pack.name, version=pack.version, summary=pack.summary, options=dict(pack.options)
            )
            for pack in world.packs.values()
        ],
        profile=world.profile,
    )


def _catalog_preset(preset: Preset) -> CatalogPreset:
    return CatalogPreset(
        name=preset.name,
        label=preset.label,
        summary=preset.summary,
        source=preset.source,
        available=preset.missing is None,
        missing=preset.missing,
        costs_money=preset.costs_money,
    )

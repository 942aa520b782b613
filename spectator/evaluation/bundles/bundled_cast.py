"""The captains of a bundle: the world's own by name, models as the manifest says that they were asked."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError

from spectator.catalog import LoadWorld
from spectator.clock import Clock
from spectator.environments.world import World
from spectator.errors import BundleError, field_errors
from spectator.evaluation.bundles.manifest import BundledCaptain
from spectator.policies.captains import ASKED_BY, ModelCaptain
from spectator.policies.model_presets import ModelBuild, ModelSeat, model_presets
from spectator.policies.policy import Policy, Preset

ASKED: Final = frozenset({*ASKED_BY, "form", "send_back"} - {"extra"})
"""What a bundle says of how a model was asked: all that its own policy needs to decide the same again."""

NOWHERE: Final = "http://nobody.invalid/v1"
"""Stands for the endpoint of a model in a bundle, which nobody asks."""


def how_asked(preset: Preset) -> dict[str, Any] | None:
    """What a bundle says of how a model is asked; ``None`` for everybody else."""
    build = preset.build
    return (
        build.captain.model_dump(mode="json", include=set(ASKED)) if isinstance(build, ModelBuild) else None
    )


def bundled_cast(captains: list[BundledCaptain], load: LoadWorld, clock: Clock) -> LoadWorld:
    """Finds worlds with the models of a bundle among their captains; the models' endpoints are not there.

    Args:
        captains: Those of the manifest.
        load: Finds the world itself.
        clock: Time.

    Raises:
        BundleError: The manifest describes a model that cannot be.
    """
    tables = {one.name: _table(one) for one in captains if one.asked is not None}
    stated = {one.name: one for one in captains}

    def with_models(name: str) -> World:
        world = load(name)
        models = _models(tables, stated, world, world.captains[world.default_captain].build, clock)
        seated = replace(world, captains={**world.captains, **models})
        if not world.opponents:
            return seated
        rivals = _models(tables, stated, world, world.opponents[world.default_opponent].build, clock)
        return replace(seated, opponents={**world.opponents, **rivals})

    return with_models


def _table(captain: BundledCaptain) -> ModelCaptain:
    asked = captain.asked or {}
    if foreign := sorted(asked.keys() - ASKED):
        raise BundleError(f"{captain.name}: the manifest may not say {', '.join(foreign)[:200]} of a model")
    try:
        return ModelCaptain.model_validate({**asked, "label": captain.label, "base_url": NOWHERE})
    except ValidationError as error:
        told = "; ".join(f"{one.field} {one.rule}" for one in field_errors(error.errors()))
        raise BundleError(f"{captain.name}: it cannot have been asked so: {told[:300]}") from error


def _models(
    tables: Mapping[str, ModelCaptain],
    stated: Mapping[str, BundledCaptain],
    world: World,
    fallback: Callable[[int], Policy],
    clock: Clock,
) -> dict[str, Preset]:
    seat = ModelSeat(world.briefing, fallback)
    presets = model_presets(tables, seat, variables={}, clock=clock, rng=random.Random(0))
    return {name: replace(preset, fingerprint=stated[name].fingerprint) for name, preset in presets.items()}

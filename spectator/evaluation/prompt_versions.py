"""One model in several rows of an evaluation, by the version of its prompt: ``llm:mine@short``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, get_args

from spectator.catalog import LoadWorld
from spectator.environments.world import World
from spectator.policies.model_presets import ModelBuild
from spectator.policies.model_settings import PromptSize
from spectator.policies.policy import Preset

WITH: Final = "@"
"""Separates a captain from the version of its prompt: ``llm:mine@short``."""

VERSIONS: Final[tuple[PromptSize, ...]] = get_args(PromptSize)


def with_every_version(captains: Sequence[str], world: World) -> tuple[str, ...]:
    """Add to the captains each model with every other version of its prompt.

    Args:
        captains: Presets.
        world: The world, with its models.
    """
    found = []
    for name in captains:
        found.append(name)
        preset = world.captains.get(name)
        if preset is not None and isinstance(preset.build, ModelBuild) and WITH not in name:
            own = preset.build.captain.prompt
            found += [f"{name}{WITH}{one}" for one in VERSIONS if one != own]
    return tuple(dict.fromkeys(found))


def knowing_versions(load: LoadWorld, captains: Sequence[str]) -> LoadWorld:
    """Return a loader of worlds that also have the captains named with a version, such as ``llm:mine@short``.

    They share the limits of the captain that they are made from.

    Args:
        captains: The captains' names.
    """
    named = [(name, *name.split(WITH, 1)) for name in captains if WITH in name]

    def versions(presets: Mapping[str, Preset]) -> dict[str, Preset]:
        found = dict(presets)
        for name, of, version in named:
            preset = presets.get(of)
            if preset is None or not isinstance(preset.build, ModelBuild) or version not in VERSIONS:
                continue
            label = f"{preset.label}, prompt {version}"
            captain = preset.build.captain.model_copy(update={"prompt": version, "label": label[:80]})
            found[name] = replace(
                preset,
                name=name,
                label=captain.label,
                build=replace(preset.build, captain=captain),
                fingerprint=captain.fingerprint,
            )
        return found

    def with_versions(name: str) -> World:
        world = load(name)
        if not named:
            return world
        return replace(world, captains=versions(world.captains), opponents=versions(world.opponents))

    return with_versions

"""Who can play: each world's own captains, language models and people."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from spectator.catalog import LoadWorld, load_world, world_names
from spectator.clock import Clock
from spectator.environments.world import World
from spectator.errors import ConfigurationError, InvalidRequest
from spectator.policies.captains import (
    ModelCaptain,
    TrainedCaptain,
    load_captains,
    load_trained,
    unpriced_captains,
)
from spectator.policies.human import NAME as HUMAN
from spectator.policies.human import human_preset
from spectator.policies.model_presets import CaptainEndpoints, ModelSeat, model_presets
from spectator.policies.policy import Policy, Preset
from spectator.policies.visitor_models import VisitorModel, expired_model, is_visitor_model

LIVE: Final = "llm_live"
"""Name of the opponent behind which the operator puts a model of their choice."""

LIMITS: Final = ".limits"
"""Suffix of the folder for shared limits, added to the name of the user's captains file."""

DEFAULT_PERSON_S: Final = 60.0
"""Default seconds that a person has for a decision."""

DEFAULT_LIVE: Final = "llm:hf-gemma"
"""The default model behind :data:`LIVE`."""


class Cast:
    """Adds models and people to every world, as captains and (if it has any) opponents.

    Args:
        trained: Captains with weights of their own, by name; see :func:`load_trained`.
        live: Preset name of the model that plays as :data:`LIVE`.
        variables: Environment variables that hold the keys.
        rng: Draws waits and session names; not seeded.
        person_s: Seconds that a person has for a decision; ``None`` if there is no page to decide on.
        data_dir: Folder whose imported packs are added to the worlds; ``None`` adds none.
        limits: See :class:`~spectator.policies.model_presets.CaptainEndpoints`.

    Raises:
        ConfigurationError: ``live`` is not in the catalogue, or a table of ``trained`` names a world without
            such captains or has the name of another captain.
    """

    def __init__(
        self,
        captains: Mapping[str, ModelCaptain],
        *,
        live: str,
        variables: Mapping[str, str],
        clock: Clock,
        rng: random.Random,
        person_s: float | None = None,
        limits: Path | None = None,
        data_dir: Path | None = None,
        trained: Mapping[str, TrainedCaptain] | None = None,
    ) -> None:
        if live not in captains:
            raise ConfigurationError(
                f"{LIVE}: unknown model captain {live!r}; use one of {', '.join(captains)}"
            )
        self._captains = captains
        self._trained = dict(_own_presets(trained or {}))
        self._live = live
        self._variables = variables
        self._clock = clock
        self._rng = rng
        self._person_s = person_s
        self._data_dir = data_dir
        self._endpoints = CaptainEndpoints(clock, limits)
        self._worlds: dict[str, tuple[World, World]] = {}
        self._included: dict[str, World] = {}

    @classmethod
    def from_file(
        cls,
        user_file: Path | None,
        *,
        live: str,
        variables: Mapping[str, str],
        clock: Clock,
        person_s: float | None = None,
        data_dir: Path | None = None,
    ) -> Cast:
        """Build the cast of the built-in catalogue and the user's file.

        Raises:
            ConfigurationError: The file is invalid, or the catalogue does not contain ``live``.
        """
        return cls(
            load_captains(user_file),
            live=live,
            variables=variables,
            clock=clock,
            rng=random.SystemRandom(),
            person_s=person_s,
            data_dir=data_dir,
            trained=load_trained(user_file),
            limits=None if user_file is None else user_file.with_name(f"{user_file.name}{LIMITS}"),
        )

    @property
    def unpriced(self) -> list[str]:
        """Preset names of the usable paid models whose price is unknown."""
        return unpriced_captains(self._captains, self._variables)

    def load(self, name: str) -> World:
        """Load the world called ``name`` with everyone who can play it; see :func:`load_world`.

        Raises:
            InvalidRequest: There is no such world.
            ConfigurationError: It cannot be imported.
        """
        plain = self._included.get(name) or load_world(name)
        known = self._worlds.get(name)
        if known is None or known[0] is not plain:
            known = self._worlds[name] = (plain, self._with_everybody(plain))
        return known[1]

    def opponent_label(self, world: str, name: str) -> str:
        """Return an opponent's current label; its name as words if the world does not know it."""
        try:
            presets = self.load(world).opponents
        except (ConfigurationError, InvalidRequest):
            presets = {}
        return presets[name].label if name in presets else name.replace("_", " ")

    def lending(self, captain: VisitorModel | None, opponent: VisitorModel | None) -> LoadWorld:
        """Return a loader of worlds in which visitors' models can be chosen, each for its seat.

        Args:
            captain: Model for the agent's seat; ``None`` adds none to those of :meth:`load`.
            opponent: Model for the other seats; ``None`` adds none.
        """
        if captain is None and opponent is None:
            return self.load

        def load(name: str) -> World:
            world = self.load(name)
            captains = self._with_lent(captain, world, world.captains, world.default_captain)
            if not world.opponents:
                return replace(world, captains=captains)
            opponents = self._with_lent(opponent, world, world.opponents, world.default_opponent)
            return replace(world, captains=captains, opponents=opponents)

        return load

    def lent_before(self, started: Mapping[str, Any]) -> LoadWorld:
        """Return a loader of worlds for resuming an episode whose visitors' keys are gone.

        Args:
            started: Data of the episode's first event.
        """
        left = {
            actor == started["agent"]: expired_model(seat["policy"], seat["label"], self._clock)
            for actor, seat in started["seats"].items()
            if is_visitor_model(seat["policy"])
        }
        return self.lending(left.get(True), left.get(False))

    def include(self, world: World) -> None:
        """Make a world that is not in the catalogue available to :meth:`load`."""
        self._included[world.name] = world

    def _with_everybody(self, world: World) -> World:
        stand_in = world.captains[world.default_captain].build
        own = {name: preset for (where, name), preset in self._trained.items() if where == world.name}
        captains = {**world.captains, **own, **self._presets(world, stand_in)}
        if world.imported_packs is not None and self._data_dir is not None:
            world = replace(world, packs={**world.packs, **world.imported_packs(self._data_dir)})
        if not world.opponents:
            return replace(world, captains=captains)
        stand_in = world.opponents[world.default_opponent].build
        others = self._presets(world, stand_in)
        behind = others[self._live]
        live = replace(behind, name=LIVE, label=f"{behind.label} (live)")
        return replace(world, captains=captains, opponents={**world.opponents, **own, **others, LIVE: live})

    def _presets(self, world: World, fallback: Callable[[int], Policy]) -> dict[str, Preset]:
        """Presets of the models and the person for a seat whose fallback is ``fallback``."""
        seat = ModelSeat(world.briefing, fallback)
        models = model_presets(
            self._captains,
            seat,
            variables=self._variables,
            clock=self._clock,
            rng=self._rng,
            endpoints=self._endpoints,
        )
        missing = None
        if self._person_s is None:
            missing = "needs a person at the watch page of a server: spectator serve"
        limit_s = DEFAULT_PERSON_S if self._person_s is None else self._person_s
        person = human_preset(seat.briefing, fallback, clock=self._clock, limit_s=limit_s, missing=missing)
        return {**models, person.name: person}

    def _with_lent(
        self, model: VisitorModel | None, world: World, known: Mapping[str, Preset], usual: str
    ) -> Mapping[str, Preset]:
        """Add the visitor's model, if any, to ``known``."""
        if model is None:
            return known
        seat = ModelSeat(world.briefing, known[usual].build)
        return {**known, model.name: model.preset(seat, self._clock, self._rng)}


def _own_presets(trained: Mapping[str, TrainedCaptain]) -> Iterator[tuple[tuple[str, str], Preset]]:
    """Presets of users' own weights, by world and name."""
    for name, one in trained.items():
        try:
            world = load_world(one.world)
        except InvalidRequest as error:
            raise ConfigurationError(f"trained.{name}.world: {error.fields[0].rule}") from error
        if world.own_captain is None:
            usable = ", ".join(known for known in world_names() if load_world(known).own_captain)
            raise ConfigurationError(
                f"trained.{name}.world: {one.world} has no captains with weights of their own; use {usable}"
            )
        if name in {*world.captains, *world.opponents, HUMAN, LIVE}:
            raise ConfigurationError(
                f"trained.{name}: {one.world} already has a captain {name!r}; use another name"
            )
        yield (one.world, name), world.own_captain(name, one)

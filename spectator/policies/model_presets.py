"""Model captains as presets for a world's seat: what each lacks here, and how its policy is built."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import ClassVar

from spectator.clock import Clock
from spectator.errors import ConfigurationError
from spectator.llm.secret import ApiKey
from spectator.policies.base import Policy, Preset, ScriptedPolicy
from spectator.policies.captain_client import captain_client
from spectator.policies.captain_endpoints import CaptainEndpoints
from spectator.policies.captain_table import ModelCaptain
from spectator.policies.model import ModelPolicy
from spectator.policies.model_ports import ChatEndpoint
from spectator.policies.prompting import Briefing


@dataclass(frozen=True, slots=True)
class ModelSeat:
    """What a world brings to a model that takes one of its seats.

    Args:
        briefing: What the model must know.
        fallback: Makes, from a seed, the policy that decides where the model does not; it must be a
            :class:`ScriptedPolicy`, because nobody waits for it.
    """

    briefing: Briefing
    fallback: Callable[[int], Policy]


def model_presets(
    captains: Mapping[str, ModelCaptain],
    seat: ModelSeat,
    *,
    variables: Mapping[str, str],
    clock: Clock,
    rng: random.Random,
    endpoints: CaptainEndpoints | None = None,
) -> dict[str, Preset]:
    """The captains as presets that can be chosen for ``seat``; each says what it lacks here.

    Keys are looked up when a policy is built, and stay inside its client.

    Args:
        captains: The catalogue.
        seat: The seat.
        variables: Where keys are found by their variables' names.
        clock: Time.
        rng: Draws waits and the names of sessions; not seeded, so that no two clients wait alike and no
            session is ever used twice. What a model is asked depends on the episode's seed alone.
        endpoints: What the policies of a captain share; shared by these seats alone when left out.
    """
    shared = endpoints or CaptainEndpoints(clock)
    return {
        name: Preset(
            name=name,
            label=captain.label,
            summary=captain.summary or f"{captain.model}, asked by {captain.style}.",
            source="model",
            build=ModelBuild(name, captain, seat, variables, clock, rng, shared),
            missing=_missing(captain, variables),
            costs_money=True,
            fingerprint=captain.fingerprint,
        )
        for name, captain in captains.items()
    }


def longest_wait_s(presets: Iterable[Preset | None]) -> float:
    """Seconds that the slowest model among ``presets`` may take for a decision; 0 where there is none."""
    builds = (preset.build for preset in presets if preset is not None)
    return max((build.captain.timeout_s for build in builds if isinstance(build, ModelBuild)), default=0.0)


def preload() -> None:
    """Import what asking a model needs; slow, so call it off the event loop, before an episode."""
    import_module("spectator.llm.client")


def _missing(captain: ModelCaptain, variables: Mapping[str, str]) -> str | None:
    """Return what it needs before it can play here, without values of variables."""
    if captain.api_key_env is None:
        return None
    key = variables.get(captain.api_key_env, "")
    if not key:
        return f"needs a key in the variable {captain.api_key_env}"
    try:
        ApiKey(key)
    except ConfigurationError:
        return f"the variable {captain.api_key_env} holds something that cannot be a key"
    return None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModelBuild:
    """Makes a policy for one seat of one episode; its ``repr`` holds no key.

    Breaker and pacing are shared by all episodes with this captain, see :class:`CaptainEndpoints`.
    """

    policy: ClassVar[type[ModelPolicy]] = ModelPolicy
    """What it makes."""

    name: str
    """Of the captain's preset."""
    captain: ModelCaptain
    """How the model is asked."""
    seat: ModelSeat
    variables: Mapping[str, str]
    clock: Clock
    rng: random.Random
    endpoints: CaptainEndpoints

    def __call__(self, seed: int) -> ModelPolicy:
        """A new policy, with connections of its own; raises as :meth:`asking` does, and when its key is gone.

        Raises:
            ConfigurationError: Its key is gone.
        """
        captain = self.captain
        client = captain_client(
            captain,
            self._key(),
            clock=self.clock,
            rng=self.rng,
            breaker=self.endpoints.breaker(self.name),
            pacing=self.endpoints.pacing(self.name, captain),
        )
        return self.asking(
            client, seed, session=f"s-{self.rng.getrandbits(64):016x}" if captain.by_session else None
        )

    @property
    def task(self) -> str:
        """What the model is told of the game."""
        return self.seat.briefing.task

    def falling_back_to(self, fallback: Callable[[int], Policy]) -> ModelBuild:
        """The same with another fallback; see :class:`spectator.policies.drawn.FallsBack`."""
        return replace(self, seat=replace(self.seat, fallback=fallback))

    def waiting_for_rest(self) -> ModelBuild:
        """The same with decisions that wait for an endpoint that is left alone; see :class:`WaitsForRest`."""
        return replace(self, captain=self.captain.model_copy(update={"waits_for_rest": True}))

    def asking(self, client: ChatEndpoint, seed: int, *, session: str | None = None) -> ModelPolicy:
        """A new policy that asks by ``client``, whatever the captain's own endpoint is.

        Raises:
            ConfigurationError: The world's fallback is not a scripted policy.
        """
        fallback = self.seat.fallback(seed)
        if not isinstance(fallback, ScriptedPolicy):
            raise ConfigurationError("the fallback of a model must be a scripted policy")
        return self.policy(
            client,
            self.captain.settings(),
            self.seat.briefing,
            fallback=fallback,
            seed=seed,
            clock=self.clock,
            session=session,
        )

    def _key(self) -> ApiKey | None:
        name = self.captain.api_key_env
        if name is None:
            return None
        value = self.variables.get(name, "")
        if not value:
            raise ConfigurationError(f"there is no key in the variable {name}")
        return ApiKey(value)

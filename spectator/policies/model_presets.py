"""Model captains as presets for a seat: what is missing, and building the policy.

Policies that ask the same captain's endpoint share its circuit breaker and its rate limits.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from spectator.clock import Clock
from spectator.errors import ConfigurationError
from spectator.llm.endpoints import ApiKey, SessionAddress, StaticAddress
from spectator.llm.rate_limits import RateLimiter, SharedLimits
from spectator.llm.retry import FOREVER, CircuitBreaker, RetryPolicy
from spectator.policies.captains import ModelCaptain
from spectator.policies.model import ChatEndpoint, ModelPolicy
from spectator.policies.policy import Policy, Preset, ScriptedPolicy
from spectator.policies.prompts import Briefing

if TYPE_CHECKING:
    from spectator.llm.client import ChatClient
    from spectator.llm.transport import Transport


class CaptainEndpoints:
    """A breaker and a pacing for each captain, made when the first policy of the captain is.

    All seats that are given the same share them, so that not each asks a dead endpoint anew, and all together
    keep to its limits.

    Args:
        clock: Time.
        limits: Folder in which the processes of this machine keep the limits together; each keeps its own
            when left out.
    """

    def __init__(self, clock: Clock, limits: Path | None = None) -> None:
        self._clock = clock
        self._limits = limits
        self._breakers: dict[str, CircuitBreaker] = {}
        self._pacings: dict[str, RateLimiter] = {}

    def breaker(self, name: str) -> CircuitBreaker:
        """What leaves the endpoint of a captain alone when it keeps failing.

        Args:
            name: Of the captain's preset.
        """
        if name not in self._breakers:
            self._breakers[name] = CircuitBreaker(self._clock)
        return self._breakers[name]

    def pacing(self, name: str, captain: ModelCaptain) -> RateLimiter:
        """What keeps the limits of a captain.

        Args:
            name: Of its preset.
            captain: What they are.
        """
        if name not in self._pacings:
            shared = None
            if self._limits is not None and captain.limited:
                endpoint = f"{captain.base_url.rstrip('/')} {captain.model} {captain.api_key_env}"
                shared = SharedLimits(self._limits, endpoint, self._clock)
            self._pacings[name] = RateLimiter(
                self._clock,
                requests_per_minute=captain.requests_per_minute,
                tokens_per_minute=captain.tokens_per_minute,
                concurrency=captain.concurrency,
                shared=shared,
            )
        return self._pacings[name]


ANSWER_BYTES: Final = 1024 * 1024
"""Largest answer that is read in a live episode."""


def captain_client(
    captain: ModelCaptain,
    key: ApiKey | None,
    *,
    clock: Clock,
    rng: random.Random,
    breaker: CircuitBreaker | None = None,
    pacing: RateLimiter | None = None,
    transport: Transport | None = None,
    public_only: bool = False,
) -> ChatClient:
    """A client with connections of its own.

    Args:
        captain: How its endpoint is asked.
        key: The endpoint's key, where it needs one.
        clock: Time.
        rng: Draws the waits.
        breaker: Leaves the endpoint alone when it keeps failing; nothing does when left out.
        pacing: Keeps its limits; nothing does when left out.
        transport: The connections; the usual when left out.
        public_only: Refuse private, loopback and link-local addresses, for endpoints that visitors name: see
            :class:`spectator.llm.transport.HttpTransport`. Without effect on a ``transport`` that is given.
    """
    from spectator.llm.client import ChatClient, ClientLimits, form_called

    address = SessionAddress if captain.by_session else StaticAddress
    limits = ClientLimits(request_s=max(1.0, captain.timeout_s), connections=4, answer_bytes=ANSWER_BYTES)
    waits = FOREVER if captain.retries else 0
    return ChatClient(
        transport or limits.transport(public_only=public_only),
        address(captain.base_url),
        clock=clock,
        rng=rng,
        key=key,
        limits=limits,
        retry=RetryPolicy(busy=waits, unavailable=captain.retries, longest_s=10.0),
        breaker=breaker,
        pacing=pacing,
        form=form_called(captain.form),
    )


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

    CircuitBreaker and pacing are shared by all episodes with this captain, see :class:`CaptainEndpoints`.
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
        """The same with another fallback; see :class:`spectator.policies.policy.HasFallback`."""
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

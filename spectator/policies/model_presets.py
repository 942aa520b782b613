"""Presets of model captains for a seat, and the policies that they build.

All policies of one captain share its circuit breaker and its rate limits.
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
from spectator.llm.chat import ChatEndpoint
from spectator.llm.endpoints import ApiKey, SessionAddress, StaticAddress
from spectator.llm.rate_limits import RateLimiter, SharedLimits
from spectator.llm.retry import FOREVER, CircuitBreaker, RetryPolicy
from spectator.policies.captains import ModelCaptain
from spectator.policies.model import ModelPolicy
from spectator.policies.policy import Policy, Preset, ScriptedPolicy
from spectator.policies.prompts import Briefing

if TYPE_CHECKING:
    from spectator.llm.client import ChatClient
    from spectator.llm.transport import Transport


class CaptainEndpoints:
    """Circuit breaker and rate limiter of each captain, created on first use.

    Seats that share this object do not each probe a dead endpoint, and together stay within its limits.

    Args:
        limits: Folder through which the processes of this machine share limits; ``None`` for limits per
            process.
    """

    def __init__(self, clock: Clock, limits: Path | None = None) -> None:
        self._clock = clock
        self._limits = limits
        self._breakers: dict[str, CircuitBreaker] = {}
        self._pacings: dict[str, RateLimiter] = {}

    def breaker(self, name: str) -> CircuitBreaker:
        """Return the circuit breaker of the captain with this preset name."""
        if name not in self._breakers:
            self._breakers[name] = CircuitBreaker(self._clock)
        return self._breakers[name]

    def pacing(self, name: str, captain: ModelCaptain) -> RateLimiter:
        """Return the rate limiter of a captain.

        Args:
            captain: The captain, with its limits.
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
"""Maximum size of an answer in a live episode."""


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
    """Return a client with separate connections.

    Args:
        key: The endpoint's key, if it needs one.
        rng: Draws random delays.
        breaker: Pauses requests when the endpoint keeps failing; ``None`` for no pauses.
        pacing: Rate limits; ``None`` for none.
        transport: The connections; by default, new ones.
        public_only: Reject private, loopback and link-local addresses, for endpoints named by visitors; see
            :class:`spectator.llm.transport.HttpTransport`. Has no effect on a given ``transport``.
    """
    from spectator.llm.client import ChatClient, ClientLimits, wire_form

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
        form=wire_form(captain.form),
    )


@dataclass(frozen=True, slots=True)
class ModelSeat:
    """A world's seat for a model.

    Args:
        briefing: What the model must know.
        fallback: Makes, from a seed, the policy that decides if the model does not; must be a
            :class:`ScriptedPolicy`, because its decision must not wait.
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
    """Return the captains as presets for ``seat``.

    Keys are looked up when a policy is built, and stay inside its client.

    Args:
        captains: The captains, by preset name.
        variables: Environment variables with the keys.
        rng: Draws delays and session names. It is not seeded, so that clients do not wait in step and session
            names are never reused. Requests to a model depend on the episode's seed alone.
        endpoints: Shared breakers and limits; default: shared by these presets only.
    """
    shared = endpoints or CaptainEndpoints(clock)
    return {
        name: Preset(
            name=name,
            label=captain.label,
            summary=captain.summary or f"{captain.model}, style {captain.style}.",
            source="model",
            build=ModelBuild(name, captain, seat, variables, clock, rng, shared),
            missing=_missing(captain, variables),
            costs_money=True,
            fingerprint=captain.fingerprint,
        )
        for name, captain in captains.items()
    }


def longest_wait_s(presets: Iterable[Preset | None]) -> float:
    """Return the longest decision time of models among ``presets``, in seconds."""
    builds = (preset.build for preset in presets if preset is not None)
    return max((build.captain.timeout_s for build in builds if isinstance(build, ModelBuild)), default=0.0)


def preload() -> None:
    """Import the client's modules: slow, call it off the event loop."""
    import_module("spectator.llm.client")


def _missing(captain: ModelCaptain, variables: Mapping[str, str]) -> str | None:
    """Return what the captain needs before it can play here; never a key."""
    if captain.api_key_env is None:
        return None
    key = variables.get(captain.api_key_env, "")
    if not key:
        return f"needs a key in the variable {captain.api_key_env}"
    try:
        ApiKey(key)
    except ConfigurationError:
        return f"needs a valid key in the variable {captain.api_key_env}: printable ASCII without spaces"
    return None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModelBuild:
    """Makes the policy for one seat of one episode; its ``repr`` contains no key.

    All episodes with this captain share breaker and limits; see :class:`CaptainEndpoints`.
    """

    policy: ClassVar[type[ModelPolicy]] = ModelPolicy
    """Class of the policy."""

    name: str
    """Name of the captain's preset."""
    captain: ModelCaptain
    seat: ModelSeat
    variables: Mapping[str, str]
    clock: Clock
    rng: random.Random
    endpoints: CaptainEndpoints

    def __call__(self, seed: int) -> ModelPolicy:
        """Return a new policy with separate connections.

        Raises:
            ConfigurationError: The key is missing, or :meth:`asking` raises.
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
        """Description of the game for the model."""
        return self.seat.briefing.task

    def falling_back_to(self, fallback: Callable[[int], Policy]) -> ModelBuild:
        """Return a copy with another fallback; see :class:`HasFallback`."""
        return replace(self, seat=replace(self.seat, fallback=fallback))

    def waiting_for_rest(self) -> ModelBuild:
        """Return a copy that waits for a paused endpoint; see :class:`WaitsForRest`."""
        return replace(self, captain=self.captain.model_copy(update={"waits_for_rest": True}))

    def asking(self, client: ChatEndpoint, seed: int, *, session: str | None = None) -> ModelPolicy:
        """Return a new policy that uses ``client`` instead of the captain's endpoint.

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
            raise ConfigurationError(f"the variable {name} is not set; set it to the endpoint's key")
        return ApiKey(value)

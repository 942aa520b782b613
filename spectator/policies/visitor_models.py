"""Models that visitors provide for one seat; their key stays in memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spectator.clock import Clock
from spectator.errors import EndpointError, EndpointRefused
from spectator.llm.chat import ChatAnswer, ChatRequest
from spectator.llm.endpoints import ApiKey
from spectator.policies.captains import ModelCaptain
from spectator.policies.model import ModelPolicy
from spectator.policies.model_presets import CaptainEndpoints, ModelBuild, ModelSeat, captain_client
from spectator.policies.policy import Preset
from spectator.policies.spending import SpendLimit

if TYPE_CHECKING:
    from spectator.llm.client import ChatClient
    from spectator.llm.transport import HttpTransport


HUB: Final = "hf:"
"""Prefix of preset names for models that use a visitor's Hugging Face sign-in."""

OWN: Final = "own:"
"""Prefix of preset names for models at an endpoint that the visitor named."""


@dataclass(frozen=True, slots=True)
class VisitorErrorTexts:
    """Error messages for a visitor's key, as recorded in the episode.

    Args:
        over: The key was revoked, or expired.
        by_status: Messages by status of the endpoint.
    """

    over: str
    by_status: Mapping[int, str]


HUB_WORDS: Final = VisitorErrorTexts(
    over="the Hugging Face sign-in behind this seat is over; sign in again to start another match",
    by_status=MappingProxyType(
        {
            401: "Hugging Face no longer accepts the sign-in behind this seat; sign in again",
            402: "the Hugging Face quota for inference behind this seat is used up",
            403: "the Hugging Face account behind this seat may not use this model",
            404: "Hugging Face has no chat model of this name",
            429: "Hugging Face asks the account behind this seat to wait",
        }
    ),
)
OWN_WORDS: Final = VisitorErrorTexts(
    over="the endpoint behind this seat was kept in memory only, and is gone since the server restarted",
    by_status=MappingProxyType({}),
)


class VisitorKey:
    """A visitor's key, usable until it expires, is revoked or rejected.

    Args:
        key: The key; ``None`` if the endpoint needs none.
        words: Error messages for records.
        left_s: Seconds until it expires; ``None`` for never.

    >>> from spectator.clock import SystemClock
    >>> lent = VisitorKey(ApiKey("hf_12345678"), HUB_WORDS, clock=SystemClock(), left_s=60)
    >>> lent.end()
    >>> lent.usable
    False
    """

    def __init__(
        self, key: ApiKey | None, words: VisitorErrorTexts, *, clock: Clock, left_s: float | None = None
    ) -> None:
        self.words = words
        self._key = key
        self._clock = clock
        self._until = None if left_s is None else clock.monotonic() + left_s
        self._over = asyncio.Event()

    @property
    def usable(self) -> bool:
        """Whether the key can still be used."""
        if self._until is not None and self._clock.monotonic() >= self._until:
            self.end()
        return not self._over.is_set()

    @property
    def left_s(self) -> float | None:
        """Seconds until the key expires; ``None`` for never."""
        return None if self._until is None else max(0.0, self._until - self._clock.monotonic())

    def end(self) -> None:
        """Forget the key; running requests with it are cancelled."""
        self._key = None
        self._over.set()

    def key(self) -> ApiKey | None:
        """Return the key.

        Raises:
            EndpointRefused: The key can no longer be used.
        """
        if not self.usable:
            raise EndpointRefused(self.words.over)
        return self._key

    async def ended(self) -> None:
        """Wait until the key can no longer be used."""
        await self._over.wait()


class VisitorEndpoint:
    """An endpoint with a visitor's key; does not keep the key between requests.

    Args:
        transport: Connections; closed by :meth:`aclose`.
        client: Makes a client over ``transport`` for a key.
    """

    def __init__(
        self, lent: VisitorKey, transport: HttpTransport, client: Callable[[ApiKey | None], ChatClient]
    ) -> None:
        self._lent = lent
        self._transport = transport
        self._client = client

    async def complete(self, request: ChatRequest, **asked: Any) -> ChatAnswer:
        """See :class:`ChatEndpoint`.

        Raises:
            EndpointError: There is no answer; the message says what the visitor can do.
        """
        client, loop = self._client(self._lent.key()), asyncio.get_running_loop()
        answer = loop.create_task(client.complete(request, **asked))
        ended = loop.create_task(self._lent.ended())
        try:
            await asyncio.wait({answer, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise EndpointRefused(self._lent.words.over)
            return answer.result()
        except EndpointError as error:
            status = error.status or 0
            if status == 429 and isinstance(error, EndpointRefused):  # a used-up quota: waiting does not help
                status = 402
            if (words := self._lent.words.by_status.get(status)) is not None:
                error.args = (words,)
            if status == 401:
                self._lent.end()
            raise
        finally:
            for task in (answer, ended):
                task.cancel()
            await asyncio.gather(answer, ended, return_exceptions=True)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


class VisitorPolicy(ModelPolicy):
    """A model that its visitor pays for: the operator's caps do not limit it."""

    def spend_from(self, budget: SpendLimit) -> None:
        """Do nothing: the operator's budget does not apply."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VisitorModelBuild(ModelBuild):
    """Makes a policy that uses a visitor's key; its ``repr`` contains no key."""

    policy: ClassVar[type[ModelPolicy]] = VisitorPolicy

    lent: VisitorKey
    public_only: bool
    """Whether only public addresses are allowed."""

    def __call__(self, seed: int) -> ModelPolicy:
        """Return a new policy with separate connections; see :meth:`ModelBuild.asking`."""
        from spectator.llm.transport import HttpTransport

        transport = HttpTransport(max_connections=4, public_only=self.public_only)
        name, captain = self.name, self.captain

        def client(key: ApiKey | None) -> ChatClient:
            return captain_client(
                captain,
                key,
                clock=self.clock,
                rng=self.rng,
                breaker=self.endpoints.breaker(name),
                pacing=self.endpoints.pacing(name, captain),
                transport=transport,
            )

        return self.asking(VisitorEndpoint(self.lent, transport, client), seed)


@dataclass(frozen=True, slots=True)
class VisitorModel:
    """A model that a visitor provides.

    Args:
        name: Name of its preset in records.
        captain: Its settings.
        lent: The visitor's key.
        public_only: Whether only public addresses are allowed.
    """

    name: str
    captain: ModelCaptain
    lent: VisitorKey
    public_only: bool = False

    def preset(self, seat: ModelSeat, clock: Clock, rng: random.Random) -> Preset:
        """Return a preset for one seat, with a separate breaker and separate limits."""
        endpoints = CaptainEndpoints(clock)
        build = VisitorModelBuild(
            self.name, self.captain, seat, {}, clock, rng, endpoints, self.lent, self.public_only
        )
        return Preset(
            name=self.name,
            label=self.captain.label,
            summary=self.captain.summary,
            source="model",
            build=build,
            costs_money=True,
            fingerprint=self.captain.fingerprint,
        )


def is_visitor_model(policy: str) -> bool:
    """Whether this preset name in a record is of a visitor's model.

    >>> is_visitor_model("hf:google/gemma-3-27b-it"), is_visitor_model("llm:hf")
    (True, False)
    """
    return policy.startswith((HUB, OWN))


def expired_model(policy: str, label: str, clock: Clock) -> VisitorModel:
    """Return a recorded model whose key is gone: its requests fail with the reason.

    Args:
        policy: Name of its preset in the record.
        label: Display name.
    """
    hub = policy.startswith(HUB)
    lent = VisitorKey(None, HUB_WORDS if hub else OWN_WORDS, clock=clock)
    lent.end()
    model = policy.removeprefix(HUB if hub else OWN)
    captain = ModelCaptain(label=label, base_url="https://key.invalid/v1", model=model)
    return VisitorModel(policy, captain, lent)


def costs_operator(preset: Preset | None) -> bool:
    """Whether playing this preset costs the operator money."""
    return preset is not None and preset.costs_money and not isinstance(preset.build, VisitorModelBuild)

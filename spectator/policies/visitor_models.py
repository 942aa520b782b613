"""Models that visitors bring for one seat; their key stays in memory."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final

from spectator.clock import Clock
from spectator.errors import EndpointError, EndpointRefused
from spectator.llm.chat import ChatAnswer, ChatRequest, OnDelta
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
"""What the names of presets begin with whose model is asked with a visitor's sign-in at Hugging Face."""

OWN: Final = "own:"
"""The same where it is asked at an endpoint that the starter named."""


@dataclass(frozen=True, slots=True)
class VisitorErrorTexts:
    """What a record says where the lent key gets no answer.

    Args:
        over: The key was taken back, or expired.
        by_status: What a status of the endpoint means here.
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
    """A key that is lent for seats until it expires, is taken back, or is not accepted any more.

    Args:
        key: The key; ``None`` where the endpoint needs none.
        words: What records say about it.
        clock: Time.
        left_s: Seconds until it expires; ``None`` where it does not.

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
        """Whether it can still be used."""
        if self._until is not None and self._clock.monotonic() >= self._until:
            self.end()
        return not self._over.is_set()

    @property
    def left_s(self) -> float | None:
        """Seconds until it expires; ``None`` where it does not."""
        return None if self._until is None else max(0.0, self._until - self._clock.monotonic())

    def end(self) -> None:
        """Forget the key; a request that is under way with it is given up."""
        self._key = None
        self._over.set()

    def key(self) -> ApiKey | None:
        """The key.

        Raises:
            EndpointRefused: It is over.
        """
        if not self.usable:
            raise EndpointRefused(self.words.over)
        return self._key

    async def ended(self) -> None:
        """Wait until it is over."""
        await self._over.wait()


class VisitorEndpoint:
    """Asks an endpoint while a key is lent; nothing here holds the key between two requests.

    Args:
        lent: The key.
        transport: Connections; closed by :meth:`aclose`.
        client: Makes a client that asks over ``transport`` with a key.
    """

    def __init__(
        self, lent: VisitorKey, transport: HttpTransport, client: Callable[[ApiKey | None], ChatClient]
    ) -> None:
        self._lent = lent
        self._transport = transport
        self._client = client

    async def complete(
        self,
        request: ChatRequest,
        *,
        deadline: float,
        session: str | None = None,
        on_delta: OnDelta | None = None,
    ) -> ChatAnswer:
        """See :class:`ChatEndpoint`.

        Raises:
            EndpointError: There is no answer; the message says what that means for the key.
        """
        client, loop = self._client(self._lent.key()), asyncio.get_running_loop()
        asking = loop.create_task(
            client.complete(request, deadline=deadline, session=session, on_delta=on_delta)
        )
        ended = loop.create_task(self._lent.ended())
        try:
            await asyncio.wait({asking, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise EndpointRefused(self._lent.words.over)
            return asking.result()
        except EndpointError as error:
            status = error.status or 0
            if status == 429 and isinstance(error, EndpointRefused):  # of a quota that no waiting fills
                status = 402
            if (words := self._lent.words.by_status.get(status)) is not None:
                error.args = (words,)
            if status == 401:
                self._lent.end()
            raise
        finally:
            for task in (asking, ended):
                task.cancel()
            await asyncio.gather(asking, ended, return_exceptions=True)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


class VisitorPolicy(ModelPolicy):
    """A model that its starter pays for: the operator's caps do not limit it."""

    def spend_from(self, budget: SpendLimit) -> None:
        """Leave the operator's budget alone."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class VisitorModelBuild(ModelBuild):
    """Makes a policy that asks with a lent key; its ``repr`` holds no key."""

    policy: ClassVar[type[ModelPolicy]] = VisitorPolicy

    lent: VisitorKey
    public_only: bool
    """Whether only public addresses may be asked."""

    def __call__(self, seed: int) -> ModelPolicy:
        """A new policy, with connections of its own; see :meth:`ModelBuild.asking`."""
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
    """A model that a visitor brings.

    Args:
        name: What records call its preset.
        captain: How it is asked.
        lent: The key that it is asked with.
        public_only: Whether only public addresses may be asked.
    """

    name: str
    captain: ModelCaptain
    lent: VisitorKey
    public_only: bool = False

    def preset(self, seat: ModelSeat, clock: Clock, rng: random.Random) -> Preset:
        """It as a preset for one seat; breaker and pacing are its own."""
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
    """Whether records call a model by this name whose key was lent.

    >>> is_visitor_model("hf:google/gemma-3-27b-it"), is_visitor_model("llm:hf")
    (True, False)
    """
    return policy.startswith((HUB, OWN))


def expired_model(policy: str, label: str, clock: Clock) -> VisitorModel:
    """A model of a record whose key is gone: it decides nothing more, and says why.

    Args:
        policy: What the record calls it.
        label: Name shown to people.
        clock: Time.
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

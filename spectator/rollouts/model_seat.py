"""The model in the agent's seat of every episode of a fleet: one client for all, one policy for each."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from spectator.clock import Clock
from spectator.environments.world import World, derive_seed
from spectator.errors import ConfigurationError, EndpointError
from spectator.llm.chat import ChatAnswer, ChatRequest, Message, OnDelta
from spectator.llm.client import ChatClient, ClientLimits, form_called
from spectator.llm.endpoints import ApiKey, SessionAddress, StaticAddress
from spectator.llm.rate_limits import AdaptiveLimit
from spectator.llm.retry import CircuitBreaker, RetryPolicy
from spectator.policies.captains import ModelCaptain
from spectator.policies.model import ModelPolicy
from spectator.policies.policy import Policy, Preset, ScriptedPolicy
from spectator.policies.prompts import ModelSettings
from spectator.rollouts.handlers import EpisodeContext, EpisodeHandler, NullHandler
from spectator.rollouts.outage import ModelOutage
from spectator.rollouts.request import ACTOR
from spectator.rollouts.trimming import trim
from spectator.runs.in_flight import InFlight

FAILURES: Final = 20
"""Failures in a row, over all episodes, after which the endpoint is left alone for a while."""

REST_S: Final = 5.0
"""Seconds for which it is left alone first; four times as long at most."""

STARTUP_JITTER_S: Final = 2.0
"""Seconds over which the first requests of a run are spread, so that not all episodes ask at once."""


def fleet_client(
    model: ModelCaptain,
    key: ApiKey | None,
    concurrency: int,
    *,
    clock: Clock,
    rng: random.Random,
    startup_jitter_s: float = STARTUP_JITTER_S,
) -> ChatClient:
    """A client for all episodes of a run.

    Args:
        model: How the model is asked.
        key: The endpoint's key, where it needs one.
        concurrency: Episodes at once; it may ask less at once where the endpoint refuses for load.
        clock: Time.
        rng: Draws the waits.
        startup_jitter_s: The first requests are spread over this time.
    """
    limits = replace(
        ClientLimits.for_fleet(concurrency, by_session=model.by_session),
        request_s=max(1.0, model.timeout_s),
        startup_jitter_s=startup_jitter_s,
    )
    address = SessionAddress if model.by_session else StaticAddress
    return ChatClient(
        limits.transport(),
        address(model.base_url),
        clock=clock,
        rng=rng,
        key=key,
        limits=limits,
        retry=RetryPolicy(busy=max(6, model.retries), unavailable=max(3, model.retries), longest_s=30.0),
        breaker=CircuitBreaker(clock, failures=FAILURES, rest_s=REST_S, longest_rest_s=4 * REST_S),
        adaptive=AdaptiveLimit(
            clock, start=min(concurrency, 64), highest=max(concurrency, 64), slow_start=True
        ),
        form=form_called(model.form),
    )


@dataclass(frozen=True, slots=True)
class FleetSeat:
    """Makes the policies of a run.

    Args:
        model: How the model is asked.
        client: Asks it, for all episodes.
        clock: Time.
        handler: Adds to prompts.
        message_cut: Newest exchanges that are sent; 0 sends them all.
        outage: Waits for an endpoint that is gone for a while; nobody does when left out.
    """

    model: ModelCaptain
    client: ChatClient
    clock: Clock
    handler: EpisodeHandler
    message_cut: int = 0
    outage: ModelOutage | None = None
    _asked: ModelSettings = field(init=False, repr=False)

    def __post_init__(self) -> None:
        settings = self.model.settings()  # where turns are cut away, prompts have to need none of them
        settings = replace(settings, whole_situations=True) if self.message_cut else settings
        object.__setattr__(self, "_asked", settings)

    def preset(
        self, world: World, context: EpisodeContext | None = None, flight: InFlight | None = None
    ) -> Preset:
        """Who takes the agent's seat: of any episode, or of the one that ``context`` names.

        Args:
            world: What is played.
            context: The episode.
            flight: Told what the model's request waits for.

        Raises:
            ConfigurationError: The world's default captain is not scripted, and cannot stand in.
        """
        return Preset(
            name=ACTOR,
            label=self.model.label,
            summary=self.model.summary,
            source="model",
            build=partial(self._policy, world, context, flight),
            costs_money=True,
        )

    def _policy(
        self, world: World, context: EpisodeContext | None, flight: InFlight | None, seed: int
    ) -> Policy:
        fallback = world.captains[world.default_captain].build(seed)
        if not isinstance(fallback, ScriptedPolicy):
            raise ConfigurationError("the fallback of a model must be a scripted policy")
        member = 0 if context is None else context.member  # samples of one task are drawn apart
        return ModelPolicy(
            self.client if flight is None else _FlightClient(self.client, flight, self.clock, self.outage),
            self._asked,
            world.briefing,
            fallback=fallback,
            seed=derive_seed(seed, "member", member) if member else seed,
            clock=self.clock,
            session=None if context is None or not self.model.by_session else context.env_id,
            closes_client=False,
            edit=_Edit(self.handler, self.message_cut, context),
        )


class _FlightClient:
    """Asks the endpoint for one episode: notes what its requests wait for, and outlasts outages."""

    def __init__(
        self, client: ChatClient, flight: InFlight, clock: Clock, outage: ModelOutage | None
    ) -> None:
        self._client = client
        self._flight = flight
        self._clock = clock
        self._outage = outage

    async def complete(
        self,
        request: ChatRequest,
        *,
        deadline: float,
        session: str | None = None,
        on_delta: OnDelta | None = None,
    ) -> ChatAnswer:
        """See :meth:`ChatClient.complete`; ``deadline`` is that of each attempt after an outage."""
        flight, outage = self._flight, self._outage
        answers, failures = 0 if outage is None else outage.answers, 0
        try:
            while True:
                try:
                    answer = await self._client.complete(
                        request, deadline=deadline, session=session, on_delta=on_delta, on_wait=flight.waits
                    )
                except EndpointError as error:
                    if outage is None:
                        raise
                    answers = answers if failures else outage.answers
                    pause = outage.pause_after(error, answers, failures)
                    if pause is None:
                        raise
                    failures += 1
                    flight.waits("retry", self._clock.monotonic() + pause, error.kind)
                    await outage.wait(pause)
                    continue
                if outage is not None:
                    outage.answered()
                return answer
        finally:
            flight.waits("journal")

    async def aclose(self) -> None:
        """The client is everybody's."""


class _Edit:
    """Trims the conversation and lets the handler add to it, before it is sent and recorded."""

    def __init__(self, handler: EpisodeHandler, message_cut: int, context: EpisodeContext | None) -> None:
        self._handler = handler
        self._message_cut = message_cut
        self._context = context
        self._step = 0

    def __call__(self, messages: Sequence[Message]) -> Sequence[Message]:
        if self._message_cut:
            messages = trim(messages, self._message_cut)
        if self._context is None or type(self._handler) is NullHandler:
            return messages
        self._step += 1
        return self._handler.handle(messages, replace(self._context, step=self._step))

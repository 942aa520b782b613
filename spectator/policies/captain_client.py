"""The client that asks a captain's endpoint."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from spectator.clock import Clock
from spectator.llm.address import SessionAddress, StaticAddress
from spectator.llm.breaker import Breaker
from spectator.llm.pacing import Pacing
from spectator.llm.retry import FOREVER, RetryPolicy
from spectator.llm.secret import ApiKey

if TYPE_CHECKING:
    from spectator.llm.client import ChatClient
    from spectator.llm.transport import Transport
    from spectator.policies.captain_table import ModelCaptain

ANSWER_BYTES: Final = 1024 * 1024
"""Largest answer that is read in a live episode."""


def captain_client(
    captain: ModelCaptain,
    key: ApiKey | None,
    *,
    clock: Clock,
    rng: random.Random,
    breaker: Breaker | None = None,
    pacing: Pacing | None = None,
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
    from spectator.llm.client import ChatClient, ClientLimits
    from spectator.llm.forms import form_called

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

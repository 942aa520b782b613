"""What viewers' transports need of the rest of the server."""

from __future__ import annotations

from dataclasses import dataclass

from spectator.clock import Clock

from ..viewers.audience import Audience
from .keepalive import Keepalive


@dataclass(frozen=True, slots=True)
class TransportPorts:
    """What viewers' transports need.

    Args:
        audience: Admits viewers.
        keepalive: Pings their connections.
        clock: Measures how often they send.
    """

    audience: Audience
    keepalive: Keepalive
    clock: Clock

"""What all who ask a captain's endpoint share of it in this process: its breaker and its pacing."""

from __future__ import annotations

from pathlib import Path

from spectator.clock import Clock
from spectator.llm.breaker import Breaker
from spectator.llm.pacing import Pacing
from spectator.llm.shared_limits import SharedLimits
from spectator.policies.captain_table import ModelCaptain


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
        self._breakers: dict[str, Breaker] = {}
        self._pacings: dict[str, Pacing] = {}

    def breaker(self, name: str) -> Breaker:
        """What leaves the endpoint of a captain alone when it keeps failing.

        Args:
            name: Of the captain's preset.
        """
        if name not in self._breakers:
            self._breakers[name] = Breaker(self._clock)
        return self._breakers[name]

    def pacing(self, name: str, captain: ModelCaptain) -> Pacing:
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
            self._pacings[name] = Pacing(
                self._clock,
                requests_per_minute=captain.requests_per_minute,
                tokens_per_minute=captain.tokens_per_minute,
                concurrency=captain.concurrency,
                shared=shared,
            )
        return self._pacings[name]

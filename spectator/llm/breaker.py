"""A circuit breaker: a failing endpoint is left alone for a while."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final

from spectator.checked_dataclass import checked_dataclass
from spectator.clock import Clock
from spectator.errors import EndpointBusy, EndpointError, EndpointRefused, EndpointResting

HOPELESS: Final = frozenset({401, 402, 403, 404})
"""Statuses that no other request to this endpoint will escape: key, payment, permission, address."""


class Breaker:
    """Lets requests through until the endpoint failed ``failures`` times in a row; then it rests.

    After the rest one request is let through: its success ends the matter, its failure doubles the rest. A
    request that is asked to wait is neither success nor failure; one that is refused by a status in
    :data:`HOPELESS` starts the rest at once. One event loop uses it; many clients may share it.

    Args:
        clock: Measures the rest.
        failures: Failures in a row that are borne, at least 1.
        rest_s: The first rest, seconds.
        longest_rest_s: The longest.
    """

    def __init__(
        self, clock: Clock, *, failures: int = 5, rest_s: float = 30.0, longest_rest_s: float = 300.0
    ) -> None:
        if failures < 1 or not 0 < rest_s <= longest_rest_s:
            raise ValueError("a breaker needs failures >= 1 and 0 < rest_s <= longest_rest_s")
        self._clock = clock
        self._allowed = failures
        self._first_rest_s = rest_s
        self._longest_rest_s = longest_rest_s
        self._failed = 0
        self._rest_s = rest_s
        self._until: float | None = None
        self._probing = False
        self._why = ""
        self._status: int | None = None

    def request(self) -> BreakerRequest:
        """Around one request, which it has let through.

        Raises:
            EndpointResting: It is turned away.
        """
        if self._until is None:
            return BreakerRequest(self, False)
        left = self._until - self._clock.monotonic()
        if left > 0 or self._probing:
            raise EndpointResting(
                f"the endpoint is left alone after failing: {self._why}",
                status=self._status,
                retry_after_s=max(0.0, left),
            )
        self._probing = True
        return BreakerRequest(self, True)

    def settle(self, error: BaseException | None, probe: bool) -> None:
        """Take in how a request ended that was let through; ``probe``: whether it tried the endpoint."""
        if error is not None:
            self._judge(error, probe)
        elif self._failed or self._until is not None:
            self._close()

    def _judge(self, error: BaseException, probe: bool) -> None:
        """Take in how a request failed; ``probe``: whether it was the one that tried the endpoint."""
        if not isinstance(error, EndpointError):
            self._probing = self._probing and not probe
        elif isinstance(error, EndpointRefused):
            if error.status in HOPELESS:
                self._rest(error, probe)
            else:
                self._close()
        elif isinstance(error, EndpointBusy):
            self._probing = self._probing and not probe
        else:
            self._failed += 1
            if probe or (self._until is None and self._failed >= self._allowed):
                self._rest(error, probe)

    def _rest(self, error: EndpointError, probe: bool) -> None:
        self._rest_s = min(2 * self._rest_s, self._longest_rest_s) if probe else self._first_rest_s
        self._until = self._clock.monotonic() + self._rest_s
        self._probing = False
        self._why = str(error)
        self._status = error.status if error.status in HOPELESS else None

    def _close(self) -> None:
        self._failed = 0
        self._until = None
        self._probing = False
        self._rest_s = self._first_rest_s


@checked_dataclass(frozen=True, slots=True)
class BreakerRequest(AbstractContextManager[None]):
    """One request that a breaker has let through.

    Args:
        breaker: It hears how the request ends.
        probe: Whether it is the one that tries the endpoint.
    """

    breaker: Breaker
    probe: bool

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.breaker.settle(error, self.probe)

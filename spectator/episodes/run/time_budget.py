"""The time of play that an episode has left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spectator.clock import Clock


class Budget:
    """Time of play, pauses not counted.

    Args:
        clock: Measures.
        limit_s: Seconds of play.
    """

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self._clock = clock
        self._until = clock.monotonic() + limit_s

    def spent(self) -> bool:
        """Whether none is left."""
        return self._clock.monotonic() > self._until

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Time spent inside does not count."""
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self._until += self._clock.monotonic() - began

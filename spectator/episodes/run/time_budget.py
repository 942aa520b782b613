"""The time of play that an episode has left."""

from __future__ import annotations

from typing import Self

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
        self._stood_since = 0.0

    def spent(self) -> bool:
        """Whether none is left."""
        return self._clock.monotonic() > self._until

    def standing_still(self) -> Self:
        """Time spent inside does not count; not to be nested."""
        return self

    def __enter__(self) -> None:
        self._stood_since = self._clock.monotonic()

    def __exit__(self, *_: object) -> None:
        self._until += self._clock.monotonic() - self._stood_since

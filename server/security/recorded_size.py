"""How much the episodes of one address may record in an hour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spectator.clock import Clock

from .rates import MAX_TRACKED, RateLimit
from .slot_queue import OPERATOR

HOUR_S: Final = 3600.0

PIECE_S: Final = 60.0
"""What is recorded within this time is counted as one."""


class RecordedSize:
    """Characters recorded in the last hour, by address, paid after the fact.

    Who has recorded too much waits until enough of it is an hour old. What an episode records before it is
    known who started it, such as the past of a fork, is counted with the first record after that.

    Args:
        limit: Characters that one address may record in an hour; 0 means no limit.
        starters: The addresses that started episodes, by their ids.
        clock: Measures.

    >>> from spectator.clock import SystemClock
    >>> size = RecordedSize(1000, {"ep-1": "here"}, SystemClock())
    >>> size.note("ep-1", 1001, ended=False)
    >>> 3500 < size.wait_s("here") <= 3660, size.wait_s("there")
    (True, 0.0)
    """

    def __init__(self, limit: float, starters: Mapping[str, str], clock: Clock) -> None:
        self.limit = limit
        self._starters = starters
        self._recorded = RateLimit(limit, HOUR_S, clock, piece_s=PIECE_S)
        self._unclaimed: dict[str, int] = {}

    def note(self, episode_id: str, size: int, *, ended: bool) -> None:
        """Count what was recorded of an episode.

        Args:
            episode_id: Which.
            size: Characters.
            ended: Whether nothing more comes.
        """
        size += self._unclaimed.pop(episode_id, 0)
        address = self._starters.get(episode_id)
        if address is None:
            if not ended:
                self._unclaimed[episode_id] = size
                if len(self._unclaimed) > MAX_TRACKED:
                    del self._unclaimed[next(iter(self._unclaimed))]
        elif address != OPERATOR:
            self._recorded.charge(address, size)

    def wait_s(self, address: str) -> float:
        """Seconds until ``address`` may record more; 0.0 when it may now."""
        return self._recorded.wait_s(address)

    def used(self) -> dict[str, int]:
        """Characters that each address recorded in the last hour, those with none left out."""
        return self._recorded.used()

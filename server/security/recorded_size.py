"""How much the episodes of one address may record in an hour."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from spectator.clock import Clock

from .rate_limit import MAX_TRACKED
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
        self._clock = clock
        self._recorded: dict[str, deque[tuple[float, int]]] = {}
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
                _bound(self._unclaimed)
        elif address != OPERATOR:
            self._charge(address, size)

    def wait_s(self, address: str) -> float:
        """Seconds until ``address`` may record more; 0.0 when it may now."""
        recorded = self._recorded.get(address)
        if not self.limit or recorded is None:
            return 0.0
        now = self._clock.monotonic()
        left = self._fresh(recorded, now)
        if left < self.limit:
            return 0.0
        for began, size in recorded:
            left -= size
            if left < self.limit:
                return max(0.0, began + PIECE_S + HOUR_S - now)
        return 0.0

    def used(self) -> dict[str, int]:
        """Characters that each address recorded in the last hour, those with none left out."""
        now = self._clock.monotonic()
        taken = {address: self._fresh(recorded, now) for address, recorded in self._recorded.items()}
        return {address: size for address, size in taken.items() if size}

    def _charge(self, address: str, size: int) -> None:
        now = self._clock.monotonic()
        recorded = self._recorded.pop(address, None) or deque()
        self._recorded[address] = recorded
        _bound(self._recorded)
        self._fresh(recorded, now)
        if recorded and now < recorded[-1][0] + PIECE_S:
            began, before = recorded.pop()
            recorded.append((began, before + size))
        else:
            recorded.append((now, size))

    def _fresh(self, recorded: deque[tuple[float, int]], now: float) -> int:
        """Forget what is older than an hour; how much the rest is."""
        while recorded and recorded[0][0] + PIECE_S + HOUR_S <= now:
            recorded.popleft()
        return sum(size for _, size in recorded)


def _bound(kept: dict[str, deque[tuple[float, int]]] | dict[str, int]) -> None:
    if len(kept) > MAX_TRACKED:
        del kept[next(iter(kept))]

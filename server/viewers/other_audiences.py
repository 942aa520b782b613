"""What other servers show of the same episodes: how many watch each of them there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from spectator.clock import Clock

KEPT_S: Final = 15.0
"""How long a number of viewers counts that is not told again."""

MOST: Final = 100_000
"""Numbers that are kept; further ones are left out."""


class OtherAudiences:
    """How many watch episodes at other servers, as those tell it from time to time.

    Args:
        clock: Time.
        changed: Is told of which episode the number may be another one now.
    """

    def __init__(self, clock: Clock, changed: Callable[[str], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._watching: dict[str, dict[str, tuple[int, float]]] = {}  # by episode and server: number, until
        self._size = 0

    def note(self, server: str, viewers: Mapping[str, int]) -> None:
        """A server told how many watch some episodes there; 0 for nobody any more."""
        until = self._clock.monotonic() + KEPT_S
        for episode_id, number in viewers.items():
            before = self.count(episode_id)
            by_server = self._watching.setdefault(episode_id, {})
            self._size -= by_server.pop(server, None) is not None
            if number > 0 and self._size < MOST:
                by_server[server] = (number, until)
                self._size += 1
            self._tidy(episode_id, before)

    def forget_silent(self) -> None:
        """Leave out what was not told again."""
        now = self._clock.monotonic()
        for episode_id, by_server in tuple(self._watching.items()):
            before = self.count(episode_id)
            for server in [name for name, (_, until) in by_server.items() if until <= now]:
                del by_server[server]
                self._size -= 1
            self._tidy(episode_id, before)

    def count(self, episode_id: str) -> int:
        """How many watch an episode at other servers."""
        return sum(number for number, _ in self._watching.get(episode_id, {}).values())

    @property
    def any(self) -> bool:
        """Whether anybody watches anything there."""
        return bool(self._watching)

    def _tidy(self, episode_id: str, before: int) -> None:
        if not self._watching[episode_id]:
            del self._watching[episode_id]
        if self.count(episode_id) != before:
            self._changed(episode_id)

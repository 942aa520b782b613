"""Tells the other servers of one PostgreSQL which episodes went on here, and hears it of theirs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from typing import Final

from spectator.clock import Clock
from spectator.errors import JournalError
from spectator.journal.stores.notices import LARGEST, NoticeSender

logger = logging.getLogger(__name__)

CHANNEL: Final = "spectator_commits"
"""Where notices of commits are sent: ids of episodes, a space between two, and nothing of the record."""

LEAST_S: Final = 0.005
"""Least time between two notices; commits meanwhile share the next one."""


class CommitNotices:
    """Sends which episodes were recorded here, once that is committed. Who misses one asks the journal later.

    Args:
        sender: Sends.
        clock: Waits.
        before: Is waited for before each notice, where what is told of lies in a cache too.
    """

    def __init__(
        self, sender: NoticeSender, clock: Clock, before: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._sender = sender
        self._clock = clock
        self._before = before
        self._recorded: dict[str, None] = {}
        self._some = asyncio.Event()

    def note(self, episode_id: str) -> None:
        """Something of an episode was committed; returns at once."""
        self._recorded[episode_id] = None
        self._some.set()

    async def run(self) -> None:
        """Send, until cancelled."""
        works = True
        while True:
            await self._some.wait()
            self._some.clear()
            recorded, self._recorded = self._recorded, {}
            if self._before is not None:
                await self._before()
            try:
                await self._sender.send(CHANNEL, list(notices_of(recorded)))
                works = True
            except JournalError as error:
                if works:
                    logger.warning("other servers are not told of commits: %s", error)
                works = False
            await self._clock.sleep(LEAST_S)


def notices_of(episode_ids: Iterable[str]) -> Iterator[str]:
    """Ids as notices, as few as hold them.

    >>> list(notices_of(["ep-1", "ep-2"]))
    ['ep-1 ep-2']
    """
    notice: list[str] = []
    size = 0
    for episode_id in episode_ids:
        if size + len(episode_id) + 1 > LARGEST:
            yield " ".join(notice)
            notice, size = [], 0
        notice.append(episode_id)
        size += len(episode_id) + 1
    if notice:
        yield " ".join(notice)


def taking(wake: Callable[[Collection[str]], None]) -> Callable[[str], None]:
    """What takes a notice and wakes the episodes in it."""
    return lambda notice: wake(notice.split())

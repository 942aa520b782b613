"""Tells the servers of one PostgreSQL which episodes went on in this process, and hears it of others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Final

from spectator.clock import Clock
from spectator.errors import JournalError
from spectator.journal.stores.notices import LARGEST, NoticeSender

logger = logging.getLogger(__name__)

CHANNEL: Final = "spectator_commits"
"""Where notices of commits are sent: ids of episodes, a space between two, and nothing of the record."""

FLEET: Final = "fleet"
"""The first word of a notice of a fleet's episodes, which servers show and never list."""

LEAST_S: Final = 0.005
"""Least time between two notices; commits meanwhile share the next one."""

FLEET_LEAST_S: Final = 0.25
"""The same of a fleet, whose many workers record much that nobody watches."""


class CommitNotices:
    """Sends which episodes were recorded here, once that is committed. Who misses one asks the journal later.

    Args:
        sender: Sends.
        clock: Waits.
        fleet: Whether they are a fleet's.
    """

    def __init__(self, sender: NoticeSender, clock: Clock, *, fleet: bool = False) -> None:
        self._begin, self._least_s = (f"{FLEET} ", FLEET_LEAST_S) if fleet else ("", LEAST_S)
        self._sender = sender
        self._clock = clock
        self._works = True
        self._recorded: dict[str, None] = {}
        self._some = asyncio.Event()

    def note(self, episode_id: str) -> None:
        """Something of an episode was committed; returns at once."""
        self._recorded[episode_id] = None
        self._some.set()

    async def run(self) -> None:
        """Send, until cancelled."""
        while True:
            await self._some.wait()
            await self.send()
            await self._clock.sleep(self._least_s)

    async def send(self) -> None:
        """Send what was noted since."""
        self._some.clear()
        recorded, self._recorded = self._recorded, {}
        if not recorded:
            return
        try:
            await self._sender.send(CHANNEL, [f"{self._begin}{one}" for one in notices_of(recorded)])
            self._works = True
        except JournalError as error:
            if self._works:
                logger.warning("other servers are not told of commits: %s", error)
            self._works = False


@asynccontextmanager
async def telling(url: str, clock: Clock) -> AsyncIterator[Callable[[str], None]]:
    """What is told of each commit of a fleet in the database at ``url``, so that servers hear of it."""
    sender = NoticeSender(url)
    notices = CommitNotices(sender, clock, fleet=True)
    sending = asyncio.create_task(notices.run(), name="notices")
    try:
        yield notices.note
    finally:
        sending.cancel()
        await notices.send()
        await sender.aclose()


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


def taking(
    wake: Callable[[Collection[str]], None], wake_fleet: Callable[[Collection[str]], None]
) -> Callable[[str], None]:
    """What takes a notice and wakes the episodes in it, a server's or a fleet's."""

    def take(notice: str) -> None:
        names = notice.split()
        if names[:1] == [FLEET]:
            wake_fleet(names[1:])
        else:
            wake(names)

    return take

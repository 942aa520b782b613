"""What must be done before anything is started, while the server answers already: counting and recovering."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from spectator.clock import Clock, first_of
from spectator.episodes.host.recovery import Recovery
from spectator.errors import JournalError

logger = logging.getLogger(__name__)

AGAIN_S: Final = 2.0
"""Seconds after which spending that could not be counted is counted again."""


class Readiness:
    """Counts what was spent today, then recovers what an earlier process left; nothing is started before.

    Args:
        recovery: Recovers; has found what there is.
        count_spending: Lets the ledger know what was spent today.
        clock: Waits.
    """

    def __init__(
        self, recovery: Recovery, count_spending: Callable[[], Awaitable[None]], clock: Clock
    ) -> None:
        self._recovery = recovery
        self._count_spending = count_spending
        self._clock = clock
        self.ready = False
        """Whether all is done."""
        self._counted = False
        self._leaving = asyncio.Event()
        self._over = asyncio.Event()

    @property
    def recovery(self) -> Recovery:
        """What becomes of the episodes that an earlier process left."""
        return self._recovery

    @property
    def over(self) -> asyncio.Event:
        """Set when :meth:`run` has returned."""
        return self._over

    def need(self) -> None:
        """Go on if all is done.

        Raises:
            Recovering: It is not, and how far it has come.
        """
        if not self.ready:
            raise self._recovery.progress()

    def need_of(self, episode_id: str | None) -> None:
        """The same for whoever wants one episode; ``None`` is any of them."""
        if episode_id is None or self._recovery.has_to_look_at(episode_id):
            self.need()

    async def run(self) -> None:
        """Do it; returns early after :meth:`aclose`."""
        try:
            while not self._counted and not self._leaving.is_set():
                await self._count()
            await self._recovery.run()
            self.ready = self._counted and self._recovery.over
        finally:
            self._over.set()

    async def _count(self) -> None:
        counting = asyncio.get_running_loop().create_task(self._counting())
        await first_of(_ended(counting), self._leaving.wait())
        if counting.done():
            counting.result()
        counting.cancel()

    async def _counting(self) -> None:
        try:
            await self._count_spending()
            self._counted = True
        except JournalError as error:
            logger.error("what was spent today cannot be counted, so nothing is started: %s", error)
            await self._clock.sleep(AGAIN_S)

    async def aclose(self) -> None:
        """Leave the rest to another process, and wait for :meth:`run`, which was called before, to return."""
        self._leaving.set()
        self._recovery.leave()
        await self._over.wait()


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])

"""Shows that this process lives, and misses others that write the same journal; on a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Self

from spectator.errors import JournalError, typed_as
from spectator.journal.stores.ownership import Ownership
from spectator.journal.stores.signs import INTERVAL_S, SILENT_LOOKS, Signs

logger = logging.getLogger(__name__)


class Life:
    """Gives signs of life while the context lives, and deposes who gives none.

    It has an event loop of its own: a process in which a world computes for long is not taken for dead.

    Args:
        ownership: The leases of the journal.
        interval_s: Seconds between two signs.
    """

    def __init__(self, ownership: Ownership, interval_s: float = INTERVAL_S) -> None:
        self._ownership = ownership
        self._interval_s = interval_s
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._show())
        self._thread = threading.Thread(target=self._run, name="signs-of-life", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        finally:
            self._loop.close()

    async def _show(self) -> None:
        signs, troubled = Signs(), False
        while True:
            try:
                with typed_as(_unforeseen):
                    await self._look(signs)
                troubled = False
            except JournalError as error:
                if not troubled:
                    logger.warning("no sign of life can be given: %s", error)
                troubled = True
            await asyncio.sleep(self._interval_s)

    async def _look(self, signs: Signs) -> None:
        for name in signs.missing(await self._ownership.beat(), SILENT_LOOKS):
            freed = await self._ownership.depose(name)
            told = "process %s is not heard of any more: %d episodes are free to be played on"
            logger.warning(told, name, len(freed))


def _unforeseen(error: Exception) -> JournalError:
    return JournalError(f"{type(error).__name__}: {error}")

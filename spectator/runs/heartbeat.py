"""Shows that this process is alive, and deposes others that are not; on a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Final, Self

from spectator.clock import Clock
from spectator.errors import JournalError, typed_as
from spectator.journal.ownership import INTERVAL_S, SILENT_CHECKS, LivenessCheck, Ownership

logger = logging.getLogger(__name__)

SHOWN_BEATS: Final = SILENT_CHECKS + 1
"""Beats for which readers show the leases of a process that was not heard of since."""


class Heartbeat:
    """Beats while the context lives, and deposes each process whose beat stands still.

    It has an event loop of its own, so that a world that computes for long does not look like a dead process.

    Args:
        ownership: The leases of the journal.
        clock: The wall clock that readers of leases go by.
        interval_s: Seconds between two beats.
    """

    def __init__(self, ownership: Ownership, clock: Clock, interval_s: float = INTERVAL_S) -> None:
        self._ownership = ownership
        self._clock = clock
        self._interval_s = interval_s
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._beat())
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

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

    async def _beat(self) -> None:
        signs, failing = LivenessCheck(), False
        while True:
            try:
                with typed_as(_unforeseen):
                    await self._look(signs)
                failing = False
            except JournalError as error:
                if not failing:
                    logger.warning("the heartbeat cannot be recorded: %s", error)
                failing = True
            await asyncio.sleep(self._interval_s)

    async def _look(self, signs: LivenessCheck) -> None:
        shown_until = self._clock.now().timestamp() + SHOWN_BEATS * self._interval_s
        others = await self._ownership.beat(expires_ms=int(1000 * shown_until))
        for name in signs.missing(others, SILENT_CHECKS):
            freed = await self._ownership.depose(name)
            logger.warning(
                "process %s stopped responding; %d episodes are free to be resumed", name, len(freed)
            )


def _unforeseen(error: Exception) -> JournalError:
    return JournalError(f"{type(error).__name__}: {error}")

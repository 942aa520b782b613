"""Wait for a journal that cannot be reached, and repeat what it should do until that succeeds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from spectator.backoff import Backoff
from spectator.clock import Clock
from spectator.errors import JournalError, JournalUnavailable

DATABASE_PAUSES: Final = Backoff(0.25, 2.0)
"""The pauses between two attempts."""

_Result = TypeVar("_Result")


async def retried(
    work: Callable[[], Awaitable[_Result]],
    clock: Clock,
    limit_s: Callable[[], float],
    *,
    waiting: Callable[[JournalError, int], None],
    pause: Callable[[float], Awaitable[object]] | None = None,
    passing: tuple[type[JournalError], ...] = (JournalUnavailable,),
) -> _Result:
    """Do ``work``, and repeat it while the journal cannot be reached.

    Args:
        work: Reads or writes the journal.
        limit_s: Asked after each failure for how many seconds ``work`` may fail; 0 gives up at once.
        waiting: Called before each pause with the error and the number of earlier failures.
        pause: Waits for some seconds, or less if that is no longer needed; the clock's if omitted.
        passing: The exact types of errors after which another attempt can succeed.

    Raises:
        JournalError: It failed for good, or for too long.
    """
    failures, began = 0, clock.monotonic()
    while True:
        try:
            return await work()
        except JournalError as error:
            if type(error) not in passing:
                raise
            failed_s = clock.monotonic() - began
            if failed_s >= limit_s():
                given_up = f"; given up after {failed_s:.0f} s" if failures else ""
                raise JournalUnavailable(f"{error}{given_up}") from error
            waiting(error, failures)
        await (pause or clock.sleep)(DATABASE_PAUSES.limit(failures))
        failures += 1

"""Records the events of an episode, and waits while the journal cannot be written."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from spectator.backoff import Backoff
from spectator.clock import Clock, first_of
from spectator.errors import EpisodeError, JournalError, JournalUnavailable, typed_as
from spectator.events import RecordedEvent
from spectator.journal.attachments import Attachments
from spectator.journal.base import EpisodeLog

logger = logging.getLogger(__name__)

PAUSES: Final = Backoff(0.25, 2.0)
"""The pauses between two attempts to record."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """The record cannot be written now.

    Args:
        message: Why, for people.
        since: When that began.
    """

    message: str
    since: datetime


class Recorder:
    """Records the events of one episode, and waits while the journal cannot be written.

    Args:
        episode_id: Whose.
        journal: Where to.
        clock: Measures and waits.
        patience_s: Seconds to wait for the journal before a step is given up; 0 gives up at once.
    """

    def __init__(self, episode_id: str, journal: EpisodeLog, clock: Clock, patience_s: float) -> None:
        self._episode_id = episode_id
        self._journal = journal
        self._clock = clock
        self._patience_s = patience_s
        self.trouble: Trouble | None = None
        """What keeps the record from being written now; ``None`` when nothing does."""
        self.characters = 0
        """Characters recorded by this process."""
        self._changed: asyncio.Event | None = None  # both only while needed: an event is 0.8 kB
        self._pause_over: asyncio.Event | None = None
        self._hurried = False
        self._closed = False

    async def news(self) -> Trouble | None:
        """Wait until another attempt has failed, or the first has succeeded again."""
        self._changed = self._changed or asyncio.Event()
        await self._changed.wait()
        return self.trouble

    def give_up_waiting(self, *, for_good: bool) -> None:
        """Give up what waits now; with ``for_good``, wait for nothing from here on."""
        self._closed = self._closed or for_good
        self._hurried = True
        if self._pause_over is not None:
            self._pause_over.set()

    async def record(
        self,
        events: Sequence[RecordedEvent],
        *,
        patient: bool,
        last: bool,
        attachments: Attachments | None = None,
    ) -> float:
        """Append ``events``, however long that takes within limits.

        Args:
            events: Of one emission.
            patient: Whether to wait for a journal that cannot be written.
            last: Whether they end the episode: that is waited for without limit, lest it goes unrecorded.
            attachments: What is recorded with them.

        Returns:
            Seconds that the journal could not be written; 0.0 as a rule.

        Raises:
            JournalError: They could not be recorded.
        """
        limit_s = math.inf if last and self._patience_s > 0 else self._patience_s
        self._hurried = False
        failures, began = 0, self._clock.monotonic()
        while True:
            try:
                with typed_as(_not_recorded, passing=(EpisodeError,)):
                    await self._journal.append(events, attachments=attachments)
                break
            except JournalUnavailable as error:
                stood_s = self._clock.monotonic() - began
                hurried = self._hurried and not last  # who asks for the end twice gives no end up
                if not patient or self._closed or hurried or stood_s >= limit_s:
                    raise _given_up(error, stood_s) from error
                self._hurried = False
                self._stand_still(error)
            over = self._pause_over = asyncio.Event()
            await first_of(self._clock.sleep(PAUSES.limit(failures)), over.wait())
            failures += 1
        self.characters += sum([len(event.text) for event in events])
        return 0.0 if self.trouble is None else self._recovered(began)

    def _stand_still(self, error: JournalUnavailable) -> None:
        if self.trouble is None:
            logger.error("episode %s stands still: %s", self._episode_id, error)
        since = self._clock.now() if self.trouble is None else self.trouble.since
        self._set(Trouble(str(error), since))

    def _recovered(self, began: float) -> float:
        stood_s = self._clock.monotonic() - began
        logger.warning("episode %s goes on: recorded again after %.1f s", self._episode_id, stood_s)
        self._set(None)
        return stood_s

    def _set(self, trouble: Trouble | None) -> None:
        self.trouble = trouble
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()


def _given_up(error: JournalUnavailable, stood_s: float) -> JournalUnavailable:
    return JournalUnavailable(f"{error}; given up after {stood_s:.0f} s") if stood_s >= 1 else error


def _not_recorded(error: Exception) -> JournalError:
    return JournalError(f"{type(error).__name__}: {error}")

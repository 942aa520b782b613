"""Takes over the episodes of servers that record into the same journal and are not heard of any more."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import Final

from spectator.clock import Clock
from spectator.episodes.host.recovery import Recovery
from spectator.episodes.host.supervisor import Supervisor
from spectator.episodes.run.plan import EpisodePlan
from spectator.errors import EpisodeDamaged, JournalError
from spectator.journal.base import EpisodeSummary, Journal
from spectator.journal.stores.commands import Command, Commands
from spectator.journal.stores.ownership import Ownership
from spectator.journal.stores.signs import INTERVAL_S, SILENT_LOOKS, Signs

logger = logging.getLogger(__name__)

AT_ONCE: Final = 16
"""Most episodes that are taken over between two looks."""


class Takeover:
    """Shows that this server lives, misses those that do not, and plays their episodes on.

    Args:
        ownership: The leases of the journal.
        commands: What is to be done with episodes, wherever they are played.
        journal: The journal.
        supervisor: Says how much room there is here.
        clock: Waits.
    """

    def __init__(
        self,
        ownership: Ownership,
        commands: Commands,
        journal: Journal,
        supervisor: Supervisor,
        clock: Clock,
    ) -> None:
        self.deposed = 0
        """Servers that this one deposed."""
        self._ownership = ownership
        self._commands = commands
        self._journal = journal
        self._supervisor = supervisor
        self._clock = clock
        self._claimed: set[str] = set()
        self._handing = 0
        self._handed_over: set[str] = set()
        self._signs = Signs()

    async def claim(self, episode_id: str) -> EpisodeSummary | None:
        """Take the lease of an episode, if there is room for it and nobody else holds one.

        Raises:
            JournalError: The database cannot be reached now.
        """
        if self._supervisor.free_slots == 0 or self._supervisor.live(episode_id) is not None:
            return None
        self._claimed.add(episode_id)
        if not await self._ownership.claim(episode_id):
            self._claimed.discard(episode_id)
            return None
        summary = await self._journal.episode(episode_id)
        if summary is not None and summary.ended_at is None:
            return summary
        await self.release(episode_id)
        return None

    async def release(self, episode_id: str) -> None:
        """Leave an episode to others.

        Raises:
            JournalError: The database cannot be reached now.
        """
        await self._ownership.release(episode_id)
        self._claimed.discard(episode_id)

    async def hand_over(self, plan: EpisodePlan) -> str | None:
        """Begin an episode for a server that has room, where one has; returns once its start is recorded.

        Returns:
            Its id; ``None`` where nobody has room.

        Raises:
            EpisodeBusy: This server is going away.
            JournalError: Its start could not be recorded, or nobody can be asked now.
        """
        self._handing += 1
        try:
            if not await self._ownership.claim_room():
                return None
            return await self._leave_begun(plan)
        finally:
            self._handing -= 1

    async def _leave_begun(self, plan: EpisodePlan) -> str:
        """Record the start of an episode for whoever has the room that was claimed; its id."""
        try:
            episode_id = await self._supervisor.leave_begun(plan)
        except BaseException:
            with suppress(JournalError):  # the next sign of life gives it up, too
                await self._ownership.give_up_room()
            raise
        self._handed_over.add(episode_id)
        try:
            await self._let_go_of(episode_id)
        except JournalError as error:
            logger.warning("episode %s is handed over later: %s", episode_id, error)
        return episode_id

    async def _let_go_of(self, episode_id: str) -> None:
        """Let others play an episode that was begun here for them."""
        await self._ownership.hand_over(episode_id)
        self._handed_over.discard(episode_id)

    def _room(self) -> int:
        """How many episodes more could be played here."""
        rebuilt = sum(self._supervisor.live(one) is None for one in self._claimed)
        return max(0, self._supervisor.free_slots - rebuilt)

    def _is_handing(self) -> bool:
        """Whether room elsewhere may still be claimed for episodes that are begun here."""
        return self._handing > 0 or bool(self._handed_over)

    async def show_life(self) -> None:
        """Give signs of life, and depose who gives none, until cancelled."""
        while True:
            try:
                await self.look()
            except JournalError as error:
                logger.warning("other servers cannot be looked after: %s", error)
            await self._clock.sleep(INTERVAL_S)

    async def play_on(self, recovery: Recovery) -> None:
        """Play on what nobody plays, until cancelled, once ``recovery`` looked at what was there before."""
        while True:
            await self._clock.sleep(INTERVAL_S)
            try:
                await self.take_over(recovery)
            except JournalError as error:
                logger.warning("episodes of other servers cannot be taken over: %s", error)

    async def look(self) -> None:
        """Give a sign of life, and depose who gave none for long.

        Raises:
            JournalError: The database cannot be reached now.
        """
        signs = await self._ownership.beat(self._room(), handing=self._is_handing())
        for name in self._signs.missing(signs, SILENT_LOOKS):
            freed = await self._ownership.depose(name)
            self.deposed += 1
            told = "server %s is not heard of any more: %d episodes are free to be played on"
            logger.warning(told, name, len(freed))
        await self._commands.tidy()

    async def take_over(self, recovery: Recovery) -> None:
        """Play on what nobody plays, as far as there is room.

        Raises:
            JournalError: The database cannot be reached now.
        """
        for episode_id in tuple(self._handed_over):
            await self._let_go_of(episode_id)
        if not recovery.over:
            return
        for stop in await self._commands.stops_left_alone(AT_ONCE):
            await self._end(stop, recovery)
        room = min(AT_ONCE, self._supervisor.free_slots)
        if not room:
            return
        for episode_id in await self._ownership.left_alone(room):
            summary = await self._journal.episode(episode_id)
            if summary is not None:
                recovery.add([summary])
        await recovery.run()
        self._claimed.clear()

    async def _end(self, stop: Command, recovery: Recovery) -> None:
        """End an episode that nobody plays and that is to be stopped; that takes no slot."""
        if not await self._ownership.claim(stop.episode_id):
            return
        try:
            summary = await self._journal.episode(stop.episode_id)
            if summary is not None and summary.ended_at is None:
                await recovery.end_stopped(summary, f"stopped by {json.loads(stop.body)['by']}")
        except EpisodeDamaged:
            logger.exception("episode %s cannot be stopped: its record is damaged", stop.episode_id)
            await self._commands.forget(stop.id)
        finally:
            await self._ownership.release(stop.episode_id)

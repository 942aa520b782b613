"""Recover unfinished episodes at startup, and take over those of dead servers.

No episode starts before today's spending is counted and earlier episodes are recovered (``Readiness``).
``CommandPoller`` carries out commands of other servers on the same journal.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final

from spectator.clock import Clock, first_of
from spectator.episodes.controls import EndRequest
from spectator.episodes.embargo import PublicReader
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.recovery import Recovery
from spectator.episodes.supervisor import Supervisor
from spectator.errors import EpisodeDamaged, EpisodeError, JournalError
from spectator.journal.commands import Command, Commands
from spectator.journal.contract import EpisodeFilter, EpisodeSummary
from spectator.journal.ownership import INTERVAL_S, SILENT_CHECKS, LivenessCheck, Ownership
from spectator.journal.sql_journal import SqlJournal

logger = logging.getLogger(__name__)

RETRY_S: Final = 2.0
"""Seconds until counting today's spending is retried."""


class Readiness:
    """Counts today's spending, then recovers earlier episodes; none starts before."""

    def __init__(
        self, recovery: Recovery, count_spending: Callable[[], Awaitable[None]], clock: Clock
    ) -> None:
        self.recovery = recovery
        self._count_spending = count_spending
        self._clock = clock
        self.ready = False
        """Whether everything is done."""
        self._counted = False
        self._leaving = asyncio.Event()
        self.over = asyncio.Event()
        """Set when :meth:`run` has returned."""

    def need(self) -> None:
        """Check that everything is done.

        Raises:
            Recovering: It is not; reports the progress.
        """
        if not self.ready:
            raise self.recovery.progress()

    def need_of(self, episode_id: str | None) -> None:
        """Check that one episode is recovered; ``None`` means all."""
        if episode_id is None or self.recovery.awaits_recovery(episode_id):
            self.need()

    async def run(self) -> None:
        """Count and recover; returns early after :meth:`aclose`."""
        try:
            while not self._counted and not self._leaving.is_set():
                await self._count()
            await self.recovery.run()
            self.ready = self._counted and self.recovery.over
        finally:
            self.over.set()

    async def _count(self) -> None:
        counting = asyncio.get_running_loop().create_task(self._counting())
        await first_of(asyncio.wait([counting]), self._leaving.wait())
        if counting.done():
            counting.result()
        counting.cancel()

    async def _counting(self) -> None:
        try:
            await self._count_spending()
            self._counted = True
        except JournalError as error:
            logger.error("cannot count today's spending, so no episode starts: %s", error)
            await self._clock.sleep(RETRY_S)

    async def aclose(self) -> None:
        """Leave the rest to another process, and wait for :meth:`run` to return.

        :meth:`run` must have been called.
        """
        self._leaving.set()
        self.recovery.leave()
        await self.over.wait()


AT_ONCE: Final = 16
"""Most episodes taken over in one round."""

FAILED_S: Final = 60.0
"""Seconds until an episode that could not be resumed is tried again here."""


class Takeover:
    """Sends heartbeats, detects dead servers, and resumes episodes that no server plays.

    These are the episodes of dead servers, those whose play failed here, and those whose lease was lost
    because the database went back in time.
    """

    def __init__(
        self,
        ownership: Ownership,
        commands: Commands,
        journal: SqlJournal,
        supervisor: Supervisor,
        records: PublicReader,
        clock: Clock,
    ) -> None:
        self.deposed = 0
        """Dead servers whose leases this one released."""
        self._ownership = ownership
        self._commands = commands
        self._journal = journal
        self._supervisor = supervisor
        self._records = records
        self._clock = clock
        self._claimed: set[str] = set()
        self._idle: set[str] = set()  # leased but not played here
        self._failed: dict[str, float] = {}  # when they could not be resumed
        self._handovers = 0
        self._handed_over: set[str] = set()
        self._heartbeats = LivenessCheck()
        self._freed = asyncio.Event()

    def wake(self) -> None:
        """Look for episodes without an owner now."""
        self._freed.set()

    async def leave(self) -> None:
        """Give each episode to the other servers as soon as it stands still here."""

        async def give(episode_id: str) -> None:
            if (live := self._supervisor.live(episode_id)) is not None:
                with suppress(EpisodeError):  # it has no end
                    await live.wait()
            try:
                await self._ownership.release(episode_id)
                await self._commands.announce_freed()
            except JournalError as error:
                logger.warning("others take episode %s over later: %s", episode_id, error)

        running = [live.episode_id for live in self._supervisor.running()]
        await asyncio.gather(self._supervisor.suspend(), *map(give, running))

    async def claim(self, episode_id: str) -> EpisodeSummary | None:
        """Take the lease of an episode, if a slot is free and no other server holds it."""
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
        """Release the lease of an episode."""
        await self._ownership.release(episode_id)
        self._claimed.discard(episode_id)

    async def hand_over(self, plan: EpisodePlan) -> str | None:
        """Start an episode for another server with a free slot.

        Returns once the start is recorded.

        Returns:
            Its id; ``None`` if no server has a free slot.

        Raises:
            EpisodeBusy: This server is shutting down.
        """
        self._handovers += 1
        try:
            if not await self._ownership.claim_room():
                return None
            return await self._leave_begun(plan)
        finally:
            self._handovers -= 1

    async def _leave_begun(self, plan: EpisodePlan) -> str:
        try:
            episode_id = await self._supervisor.leave_begun(plan)
        except BaseException:
            with suppress(JournalError):  # the next heartbeat gives it up too
                await self._ownership.give_up_room()
            raise
        self._handed_over.add(episode_id)
        try:
            await self._hand_over_lease(episode_id)
        except JournalError as error:
            logger.warning("cannot hand over episode %s yet; retrying: %s", episode_id, error)
        return episode_id

    async def _hand_over_lease(self, episode_id: str) -> None:
        """Release an episode that was started here for another server."""
        await self._ownership.hand_over(episode_id)
        self._handed_over.discard(episode_id)

    async def send_heartbeats(self) -> None:
        """Send heartbeats, and release the leases of dead servers, until cancelled."""
        while True:
            try:
                await self.look()
            except JournalError as error:
                logger.warning("cannot check on other servers: %s", error)
            await self._clock.sleep(INTERVAL_S)

    async def play_on(self, recovery: Recovery) -> None:
        """Resume episodes without an owner until cancelled, once ``recovery`` is over."""
        while True:
            await first_of(self._clock.sleep(INTERVAL_S), self._freed.wait())
            self._freed.clear()
            try:
                await self.take_over(recovery)
            except JournalError as error:
                logger.warning("cannot take over episodes of other servers: %s", error)

    async def look(self) -> None:
        """Send a heartbeat, and release the leases of dead servers."""
        rebuilt = sum(self._supervisor.live(one) is None for one in self._claimed)
        room = max(0, self._supervisor.free_slots - rebuilt)  # how many more episodes can run here
        handing = self._handovers > 0 or bool(self._handed_over)
        heartbeats = await self._ownership.beat(room, handing=handing)
        for name in self._heartbeats.missing(heartbeats, SILENT_CHECKS):
            freed = await self._ownership.depose(name)
            self.deposed += 1
            message = "server %s sends no heartbeats: %d episodes can be taken over"
            logger.warning(message, name, len(freed))
            self.wake()
        await self._commands.tidy()

    async def take_over(self, recovery: Recovery) -> None:
        """Resume episodes without an owner, as far as slots are free."""
        for episode_id in tuple(self._handed_over):
            await self._hand_over_lease(episode_id)
        await self._journal.restore()
        if not recovery.over:
            return
        for stop in await self._commands.unowned_stops(AT_ONCE):
            await self._end(stop, recovery)
        await self._release_idle()
        room, since = self._supervisor.free_slots, self._clock.monotonic() - FAILED_S
        self._failed = {name: failed for name, failed in self._failed.items() if failed > since}
        for episode_id in await self._ownership.unowned_episodes(AT_ONCE + len(self._failed)):
            if (live := self._supervisor.live(episode_id)) is not None:
                live.request_end(EndRequest("suspended", "its lease was lost"))
            elif room > 0 and episode_id not in self._failed:
                summary = await self._journal.episode(episode_id)
                if summary is not None:
                    recovery.add([summary])
                    room -= 1
        await recovery.run()
        for episode_id in self._claimed:
            if self._supervisor.live(episode_id) is None:
                self._failed[episode_id] = self._clock.monotonic()
        self._claimed.clear()

    async def _release_idle(self) -> None:
        """Release the leases of this server whose episodes it does not play, seen twice in a row.

        A suspended episode stays here. One without a summary is not visible to readers yet.
        """
        idle = set()
        for lease in await self._journal.leases() if not self._handovers else ():
            episode_id = lease.episode_id
            mine = lease.owner == self._ownership.name and episode_id not in self._handed_over
            if mine and self._supervisor.live(episode_id) is None:
                visible = await self._journal.episode(episode_id) is not None
                if visible and not await self._records.suspended(episode_id):
                    idle.add(episode_id)
        for episode_id in idle & self._idle:
            logger.warning("episode %s is leased but not played here; its lease is released", episode_id)
            await self._ownership.release(episode_id)
        self._idle = idle - self._idle

    async def _end(self, stop: Command, recovery: Recovery) -> None:
        """End an episode without an owner that has a stop command; takes no slot."""
        if not await self._ownership.claim(stop.episode_id):
            return
        try:
            summary = await self._journal.episode(stop.episode_id)
            if summary is not None and summary.ended_at is None:
                await recovery.end_stopped(summary, f"stopped by {json.loads(stop.body)['by']}")
        except EpisodeDamaged:
            logger.exception("cannot stop episode %s: its record is damaged", stop.episode_id)
            await self._commands.forget(stop.id)
        finally:
            await self._ownership.release(stop.episode_id)


UNPLAYED_INTERVAL_S: Final = 8.0
"""Seconds between two looks for unplayed episodes; one is named at the second look that finds it."""


class UnplayedEpisodes:
    """Names the unended episodes that no server plays, for operators.

    Args:
        ownership: Leases of the servers that share the journal; ``None`` if this server is alone.
    """

    def __init__(
        self,
        journal: SqlJournal,
        ownership: Ownership | None,
        supervisor: Supervisor,
        recovery: Recovery,
        records: PublicReader,
        clock: Clock,
    ) -> None:
        self.named: Sequence[str] = ()
        """Ids of unended episodes that are neither played, suspended nor being recovered."""
        self._journal = journal
        self._ownership = ownership
        self._supervisor = supervisor
        self._recovery = recovery
        self._records = records
        self._clock = clock
        self._seen: set[str] = set()

    async def run(self) -> None:
        """Look for them until cancelled."""
        while True:
            await self._clock.sleep(UNPLAYED_INTERVAL_S)
            try:
                await self.look()
            except JournalError as error:
                logger.warning("cannot look for unplayed episodes: %s", error)

    async def look(self) -> None:
        """Look for them once."""
        found = {one for one in await self._unended() if not await self._is_cared_for(one)}
        if new := sorted((found & self._seen) - set(self.named)):
            logger.error("no server plays the unended episodes %s", ", ".join(new))
        self.named, self._seen = sorted(found & self._seen), found

    async def _unended(self) -> Sequence[str]:
        """Return unended episodes that no other server holds."""
        if self._ownership is None:
            wanted = EpisodeFilter(ended=False, limit=1000)
            return [one.episode_id for one in await self._journal.episodes(wanted)]
        own = [one.episode_id for one in await self._journal.leases() if one.owner == self._ownership.name]
        return [*own, *await self._ownership.unowned_episodes(1000)]

    async def _is_cared_for(self, episode_id: str) -> bool:
        if self._supervisor.live(episode_id) is not None or self._recovery.awaits_recovery(episode_id):
            return True
        summary = await self._journal.episode(episode_id)
        ended = summary is None or summary.ended_at is not None
        return ended or await self._records.suspended(episode_id)


COMMANDS_INTERVAL_S: Final = 0.25
"""Seconds between two polls for commands; one query covers all episodes that run here."""

CarryOut = Callable[[Command], Awaitable[str | None]]
"""Carries out a command; returns its answer, or ``None`` to leave it to a later owner of the episode."""


class CommandPoller:
    """Polls for commands and carries them out, those of one episode in order."""

    def __init__(
        self, commands: Commands, carry_out: CarryOut, clock: Clock, tasks: asyncio.TaskGroup
    ) -> None:
        self._commands = commands
        self._carry_out = carry_out
        self._clock = clock
        self._tasks = tasks
        self._at_work: set[str] = set()  # episodes
        self._answers: dict[str, str] = {}  # by command, until they are written

    async def run(self) -> None:
        """Poll for commands until cancelled."""
        while True:
            await self._clock.sleep(COMMANDS_INTERVAL_S)
            try:
                await self.look()
            except JournalError as error:
                logger.warning("cannot poll for commands of other servers: %s", error)

    async def look(self) -> None:
        """Start to carry out waiting commands."""
        waiting = sorted(await self._commands.take(), key=lambda one: one.episode_id)
        for episode_id, group in groupby(waiting, key=lambda one: one.episode_id):
            if episode_id not in self._at_work:
                self._at_work.add(episode_id)
                self._tasks.create_task(self._work(episode_id, list(group)), name="commands")

    async def _work(self, episode_id: str, group: Sequence[Command]) -> None:
        try:
            for command in group:
                answer = self._answers.get(command.id) or await self._carry_out(command)
                if answer is None:
                    return  # the commands after it wait too
                self._answers[command.id] = answer  # or a failed write would carry it out twice
                await self._commands.answer(command.id, answer)
                del self._answers[command.id]
        except JournalError as error:
            logger.warning("cannot answer a command for %s yet; retrying: %s", episode_id, error)
        finally:
            self._at_work.discard(episode_id)

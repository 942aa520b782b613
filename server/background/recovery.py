"""Recover unfinished episodes at the start, and take over those of dead servers.

Nothing is started before today's spending is counted and earlier episodes are recovered (``Readiness``).
``CommandPoller`` looks for commands of other servers on the same journal.
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
from spectator.episodes.plan import EpisodePlan
from spectator.episodes.recovery import Recovery
from spectator.episodes.supervisor import Supervisor
from spectator.errors import EpisodeDamaged, JournalError
from spectator.journal.commands import Command, Commands
from spectator.journal.contract import EpisodeSummary, Journal
from spectator.journal.ownership import INTERVAL_S, SILENT_CHECKS, LivenessCheck, Ownership

logger = logging.getLogger(__name__)

RETRY_S: Final = 2.0
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
        if episode_id is None or self._recovery.awaits_recovery(episode_id):
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
        await first_of(_wait_for(counting), self._leaving.wait())
        if counting.done():
            counting.result()
        counting.cancel()

    async def _counting(self) -> None:
        try:
            await self._count_spending()
            self._counted = True
        except JournalError as error:
            logger.error("what was spent today cannot be counted, so nothing is started: %s", error)
            await self._clock.sleep(RETRY_S)

    async def aclose(self) -> None:
        """Leave the rest to another process, and wait for :meth:`run`, which was called before, to return."""
        self._leaving.set()
        self._recovery.leave()
        await self._over.wait()


async def _wait_for(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])


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
        self._signs = LivenessCheck()

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
            await self._hand_over_lease(episode_id)
        except JournalError as error:
            logger.warning("episode %s is handed over later: %s", episode_id, error)
        return episode_id

    async def _hand_over_lease(self, episode_id: str) -> None:
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
        for name in self._signs.missing(signs, SILENT_CHECKS):
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
            await self._hand_over_lease(episode_id)
        if not recovery.over:
            return
        for stop in await self._commands.unowned_stops(AT_ONCE):
            await self._end(stop, recovery)
        room = min(AT_ONCE, self._supervisor.free_slots)
        if not room:
            return
        for episode_id in await self._ownership.unowned_episodes(room):
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


COMMANDS_INTERVAL_S: Final = 0.25
"""Seconds between two looks for commands; one query tells those for all episodes that are played here."""

CarryOut = Callable[[Command], Awaitable[str | None]]
"""Carries a command out; its answer, or ``None`` where it is left to whoever plays the episode later."""


class CommandPoller:
    """Looks for commands, and carries them out: those for one episode one after the other.

    Args:
        commands: Where they wait.
        carry_out: Does what one says.
        clock: Waits.
        tasks: The group that they are carried out in.
    """

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
        """Look for commands until cancelled."""
        while True:
            await self._clock.sleep(COMMANDS_INTERVAL_S)
            try:
                await self.look()
            except JournalError as error:
                logger.warning("commands from other servers cannot be looked for: %s", error)

    async def look(self) -> None:
        """Begin to carry out what waits.

        Raises:
            JournalError: The database cannot be reached now.
        """
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
                    return  # and those after it wait too
                self._answers[command.id] = answer  # or it would be done twice where this is not written
                await self._commands.answer(command.id, answer)
                del self._answers[command.id]
        except JournalError as error:
            logger.warning("a command for %s is answered later: %s", episode_id, error)
        finally:
            self._at_work.discard(episode_id)

"""Carries out what other servers were asked to do with episodes that are played here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import Final

from spectator.clock import Clock
from spectator.errors import JournalError
from spectator.journal.stores.commands import Command, Commands

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 0.25
"""Seconds between two looks for commands; one query tells those for all episodes that are played here."""

CarryOut = Callable[[Command], Awaitable[str | None]]
"""Carries a command out; its answer, or ``None`` where it is left to whoever plays the episode later."""


class CommandRounds:
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
            await self._clock.sleep(INTERVAL_S)
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

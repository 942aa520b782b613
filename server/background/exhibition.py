"""The exhibition match: two captains play while nobody else does, for anyone who looks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from spectator.catalog import load_world
from spectator.clock import Clock
from spectator.episodes.plan import EpisodeRequest
from spectator.episodes.supervisor import Supervisor
from spectator.errors import SpectatorError
from spectator.evaluation.figures import EXHIBITION
from spectator.journal.contract import EpisodeFilter
from spectator.journal.sql_journal import SqlJournal

from ..security.masking import OperatorOrders
from ..security.slot_queue import SlotQueue

logger = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""How often it is looked whether anybody plays."""

VISITED_S: Final = 600.0
"""For how long after the last look at the lobby or the wall another match begins."""

REST_S: Final = 15.0
"""Rest after a match, so that its result is seen."""

AGAIN_S: Final = 300.0
"""Rest after one that could not be started."""

KEPT: Final = 3
"""Ended matches that stay in the record."""


class Exhibition:
    """Plays one match after another between captains who differ, while nobody else plays.

    Who plays rotates through the world's :meth:`~spectator.environments.world.World.pairings`. It takes a
    free slot, and gives it back as soon as somebody else wants one. Its matches count for no
    address and in no standings; of those that ended the newest three are kept. None begins while nobody has
    looked at the lobby or the wall for ten minutes, while starts are paused or while the server recovers.

    Args:
        environment: The world; ``None`` where none is wanted.
        supervisor: Runs it.
        journal: Where its earlier matches are.
        queue: Who waits for a slot.
        orders: Says whether starts are paused.
        ready: Whether what ran before this process is recovered.
        clock: Measures and waits.
    """

    def __init__(
        self,
        environment: str | None,
        supervisor: Supervisor,
        journal: SqlJournal,
        queue: SlotQueue,
        orders: OperatorOrders,
        ready: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._environment = environment
        self._supervisor = supervisor
        self._journal = journal
        self._queue = queue
        self._orders = orders
        self._ready = ready
        self._clock = clock
        self._visited: float | None = None
        self._begun = 0
        self._not_before = 0.0
        self._was_on = False

    def note_visit(self) -> None:
        """Take note that somebody looks what is on."""
        self._visited = self._clock.monotonic()

    async def make_way(self) -> None:
        """End it if there is no free slot; returns once that is recorded, or cannot be."""
        for episode in self._supervisor.running():
            if episode.plan.run_id == EXHIBITION and self._supervisor.free_slots == 0:
                try:
                    await self._supervisor.stop(episode.episode_id, by="the server: its slot was wanted")
                except SpectatorError as error:
                    logger.warning("the exhibition match could not make way: %s", error)

    async def run(self) -> None:
        """Look every second until cancelled."""
        while self._environment is not None:
            await self._clock.sleep(LOOK_S)
            try:
                await self.look()
            except SpectatorError as error:
                self._not_before = self._clock.monotonic() + AGAIN_S
                logger.warning("there is no exhibition match for the next %g s: %s", AGAIN_S, error)

    async def look(self) -> None:
        """Begin a match if nobody plays, make way for whoever waits, or clear away what is over.

        Raises:
            SpectatorError: It cannot be started, or an earlier one not be removed.
        """
        if self._queue.waiting:
            await self.make_way()
        is_on = any(one.plan.run_id == EXHIBITION for one in self._supervisor.running())
        now = self._clock.monotonic()
        if self._was_on and not is_on:
            self._not_before = now + REST_S
            await self._clear()
        elif now >= self._not_before and self._is_wanted(now):
            await self._begin()
            is_on = True
        self._was_on = is_on

    def _is_wanted(self, now: float) -> bool:
        """Whether nobody plays, and somebody would see it."""
        if self._visited is None or now - self._visited > VISITED_S or self._supervisor.showing():
            return False
        paused = self._orders.kept.paused_since is not None
        return self._ready() and not paused and not self._queue.waiting and self._supervisor.free_slots > 0

    async def _begin(self) -> None:
        assert self._environment is not None
        pairings = load_world(self._environment).pairings()
        captain, opponent = pairings[self._begun % len(pairings)]
        self._begun += 1
        plan = self._supervisor.plan(EpisodeRequest(self._environment, captain, opponent, narration=False))
        if any(seat is not None and (seat.costs_money or seat.source == "human" or seat.missing)
               for seat in (plan.captain, plan.opponent)):  # fmt: skip
            raise SpectatorError(f"no two captains of {self._environment} can play free of charge")
        await self._supervisor.start(replace(plan, run_id=EXHIBITION))

    async def _clear(self) -> None:
        """Remove all but the newest that ended."""
        ended = await self._journal.episodes(EpisodeFilter(run_id=EXHIBITION, ended=True, limit=1000))
        for summary in ended[KEPT:]:
            await self._journal.remove(summary.episode_id)

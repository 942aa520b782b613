"""The exhibition match: two captains play for visitors while no other match runs."""

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
"""Seconds between two checks of what runs."""

VISITED_S: Final = 600.0
"""Seconds since the last visit to the lobby or the wall within which another match begins."""

REST_S: Final = 15.0
"""Pause in seconds after a match, so that its result is seen."""

AGAIN_S: Final = 300.0
"""Pause in seconds after a match that could not start."""

KEPT: Final = 3
"""Ended matches kept in the journal."""


class Exhibition:
    """Plays matches between different captains while no other match runs.

    The captains rotate through the world's :meth:`~spectator.environments.world.World.pairings`. It takes a
    free slot, and gives it back as soon as a client wants one. Its matches count for no address and in no
    standings; the newest three that ended are kept. No match begins if the lobby and the wall had no visit
    for ten minutes, while starts are paused, or while the server recovers.

    Args:
        environment: The world; ``None`` disables the exhibition.
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
        """Note a visit to the lobby or the wall."""
        self._visited = self._clock.monotonic()

    async def make_way(self) -> None:
        """End the match if no slot is free; returns once that is recorded, or failed."""
        for episode in self._supervisor.running():
            if episode.plan.run_id == EXHIBITION and self._supervisor.free_slots == 0:
                try:
                    await self._supervisor.stop(episode.episode_id, by="the server: its slot was wanted")
                except SpectatorError as error:
                    logger.warning("cannot end the exhibition match: %s", error)

    async def run(self) -> None:
        """Check every second until cancelled."""
        while self._environment is not None:
            await self._clock.sleep(LOOK_S)
            try:
                await self.look()
            except SpectatorError as error:
                self._not_before = self._clock.monotonic() + AGAIN_S
                logger.warning("no exhibition match for the next %g s: %s", AGAIN_S, error)

    async def look(self) -> None:
        """Start a match if none runs, make way for waiting clients, or remove old matches."""
        if self._queue.waiting:
            await self.make_way()
        is_on = any(one.plan.run_id == EXHIBITION for one in self._supervisor.running())
        now = self._clock.monotonic()
        if self._was_on and not is_on:
            self._not_before = now + REST_S
            ended = await self._journal.episodes(EpisodeFilter(run_id=EXHIBITION, ended=True, limit=1000))
            for summary in ended[KEPT:]:
                await self._journal.remove(summary.episode_id)
        elif now >= self._not_before and self._is_wanted(now):
            await self._begin()
            is_on = True
        self._was_on = is_on

    def _is_wanted(self, now: float) -> bool:
        """Whether no match runs, and a visitor would see it."""
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

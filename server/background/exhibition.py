"""The server's own matches: a league, or exhibitions while nothing else is played."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from spectator.catalog import load_world
from spectator.clock import Clock
from spectator.episodes.controls import Pace
from spectator.episodes.plan import EpisodePlan, EpisodeRequest
from spectator.episodes.supervisor import Supervisor
from spectator.errors import SpectatorError
from spectator.evaluation.figures import EXHIBITION, LEAGUE
from spectator.journal.contract import EpisodeFilter
from spectator.journal.sql_journal import SqlJournal

from ..security.masking import OperatorOrders
from ..security.slot_queue import SlotQueue
from .league import CaptainLeague

logger = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""Seconds between two checks of what runs."""

QUICK_LOOK_S: Final = 0.05
"""The same while the league plays as fast as possible."""

OWN: Final = (EXHIBITION, LEAGUE)
"""Run ids of the server's own matches."""

VISITED_S: Final = 600.0
"""Seconds since the last visit to the lobby or the wall within which another exhibition begins."""

REST_S: Final = 15.0
"""Pause in seconds after a match, so that its result is seen."""

AGAIN_S: Final = 300.0
"""Pause in seconds after a match that could not start."""

KEPT: Final = 3
"""Ended exhibitions kept in the journal."""


class Exhibition:
    """Plays matches between different captains: those of the league, else exhibitions.

    It takes a free slot, and gives it back as soon as a client wants one. Its matches count for no address.
    No match begins while starts are paused, clients wait, or the server recovers.

    Exhibitions rotate through the world's :meth:`~spectator.environments.world.World.pairings`, count in no
    standings, and the newest three that ended are kept. They begin only if nothing else is shown and the
    lobby or the wall had a visit in the last ten minutes; the league needs no visitors.

    Args:
        environment: The world of exhibitions; ``None`` disables them.
        league: The league that is played instead, if any; exhibitions if it has fewer than two captains.
    """

    def __init__(
        self,
        environment: str | None,
        league: CaptainLeague | None,
        supervisor: Supervisor,
        journal: SqlJournal,
        queue: SlotQueue,
        orders: OperatorOrders,
        ready: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self.league = league
        """The league, even if it has too few captains to play."""
        self._league = league if league is not None and league.can_play else None
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
            if episode.plan.run_id in OWN and self._supervisor.free_slots == 0:
                try:
                    await self._supervisor.stop(episode.episode_id, by="the server: its slot was wanted")
                except SpectatorError as error:
                    logger.warning("cannot end the server's own match: %s", error)

    async def run(self) -> None:
        """Check every second until cancelled; more often while the league plays as fast as possible."""
        while self._league is not None or self._environment is not None:
            await self._clock.sleep(LOOK_S if self._rest_s else QUICK_LOOK_S)
            try:
                await self.look()
            except SpectatorError as error:
                self._not_before = self._clock.monotonic() + AGAIN_S
                logger.warning("no match of the server's own for the next %g s: %s", AGAIN_S, error)

    async def look(self) -> None:
        """Start a match if none runs, make way for waiting clients, or remove old matches."""
        if self._queue.waiting:
            await self.make_way()
        is_on = any(one.plan.run_id in OWN for one in self._supervisor.running())
        now = self._clock.monotonic()
        if self._was_on and not is_on:
            self._not_before = now + self._rest_s
            await self._tidy()
        elif now >= self._not_before and not is_on and self._is_wanted(now):
            is_on = await self._begin()
        self._was_on = is_on

    @property
    def _rest_s(self) -> float:
        """Pause after a match."""
        return 0.0 if self._league is not None and self._league.pace is Pace.MAX else REST_S

    async def _tidy(self) -> None:
        if self._league is not None:
            await self._league.tidy()
        ended = await self._journal.episodes(EpisodeFilter(run_id=EXHIBITION, ended=True, limit=1000))
        for summary in ended[KEPT:]:
            await self._journal.remove(summary.episode_id)

    def _is_wanted(self, now: float) -> bool:
        """Whether a match may begin."""
        if self._league is None:
            seen = self._visited is not None and now - self._visited <= VISITED_S
            if not seen or self._supervisor.showing():
                return False
        paused = self._orders.kept.paused_since is not None
        return self._ready() and not paused and not self._queue.waiting and self._supervisor.free_slots > 0

    async def _begin(self) -> bool:
        """Start the next match; return whether there was one."""
        if self._league is not None:
            return await self._league.begin()
        await self._supervisor.start(self._exhibition())
        return True

    def _exhibition(self) -> EpisodePlan:
        assert self._environment is not None
        pairings = load_world(self._environment).pairings()
        captain, opponent = pairings[self._begun % len(pairings)]
        self._begun += 1
        plan = self._supervisor.plan(EpisodeRequest(self._environment, captain, opponent, narration=False))
        if any(seat is not None and (seat.costs_money or seat.source == "human" or seat.missing)
               for seat in (plan.captain, plan.opponent)):  # fmt: skip
            raise SpectatorError(f"no two captains of {self._environment} can play free of charge")
        return replace(plan, run_id=EXHIBITION)

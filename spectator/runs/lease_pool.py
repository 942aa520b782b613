"""The remaining episodes of a run, taken by leases: each worker takes some, and no episode is taken twice."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import deque
from collections.abc import Mapping
from typing import Final, Protocol

from spectator.clock import Clock, first_of
from spectator.errors import EnvironmentUnavailable, FailureClass, JournalError, SpectatorError, typed_as
from spectator.journal.ownership import FlightLimit, Ownership
from spectator.journal.sql_journal import SqlJournal
from spectator.runs.actors import ActorHandle, RecyclingPool, unplayable
from spectator.runs.halting import Halt
from spectator.runs.in_flight import InFlight
from spectator.runs.interactor import EpisodeResult
from spectator.runs.jobs import RunPlan
from spectator.runs.leased_log import LeasedLog
from spectator.runs.owed import Attempt, progress
from spectator.runs.progress import FleetState

logger = logging.getLogger(__name__)

WINDOW: Final = 512
"""Attempts among which one statement looks for free ones."""

PAUSE_S: Final = 1.0
"""Least seconds between two looks at what remains, where others hold all of it."""

SHARE: Final = 0.1
"""Of the time, what looking may take: a look that took long is followed by a longer pause."""

PLENTY: Final = 4
"""Leases are taken ahead while more than so many times as many as a process may hold remain."""

LONGEST_PAUSE_S: Final = 30.0
"""Most seconds between two looks: one that waited for the database took long, too."""


Handle = ActorHandle[Attempt]
Result = EpisodeResult[Attempt]


class AttemptPlayer(Protocol):
    """Plays attempts at the episodes of a run."""

    halt: Halt
    """Whether the run is halted."""

    async def open(self, attempt: Attempt) -> Handle:
        """Make the environment of an attempt ready.

        Raises:
            EnvironmentUnavailable: Its server is gone, or has no room.
        """
        ...

    async def play(self, handle: Handle, flight: InFlight) -> Result:
        """Play an attempt, from its beginning or from where its record stops."""
        ...


class RemainingEpisodes:
    """Takes leases of the remaining episodes of a run, in the order of its jobs.

    Args:
        run: The run; its name is known.
        journal: Its record.
        ownership: The leases of that journal.
        log: Records under them.
        state: Kept current.
        clock: Measures looks.
        most: Episodes of the run that all workers may play at once; 0 means no limit.
    """

    def __init__(
        self,
        run: RunPlan,
        journal: SqlJournal,
        ownership: Ownership,
        log: LeasedLog,
        state: FleetState,
        clock: Clock,
        most: int = 0,
    ) -> None:
        self._run = run
        self._within = FlightLimit(run.run_id or "", most)
        self._journal = journal
        self._ownership = ownership
        self._log = log
        self._state = state
        self._clock = clock
        self._ahead: deque[Attempt] = deque()
        self._unplayable: set[str] = set()
        self._busy: set[str] = set()
        self.failed: Mapping[str, FailureClass] = {}
        """The episodes that are over without a verdict, as of the last look, and why."""
        self.over = False
        """Whether nothing remains that could be played here."""
        self.pause_s = PAUSE_S
        """Seconds until the next look is due, where nothing was free."""
        self.freed = asyncio.Event()
        """Set when there is room again."""
        self.renewed = asyncio.Event()
        """Set when another attempt is to be taken at once."""
        self.idle = asyncio.Event()
        """Set when the last attempt that was taken here is settled."""

    def put_first(self, attempt: Attempt) -> None:
        """Take another attempt before all others."""
        self._ahead.appendleft(attempt)
        self.renewed.set()

    def leave_out(self, episode_id: str) -> None:
        """Leave an episode to other workers: it cannot be played here."""
        self._unplayable.add(episode_id)

    @property
    def busy(self) -> int:
        """Attempts that were taken and not settled."""
        return len(self._busy)

    @property
    def ahead(self) -> int:
        """Attempts that nobody held at the last look, and that were not taken here since."""
        return len(self._ahead)

    async def look(self) -> None:
        """Find out from the record what remains.

        Raises:
            JournalError: It cannot be read.
        """
        began_s = self._clock.monotonic()
        found = await self._log.patiently(lambda: progress(self._journal, self._run, run_id=self._run.run_id))
        took_s = self._clock.monotonic() - began_s
        self.pause_s = min(max(PAUSE_S, took_s / SHARE), LONGEST_PAUSE_S)
        self._state.over = len(found.over)
        self.failed = {found.over[number]: failure for number, failure in found.failed.items()}
        left = [one for one in found.owed if one.episode_id not in self._unplayable]
        self.over = not left
        self._ahead = deque(one for one in left if one.episode_id not in self._busy)

    async def take(self, limit: int) -> list[Attempt]:
        """Lease at most ``limit`` attempts; none where others hold all that remain, or as many as all may.

        Raises:
            JournalError: The database is away for too long.
        """
        self.renewed.clear()
        if not self._ahead:
            await self.look()
        while self._ahead:
            window = [self._ahead.popleft() for _ in range(min(WINDOW, len(self._ahead)))]
            free = {one.episode_id: one for one in window if one.episode_id not in self._busy}
            taken = await self._claim(list(free), limit)
            if taken is None:
                self._ahead.extendleft(reversed(window))
                return []
            if taken:
                self._ahead.extendleft(reversed([one for one in window if one.episode_id not in taken]))
                self._busy.update(taken)
                self.idle.clear()
                self._log.held.update(taken)
                self._log.lost.difference_update(taken)
                return [
                    Attempt(free[one].number, free[one].attempt, one, begun) for one, begun in taken.items()
                ]
        return []

    async def settle(self, episode_id: str) -> None:
        """Note that an attempt is no longer played here: others may resume it unless it has ended."""
        if episode_id in self._log.held:
            self._log.held.discard(episode_id)
            try:
                await self._ownership.release(episode_id)
            except JournalError as error:
                logger.warning("the lease of %s is kept until this process ends: %s", episode_id, error)
        self._busy.discard(episode_id)
        self.freed.set()
        if not self._busy:
            self.idle.set()

    async def _claim(self, episode_ids: list[str], limit: int) -> Mapping[str, bool] | None:
        return await self._log.patiently(
            lambda: self._ownership.claim_remaining(episode_ids, limit, self._within)
        )


class LeasePool(RecyclingPool[Attempt]):
    """Takes leases as there is room, and makes an actor for each, until nothing of the run remains.

    Args:
        size: Actors that may be in use at once.
        remaining: What is to be played.
        player: Makes the actors.
        clock: Waits.
        rng: Draws pauses.
        state: Kept current when no actor can be made.
        patience_s: Seconds that a server of environments may be away while no actor is in use.
        spare_factor: How many actors are leased and made ready for each that may be in use.
        ahead: Leases to take beyond those while much of the run remains, so that one transaction takes many.
    """

    def __init__(
        self,
        size: int,
        remaining: RemainingEpisodes,
        player: AttemptPlayer,
        clock: Clock,
        rng: random.Random,
        state: FleetState,
        patience_s: float,
        spare_factor: float = 1.0,
        ahead: int = 0,
    ) -> None:
        super().__init__(
            (), player.open, size, clock=clock, on_failed=self._failed, spare_factor=spare_factor,
            patience_s=patience_s, rng=rng, on_shortage=state.note_shortage, fed=True,
        )  # fmt: skip
        self._remaining = remaining
        self._ahead = math.ceil(size * spare_factor) - size + ahead
        self._halt = player.halt
        self._waits_s = patience_s
        self._feeding: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to take what remains."""
        self._feeding = asyncio.get_running_loop().create_task(self._feed())

    async def done(self, handle: Handle, *, again: Attempt | None = None) -> None:
        """Give back an actor, and its lease unless its episode has ended."""
        await super().done(handle)
        if again is not None:
            self._remaining.put_first(again)
        await self._remaining.settle(handle.env_id)

    def drain(self) -> None:
        """Take no more."""
        self._stop_feeding()
        super().drain()
        self.no_more()

    async def aclose(self) -> None:
        """Give back every actor."""
        self._stop_feeding()
        await super().aclose()

    def _stop_feeding(self) -> None:
        if self._feeding is not None:
            self._feeding.cancel()

    async def _feed(self) -> None:
        try:
            with typed_as(_unforeseen):
                await self._take_all()
        except SpectatorError as error:
            self._halt.because(str(error))
        self.no_more()

    async def _take_all(self) -> None:
        while not self._remaining.over:
            self._remaining.freed.clear()
            if (room := self._room()) < 1:
                await self._remaining.freed.wait()
                continue
            for attempt in (taken := await self._remaining.take(room)):
                self.feed(attempt)
            if not (taken or self._remaining.over):
                waits = [self._clock.sleep(self._remaining.pause_s), self._remaining.renewed.wait()]
                await first_of(*waits, *([self._remaining.idle.wait()] if self._remaining.busy else []))

    def _room(self) -> int:
        """How many leases to take; none until it is worth a transaction.

        Near the end none are taken ahead, for other workers may have room now.
        """
        ahead = self._ahead if self._remaining.ahead > PLENTY * (self.pool_size + self._ahead) else 0
        room = self.pool_size + ahead - self._remaining.busy
        return room if room >= max(1, ahead // 2) else 0

    def _failed(self, attempt: Attempt, error: SpectatorError) -> None:
        waited_s = self._waits_s if isinstance(error, EnvironmentUnavailable) else None
        self._halt.because(unplayable(str(error), waited_s))


def _unforeseen(error: Exception) -> JournalError:
    return JournalError(f"the run's episodes could not be taken: {type(error).__name__}: {error}")

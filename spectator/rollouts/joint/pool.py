"""Makes an actor for each lease that is taken of a run's episodes; takes as many as there is room for."""

from __future__ import annotations

import asyncio
import random

from spectator.clock import Clock, first_of
from spectator.errors import EnvironmentUnavailable, JournalError, SpectatorError, typed_as
from spectator.rollouts.actors import RecyclingPool, unplayable
from spectator.rollouts.joint.owed import Owed
from spectator.rollouts.playing import AttemptPlayer, Handle
from spectator.rollouts.progress import FleetState
from spectator.runs.owed import Attempt


class OwedPool(RecyclingPool[Attempt]):
    """Takes leases as there is room, until nothing of the run is owed.

    Args:
        size: Actors that may be leased at once.
        owed: What is to be played.
        player: Makes the actors.
        clock: Waits.
        rng: Draws pauses.
        state: Is told when no actor can be made.
        patience_s: Seconds that a server of environments may be gone while no actor is leased.
    """

    def __init__(
        self,
        size: int,
        owed: Owed,
        player: AttemptPlayer,
        clock: Clock,
        rng: random.Random,
        state: FleetState,
        patience_s: float,
    ) -> None:
        super().__init__(
            (), player.open, size, clock=clock, on_failed=self._failed, spare_factor=1.0,
            patience_s=patience_s, rng=rng, on_shortage=state.note_shortage, fed=True,
        )  # fmt: skip
        self._owed = owed
        self._halt = player.halt
        self._waits_s = patience_s
        self._feeding: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to take what is owed."""
        self._feeding = asyncio.get_running_loop().create_task(self._feed())

    async def done(self, handle: Handle, *, again: Attempt | None = None) -> None:
        """Let go of an actor, and of its lease where its episode has not ended."""
        await super().done(handle)
        if again is not None:
            self._owed.put_first(again)
        await self._owed.settle(handle.env_id)

    def drain(self) -> None:
        """Take no more."""
        self._stop_feeding()
        super().drain()
        self.no_more()

    async def aclose(self) -> None:
        """Let go of every actor."""
        self._stop_feeding()
        await super().aclose()

    async def _feed(self) -> None:
        try:
            with typed_as(_unforeseen):
                await self._take_all()
        except SpectatorError as error:
            self._halt.because(str(error))
        self.no_more()

    async def _take_all(self) -> None:
        while not self._owed.over:
            self._owed.stirred.clear()
            room = self.pool_size - self._owed.busy
            if room < 1:
                await self._owed.stirred.wait()
                continue
            for attempt in (taken := await self._owed.take(room)):
                self.feed(attempt)
            if not (taken or self._owed.over):
                await first_of(self._clock.sleep(self._owed.pause_s), self._owed.renewed.wait())

    def _stop_feeding(self) -> None:
        if self._feeding is not None:
            self._feeding.cancel()

    def _failed(self, attempt: Attempt, error: SpectatorError) -> None:
        waited_s = self._waits_s if isinstance(error, EnvironmentUnavailable) else None
        self._halt.because(unplayable(str(error), waited_s))


def _unforeseen(error: Exception) -> JournalError:
    return JournalError(f"the run's episodes could not be taken: {type(error).__name__}: {error}")

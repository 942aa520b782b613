"""Opens the folder of a run: checks what is asked for, keeps it, and finds out what is owed and was spent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from spectator.clock import Clock
from spectator.environments.world import World
from spectator.episodes.record.usage import spent_on
from spectator.failures import FailureClass
from spectator.journal.stores.sqlite import SqlJournal
from spectator.policies.spending import Caps, SpendLedger, Spent
from spectator.rollouts.folder import JOURNAL, keep_changes, keep_request
from spectator.rollouts.model_seat import FleetSeat
from spectator.rollouts.progress import FleetState
from spectator.rollouts.request import RolloutRequest, RolloutRun, plan_rollouts
from spectator.runs.owed import Attempt, progress


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run whose folder is open.

    Args:
        planned: What is played.
        journal: Where it is recorded.
        ledger: What asking the model may take, with all that it took before.
        owed: What is due.
        state: How far it is.
        failed_before: Why episodes that were over before came to no verdict.
    """

    planned: RolloutRun
    journal: SqlJournal
    ledger: SpendLedger
    owed: Sequence[Attempt]
    state: FleetState
    failed_before: Sequence[FailureClass] = ()

    @property
    def answered_before(self) -> bool:
        """Whether an episode came to a verdict before, so that its model's endpoint was there."""
        return self.state.over > len(self.failed_before)


@asynccontextmanager
async def open_run(
    request: RolloutRequest,
    folder: Path,
    world: World,
    seat: FleetSeat,
    clock: Clock,
    ledger: SpendLedger | None,
) -> AsyncIterator[OpenRun]:
    """Open ``folder`` for ``request``; it is made when it is not there.

    Args:
        request: What is to be played.
        folder: Where the run is kept.
        world: What is played in.
        seat: The model that plays.
        clock: Time.
        ledger: What asking the model may take; no limit for ``None``.

    Raises:
        InvalidRequest: A field is wrong, or the folder holds another run; nothing is written.
        ConfigurationError: Another process works in the folder.
        JournalError: It cannot be written.
    """
    now_ms = int(clock.now().timestamp() * 1000)
    plan_rollouts(request, world, seat.preset(world), now_ms)  # before anything is written
    began_ms = await asyncio.to_thread(keep_request, folder, request, now_ms)
    planned = plan_rollouts(request, world, seat.preset(world), began_ms)
    journal = await SqlJournal.open(f"sqlite:///{folder / JOURNAL}")
    try:
        await asyncio.to_thread(keep_changes, folder, request)  # the folder is this process's now
        ledger = ledger or SpendLedger(Caps(), Caps(), clock)
        before = await spent_on(journal, None) if ledger.limits_whole else Spent()
        ledger.begin(await spent_on(journal, ledger.today), before)
        due = await progress(journal, planned.run)
        state = FleetState(
            len(planned.run.jobs), len(due.over), clock.monotonic(), deadline_s=request.model.timeout_s
        )
        yield OpenRun(planned, journal, ledger, due.owed, state, tuple(due.failed.values()))
    finally:
        await journal.aclose()

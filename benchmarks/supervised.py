"""A supervisor on a journal of its own, as a server has one, for what is measured of episodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from spectator.bus import MemoryBus
from spectator.clock import SystemClock
from spectator.episodes.controls import EpisodeLimits, Pace
from spectator.episodes.plan import EpisodeRequest
from spectator.episodes.supervisor import Supervisor
from spectator.events import View
from spectator.journal.sql_journal import SqlJournal
from spectator.steppers.local import inline, on_a_thread

OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "cricket": {"max_overs": 5},
    "counting": {"turns": 150},
}
"""Of the worlds that are measured."""


@asynccontextmanager
async def supervised(slots: int, view: View) -> Any:
    """A supervisor with ``slots``, its bus and its journal; stepped as episodes of such a view are."""
    with TemporaryDirectory(prefix="spectator-") as folder:
        journal = await SqlJournal.open(f"sqlite:///{Path(folder) / 'journal.db'}")
        bus, numbers = MemoryBus(), count(1)
        try:
            async with asyncio.TaskGroup() as tasks:
                yield (
                    Supervisor(
                        journal=journal,
                        bus=bus,
                        clock=SystemClock(),
                        tasks=tasks,
                        slots=slots,
                        limits=EpisodeLimits(),
                        new_id=lambda: f"ep-{next(numbers):06d}",
                        new_epoch=lambda: "e",
                        draw_seed=lambda: 0,
                        open_stepper=inline if view == "derived" else on_a_thread,
                    ),
                    bus,
                    journal,
                )
        finally:
            await journal.aclose()


def request(world: str, seed: int, view: View, options: Mapping[str, Any] | None = None) -> EpisodeRequest:
    """An episode of ``world`` at full speed, with the options that are measured unless others are given."""
    options = OPTIONS[world] if options is None else options
    return EpisodeRequest(world, seed=seed, pace=Pace.MAX, narration=False, options=options, view=view)

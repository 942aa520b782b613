"""Episodes that tests measure: really played, and recorded in a journal that is gone afterwards."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.episodes.controls import Pace
from spectator.episodes.plan import EpisodeRequest, plan_episode
from spectator.events import RecordedEvent
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.spending import Caps, SpendLedger
from spectator.runs.attempts import EpisodeSetup, play_episode


def played(
    environment: str,
    captain: str | None = None,
    opponent: str | None = None,
    *,
    seed: int,
    episode_id: str = "ep-1",
    options: dict[str, Any] | None = None,
) -> list[RecordedEvent]:
    """Play an episode; its events."""
    request = EpisodeRequest(
        environment, captain, opponent, seed=seed, pace=Pace.MAX, view="derived", options=options or {}
    )

    async def play(folder: str) -> list[RecordedEvent]:
        clock = SystemClock()
        journal = await SqlJournal.open(f"sqlite:///{folder}/journal.db")
        try:
            venue = EpisodeSetup(journal, clock, load_world, SpendLedger(Caps(), Caps(), clock))
            await play_episode(plan_episode(request, draw_seed=lambda: 0), episode_id, venue)
            return await journal.read(episode_id)
        finally:
            await journal.aclose()

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(play(folder))

"""What is wrong with this server now: for the operator's page, ``/metrics`` and the alerts.

Each kind of trouble is a section of ``docs/runbook.md`` and a rule of ``deploy/alerts.yml``.
"""

from __future__ import annotations

import asyncio
import shutil
from datetime import timedelta
from typing import Final, Literal, get_args

from pydantic import BaseModel, Field

from spectator.clock import timestamp
from spectator.journal.replicas import lagging

from .background.housekeeping import LITTLE_FREE
from .services import Services

TroubleKind = Literal[
    "journal-unavailable", "recording-stalled", "journal-damaged", "recovering", "disk-low", "replica-lags",
    "models-spent", "episodes-unplayed",
]  # fmt: skip

KINDS: Final[tuple[TroubleKind, ...]] = get_args(TroubleKind)

STALLED_S: Final = 2.0
"""Seconds without an answer after which a commit is stalled."""


class Trouble(BaseModel):
    """Something that an operator should know now."""

    kind: TroubleKind = Field(description="The section of docs/runbook.md that says what to do")
    detail: str = Field(description="What is wrong, for people")
    episode_id: str | None = Field(default=None, description="The episode, if only one is affected")
    since: str | None = Field(default=None, description="RFC 3339; null if unknown")


def commit_wait_s(services: Services) -> float:
    """Return the seconds for which the oldest unrecorded step waits, retries included."""
    now = services.clock.now()
    troubles = [live.trouble for live in services.supervisor.showing()]
    waits = [(now - one.since).total_seconds() for one in troubles if one is not None]
    return max([services.journal.commit_wait_s, *waits])


async def find_troubles(services: Services) -> list[Trouble]:
    """Return what is wrong now, the most urgent first."""
    journal, found = services.journal, []
    if (problem := await journal.problem()) is not None:
        found.append(Trouble(kind="journal-unavailable", detail=problem))
    found += [
        Trouble(
            kind="recording-stalled",
            detail=trouble.message,
            episode_id=live.episode_id,
            since=timestamp(trouble.since),
        )
        for live in services.supervisor.showing()
        if (trouble := live.trouble) is not None
    ]
    if (wait_s := journal.commit_wait_s) > STALLED_S:
        since = timestamp(services.clock.now() - timedelta(seconds=wait_s))
        detail = f"a commit has had no answer for {wait_s:.0f} s"
        found.append(Trouble(kind="recording-stalled", detail=detail, since=since))
    for detail, count in journal.damage.items():
        found.append(Trouble(kind="journal-damaged", detail=f"{detail} (read {count} times)"))
    if not services.readiness.ready:
        found.append(Trouble(kind="recovering", detail=str(services.readiness.recovery.progress())))
    free = (await asyncio.to_thread(shutil.disk_usage, services.settings.data_dir)).free
    if free < LITTLE_FREE:
        detail = f"{free / 1e6:,.0f} MB of disk are free; matches pause once it is full"
        found.append(Trouble(kind="disk-low", detail=detail))
    behind = lagging(services.housekeeper.replicas)
    found += [Trouble(kind="replica-lags", detail=detail) for detail in behind]
    for episode_id in services.unplayed_episodes.named:
        detail = f"no server plays {episode_id}, which has no end"
        found.append(Trouble(kind="episodes-unplayed", detail=detail, episode_id=episode_id))
    if (refusal := services.model_ledger.known_refusal()) is not None:
        found.append(Trouble(kind="models-spent", detail=refusal))
    return found

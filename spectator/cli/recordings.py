"""Owns the way from a command to a recorded episode."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from spectator.journal.base import Journal

JOURNAL_FILE = "journal.db"


journal_folder = click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default="data",
    show_default=True,
    help="Folder of the journal.",
)


@asynccontextmanager
async def recorded_episode(episode_id: str, data_dir: Path) -> AsyncIterator[Journal]:
    """The journal in ``data_dir``, for reading, once it is known to hold the episode."""
    from spectator.errors import EpisodeNotFound
    from spectator.journal.sql import SqlJournal

    path = data_dir / JOURNAL_FILE
    if not await asyncio.to_thread(path.exists):
        raise click.ClickException(f"there is no journal at {path}; name its folder with --data-dir")
    journal = await SqlJournal.open(f"sqlite:///{path}", writable=False)
    try:
        if await journal.episode(episode_id) is None:
            raise EpisodeNotFound(episode_id)
        yield journal
    finally:
        await journal.aclose()

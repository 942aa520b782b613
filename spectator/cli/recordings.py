"""Opens recorded episodes for commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from spectator.journal import JOURNAL_FILE
from spectator.process_environment import journal_url

if TYPE_CHECKING:
    from spectator.journal.base import EpisodeSummary, Journal
    from spectator.journal.stores.sqlite import SqlJournal


journal_folder = click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=lambda: "data" if journal_url() is None else ".",
    show_default="data",
    help="Folder of the journal; without it SPECTATOR_JOURNAL_URL names one, if set.",
)


@asynccontextmanager
async def recorded_journal(data_dir: Path, *, writable: bool = False) -> AsyncIterator[SqlJournal]:
    """The journal that is in ``data_dir``, or on the server that the environment names."""
    from spectator.journal.stores.sqlite import SqlJournal

    path, server = data_dir / JOURNAL_FILE, None if _folder_is_named() else journal_url()
    if server is None and not await asyncio.to_thread(path.exists):
        raise click.ClickException(f"there is no journal at {path}; name its folder with --data-dir")
    journal = await SqlJournal.open(server or f"sqlite:///{path}", writable=writable)
    try:
        yield journal
    finally:
        await journal.aclose()


def _folder_is_named() -> bool:
    """Whether the command that runs was given a folder."""
    context = click.get_current_context(silent=True)
    source = None if context is None else context.get_parameter_source("data_dir")
    return source not in (None, ParameterSource.DEFAULT)


@asynccontextmanager
async def recorded_episode(episode_id: str, data_dir: Path) -> AsyncIterator[Journal]:
    """The journal in ``data_dir``, for reading, once it is known to hold the episode."""
    async with recorded_journal(data_dir) as journal:
        await summary_of(journal, episode_id)
        yield journal


async def summary_of(journal: Journal, episode_id: str) -> EpisodeSummary:
    """The episode's line of the index.

    Raises:
        EpisodeNotFound: There is none.
    """
    from spectator.errors import EpisodeNotFound

    summary = await journal.episode(episode_id)
    if summary is None:
        raise EpisodeNotFound(episode_id)
    return summary

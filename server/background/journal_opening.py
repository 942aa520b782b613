"""Opens the server's journal, beginning a new one where the old one is damaged."""

from __future__ import annotations

import asyncio
import logging

from sqlalchemy import URL

from spectator.clock import Clock
from spectator.errors import ConfigurationError, JournalDamaged, JournalError
from spectator.journal.base import EpisodeFilter, Synchronous
from spectator.journal.stores.damage import set_aside

from ..settings import Settings
from .joined_journal import JoinedJournal

logger = logging.getLogger(__name__)


async def open_journal(settings: Settings, clock: Clock) -> JoinedJournal:
    """The journal; one that is damaged is set aside, and a new one begun.

    Raises:
        ConfigurationError: The folder of the data cannot be made.
        JournalError: It cannot be opened.
    """
    url, synchronous = journal_url(settings), settings.journal_synchronous
    if settings.journal_url is not None:  # an embedded one makes the folder that it lies in
        try:
            settings.data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"SPECTATOR_DATA_DIR: {error}") from error
    try:
        return await _read(url, synchronous)
    except JournalDamaged as error:
        place = await asyncio.to_thread(set_aside, url, clock.now())
        logger.exception("the journal is damaged; it was set aside as %s and a new one is begun", place)
        if place is None:
            raise error from None
    return await _read(url, synchronous)


async def _read(url: str, synchronous: Synchronous) -> JoinedJournal:
    journal = await JoinedJournal.open(url, synchronous=synchronous)
    try:
        for ended in (False, None):  # what recovery and the lobby read: its index is whole
            await journal.episodes(EpisodeFilter(ended=ended))
        return journal
    except JournalError:
        await journal.aclose()
        raise


def journal_url(settings: Settings) -> str:
    """Where the journal is, as SQLAlchemy takes it, whatever the folder is called."""
    if settings.journal_url is not None:
        return settings.journal_url.get_secret_value()
    return URL.create("sqlite", database=str(settings.data_dir / "journal.db")).render_as_string()

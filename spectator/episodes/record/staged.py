"""Gives up what was written of an episode that nobody can find yet."""

from __future__ import annotations

import logging

from spectator.errors import JournalError
from spectator.journal.base import Journal

logger = logging.getLogger(__name__)


async def give_up_staged(journal: Journal, episode_id: str) -> None:
    """Remove what was staged of an episode that came to nothing, now or at the next start; never fails.

    One that became an episode is left alone.

    Args:
        journal: Where it is staged.
        episode_id: Which.
    """
    try:
        await journal.unstage(episode_id)
    except JournalError as error:
        logger.warning("what was written of %s is removed later: %s", episode_id, error)

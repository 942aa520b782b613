"""The file that keeps the figures of recorded episodes, so that each record is read once.

Everything in it is derived from the journal beside it: it may be deleted at any time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from spectator.errors import JournalError
from spectator.evaluation.figures import FIGURES_VERSION, EpisodeFigures

FILE: Final = "figures.db"
"""Its name in the data folder."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS figures (
    episode_id TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    text TEXT NOT NULL
) WITHOUT ROWID
"""


class FigureStore:
    """Figures by episode; synchronous, and safe to use from several threads and processes.

    Args:
        path: The file; made when it is first written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> list[EpisodeFigures]:
        """All figures of this version of the measures, by episode id.

        Raises:
            JournalError: The file cannot be read.
        """
        with self._connected() as connection:
            rows = connection.execute(
                "SELECT text FROM figures WHERE version = ? ORDER BY episode_id", (FIGURES_VERSION,)
            )
            return [EpisodeFigures.from_json(text) for (text,) in rows]

    def save(self, figures: Iterable[EpisodeFigures]) -> None:
        """Keep figures, all or none.

        Raises:
            JournalError: The file cannot be written.
        """
        rows = [(one.episode_id, FIGURES_VERSION, one.to_json()) for one in figures]
        with self._connected() as connection:
            connection.executemany("INSERT OR REPLACE INTO figures VALUES (?, ?, ?)", rows)

    def drop(self, episode_ids: Iterable[str]) -> None:
        """Forget figures of episodes that are not in the journal any more.

        Raises:
            JournalError: The file cannot be written.
        """
        with self._connected() as connection:
            connection.executemany(
                "DELETE FROM figures WHERE episode_id = ?", [(episode_id,) for episode_id in episode_ids]
            )

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        connection: sqlite3.Connection | None = None
        try:
            connection = sqlite3.connect(self._path, timeout=10.0)
            connection.execute("PRAGMA journal_mode=WAL").close()
            connection.execute("PRAGMA synchronous=NORMAL").close()
            with connection:
                connection.execute(_SCHEMA)
                yield connection
        except sqlite3.Error as error:
            raise JournalError(
                f"the figures in {self._path} cannot be used: {error}; delete the file to have it made again"
            ) from error
        finally:
            if connection is not None:
                connection.close()

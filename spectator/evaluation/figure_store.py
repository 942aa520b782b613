"""The figures of episodes, stored by episode, so that each is measured once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from spectator.errors import JournalError
from spectator.evaluation.figures import FIGURES_VERSION, EpisodeFigures

FILE: Final = "figures.db"
"""Name of the store in the data folder."""

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
        """Return all figures of this version of the measures, by episode id.

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
        """Delete figures of episodes that are no longer in the journal.

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
            if not self._path.exists():
                self._make()
            connection = sqlite3.connect(self._path, timeout=10.0)
            connection.execute("PRAGMA synchronous=NORMAL").close()
            with connection:
                connection.execute(_SCHEMA)
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise JournalError(
                f"the figures in {self._path} are unusable: {error}; delete the file to create it again"
            ) from error
        finally:
            if connection is not None:
                connection.close()

    def _make(self) -> None:
        """Make the file under another name first: SQLite does not wait where two make one use a log."""
        with TemporaryDirectory(dir=self._path.parent, prefix=f".{self._path.name}-") as folder:
            made = Path(folder) / self._path.name
            with closing(sqlite3.connect(made)) as connection:
                connection.execute("PRAGMA journal_mode=WAL").close()
                connection.execute(_SCHEMA)
            with suppress(OSError):  # another process was first, or the file system has no links
                self._path.hardlink_to(made)

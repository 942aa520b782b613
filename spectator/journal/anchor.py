"""Detect that the files of an embedded journal were moved, removed or truncated while it is open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from sqlalchemy import Connection

RESTART: Final = (
    "restart the server, which sets a damaged file aside, or repair the database (docs/runbook.md)"
)
"""Advice for a damaged file."""

WAL_MAGIC: Final = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83", b"")
"""First bytes of a write-ahead log (SQLite's file format, section 4.1), or of an empty one."""


class Anchor:
    """Detects that the files of an embedded journal were moved, removed or truncated.

    SQLite does not: it continues to write a removed file, which is lost, and beyond the end of a truncated
    one, which becomes unreadable.

    Args:
        path: The database's file; its write-ahead log is beside it.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._log = f"{path}-wal"
        self._identity, self._size = _look(self._path)
        self._log_identity, _ = _look(self._log)
        self._log_file = None if self._log_identity is None else os.open(self._log, os.O_RDONLY)
        """Open as long as the journal is, so that a commit needs no free descriptor."""

    def close(self) -> None:
        """Close the log. Safe to call twice."""
        if self._log_file is not None:
            os.close(self._log_file)
            self._log_file = None

    def hold(self, connection: Connection) -> None:
        """Check that both files are in place and not truncated.

        Args:
            connection: A connection that has written nothing yet in this transaction.

        Raises:
            OSError: A file was moved, removed or truncated.
        """
        before = self._size  # read first, because another thread may update it meanwhile
        identity, size = _look(self._path)
        if identity != self._identity:
            raise OSError("its file was moved or removed; put it back")
        if size < before and size < _bytes_of(connection):  # a WAL checkpoint may free pages
            raise OSError(f"its file was truncated; {RESTART}")
        self._size = size
        if _look(self._log)[0] != self._log_identity:
            raise OSError(
                "its write-ahead log was moved or removed; put it back, or stop the server to save it"
            )
        if self._log_file is not None and os.pread(self._log_file, 4, 0) not in WAL_MAGIC:
            raise OSError(f"its write-ahead log was overwritten or truncated; {RESTART}")


def _look(path: str) -> tuple[tuple[int, int] | None, int]:
    """Return the identity of a file, ``None`` if there is none, and its size."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None, 0
    return (status.st_dev, status.st_ino), status.st_size


def _bytes_of(connection: Connection) -> int:
    """Return the size of the database's file once the log is written back."""
    pages, size = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()) for name in ("page_count", "page_size")
    )
    return pages * size

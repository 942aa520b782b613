"""Where a long command writes what this library logs: into a file of bounded size, not across its screen."""

from __future__ import annotations

import logging
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 8 * 1024 * 1024
"""Size at which the file is put aside as ``.1``, in place of the one before."""


class RunLog(RotatingFileHandler):
    """Takes the warnings of this library from :meth:`begin` to :meth:`end`.

    Nothing is written, and no file made, before the first of them. A full disk loses them and nothing else.

    Args:
        path: The file; its folder must be there by then.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=MAX_BYTES, backupCount=1, encoding="utf-8", delay=True)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        self.setLevel(logging.WARNING)
        self.taken = 0
        """Warnings so far."""

    def begin(self) -> None:
        """Take warnings from now on."""
        logger = logging.getLogger("spectator")
        logger.addHandler(self)
        logger.propagate = False

    def end(self) -> None:
        """Take no more. Safe to call without :meth:`begin`."""
        logger = logging.getLogger("spectator")
        logger.removeHandler(self)
        logger.propagate = True
        with suppress(OSError):  # closing writes what a full disk did not take
            self.close()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one down."""
        self.taken += 1
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """It could not be written: there is nowhere to say so."""

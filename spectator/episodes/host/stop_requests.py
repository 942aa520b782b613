"""Stops that were asked for and could not be recorded, kept in a small file across restarts."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Final

from spectator.ordinary_files import need_ordinary

logger = logging.getLogger(__name__)

FILE: Final = "stops.json"
"""Its usual name, beside the journal."""

SIZE: Final = 4096
"""Bytes that the file always has: it is written over in place, which most file systems can on a full disk."""


class StopRequests:
    """Remembers which episodes are to be ended as ``stopped``, when the journal cannot be written.

    A stop is recorded as the end of its episode. Only while that cannot be written, as on a full disk, it is
    noted here, so that the next process ends the episode where it would play it on.

    Args:
        path: The file; ``None`` remembers for as long as this lives.

    >>> stops = StopRequests()
    >>> stops.note("ep-1", "stopped by operator"), stops.detail("ep-1"), stops.detail("ep-2")
    (False, 'stopped by operator', None)
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._noted: dict[str, str] = {}

    @classmethod
    def open(cls, path: Path) -> StopRequests:
        """Read the file, and take its room on the disk now.

        One that cannot be read is begun anew, with a warning; without room, stops are kept until a restart.

        Raises:
            ConfigurationError: What is there is no ordinary file.
        """
        need_ordinary(path)
        stops = cls(path)
        stops._noted = _read(path)
        stops._write()
        return stops

    def note(self, episode_id: str, detail: str) -> bool:
        """Remember that an episode is to be ended; whether that outlives this process."""
        self._noted[episode_id] = detail
        return self._write()

    def forget(self, episode_id: str) -> None:
        """Its end is recorded."""
        if self._noted.pop(episode_id, None) is not None:
            self._write()

    def detail(self, episode_id: str) -> str | None:
        """Who wanted it to be ended, in words; ``None`` when nobody did."""
        return self._noted.get(episode_id)

    def _write(self) -> bool:
        if self._path is None:
            return False
        text = json.dumps(self._noted).encode().ljust(SIZE)
        try:
            with open(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as file:
                file.write(text)
                file.truncate(len(text))
                os.fsync(file.fileno())
        except OSError as error:
            logger.error(
                "%s cannot be written, so stops are kept only until a restart: %s", self._path, error
            )
            return False
        return True


def _read(path: Path) -> dict[str, str]:
    try:
        noted = json.loads(path.read_bytes().strip() or b"{}") if path.exists() else {}
        if isinstance(noted, dict) and all(isinstance(detail, str) for detail in noted.values()):
            return noted
        logger.warning("%s holds no stops that can be read; it is begun anew", path)
    except (OSError, ValueError) as error:
        logger.warning("%s cannot be read and is begun anew: %s", path, error)
    return {}

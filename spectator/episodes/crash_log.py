"""Tell episodes that crash the server from those that a dying machine interrupts."""

from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Final

from spectator.environments.contract import Stepper
from spectator.environments.world import World
from spectator.journal.encoding import check_replaceable
from spectator.steppers.local import OpenStepper, ThreadStepper

logger = logging.getLogger(__name__)

FILE: Final = "steps.json"
"""The default name of the file, beside the journal."""

SIZE: Final = 16_384
"""Fixed size of the file in bytes."""


class CrashLog:
    """Counts the deaths of this server, in a row, while it computed the same steps of an episode.

    The file names the recovered episodes whose steps are being computed. What it names at a start was being
    computed when the process before died. An episode that was only waiting then, for a decision or its pace,
    is not at fault.

    Args:
        path: The file, which is kept open. If that is impossible, no death is an episode's fault.

    Raises:
        ConfigurationError: The path is not a regular file.
    """

    def __init__(self, path: Path) -> None:
        check_replaceable(path)
        self._file: IO[bytes] = io.BytesIO()
        self._deaths: dict[str, tuple[int, int]] = {}
        self._working: dict[str, tuple[int, int]] = {}
        try:
            self._file = open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0)
            named = json.loads(self._file.read(SIZE).strip() or b"{}")
            self._deaths = {name: (int(turn), int(deaths) + 1) for name, (turn, deaths) in named.items()}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            logger.warning("cannot read %s; starting with an empty one: %s", path, error)
        self._write()

    def deaths(self, episode_id: str, turn: int) -> int:
        """Return the deaths in a row while the episode, recovered at ``turn``, was being stepped."""
        at, deaths = self._deaths.get(episode_id, (turn, 0))
        return deaths if at == turn else 0

    @contextmanager
    def stepping(self, episode_id: str, turn: int) -> Iterator[None]:
        """Name an episode, recovered at ``turn``, in the file while its environment computes."""
        self._working[episode_id] = turn, self.deaths(episode_id, turn)
        self._write()
        try:
            yield
        finally:
            self._working.pop(episode_id, None)
            self._write()

    def watched(self, open_stepper: OpenStepper, turn: int) -> OpenStepper:
        """Return ``open_stepper`` for an episode recovered at ``turn``, with every call named in the file."""

        def opened(world: World, episode_id: str) -> Stepper:
            stepper = open_stepper(world, episode_id)
            if isinstance(stepper, ThreadStepper):  # others compute elsewhere
                stepper.during = partial(self.stepping, episode_id, turn)
            return stepper

        return opened

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self) -> None:
        text = json.dumps(self._working).encode().ljust(SIZE)
        try:
            self._file.seek(0)
            self._file.write(text[:SIZE])  # for crashes of the process; not synchronized to the disk
        except (OSError, ValueError) as error:  # ValueError: closed already
            logger.error("cannot note which episodes are being stepped: %s", error)

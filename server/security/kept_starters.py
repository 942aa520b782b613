"""Who started which episodes, kept across restarts as digests: the file holds no address."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from pathlib import Path
from typing import Final, Protocol

from spectator.errors import JournalError

from .seat_keys import SeatKeys

logger = logging.getLogger(__name__)

FILE: Final = "starters.json"

MOST: Final = 1000
"""Episodes whose starters are kept, the newest."""


class SharedStarters(Protocol):
    """Where several servers keep digests."""

    async def note_starter(self, episode_id: str, digest: str) -> None:
        """Keep the digest of who started an episode."""
        ...

    async def starter(self, episode_id: str) -> str | None:
        """That digest, if it is kept."""
        ...


class KeptStarters:
    """Knows the address that started an episode when it comes again, also after a restart.

    Each digest is of an address and its episode under the secret of the seats' keys, so that what is kept
    neither tells an address nor which episodes are of the same one. Several servers keep them in the database
    that their journal is in, one alone in a file.

    Args:
        folder: The server's data folder.
        keys: Makes digests.
        shared: Where several servers keep them.
    """

    def __init__(self, folder: Path, keys: SeatKeys, shared: SharedStarters | None = None) -> None:
        self._path = folder / FILE
        self._keys = keys
        self._shared = shared
        self._digests = {} if shared is not None else _read(self._path)
        self._writing = asyncio.Lock()

    async def note(self, episode_id: str, address: str) -> None:
        """Keep who started an episode; where that cannot be written, it is known until a restart."""
        try:
            digest = self._digest(episode_id, address)
            if self._shared is None:
                await self._keep(episode_id, digest)
            else:
                await self._shared.note_starter(episode_id, digest)
        except (OSError, JournalError) as error:
            logger.warning("only this process knows who started %s: %s", episode_id, error)

    def forget(self, episode_id: str) -> None:
        """It has ended: nobody has to stop it any more. The file follows with the next start."""
        self._digests.pop(episode_id, None)

    async def started(self, episode_id: str, address: str) -> bool:
        """Whether ``address`` started an episode, as far as that is kept.

        Raises:
            JournalError: The database cannot be read now.
        """
        kept = self._digests.get(episode_id)
        if self._shared is not None:
            kept = await self._shared.starter(episode_id)
        return kept is not None and hmac.compare_digest(kept, self._digest(episode_id, address))

    async def _keep(self, episode_id: str, digest: str) -> None:
        self._digests[episode_id] = digest
        while len(self._digests) > MOST:
            del self._digests[next(iter(self._digests))]
        async with self._writing:
            await asyncio.to_thread(self._write, json.dumps(self._digests, indent=0))

    def _digest(self, episode_id: str, address: str) -> str:
        return self._keys.digest(episode_id, f"started from {address}")

    def _write(self, text: str) -> None:
        written = self._path.with_suffix(".new")
        written.write_text(text, encoding="utf-8")
        written.replace(self._path)


def _read(path: Path) -> dict[str, str]:
    try:
        kept = json.loads(path.read_bytes())
        if isinstance(kept, dict) and all(isinstance(digest, str) for digest in kept.values()):
            return kept
        logger.warning("%s holds no starters that can be read; it is begun anew", path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        logger.warning("%s cannot be read and is begun anew: %s", path, error)
    return {}

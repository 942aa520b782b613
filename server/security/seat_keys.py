"""Keys of the seats that people play: one for each, good for that seat alone, and for no other episode."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from collections.abc import Collection
from pathlib import Path
from typing import Final

HEADER: Final = "X-Seat-Key"
"""The header that carries the keys of one's seats, set apart by commas."""

FILE: Final = "seat-keys.secret"
"""The file in the data folder from which all keys are derived, so that they survive a restart."""

MAX_HEADER: Final = 1024
"""Characters of the header that are read."""


class SeatKeys:
    """Makes the keys of seats and knows them again; nothing of them is in any record.

    Args:
        folder: The server's data folder.
        secret: What keys are derived from, where several servers share it; else what the file holds.
    """

    def __init__(self, folder: Path, secret: bytes | None = None) -> None:
        self._file = folder / FILE
        self._secret = secret

    def key(self, episode_id: str, actor: str) -> str:
        """The key of one seat: its actor, and 256 bits that nobody can guess.

        Raises:
            OSError: The file with the secret cannot be written.
        """
        return f"{actor}.{self.digest(episode_id, actor)}"

    def digest(self, episode_id: str, text: str) -> str:
        """What ``text`` comes to in an episode under the secret; tells nothing of it.

        Raises:
            OSError: The file with the secret cannot be written.
        """
        if self._secret is None:
            self._secret = _secret_in(self._file)
        digest = hmac.digest(self._secret, f"{episode_id}\n{text}".encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def offered(self) -> bytes:
        """A secret for all servers, where none has one yet: what the file holds, or a new one."""
        return _held_in(self._file) or secrets.token_bytes(32)

    def seats(self, sent: str, episode_id: str, actors: Collection[str]) -> list[str]:
        """The seats of ``actors`` whose keys are in the header ``sent``, in their order."""
        keys = [key.strip().encode() for key in sent[:MAX_HEADER].split(",")]
        return [
            actor
            for actor in actors
            if any(hmac.compare_digest(self.key(episode_id, actor).encode(), key) for key in keys)
        ]


def _held_in(file: Path) -> bytes:
    """The secret that a file holds; nothing where it holds none."""
    try:
        held = file.read_bytes()
    except FileNotFoundError:
        return b""
    return held if len(held) >= 32 else b""


def _secret_in(file: Path) -> bytes:
    """The secret; drawn where there is none yet, for the eyes of the server's user alone."""
    if held := _held_in(file):
        return held
    drawn = secrets.token_bytes(32)
    beside = file.with_suffix(".new")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
        opened.write(drawn)
        opened.flush()
        os.fsync(opened.fileno())
    beside.replace(file)
    return drawn

"""Clips that several servers share, in a folder or a bucket that fsspec reaches."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spectator.clock import Clock
from spectator.errors import ConfigurationError, SpectatorError, typed_as

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")

ANSWER_S: Final = 3.0
"""Seconds that the store may take for an answer."""

REST_S: Final = 30.0
"""Seconds for which a store that failed is not asked again."""

AT_ONCE: Final = 4
"""Questions that it is asked at once, each on a thread."""

INSTALL: Final = "pip install 'openenv-spectator[shared-clips]'"

S3_OPTIONS: Final = {
    "config_kwargs": {"connect_timeout": 2, "read_timeout": 3, "retries": {"max_attempts": 1}},
    "use_listings_cache": False,
}


class SharedClips:
    """Clips by name, one folder for each key: ``KEY/KEY-MILLISECONDS.mp3``.

    What cannot be read or written there is as if it were not there: a line is then made, or heard from this
    server alone. Clips are never removed; let the bucket's own rules do so.

    Args:
        url: Where they lie, such as ``s3://bucket/clips`` or ``file:///mnt/clips``.
        clock: Measures and waits.

    Raises:
        ConfigurationError: The URL names nothing that fsspec can reach here.
    """

    def __init__(self, url: str, clock: Clock) -> None:
        self._files, self._root = _opened(url)
        self._clock = clock
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._rests_until_s = 0.0

    async def name_of(self, key: str) -> str | None:
        """The name of the clip with this key, if it is there."""
        names = await self._asked(lambda: self._files.ls(f"{self._root}/{key}", detail=False))
        found = sorted(str(one).rstrip("/").rpartition("/")[2] for one in names or ())
        return next((one for one in found if not one.endswith(".part")), None)

    async def read(self, key: str, name: str) -> bytes | None:
        """A clip's sound, if it is there."""
        return await self._asked(lambda: bytes(self._files.cat_file(f"{self._root}/{key}/{name}")))

    async def write(self, key: str, name: str, audio: bytes) -> bool:
        """Put a clip there, whole or not at all; whether that was done."""
        return await self._asked(lambda: self._put(f"{self._root}/{key}/{name}", audio)) is not None

    def _put(self, path: str, audio: bytes) -> bool:
        protocols = self._files.protocol
        if "file" not in ((protocols,) if isinstance(protocols, str) else protocols):
            self._files.pipe_file(path, audio)
            return True
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        draft = f"{path}.{secrets.token_hex(4)}.part"
        self._files.pipe_file(draft, audio)
        self._files.mv(draft, path)
        return True

    async def _asked(self, work: Callable[[], _Result]) -> _Result | None:
        """What the store answers; ``None`` where it has nothing, fails, or rests after a failure."""
        if self._clock.monotonic() < self._rests_until_s:
            return None
        try:
            async with self._turns:
                with typed_as(_unshared, passing=(FileNotFoundError,)):
                    async with asyncio.timeout(ANSWER_S):
                        return await asyncio.to_thread(work)
        except FileNotFoundError:
            return None
        except SpectatorError as error:
            self._rests_until_s = self._clock.monotonic() + REST_S
            logger.warning("shared clips are left alone for %g s: %s", REST_S, error)
            return None


def _unshared(error: Exception) -> SpectatorError:
    return SpectatorError(
        "no answer" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
    )


def _opened(url: str) -> tuple[AbstractFileSystem, str]:
    try:
        from fsspec.core import split_protocol, url_to_fs
    except ImportError as error:
        raise ConfigurationError(f"SPECTATOR_CLIPS_URL: shared clips need fsspec; {INSTALL}") from error
    protocol, path = split_protocol(url)
    if protocol is None or not path.strip("/"):
        rule = "must be the URL of a folder or bucket, such as s3://bucket/clips or file:///mnt/clips"
        raise ConfigurationError(f"SPECTATOR_CLIPS_URL: {rule}")
    options: dict[str, Any] = S3_OPTIONS if protocol in ("s3", "s3a") else {}
    try:
        files, root = url_to_fs(url, **options)
    except (ImportError, ValueError, TypeError, OSError) as error:
        raise ConfigurationError(f"SPECTATOR_CLIPS_URL: {error}; for s3: {INSTALL}") from error
    return files, root.rstrip("/")

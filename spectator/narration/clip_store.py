"""Audio clips on disk, by voice and text, within a size limit.

Servers can share clips in a folder or bucket that fsspec supports.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from spectator.clock import Clock
from spectator.errors import ConfigurationError, SpectatorError, typed_as
from spectator.narration.commentary import SUFFIXES, SpeechFailure, Voice

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")

ANSWER_S: Final = 3.0
"""Timeout of an operation on shared clips, seconds."""

REST_S: Final = 30.0
"""Pause after a failed operation, seconds."""

CONCURRENCY: Final = 4
"""Concurrent operations on shared clips, each on a thread."""

INSTALL: Final = "pip install 'openenv-spectator[shared-clips]'"

S3_OPTIONS: Final = {
    "config_kwargs": {"connect_timeout": 2, "read_timeout": 3, "retries": {"max_attempts": 1}},
    "use_listings_cache": False,
}


class SharedClips:
    """Clips that servers share, one folder per key: ``KEY/KEY-MILLISECONDS.mp3``.

    Errors are not raised: a clip that cannot be read is made again, and one that cannot be written is used by
    this server only. Clips are never removed; use the bucket's lifecycle rules.

    Args:
        url: Folder or bucket, such as ``s3://bucket/clips`` or ``file:///mnt/clips``.

    Raises:
        ConfigurationError: fsspec does not support the URL here.
    """

    def __init__(self, url: str, clock: Clock) -> None:
        self._files, self._root = _opened(url)
        self._clock = clock
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._rests_until_s = 0.0

    async def name_of(self, key: str) -> str | None:
        """Return the name of the clip with this key; ``None`` if there is none."""
        names = await self._run(lambda: self._files.ls(f"{self._root}/{key}", detail=False))
        found = sorted(str(one).rstrip("/").rpartition("/")[2] for one in names or ())
        return next((one for one in found if not one.endswith(".part")), None)

    async def read(self, key: str, name: str) -> bytes | None:
        """Return a clip's audio; ``None`` if there is none."""
        return await self._run(lambda: bytes(self._files.cat_file(f"{self._root}/{key}/{name}")))

    async def write(self, key: str, name: str, audio: bytes) -> bool:
        """Write a clip atomically; return whether that succeeded."""
        return await self._run(lambda: self._put(f"{self._root}/{key}/{name}", audio)) is not None

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

    async def _run(self, work: Callable[[], _Result]) -> _Result | None:
        """Run ``work`` on a thread; ``None`` if it finds nothing, fails or is paused."""
        if self._clock.monotonic() < self._rests_until_s:
            return None
        try:
            async with self._slots:
                with typed_as(_store_error, passing=(FileNotFoundError,)):
                    async with asyncio.timeout(ANSWER_S):
                        return await asyncio.to_thread(work)
        except FileNotFoundError:
            return None
        except SpectatorError as error:
            self._rests_until_s = self._clock.monotonic() + REST_S
            logger.warning("shared clips are not used for %g s: %s", REST_S, error)
            return None


def _store_error(error: Exception) -> SpectatorError:
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


CLIP_NAME: Final = re.compile(r"([0-9a-f]{40})-(\d{1,7})\.(mp3|wav)")
"""Name of a clip's file: key, duration in milliseconds, format."""

MIMES: Final = {suffix: mime for mime, suffix in SUFFIXES.items()}


@dataclass(frozen=True, slots=True)
class StoredClip:
    """A clip on disk."""

    name: str
    mime: str
    duration_s: float


class ClipStore:
    """Cache of clips by voice and text; concurrent requests for one clip make it once.

    When the limit is exceeded, the least recently used clips are removed. Only one process may use a folder.
    """

    def __init__(
        self, folder: Path, *, limit_bytes: int = 64 * 1024 * 1024, shared: SharedClips | None = None
    ) -> None:
        self._folder = folder
        self._shared = shared
        self._limit = limit_bytes
        self._sizes: OrderedDict[str, tuple[StoredClip, int]] = OrderedDict()
        self.total_bytes = 0
        self._pending: dict[str, _PendingClip] = {}
        self._read = False

    def path(self, name: str) -> Path | None:
        """Return the path for a clip of this name; ``None`` if the name is invalid."""
        return self._folder / name if CLIP_NAME.fullmatch(name) else None

    async def file(self, name: str) -> Path | None:
        """Return the path of an existing or shared clip; ``None`` if there is none."""
        path = self.path(name)
        if path is None or await asyncio.to_thread(path.is_file):
            return path
        return path if await self._fetch(name) else None

    async def find(self, voice: Voice, text: str) -> StoredClip | None:
        """Return the clip of ``text`` by ``voice``, if it exists here or is shared."""
        await self._scan()
        key = clip_key(voice, text)
        if key not in self._sizes and self._shared is not None:
            name = await self._shared.name_of(key)
            if name is not None:
                await self._fetch(name)
        known = self._sizes.get(key)
        if known is None:
            return None
        self._sizes.move_to_end(key)
        return known[0]

    async def clip(self, voice: Voice, text: str) -> StoredClip | SpeechFailure:
        """Return the clip of ``text`` by ``voice``; make it if needed.

        If every caller is cancelled, so is the making of the clip.
        """
        found = await self.find(voice, text)
        if found is not None:
            return found
        key = clip_key(voice, text)
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = _PendingClip(asyncio.create_task(self._make(key, voice, text)))
            pending.task.add_done_callback(lambda _: self._pending.pop(key, None))
        return await pending.wait()

    async def _make(self, key: str, voice: Voice, text: str) -> StoredClip | SpeechFailure:
        spoken = await voice.speak(text)
        if isinstance(spoken, SpeechFailure):
            return spoken
        name = f"{key}-{round(1000 * spoken.duration_s)}.{SUFFIXES[spoken.mime]}"
        try:
            await asyncio.to_thread(_write, self._folder / name, spoken.audio)
        except OSError as error:
            return SpeechFailure("no_space", f"the clip could not be written: {error.strerror}")
        self._add(key, StoredClip(name, spoken.mime, spoken.duration_s), len(spoken.audio))
        await self._make_room()
        if self._shared is not None:
            await self._shared.write(key, name, spoken.audio)
        return (
            self._sizes[key][0]
            if key in self._sizes
            else SpeechFailure("no_space", "the clip is larger than the limit of all clips")
        )

    async def _fetch(self, name: str) -> bool:
        """Copy a shared clip to the folder; return whether that succeeded."""
        named = CLIP_NAME.fullmatch(name)
        if named is None or self._shared is None:
            return False
        await self._scan()
        audio = await self._shared.read(named[1], name)
        if audio is None:
            return False
        clip = StoredClip(name, MIMES[named[3]], int(named[2]) / 1000)
        try:
            await asyncio.to_thread(_write, self._folder / name, audio)
        except OSError as error:
            logger.warning("a shared clip could not be written: %s", error.strerror)
            return False
        self._add(named[1], clip, len(audio))
        await self._make_room()
        return named[1] in self._sizes

    def _add(self, key: str, clip: StoredClip, size: int) -> None:
        _, before = self._sizes.get(key, (clip, 0))
        self.total_bytes -= before
        self._sizes[key] = clip, size
        self.total_bytes += size

    async def _make_room(self) -> None:
        removed = []
        while self.total_bytes > self._limit and self._sizes:
            _, (clip, size) = self._sizes.popitem(last=False)
            self.total_bytes -= size
            removed.append(self._folder / clip.name)
        if removed:
            await asyncio.to_thread(_unlink, removed)

    async def _scan(self) -> None:
        if self._read:
            return
        found = await asyncio.to_thread(_listing, self._folder)
        if not self._read:
            self._read = True
            for key, clip, size in found:
                self._add(key, clip, size)
            await self._make_room()


class _PendingClip:
    """A clip that is being made, and the number of callers that wait for it."""

    def __init__(self, task: asyncio.Task[StoredClip | SpeechFailure]) -> None:
        self.task = task
        self._waiting = 0

    async def wait(self) -> StoredClip | SpeechFailure:
        self._waiting += 1
        try:
            return await asyncio.shield(self.task)
        finally:
            self._waiting -= 1
            if self._waiting == 0 and not self.task.done():
                self.task.cancel()


def clip_key(voice: Voice, text: str) -> str:
    """Return 40 hex digits of the SHA-256 of the voice's fingerprint and the text."""
    return hashlib.sha256(f"{voice.fingerprint}\x1f{text}".encode()).hexdigest()[:40]


def _write(path: Path, audio: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    try:
        draft.write_bytes(audio)
        os.replace(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def _unlink(paths: list[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _listing(folder: Path) -> list[tuple[str, StoredClip, int]]:
    """Return the clips in ``folder``, oldest first; remove drafts that a crash left."""
    found: list[tuple[float, str, StoredClip, int]] = []
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return []
    _unlink([folder / entry.name for entry in entries if entry.name.endswith(".part")])
    for entry in entries:
        named = CLIP_NAME.fullmatch(entry.name)
        if named is not None and entry.is_file():
            clip = StoredClip(entry.name, MIMES[named[3]], int(named[2]) / 1000)
            found.append((entry.stat().st_mtime, named[1], clip, entry.stat().st_size))
    return [(key, clip, size) for _, key, clip, size in sorted(found, key=lambda one: one[0])]

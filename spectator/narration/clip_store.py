"""Audio clips on disk, keyed by voice and text, within a limit of bytes.

Servers can share clips in a folder or bucket that fsspec can reach.
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


CLIP_NAME: Final = re.compile(r"([0-9a-f]{40})-(\d{1,7})\.(mp3|wav)")
"""A clip's file: the digest, how many milliseconds it lasts, its kind."""

MIMES: Final = {suffix: mime for mime, suffix in SUFFIXES.items()}


@dataclass(frozen=True, slots=True)
class StoredClip:
    """A clip on disk.

    Args:
        name: Its file's name.
        mime: Its media type.
        duration_s: How long it lasts, seconds.
    """

    name: str
    mime: str
    duration_s: float


class ClipStore:
    """Clips by what they say; made once however many ask for one at the same time.

    The least recently used go when the limit is passed. One process uses a folder.

    Args:
        folder: Where they lie; made when it is first needed.
        limit_bytes: Most bytes that they may take.
        shared: What other servers made and may use; nothing when left out.
    """

    def __init__(
        self, folder: Path, *, limit_bytes: int = 64 * 1024 * 1024, shared: SharedClips | None = None
    ) -> None:
        self._folder = folder
        self._shared = shared
        self._limit = limit_bytes
        self._sizes: OrderedDict[str, tuple[StoredClip, int]] = OrderedDict()
        self._total = 0
        self._flights: dict[str, _Flight] = {}
        self._read = False

    @property
    def total_bytes(self) -> int:
        """What the clips take now."""
        return self._total

    def path(self, name: str) -> Path | None:
        """Where a clip of this name would lie; ``None`` for what is no clip's name."""
        return self._folder / name if CLIP_NAME.fullmatch(name) else None

    async def file(self, name: str) -> Path | None:
        """Where the clip of this name lies, fetched where another shares it; ``None`` if it is nowhere."""
        path = self.path(name)
        if path is None or await asyncio.to_thread(path.is_file):
            return path
        return path if await self._fetched(name) else None

    async def find(self, voice: Voice, text: str) -> StoredClip | None:
        """The clip of ``text`` by ``voice``, if it is here, or shared by another server."""
        await self._scan()
        key = clip_key(voice, text)
        if key not in self._sizes and self._shared is not None:
            name = await self._shared.name_of(key)
            if name is not None:
                await self._fetched(name)
        known = self._sizes.get(key)
        if known is None:
            return None
        self._sizes.move_to_end(key)
        return known[0]

    async def clip(self, voice: Voice, text: str) -> StoredClip | SpeechFailure:
        """The clip of ``text`` by ``voice``; one that must be made is given up when nobody waits for it."""
        found = await self.find(voice, text)
        if found is not None:
            return found
        key = clip_key(voice, text)
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.create_task(self._make(key, voice, text)))
            flight.task.add_done_callback(lambda _: self._flights.pop(key, None))
        return await flight.wait()

    async def _make(self, key: str, voice: Voice, text: str) -> StoredClip | SpeechFailure:
        spoken = await voice.speak(text)
        if isinstance(spoken, SpeechFailure):
            return spoken
        name = f"{key}-{round(1000 * spoken.duration_s)}.{SUFFIXES[spoken.mime]}"
        try:
            await asyncio.to_thread(_write, self._folder / name, spoken.audio)
        except OSError as error:
            return SpeechFailure("no_space", f"the clip could not be kept: {error.strerror}")
        self._add(key, StoredClip(name, spoken.mime, spoken.duration_s), len(spoken.audio))
        await self._make_room()
        if self._shared is not None:
            await self._shared.write(key, name, spoken.audio)
        return (
            self._sizes[key][0]
            if key in self._sizes
            else SpeechFailure("no_space", "larger than all clips may be")
        )

    async def _fetched(self, name: str) -> bool:
        """Whether a clip came from what is shared; it lies here from then on."""
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
            logger.warning("a shared clip could not be kept: %s", error.strerror)
            return False
        self._add(named[1], clip, len(audio))
        await self._make_room()
        return named[1] in self._sizes

    def _add(self, key: str, clip: StoredClip, size: int) -> None:
        _, before = self._sizes.get(key, (clip, 0))
        self._total -= before
        self._sizes[key] = clip, size
        self._total += size

    async def _make_room(self) -> None:
        gone = []
        while self._total > self._limit and self._sizes:
            _, (clip, size) = self._sizes.popitem(last=False)
            self._total -= size
            gone.append(self._folder / clip.name)
        if gone:
            await asyncio.to_thread(_unlink, gone)

    async def _scan(self) -> None:
        if self._read:
            return
        found = await asyncio.to_thread(_listing, self._folder)
        if not self._read:
            self._read = True
            for key, clip, size in found:
                self._add(key, clip, size)
            await self._make_room()


class _Flight:
    """A clip that is being made, and how many wait for it."""

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
    """40 hexadecimal digits of the SHA-256 of what decides a clip: the voice's fingerprint and the text."""
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
    """The clips in ``folder``, the oldest first; drafts that a crash left are removed."""
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

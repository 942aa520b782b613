"""A bundle's manifest, and opening a bundle safely."""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spectator.core_events import DecisionSource, FailedDecisions
from spectator.environments.world import MAX_SEED, Pack, World
from spectator.errors import BundleError, JournalDamaged, field_errors
from spectator.evaluation.results import Results
from spectator.events import encode_json
from spectator.journal.transfer import check_sqlite_journal

MANIFEST: Final = "manifest.json"
"""Name of the manifest in a bundle."""

JOURNAL: Final = "journal.db"
"""Name of the journal in a bundle."""

SCHEMA: Final = 1
"""Version of the manifest; bundles with a later version are rejected."""

ANCHORS: Final = ("random", "heuristic", "planner", "reference")
"""Captains in every bundle whose world has them, so that results of different bundles can be compared."""

_DIGEST: Final = r"^[0-9a-f]{64}$"


class _Part(BaseModel):
    """Base of the parts of a manifest: frozen, and rejects unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class BundledPack(_Part):
    """The evaluation pack."""

    name: str
    version: str


class SeedSource(_Part):
    """The origin of the seeds, so that anyone can derive them again."""

    made: Literal["sealed", "pack", "derived"] = Field(
        description="`sealed`: from a secret phrase; `pack`: the development seeds of the pack; `derived`: "
        "development seeds derived from `seed`"
    )
    count: int = Field(ge=1, description="Number of seeds; always the first ones, in order")
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED, description="If `derived`")
    phrase: str | None = Field(
        default=None, description="If `sealed`: the bundle reveals it, because the journal reveals the seeds"
    )
    commitment: str | None = Field(
        default=None,
        pattern=_DIGEST,
        description="If `sealed`: digest of phrase, world and pack; it names the rotation, and can be "
        "published before the first match",
    )


class BundledCaptain(_Part):
    """One captain."""

    name: str = Field(min_length=1, max_length=100)
    label: str = Field(max_length=200)
    source: DecisionSource
    anchor: bool = Field(description="Whether it is in every bundle of this world")
    fingerprint: str | None = Field(
        default=None,
        description="Of a model: digest of endpoint, model, style and sampling, as in each match",
    )
    entrants: list[str] = Field(
        default_factory=list,
        description="Of a model: its fingerprints on the leaderboard, which include the answering models",
    )
    models: list[str] = Field(
        default_factory=list, description="The models that answered, as they named themselves"
    )
    asked: dict[str, Any] | None = Field(
        default=None,
        description="Of a model: all its settings that reach the endpoint, with secrets masked; how it "
        "answered is in `results`",
    )


class BundledEpisode(_Part):
    """One recorded episode."""

    id: str
    events: int = Field(ge=1)
    digest: str = Field(
        pattern=_DIGEST, description="Digest of its last event, which covers all earlier events"
    )


class BundledFile(_Part):
    """One file of the bundle, other than the manifest."""

    sha256: str = Field(pattern=_DIGEST)
    bytes: int = Field(ge=0)


class BundleManifest(_Part):
    """The claims of a bundle. The manifest's own SHA-256 is the digest of the bundle."""

    schema_version: int = Field(ge=1)
    spectator_version: str
    environment: str
    environment_version: str
    pack: BundledPack
    options: dict[str, Any] = Field(description="Every option of the world")
    failed_decisions: FailedDecisions
    matches: int = Field(
        ge=2, description="Matches per pair of captains; the most of them if `results.until` is stated"
    )
    seeds: SeedSource
    captains: list[BundledCaptain] = Field(min_length=2)
    began_ms: int = Field(ge=0, description="Unix time in milliseconds; part of every episode's id")
    run_id: str | None
    published_at: str = Field(description="RFC 3339")
    results: Results = Field(description="The claimed results, with their intervals, as in results.json")
    episodes: list[BundledEpisode] = Field(description="All episodes, including those that were repeated")
    files: dict[str, BundledFile]


def commitment(world: str, pack: Pack, phrase: str) -> str:
    """Commit to a secret phrase without revealing it.

    Args:
        pack: The pack whose seeds are derived from the phrase.
        phrase: The secret phrase.

    Returns:
        SHA-256, 64 hexadecimal digits.
    """
    stated = ["spectator sealed seeds", world, pack.name, pack.version, phrase]
    return hashlib.sha256(encode_json(stated).encode()).hexdigest()


def anchors_of(world: World) -> tuple[str, ...]:
    """The captains of ``world`` that every bundle includes: its part of :data:`ANCHORS`.

    >>> from spectator.catalog import load_world
    >>> anchors_of(load_world("counting"))
    ('random', 'heuristic')
    """
    there = [name for name in ANCHORS if name in world.captains]
    return tuple(name for name in there if not world.opponents or name in world.opponents)


MAX_MANIFEST: Final = 64 * 1024 * 1024
"""Largest manifest, in bytes; one match takes about 300."""

MAX_BYTES: Final = 4 * 1024**3
"""Default limit of all files of a bundle, in bytes."""

MAX_ENTRIES: Final = 10_000
"""Most entries of a zip."""

_CHUNK: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class OpenedBundle:
    """A bundle whose files match its manifest.

    Args:
        manifest: Its claims.
        digest: SHA-256 of the manifest, 64 hexadecimal digits: the name of the bundle.
        folder: Temporary folder with its files.
        unlisted: Names of files that the manifest does not list; they are not read.
    """

    manifest: BundleManifest
    digest: str
    folder: Path
    unlisted: tuple[str, ...]


class WrongFiles(Exception):
    """The files of a bundle differ from its manifest.

    Args:
        mistakes: What is wrong, one sentence per file.
    """

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = mistakes


@contextmanager
def opened(path: Path, *, max_bytes: int = MAX_BYTES) -> Iterator[OpenedBundle]:
    """Open a bundle: copy its files into a temporary folder, and check their digests.

    Args:
        path: A folder, or a zip of one.
        max_bytes: Most bytes of all files.

    Raises:
        BundleError: It is not a bundle, is too large, or has a later version.
        WrongFiles: A file is missing, or differs from the manifest.
    """
    with TemporaryDirectory(prefix="spectator-bundle-") as aside, _files(path, max_bytes) as source:
        yield _opened(source, Path(aside), max_bytes)


def manifest_text(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Read the manifest of a bundle in a folder or zip, without checking it.

    Raises:
        BundleError: It is not a bundle, or is too large.
    """
    with _files(path, max_bytes) as source:
        return source.read(MANIFEST, MAX_MANIFEST)


@contextmanager
def _files(path: Path, max_bytes: int) -> Iterator[_Source]:
    if path.is_symlink():
        raise BundleError("it is a symbolic link; pass the path of the bundle itself")
    if path.is_dir():
        yield _plain_folder(path)
    elif path.is_file():
        with _zip(path, max_bytes) as source:
            yield source
    else:
        raise BundleError("no folder or zip is at this path")


def _opened(source: _Source, aside: Path, max_bytes: int) -> OpenedBundle:
    text = source.read(MANIFEST, MAX_MANIFEST)
    manifest = _manifest(text)
    if (total := sum(one.bytes for one in manifest.files.values())) > max_bytes:
        raise BundleError(f"its files take {total:,} bytes; at most {max_bytes:,} are read")
    if set(manifest.files) != {JOURNAL}:
        raise BundleError(
            f"its manifest names {', '.join(sorted(manifest.files))[:200] or 'no file'}, not {JOURNAL}"
        )
    wrong = [one for name in manifest.files if (one := _copy(source, name, manifest, aside)) is not None]
    if wrong:
        raise WrongFiles(wrong)
    try:
        check_sqlite_journal(aside / JOURNAL)
    except JournalDamaged as error:
        raise BundleError(str(error)) from error
    unlisted = tuple(sorted(source.names - {MANIFEST, *manifest.files}))
    return OpenedBundle(manifest, hashlib.sha256(text).hexdigest(), aside, unlisted)


def _manifest(text: bytes) -> BundleManifest:
    try:
        manifest = BundleManifest.model_validate_json(text)
    except ValidationError as error:
        rules = "; ".join(f"{one.field} {one.rule}" for one in field_errors(error.errors())[:3])
        raise BundleError(f"its {MANIFEST} is invalid: {rules[:400]}") from error
    if manifest.schema_version > SCHEMA:
        raise BundleError(
            f"its manifest has version {manifest.schema_version}, but this version reads up to {SCHEMA}; "
            f"check it with Spectator {manifest.spectator_version[:40]}"
        )
    return manifest


def _copy(source: _Source, name: str, manifest: BundleManifest, aside: Path) -> str | None:
    """Copy a file, and check its digest; return what is wrong, if anything."""
    stated = manifest.files[name]
    if name not in source.names:
        return f"{name} is missing"
    digest, size = hashlib.sha256(), 0
    with source.open(name) as file, open(aside / name, "xb") as copy:
        while chunk := _read(file, name):
            size += len(chunk)
            if size > stated.bytes:
                return f"{name} has more than the {stated.bytes:,} bytes that the manifest states"
            digest.update(chunk)
            copy.write(chunk)
    if size != stated.bytes or digest.hexdigest() != stated.sha256:
        return f"{name} does not have the SHA-256 that the manifest states: it was changed or truncated"
    return None


def _read(file: IO[bytes], name: str) -> bytes:
    try:
        return file.read(_CHUNK)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise BundleError(f"{name} cannot be unpacked: {error}") from error


@dataclass(frozen=True, slots=True)
class _Source:
    """The files of a bundle in a folder or zip.

    Args:
        names: Names of all files.
        open: Opens a file by name.
    """

    names: frozenset[str]
    open: Callable[[str], Any]

    def read(self, name: str, limit: int) -> bytes:
        """Read a whole file of at most ``limit`` bytes."""
        if name not in self.names:
            raise BundleError(f"it does not contain {name}")
        text = bytearray()
        with self.open(name) as file:
            while chunk := _read(file, name):
                text += chunk
                if len(text) > limit:
                    raise BundleError(f"its {name} has more than {limit:,} bytes")
        return bytes(text)


def _plain_folder(folder: Path) -> _Source:
    names = set()
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                raise BundleError(
                    f"it contains the symbolic link {entry.name!r}; a bundle may only contain files"
                )
            if entry.is_file(follow_symlinks=False):
                names.add(entry.name)
    return _Source(frozenset(names), lambda name: _open_plain(folder / name))


def _open_plain(path: Path) -> IO[bytes]:
    """Open a regular file; a symbolic link that replaced it is rejected."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BundleError(f"{path.name} is not a regular file")
    return os.fdopen(descriptor, "rb")


@contextmanager
def _zip(path: Path, max_bytes: int) -> Iterator[_Source]:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _entries(archive, max_bytes)
            yield _Source(frozenset(entries), lambda name: archive.open(entries[name]))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise BundleError(f"it is not a readable zip, or is truncated: {error}") from error


def _entries(archive: zipfile.ZipFile, max_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """The files of a zip by name, relative to the folder of its manifest."""
    infos = [info for info in archive.infolist() if not info.is_dir()]
    if len(infos) > MAX_ENTRIES:
        raise BundleError(f"the zip has {len(infos):,} entries; a bundle has only a few")
    for info in infos:
        parts = info.filename.replace("\\", "/").split("/")
        if ".." in parts or parts[0] == "" or ":" in parts[0]:
            raise BundleError(f"the zip contains the path {info.filename[:100]!r}, which leads outside of it")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise BundleError(
                f"the zip contains the symbolic link {info.filename[:100]!r}; a bundle may only contain files"
            )
        if info.flag_bits & 1:
            raise BundleError(f"{info.filename[:100]!r} in the zip is encrypted")
    if (total := sum(info.file_size for info in infos)) > max_bytes:
        raise BundleError(f"the zip claims to contain {total:,} bytes; at most {max_bytes:,} are read")
    manifests = [info.filename for info in infos if info.filename.split("/")[-1] == MANIFEST]
    shortest = min(manifests, key=lambda name: name.count("/"), default=MANIFEST)
    folder = shortest.removesuffix(MANIFEST)
    inside = [info for info in infos if info.filename.startswith(folder)]
    named = {info.filename.removeprefix(folder): info for info in inside}
    if len(named) != len(inside):
        raise BundleError("the zip contains two files with the same name")
    return named

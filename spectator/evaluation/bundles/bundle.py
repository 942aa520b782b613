"""A bundle: what its manifest states, and opening one safely."""

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

from spectator.environments.world import MAX_SEED, Pack, World
from spectator.errors import BundleError, JournalDamaged, field_errors
from spectator.evaluation.results import Results
from spectator.events import DecisionSource, FailedDecisions, encode_json
from spectator.journal.transfer import check_sqlite_journal

MANIFEST: Final = "manifest.json"
"""Name of the manifest in a bundle."""

JOURNAL: Final = "journal.db"
"""Name of the journal in a bundle."""

SCHEMA: Final = 1
"""Version of the manifest; a bundle of a later one is not read."""

ANCHORS: Final = ("random", "heuristic", "planner", "reference")
"""Captains that are in every bundle, as far as a world has them: results of different bundles meet there."""

_DIGEST: Final = r"^[0-9a-f]{64}$"


class _Part(BaseModel):
    """Base of the parts of a manifest: frozen, with no field beyond those declared."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class BundledPack(_Part):
    """The evaluation pack."""

    name: str
    version: str


class SeedSource(_Part):
    """Where the seeds come from, so that anybody can make them again."""

    made: Literal["sealed", "pack", "derived"] = Field(
        description="`sealed`: from a secret phrase; `pack`: the development seeds of the pack; `derived`: "
        "development seeds made from `seed`"
    )
    count: int = Field(ge=1, description="How many; always the first ones, in order")
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED, description="Where `derived`")
    phrase: str | None = Field(
        default=None, description="Where `sealed`: told in the bundle, because the journal tells the seeds"
    )
    commitment: str | None = Field(
        default=None,
        pattern=_DIGEST,
        description="Where `sealed`: digest of phrase, world and pack; it names the rotation, and may be "
        "published before a match is played",
    )


class BundledCaptain(_Part):
    """One captain."""

    name: str = Field(min_length=1, max_length=100)
    label: str = Field(max_length=200)
    source: DecisionSource
    anchor: bool = Field(description="Whether it is in every bundle of this world")
    fingerprint: str | None = Field(
        default=None,
        description="Of a model: a digest of endpoint, model, style and sampling, as each match has it",
    )
    entrants: list[str] = Field(
        default_factory=list,
        description="Of a model: the fingerprints under which the leaderboard knows it, with what answered",
    )
    models: list[str] = Field(
        default_factory=list, description="The models that answered, by their own account"
    )
    asked: dict[str, Any] | None = Field(
        default=None, description="Of a model: how it was asked; neither key nor address nor further fields"
    )


class BundledEpisode(_Part):
    """One recorded episode."""

    id: str
    events: int = Field(ge=1)
    digest: str = Field(pattern=_DIGEST, description="Of its last event, which covers all before it")


class BundledFile(_Part):
    """One file of the bundle beside the manifest."""

    sha256: str = Field(pattern=_DIGEST)
    bytes: int = Field(ge=0)


class BundleManifest(_Part):
    """What a bundle says of itself. Its own SHA-256 is the digest of the bundle."""

    schema_version: int = Field(ge=1)
    spectator_version: str
    environment: str
    environment_version: str
    pack: BundledPack
    options: dict[str, Any] = Field(description="Every option of the world")
    failed_decisions: FailedDecisions
    matches: int = Field(ge=2, description="Matches of each pair of captains")
    seeds: SeedSource
    captains: list[BundledCaptain] = Field(min_length=2)
    began_ms: int = Field(ge=0, description="Unix time in milliseconds; part of every episode's id")
    run_id: str | None
    published_at: str = Field(description="RFC 3339")
    results: Results = Field(description="What is claimed, with its intervals, as in results.json")
    episodes: list[BundledEpisode] = Field(description="All of them, those that were played once more too")
    files: dict[str, BundledFile]


def commitment(world: str, pack: Pack, phrase: str) -> str:
    """The digest that binds whoever states it to a phrase, without telling it.

    Args:
        world: Name of the world.
        pack: The pack whose seeds the phrase makes.
        phrase: The secret.

    Returns:
        SHA-256, 64 hexadecimal digits.
    """
    stated = ["spectator sealed seeds", world, pack.name, pack.version, phrase]
    return hashlib.sha256(encode_json(stated).encode()).hexdigest()


def anchors_of(world: World) -> tuple[str, ...]:
    """The captains of ``world`` that belong into every bundle: those of :data:`ANCHORS` that it has.

    >>> from spectator.catalog import load_world
    >>> anchors_of(load_world("counting"))
    ('random', 'heuristic')
    """
    there = [name for name in ANCHORS if name in world.captains]
    return tuple(name for name in there if not world.opponents or name in world.opponents)


MAX_MANIFEST: Final = 64 * 1024 * 1024
"""Bytes of a manifest; one match takes about 300."""

MAX_BYTES: Final = 4 * 1024**3
"""Bytes of all files of a bundle, unless whoever checks it allows more."""

MAX_ENTRIES: Final = 10_000
"""Entries of a zip."""

_CHUNK: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class OpenedBundle:
    """A bundle whose files are as its manifest says.

    Args:
        manifest: What it says of itself.
        digest: SHA-256 of the manifest, 64 hexadecimal digits: the name of the bundle.
        folder: Where its files are now.
        beside: Names of files that are in it and not in its manifest; nobody looked into them.
    """

    manifest: BundleManifest
    digest: str
    folder: Path
    beside: tuple[str, ...]


class WrongFiles(Exception):
    """The files of a bundle are not those that its manifest names.

    Args:
        told: What is wrong, a sentence each.
    """

    def __init__(self, told: list[str]) -> None:
        super().__init__("; ".join(told))
        self.told = told


@contextmanager
def opened(path: Path, *, max_bytes: int = MAX_BYTES) -> Iterator[OpenedBundle]:
    """A bundle, its files copied into a folder of their own that is gone afterwards.

    Args:
        path: A folder or a zip of one.
        max_bytes: Most bytes of all its files.

    Raises:
        BundleError: It is no bundle, is too large, or is of a later version.
        WrongFiles: A file is missing, or not the one that the manifest names.
    """
    with TemporaryDirectory(prefix="spectator-bundle-") as aside:
        if path.is_symlink():
            raise BundleError("it is a link; name the bundle itself")
        if path.is_dir():
            yield _taken(_plain_folder(path), Path(aside), max_bytes)
        elif path.is_file():
            with _zip(path, max_bytes) as source:
                yield _taken(source, Path(aside), max_bytes)
        else:
            raise BundleError("there is no such folder or zip")


def _taken(source: _Source, aside: Path, max_bytes: int) -> OpenedBundle:
    text = source.read(MANIFEST, MAX_MANIFEST)
    manifest = _manifest(text)
    if (total := sum(one.bytes for one in manifest.files.values())) > max_bytes:
        raise BundleError(f"its files take {total:,} bytes; at most {max_bytes:,} are read")
    if set(manifest.files) != {JOURNAL}:
        raise BundleError(
            f"its manifest names {', '.join(sorted(manifest.files))[:200] or 'no file'}, not {JOURNAL}"
        )
    wrong = [told for name in manifest.files if (told := _copied(source, name, manifest, aside)) is not None]
    if wrong:
        raise WrongFiles(wrong)
    try:
        check_sqlite_journal(aside / JOURNAL)
    except JournalDamaged as error:
        raise BundleError(str(error)) from error
    beside = tuple(sorted(source.names - {MANIFEST, *manifest.files}))
    return OpenedBundle(manifest, hashlib.sha256(text).hexdigest(), aside, beside)


def _manifest(text: bytes) -> BundleManifest:
    try:
        manifest = BundleManifest.model_validate_json(text)
    except ValidationError as error:
        told = "; ".join(f"{one.field} {one.rule}" for one in field_errors(error.errors())[:3])
        raise BundleError(f"its {MANIFEST} is none of a bundle: {told[:400]}") from error
    if manifest.schema_version > SCHEMA:
        raise BundleError(
            f"its manifest has version {manifest.schema_version}, and this software reads up to {SCHEMA}; "
            f"check it with Spectator {manifest.spectator_version[:40]}"
        )
    return manifest


def _copied(source: _Source, name: str, manifest: BundleManifest, aside: Path) -> str | None:
    """Copy a file aside; what is wrong with it, if anything is."""
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
        return f"{name} is not the file whose SHA-256 the manifest states: it was changed, or cut off"
    return None


def _read(file: IO[bytes], name: str) -> bytes:
    try:
        return file.read(_CHUNK)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise BundleError(f"{name} cannot be unpacked: {error}") from error


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the files of a bundle come from.

    Args:
        names: All that are there.
        open: Opens one of them.
    """

    names: frozenset[str]
    open: Callable[[str], Any]

    def read(self, name: str, limit: int) -> bytes:
        """A whole file of at most ``limit`` bytes."""
        if name not in self.names:
            raise BundleError(f"it holds no {name}")
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
                raise BundleError(f"it holds the link {entry.name!r}; a bundle holds files only")
            if entry.is_file(follow_symlinks=False):
                names.add(entry.name)
    return _Source(frozenset(names), lambda name: _open_plain(folder / name))


def _open_plain(path: Path) -> IO[bytes]:
    """Open a file, and no link that took its place meanwhile."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BundleError(f"{path.name} is no ordinary file")
    return os.fdopen(descriptor, "rb")


@contextmanager
def _zip(path: Path, max_bytes: int) -> Iterator[_Source]:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _entries(archive, max_bytes)
            yield _Source(frozenset(entries), lambda name: archive.open(entries[name]))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise BundleError(f"it is no zip that can be read, or not all of one: {error}") from error


def _entries(archive: zipfile.ZipFile, max_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """The files of a zip by name, those of the one folder that it holds, if it does."""
    infos = [info for info in archive.infolist() if not info.is_dir()]
    if len(infos) > MAX_ENTRIES:
        raise BundleError(f"the zip has {len(infos):,} entries; a bundle has a handful")
    for info in infos:
        parts = info.filename.replace("\\", "/").split("/")
        if ".." in parts or parts[0] == "" or ":" in parts[0]:
            raise BundleError(f"the zip holds the path {info.filename[:100]!r}, which leads out of it")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise BundleError(f"the zip holds the link {info.filename[:100]!r}; a bundle holds files only")
        if info.flag_bits & 1:
            raise BundleError(f"{info.filename[:100]!r} in the zip is encrypted")
    if (total := sum(info.file_size for info in infos)) > max_bytes:
        raise BundleError(f"the zip claims to hold {total:,} bytes; at most {max_bytes:,} are read")
    manifests = [info.filename for info in infos if info.filename.split("/")[-1] == MANIFEST]
    shortest = min(manifests, key=lambda name: name.count("/"), default=MANIFEST)
    folder = shortest.removesuffix(MANIFEST)
    inside = [info for info in infos if info.filename.startswith(folder)]
    named = {info.filename.removeprefix(folder): info for info in inside}
    if len(named) != len(inside):
        raise BundleError("the zip holds two files of one name")
    return named

"""Opens a bundle, a folder or a zip: its files are copied aside and held against their digests.

Nothing is taken from a bundle but the manifest and the files that it names, so that no link, no path and no
file beside them can reach out of it or into it.
"""

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
from typing import IO, Any, Final

from pydantic import ValidationError

from spectator.errors import BundleError, JournalDamaged, field_errors
from spectator.evaluation.bundles.manifest import JOURNAL, MANIFEST, SCHEMA, BundleManifest
from spectator.journal.transfer import check_sqlite_journal

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

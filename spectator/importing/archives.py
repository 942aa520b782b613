"""Compressed files and ZIP archives, as documents that can be read row by row.

Members of archives can be compressed with Zstandard, which Python's ``zipfile`` cannot read.
"""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

from spectator.errors import ConfigurationError
from spectator.importing.file_rows import MISSING, Document, SkippedEntry, Source
from spectator.importing.finite_json import MAX_BYTES
from spectator.importing.foreign import UnreadableEntry

ZSTANDARD: Final = 93
"""Number of Zstandard as a compression method of ZIP archives."""

_LOCAL: Final = struct.Struct("<4s22xHH")
"""The local header of a member: signature, length of the name, length of the extra field."""

_COMPRESSED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""How files of gzip and Zstandard begin."""


def is_archive(source: Source) -> bool:
    """Whether a file is a ZIP archive."""
    return zipfile.is_zipfile(source.path)


@contextmanager
def single_document(source: Source) -> Iterator[Document]:
    """Open a file that is not an archive.

    Raises:
        OSError: It cannot be read.
    """
    with source.path.open("rb") as file:
        if not file.read(4).startswith(_COMPRESSED):
            yield Document(source, file)
            return
    with io.BufferedReader(_Decompressed(source), 1 << 18) as stream:
        yield Document(source, stream, plain=False)


def members(source: Source) -> Iterator[tuple[str, bytes | SkippedEntry]]:
    """Yield the name and the data of each member of an archive.

    Raises:
        ConfigurationError: The archive is damaged as a whole.
    """
    try:
        with zipfile.ZipFile(source.path) as archive, source.path.open("rb") as file:
            for member in archive.infolist():
                source.done = max(source.done, member.header_offset)
                if member.is_dir():
                    continue
                try:
                    yield member.filename, member_bytes(file, member)
                except UnreadableEntry as error:
                    yield member.filename, SkippedEntry(member.filename, str(error))
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise ConfigurationError(f"{source.path} is not a readable archive: {error}") from error
    source.done = source.size


def member_named(source: Source, name: str) -> bytes | None:
    """Return the data of a member, or ``None``.

    Raises:
        UnreadableEntry: The member cannot be read.
    """
    with zipfile.ZipFile(source.path) as archive, source.path.open("rb") as file:
        return member_bytes(file, archive.getinfo(name)) if name in archive.namelist() else None


def member_bytes(file: BinaryIO, member: zipfile.ZipInfo) -> bytes:
    """Return the data of a member.

    Raises:
        UnreadableEntry: The member is damaged, too large, or has an unsupported compression.
        ConfigurationError: zstandard is not installed.
    """
    if member.file_size > MAX_BYTES:
        raise UnreadableEntry(f"it is larger than {MAX_BYTES >> 20} MiB")
    file.seek(member.header_offset)
    head = file.read(_LOCAL.size)
    if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
        raise UnreadableEntry("its header is damaged")
    _, name, extra = _LOCAL.unpack(head)
    file.seek(name + extra, io.SEEK_CUR)
    data = _expanded(file.read(member.compress_size), member.compress_type)
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise UnreadableEntry("it is damaged: wrong checksum")
    return data


def _expanded(packed: bytes, kind: int) -> bytes:
    if kind == zipfile.ZIP_STORED:
        return packed
    try:
        if kind == ZSTANDARD:
            with _zstandard().stream_reader(packed, read_across_frames=True) as stream:
                return stream.read(MAX_BYTES + 1)  # type: ignore[no-any-return]
        if kind == zipfile.ZIP_DEFLATED:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, MAX_BYTES + 1)
    except (zlib.error, _zstandard_error()) as error:
        raise UnreadableEntry(f"it is damaged: {error}") from error
    raise UnreadableEntry(f"its compression method {kind} is not supported")


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise ConfigurationError(f"Zstandard needs zstandard: {MISSING}") from error
    return zstandard.ZstdDecompressor()


def _zstandard_error() -> type[Exception]:
    try:
        import zstandard
    except ImportError:
        return zlib.error
    return zstandard.ZstdError


class _Frames:
    """Reads the frames of a file of Zstandard, whose own reader does not notice that a file is cut off."""

    CHUNK: Final = 1024
    """Bytes that are expanded at once; a block of 4 bytes can become 128 kB."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._packed = file, b""
        self._frame: Any = None
        self._text = io.BytesIO()

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes.

        Raises:
            EOFError: The file ends within a frame.
        """
        while not (data := self._text.read(size)):
            if not (packed := self._packed or self._file.read(self.CHUNK)):
                if self._frame is not None:
                    raise EOFError("it is cut off")
                return b""
            self._frame = self._frame or _zstandard().decompressobj()
            self._text = io.BytesIO(self._frame.decompress(packed))
            self._packed = b""
            if self._frame.eof:
                self._packed, self._frame = self._frame.unused_data, None
        return data


class _Decompressed(io.RawIOBase):
    """A file of gzip or Zstandard, decompressed as it is read; can be read again from its beginning."""

    FREE: Final = 1 << 30
    RATIO: Final = 200

    def __init__(self, source: Source) -> None:
        self._source = source
        self._limit = max(self.FREE, self.RATIO * source.size)
        self._open()

    def _open(self) -> None:
        self._given = 0
        self._file: BinaryIO = self._source.path.open("rb")
        zipped = self._file.read(2) == _COMPRESSED[0]
        self._file.seek(0)
        self._stream: Any = gzip.GzipFile(fileobj=self._file) if zipped else _Frames(self._file)

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def seekable(self) -> bool:
        """Return that it can be sought, to its beginning."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Return to the beginning, or skip ahead; return how many bytes were read."""
        if (offset, whence) == (0, io.SEEK_CUR):
            return self._given
        if whence != io.SEEK_SET:
            raise io.UnsupportedOperation("a compressed file has no known end")
        if offset < self._given:
            self._file.close()
            self._open()
        while self._given < offset and self.read(min(1 << 18, offset - self._given)):
            pass
        return self._given

    def readinto(self, buffer: Any) -> int:
        """Read some bytes.

        Raises:
            UnreadableEntry: The file expands without end.
            OSError: It is damaged.
        """
        try:
            data = self._stream.read(len(buffer))
        except _zstandard_error() as error:
            raise OSError(str(error)) from error
        buffer[: len(data)] = data
        self._given += len(data)
        if self._given > self._limit:
            raise UnreadableEntry(f"it expands to more than {self.RATIO} times its size")
        self._source.done = max(self._source.done, min(self._file.tell(), self._source.size))
        return len(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

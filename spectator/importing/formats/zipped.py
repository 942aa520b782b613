"""Members of ZIP archives, those compressed with Zstandard too, which Python's own module cannot read."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import BinaryIO, Final

from spectator.errors import ConfigurationError
from spectator.importing.foreign import NotReadable
from spectator.importing.reading import MOST_BYTES

ZSTANDARD: Final = 93
"""Number of Zstandard among the ways to compress a member."""

_LOCAL: Final = struct.Struct("<4s22xHH")
"""The head of a member: its mark, the lengths of its name and of what else stands before its data."""


def member_bytes(file: BinaryIO, member: zipfile.ZipInfo) -> bytes:
    """The data of a member.

    Raises:
        NotReadable: It is damaged, larger than is read, or compressed in another way.
        ConfigurationError: Zstandard is not installed.
    """
    if member.file_size > MOST_BYTES:
        raise NotReadable(f"it is larger than {MOST_BYTES >> 20} MiB")
    file.seek(member.header_offset)
    head = file.read(_LOCAL.size)
    if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
        raise NotReadable("its head is damaged")
    _, name, extra = _LOCAL.unpack(head)
    file.seek(name + extra, io.SEEK_CUR)
    packed = file.read(member.compress_size)
    data = _expanded(packed, member.compress_type)
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise NotReadable("it is damaged: its checksum is another")
    return data


def _expanded(packed: bytes, kind: int) -> bytes:
    if kind == zipfile.ZIP_STORED:
        return packed
    if kind == ZSTANDARD:
        return _of_zstandard(packed)
    if kind != zipfile.ZIP_DEFLATED:
        raise NotReadable(f"it is compressed in a way that is not read: {kind}")
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, MOST_BYTES + 1)
    except zlib.error as error:
        raise NotReadable(f"it is damaged: {error}") from error


def _of_zstandard(packed: bytes) -> bytes:
    try:
        import zstandard
    except ImportError as error:
        raise ConfigurationError(
            "this archive needs zstandard: pip install 'openenv-spectator[import]'"
        ) from error
    try:
        with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as stream:
            return stream.read(MOST_BYTES + 1)
    except zstandard.ZstdError as error:
        raise NotReadable(f"it is damaged: {error}") from error

"""Read and compress pieces of a record in a separate process.

``python -m spectator.journal.pieces`` takes the journal's URL as JSON on the first line of its standard
input. It answers each further line, a :class:`PieceRequest` as JSON, with a line of JSON followed by the
body, until the input ends. It runs at the lowest priority, so that it does not slow down processes that play
episodes.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import BinaryIO, Final

from spectator.errors import EpisodeDamaged, JournalError, typed_as
from spectator.journal.database import Database, is_corrupt, open_database, reason
from spectator.journal.queries import texts_after

NICENESS: Final = 19
"""Added to the niceness of the parent process: the lowest possible priority."""

LEVEL: Final = 6
"""Compression level, the same as of other responses."""

GZIP_BEGIN: Final = bytes.fromhex("1f8b08000000000000ff")
"""The head of a gzip file without a name or a time (RFC 1952)."""


@dataclass(frozen=True, slots=True)
class PieceRequest:
    """A request for a piece.

    Args:
        after_seq: Read only later events.
        limit: Maximum number of events.
        crc: CRC-32 of all previous pieces, to compress the piece; ``None`` for plain text.
    """

    episode_id: str
    after_seq: int
    limit: int
    crc: int | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a record.

    Args:
        body: Its lines, or a part of a deflate stream.
        size: Size of the lines in bytes.
        crc: CRC-32 of everything up to its end; 0 for plain text.
    """

    body: bytes
    events: int
    size: int
    crc: int


def piece_of(texts: Sequence[str], crc: int | None = None) -> Piece:
    """Make a piece of events.

    >>> piece_of(["{}", "[]"])
    Piece(body=b'{}\\n[]\\n', events=2, size=6, crc=0)
    >>> packed = piece_of(["{}"], crc=0)
    >>> import gzip
    >>> gzip.decompress(GZIP_BEGIN + packed.body + gzip_end(packed.crc, packed.size))
    b'{}\\n'
    """
    lines = "\n".join((*texts, "")).encode()
    if crc is None:
        return Piece(lines, len(texts), len(lines), 0)
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(lines) + packer.flush(zlib.Z_FULL_FLUSH)
    return Piece(body, len(texts), len(lines), zlib.crc32(lines, crc))


def gzip_end(crc: int, size: int) -> bytes:
    """Return the end of a gzip file of pieces: an empty last block, CRC-32 and length (RFC 1952)."""
    return b"\x03\x00" + struct.pack("<LL", crc, size & 0xFFFFFFFF)


def read_piece(database: Database, wanted: PieceRequest) -> Piece:
    """Read a piece.

    Raises:
        JournalError: It cannot be read.
    """

    def unreadable(error: Exception) -> JournalError:
        kind = EpisodeDamaged if is_corrupt(error) else JournalError
        return kind(f"the record of {wanted.episode_id} cannot be read: {reason(error)}")

    with typed_as(unreadable), database.engine.begin() as connection:
        texts = texts_after(connection, wanted.episode_id, wanted.after_seq, wanted.limit)
    return piece_of(texts, wanted.crc)


def answer(database: Database, line: bytes, out: BinaryIO) -> None:
    """Answer one line of input."""
    try:
        piece = read_piece(database, PieceRequest(**json.loads(line)))
    except JournalError as error:
        reply = {"error": str(error), "damaged": isinstance(error, EpisodeDamaged)}
        out.write(json.dumps(reply).encode() + b"\n")
    else:
        head = {name: value for name, value in asdict(piece).items() if name != "body"}
        out.write(json.dumps({**head, "length": len(piece.body)}).encode() + b"\n")
        out.write(piece.body)
    out.flush()


def main() -> None:
    """Answer until there is no more input."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    lines = iter(sys.stdin.buffer)
    if (url := next(lines, None)) is None:
        return
    database = open_database(json.loads(url), writable=False)
    with suppress(BrokenPipeError):
        for line in lines:
            answer(database, line, sys.stdout.buffer)


if __name__ == "__main__":
    main()

"""JSON with numbers that are not finite: NaN, infinities and 1e400 are read as absent values."""

from __future__ import annotations

import json
import math
import re
from typing import IO, Any, Final

import orjson

from spectator.importing.foreign import UnreadableEntry
from spectator.journal.encoding import BadLine

MAX_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of one entry; longer ones are skipped."""

BOM: Final = b"\xef\xbb\xbf"

_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG: Final = b"0" * 19


def _has_long_integer(line: bytes) -> bool:
    """Whether JSON has digits that may be an integer beyond 64 bits, which orjson reads as a float."""
    digits = line.translate(_DIGITS)
    at = digits.find(_LONG)
    while at >= 0 and digits[at - 1 : at] == b".":
        at += len(_LONG)
        while digits[at : at + 1] == b"0":
            at += 1
        at = digits.find(_LONG, at)
    return at >= 0


def parsed(line: bytes) -> Any:
    """Parse JSON, with ``None`` for NaN and infinities, or return a `BadLine`."""
    if not _has_long_integer(line):
        try:
            return orjson.loads(line)
        except ValueError:
            pass
    try:
        return finite_json(line)
    except UnicodeDecodeError as error:
        return BadLine(0, f"invalid UTF-8: {error.reason} at byte {error.start}")
    except (ValueError, RecursionError) as error:
        return BadLine(0, f"invalid JSON: {error}")


def finite_json(text: str | bytes) -> Any:
    """Parse JSON, with ``None`` for NaN, infinities, and numbers that no float can hold, such as 1e400.

    Raises:
        ValueError: It is not JSON.
        RecursionError: It is nested too deeply.
    """
    return json.loads(text, parse_constant=lambda name: None, parse_float=finite_number)


def finite_number(digits: str) -> float | None:
    """Return a number; ``None`` if no float can hold it."""
    known = float(digits)
    return known if math.isfinite(known) else None


class FiniteNumbers:
    """A JSON text without NaN and infinities, which the parser rejects.

    Args:
        stream: The text; read from its beginning.
    """

    CHUNK: Final = 1 << 18
    _TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|NaN|-?Infinity|"', re.DOTALL)

    def __init__(self, stream: IO[bytes]) -> None:
        self.quiet = 0
        """Bytes since the last event of the parser."""
        self._stream, self._kept = stream, b""
        self._exact = not _names_infinities(stream)
        stream.seek(len(BOM) if stream.read(len(BOM)) == BOM else 0)

    def read(self, size: int = -1) -> bytes:
        """Return about ``size`` bytes.

        Raises:
            UnreadableEntry: A single text is longer than an entry may be.
        """
        if size == 0:
            return b""
        if self.quiet > MAX_BYTES + self.CHUNK or len(self._kept) > MAX_BYTES:
            raise UnreadableEntry(f"a text in it is longer than {MAX_BYTES >> 20} MiB")
        while True:
            more = self._stream.read(max(self.CHUNK, len(self._kept)))
            self.quiet += len(more)
            if self._exact or not (self._kept or more):
                return more
            text = self._kept + more
            cut = self._cut(text) if more else len(text)
            self._kept, text = text[cut:], text[:cut]
            if text:
                return self._TOKEN.sub(lambda one: one[0] if one[0][:1] == b'"' else b"null", text)

    def _cut(self, text: bytes) -> int:
        """Return the length of ``text`` before a text or word that goes on behind it."""
        for one in self._TOKEN.finditer(text):
            if one[0] == b'"':
                return one.start()
        return len(text.rstrip(b"-NaInfity"))


def _names_infinities(stream: IO[bytes]) -> bool:
    """Whether a stream contains NaN or an infinity, within a text or as a number."""
    stream.seek(0)
    before, found = b"", False
    while not found and (chunk := stream.read(1 << 20)):
        seen = before + chunk
        found, before = b"NaN" in seen or b"Infinity" in seen, seen[-8:]
    stream.seek(0)
    return found

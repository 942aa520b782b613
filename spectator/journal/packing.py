"""JSON and numbers as the bytes in which a store keeps them: compressed text and packed arrays."""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from collections.abc import Mapping
from typing import Any, Final

from spectator.events import encode_json
from spectator.json_encoders import encode_ascii_texts

Blob = bytearray
"""Bytes as they are handed to SQLite: Python's driver asks each value of type ``bytes`` in vain whether it
adapts itself, which takes 0.4 us, and none of this type."""

LEAST_COMPRESSED: Final = 512
"""Bytes below which text is not worth compressing: some 5 us of processor for about 100 bytes."""

SHORT: Final = 4096
"""Bytes below which text is compressed with little memory: to clear more takes longer than to compress."""

SHORT_MEMORY: Final = 3
"""zlib's ``memLevel`` for short text; it changes nothing of how the result is read."""

MAX_EXPANDED: Final = 256 * 1024 * 1024
"""Bytes of a text beyond which it is not expanded: a small body may claim any length."""

INTEGERS: Final = ("i", "q")
"""Packed integers: 4 bytes where all of them fit, else 8."""

REALS: Final = ("f", "d")
"""Packed real numbers: 4 bytes where that keeps every one exactly, else 8."""


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """``value`` as JSON in UTF-8, its members in their order; half a surrogate pair is escaped.

    Raises:
        TypeError: Something in it is not JSON.
        ValueError: A number in it is not finite.
    """
    usual = encode_ascii_texts(value)
    if usual is not None:
        return usual
    try:
        return encode_json(value).encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def compressed(text: bytes) -> bytes:
    """``text``, or zlib's compression of it where that is shorter.

    Args:
        text: A JSON object; it begins with a brace.
    """
    if len(text) < LEAST_COMPRESSED:
        return text
    if len(text) < SHORT:
        packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, SHORT_MEMORY)
        packed = packer.compress(text) + packer.flush()
    else:
        packed = zlib.compress(text, 1)
    return packed if len(packed) < len(text) else text


def expanded(body: bytes) -> bytes:
    """Inverse of :func:`compressed`.

    >>> expanded(compressed(b'{"content":"' + 500 * b"x" + b'"}'))[:14]
    b'{"content":"xx'

    Raises:
        ValueError: ``body`` is neither.
    """
    if body[:1] == b"{":
        return body
    try:
        unpacking = zlib.decompressobj()
        whole = unpacking.decompress(body, MAX_EXPANDED)
        if unpacking.unconsumed_tail or not unpacking.eof:
            raise ValueError(f"it is cut off, or expands to more than {MAX_EXPANDED} bytes")
        return whole
    except zlib.error as error:
        raise ValueError(f"it cannot be expanded: {error}") from error


def pack_integers(values: array[int]) -> bytes:
    """``values`` packed into 4 or 8 bytes each."""
    if sys.byteorder == "little":
        halves = memoryview(values).cast("B").cast("i")
        upper, lower = halves[1::2].tobytes(), halves[::2].tobytes()
        if not upper.strip(b"\0") and lower[3::4].isascii():  # 0 .. 2**31 - 1, as all usual ids are
            return b"i" + lower
    try:
        return _packed(array("i", values))
    except OverflowError:
        return _packed(array("q", values))


def pack_reals(values: array[float]) -> bytes:
    """``values`` packed into 4 bytes each where that changes none of them, else 8."""
    if values and array("f", values[:1])[0] != values[0]:  # most log probabilities need all 8
        return _packed(values)
    narrow = array("f", values)
    return _packed(narrow if narrow == values else values)


def unpack(packed: bytes) -> array[Any]:
    """Inverse of :func:`pack_integers` and :func:`pack_reals`, in 8 bytes a number.

    >>> unpack(pack_integers(array("q", [1, 2, 3])))
    array('q', [1, 2, 3])

    Raises:
        ValueError: It is not packed numbers.
    """
    kind = packed[:1].decode("latin-1")
    if kind not in (*INTEGERS, *REALS):
        raise ValueError("it does not begin with the kind of its numbers")
    values: array[Any] = array(kind)
    values.frombytes(packed[1:])
    if sys.byteorder == "big":
        values.byteswap()
    return array("q" if kind in INTEGERS else "d", values)


def _packed(values: array[Any]) -> bytes:
    if sys.byteorder == "big":
        values = array(values.typecode, values)
        values.byteswap()
    return values.typecode.encode() + values.tobytes()

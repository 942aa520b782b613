"""Encode records: compressed JSON, packed arrays, JSON Lines files, chat messages.

A JSON Lines file is written completely or not at all, and reading one reports damaged lines. Chat messages
have the form of chat templates: arguments of tool calls as objects, reasoning beside the text.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from spectator.errors import ConfigurationError
from spectator.events import encode_json
from spectator.text import encodable


def check_replaceable(path: Path) -> None:
    """Check that a path is free or a regular file, so that a file may be written there.

    Raises:
        ConfigurationError: The path is a folder, a device, a pipe or a socket.

    >>> check_replaceable(Path("not-there-yet.json"))
    >>> check_replaceable(Path("/dev/null"))
    Traceback (most recent call last):
        ...
    spectator.errors.ConfigurationError: /dev/null is not a regular file...
    """
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"{path} is not a regular file and cannot be replaced; use another path")


Blob = bytearray
"""The type of bytes passed to SQLite: for each ``bytes`` value the driver looks for an adapter, which takes
0.4 us; for a ``bytearray`` it does not."""

LEAST_COMPRESSED: Final = 512
"""Bytes below which text is not compressed: it would take about 5 us to save about 100 bytes."""

SHORT: Final = 4096
"""Bytes below which text is compressed with little memory: clearing more takes longer."""

SHORT_MEMORY: Final = 3
"""zlib's ``memLevel`` for short text; it does not affect decompression."""

MAX_EXPANDED: Final = 256 * 1024 * 1024
"""Maximum bytes of a decompressed text, because a small body may expand to any length."""

INTEGERS: Final = ("i", "q")
"""Kinds of packed integers: 4 bytes if all of them fit, else 8."""

REALS: Final = ("f", "d")
"""Kinds of packed reals: 4 bytes if that is exact for all of them, else 8."""


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """Encode ``value`` as JSON in UTF-8, keeping the order of members; escapes lone surrogates.

    Raises:
        TypeError: A value is not JSON.
        ValueError: A number is not finite.
    """
    try:
        return encode_json(value).encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def compressed(text: bytes) -> bytes:
    """Compress ``text`` with zlib if that is shorter.

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
    """Return the text of :func:`compressed`.

    >>> expanded(compressed(b'{"content":"' + 500 * b"x" + b'"}'))[:14]
    b'{"content":"xx'

    Raises:
        ValueError: ``body`` is neither JSON nor valid zlib data.
    """
    if body[:1] == b"{":
        return body
    try:
        unpacking = zlib.decompressobj()
        whole = unpacking.decompress(body, MAX_EXPANDED)
        if unpacking.unconsumed_tail or not unpacking.eof:
            raise ValueError(f"it is truncated, or expands to more than {MAX_EXPANDED} bytes")
        return whole
    except zlib.error as error:
        raise ValueError(f"it cannot be expanded: {error}") from error


def pack_integers(values: array[int]) -> bytes:
    """Pack ``values`` into 4 or 8 bytes each."""
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
    """Pack ``values`` into 4 bytes each if that is exact for all of them, else 8."""
    if values and array("f", values[:1])[0] != values[0]:  # most log probabilities need all 8
        return _packed(values)
    narrow = array("f", values)
    return _packed(narrow if narrow == values else values)


def unpack(packed: bytes) -> array[Any]:
    """Unpack the result of :func:`pack_integers` or :func:`pack_reals`, to 8 bytes per number.

    >>> unpack(pack_integers(array("q", [1, 2, 3])))
    array('q', [1, 2, 3])

    Raises:
        ValueError: The bytes are not packed numbers.
    """
    kind = packed[:1].decode("latin-1")
    if kind not in (*INTEGERS, *REALS):
        raise ValueError("not packed numbers: the first byte is not i, q, f or d")
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


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not a valid row.

    Args:
        number: Number of the line, from 1.
    """

    number: int
    reason: str


def json_line(row: Mapping[str, Any]) -> str:
    """Encode ``row`` as one line of strict JSON, without the line end.

    Each lone surrogate, which has no UTF-8 encoding, becomes a question mark: readers such as that of
    ``datasets`` would reject the whole file.

    Raises:
        TypeError: A value is not JSON.
        ValueError: A number is not finite.

    >>> json_line({"reward": 0.5, "text": "café"})
    '{"reward":0.5,"text":"café"}'
    """
    line = json_bytes(row)
    return json_text(row) if b"\\ud" in line else line.decode()  # only surrogates are escaped so


def json_text(value: Any) -> str:
    """Encode any value in the way of :func:`json_line`.

    >>> json_text(["é", "\\ud800"])
    '["é","?"]'
    """
    try:
        return encode_json(value)
    except UnicodeEncodeError:
        return encodable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[TextIO]:
    """Open a text file that replaces ``path`` once everything is written and on the disk.

    Until then, and after any failure, ``path`` is unchanged.

    Raises:
        ConfigurationError: ``path`` exists and is not a regular file.
        OSError: It cannot be written.
    """
    check_replaceable(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        with beside.open("w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def read_jsonl(path: Path) -> Iterator[dict[str, Any] | BadLine]:
    """Yield the rows of a file written with :func:`json_line`; skips blank lines.

    Yields a :class:`BadLine` for a line that is not a JSON object, such as a truncated last line.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _row(number, line)


def _row(number: int, line: bytes) -> dict[str, Any] | BadLine:
    try:
        row = json.loads(line, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        return BadLine(number, f"not JSON: {error}")
    return row if isinstance(row, dict) else BadLine(number, f"not an object but {type(row).__name__}")


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:40]} is too large for a number")
    return number


ChatMessage = dict[str, Any]


def chat_message(message: Mapping[str, Any]) -> ChatMessage:
    """Return a sent message with the arguments of its tool calls as objects.

    Example:
        >>> call = {"id": "c", "type": "function", "function": {"name": "say", "arguments": '{"n":1}'}}
        >>> sent = {"role": "assistant", "content": "", "tool_calls": [call]}
        >>> chat_message(sent)["tool_calls"][0]["function"]["arguments"]
        {'n': 1}
    """
    calls = message.get("tool_calls")
    if not calls:
        return dict(message)
    return {**message, "tool_calls": [_with_arguments(call, _object) for call in calls]}


def wire_message(message: Mapping[str, Any]) -> ChatMessage:
    """Return a message with the arguments of its tool calls as JSON text, for endpoints."""
    calls = message.get("tool_calls")
    if not calls:
        return dict(message)
    return {**message, "tool_calls": [_with_arguments(call, _text) for call in calls]}


def reply_message(reply: Mapping[str, Any]) -> ChatMessage:
    """Convert a recorded reply to an assistant message.

    Example:
        >>> reply_message({"content": "Four.", "thought": "2 + 2", "tool_calls": []})
        {'role': 'assistant', 'content': 'Four.', 'reasoning_content': '2 + 2'}
    """
    message: ChatMessage = {"role": "assistant", "content": reply["content"] or reply.get("refusal") or ""}
    if reply.get("thought"):
        message["reasoning_content"] = reply["thought"]
    if reply["tool_calls"]:
        message["tool_calls"] = [
            tool_call(call["id"] or f"call_{place}", call["name"], _object(call["arguments"]))
            for place, call in enumerate(reply["tool_calls"])
        ]
    return message


def tool_call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    """Make a tool call in the form of chat messages."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tools_by_name(offered: Iterable[Sequence[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """Return every offered tool in its latest version, in the order of first offers."""
    found: dict[str, Mapping[str, Any]] = {}
    for tools in offered:
        found.update((tool["function"]["name"], tool) for tool in tools)
    return list(found.values())


def _with_arguments(call: Mapping[str, Any], form: Any) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": form(function["arguments"])}}


def _object(arguments: Any) -> Any:
    """Parse ``arguments`` as an object; return them unchanged if they are none or hold an infinite number."""
    if not isinstance(arguments, str):
        return arguments
    try:
        parsed = json.loads(arguments, parse_constant=_reject_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        return arguments
    return parsed if isinstance(parsed, dict) else arguments


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json_text(arguments)

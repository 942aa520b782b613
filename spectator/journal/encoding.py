"""Encode records: compressed JSON, packed arrays, JSON Lines files, chat messages.

A JSON Lines file is written completely or not at all, and reading one skips damaged lines. Chat messages
have the form that chat templates take: arguments of tool calls as objects, reasoning beside the text.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from spectator.errors import ConfigurationError
from spectator.events import encode_json
from spectator.json_values import encode_ascii_texts
from spectator.text import encodable


def check_replaceable(path: Path) -> None:
    """Let a path through where a file may be put: nothing is there yet, or an ordinary file.

    Raises:
        ConfigurationError: A folder, a device, a pipe or a socket is there.

    >>> check_replaceable(Path("not-there-yet.json"))
    >>> check_replaceable(Path("/dev/null"))
    Traceback (most recent call last):
        ...
    spectator.errors.ConfigurationError: /dev/null is no ordinary file; it is not replaced
    """
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"{path} is no ordinary file; it is not replaced")


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


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that holds no object of its file.

    Args:
        number: Number of the line, from 1.
        reason: What is wrong with it.
    """

    number: int
    reason: str


def json_line(row: Mapping[str, Any]) -> str:
    """``row`` as one line of strict JSON, without its end.

    A question mark stands for every half of a surrogate pair, which has no UTF-8: readers such as that of
    ``datasets`` refuse the whole file for one.

    Raises:
        TypeError: Something in it is not JSON.
        ValueError: A number in it is not finite.

    >>> json_line({"reward": 0.5, "text": "café"})
    '{"reward":0.5,"text":"café"}'
    """
    line = json_bytes(row)
    return json_text(row) if b"\\ud" in line else line.decode()  # escaped, as text in UTF-8 never is


def json_text(value: Any) -> str:
    """Any value as :func:`json_line` writes rows.

    >>> json_text(["é", "\\ud800"])
    '["é","?"]'
    """
    try:
        return encode_json(value)
    except UnicodeEncodeError:
        return encodable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[TextIO]:
    """A text file that takes the place of ``path`` once all is written and on the disk.

    Until then, and whatever fails, ``path`` is as it was.

    Raises:
        ConfigurationError: ``path`` is there and no ordinary file.
        OSError: It cannot be written.
    """
    check_replaceable(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with beside.open("w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def write_jsonl(rows: Iterable[Mapping[str, Any]], path: Path) -> int:
    """Write ``rows``, one a line, and return how many; see :func:`atomic_file`."""
    written = 0
    with atomic_file(path) as file:
        for row in rows:
            file.write(json_line(row) + "\n")
            written += 1
    return written


def read_jsonl(path: Path) -> Iterator[dict[str, Any] | BadLine]:
    """The rows of a file, one at a time, as :func:`json_line` wrote them; blank lines are passed over.

    A line that is no JSON object, a torn last one included, comes as a :class:`BadLine` in its place.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _row(number, line)


def _row(number: int, line: bytes) -> dict[str, Any] | BadLine:
    try:
        row = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return BadLine(number, f"no JSON: {error}")
    return row if isinstance(row, dict) else BadLine(number, f"no object, but {type(row).__name__}")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


ChatMessage = dict[str, Any]


def chat_message(message: Mapping[str, Any]) -> ChatMessage:
    """A message as it was sent, the arguments of its tool calls as objects.

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
    """The same with the arguments as JSON text, as endpoints take them."""
    calls = message.get("tool_calls")
    if not calls:
        return dict(message)
    return {**message, "tool_calls": [_with_arguments(call, _text) for call in calls]}


def reply_message(reply: Mapping[str, Any]) -> ChatMessage:
    """A recorded reply as a message of the assistant.

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
    """A tool call as messages hold it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tools_by_name(offered: Iterable[Sequence[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    """Every tool that was offered, in the order of their first offers, each as it was offered last."""
    found: dict[str, Mapping[str, Any]] = {}
    for tools in offered:
        found.update((tool["function"]["name"], tool) for tool in tools)
    return list(found.values())


def _with_arguments(call: Mapping[str, Any], form: Any) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": form(function["arguments"])}}


def _object(arguments: Any) -> Any:
    """The object that ``arguments`` says; itself where it says none, as models sometimes do."""
    if not isinstance(arguments, str):
        return arguments
    try:
        said = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return said if isinstance(said, dict) else arguments


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json_text(arguments)

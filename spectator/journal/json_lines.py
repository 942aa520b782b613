"""JSON Lines: files of one JSON object a line, written whole or not at all, read past damaged lines."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from spectator.events import encode_json
from spectator.journal.packing import json_bytes
from spectator.ordinary_files import need_ordinary
from spectator.text import encodable


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
def whole_file(path: Path) -> Iterator[TextIO]:
    """A text file that takes the place of ``path`` once all is written and on the disk.

    Until then, and whatever fails, ``path`` is as it was.

    Raises:
        ConfigurationError: ``path`` is there and no ordinary file.
        OSError: It cannot be written.
    """
    need_ordinary(path)
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
    """Write ``rows``, one a line, and return how many; see :func:`whole_file`."""
    written = 0
    with whole_file(path) as file:
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

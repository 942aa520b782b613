"""Collected episodes in files: one line of JSON each, written whole or not at all, read back as they were."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from spectator.collector.records import EpisodeRecord
from spectator.errors import ConfigurationError
from spectator.journal.encoding import BadLine, atomic_file
from spectator.text import common_length, encodable

FORMAT: Final = "spectator.collector"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class LoadedEpisodes:
    """What a file holds.

    Args:
        episodes: The episodes in order.
        bad_lines: Lines that could not be read; a torn last line is one of them.
    """

    episodes: list[EpisodeRecord] = field(default_factory=list)
    bad_lines: list[BadLine] = field(default_factory=list)

    def __iter__(self) -> Iterator[EpisodeRecord]:
        return iter(self.episodes)

    def __len__(self) -> int:
        return len(self.episodes)


def save_episodes_jsonl(episodes: Iterable[EpisodeRecord], path: Path | str, *, append: bool = False) -> int:
    """Write episodes, one line each.

    Without ``append`` the file is replaced at once when all are written: until then, and if anything fails,
    it is as it was. With it, whole lines are added to the end, all of them or none, by one process at a
    time; a torn last line, left by a death, is closed first.

    Args:
        episodes: What to write.
        path: The file.
        append: Add to the file instead of replacing it.

    Returns:
        How many were written.

    Raises:
        ConfigurationError: ``path`` is there and no ordinary file.
        OSError: It cannot be written; the file is as it was.
    """
    return _save((_line(episode) for episode in episodes), Path(path), append=append)


def load_episodes_jsonl(path: Path | str) -> LoadedEpisodes:
    """Read what :func:`save_episodes_jsonl` wrote; blank lines are passed over, bad ones reported.

    Raises:
        OSError: The file cannot be read.
    """
    loaded = LoadedEpisodes()
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                loaded.episodes.append(_episode(line))
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                loaded.bad_lines.append(BadLine(number, _reason(error)))
    return loaded


def save_truths_jsonl(truths: Mapping[str, Mapping[str, Any]], path: Path | str) -> int:
    """Write the hidden truth of episodes, by episode id, to a file of its own."""
    lines = (_dumps({"episode_id": key, "truth": dict(truth)}) for key, truth in truths.items())
    return _save(lines, Path(path), append=False)


def _line(episode: EpisodeRecord) -> str:
    """The episode as JSON; each prompt as what it adds to the one before, so that size is linear in steps."""
    dumped = episode.model_dump(mode="json")
    before = ""
    for step in dumped["steps"]:
        prompt = step.pop("prompt")
        kept = common_length(before, prompt)
        step["prompt_kept"], step["prompt_added"] = kept, prompt[kept:]
        before = prompt
    return _dumps({"format": FORMAT, "version": VERSION, **dumped})


def _episode(line: bytes) -> EpisodeRecord:
    found = json.loads(line)
    if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
        raise ValueError(f"format: must be {FORMAT!r}")
    version = found.pop("version", None)
    if version != VERSION:
        raise ValueError(f"version: {version!r}; this one reads {VERSION}")
    before = ""
    for step in found["steps"]:
        if not isinstance(step, dict):
            raise ValueError("steps: each must be an object")
        kept = step.pop("prompt_kept")
        if type(kept) is not int or not 0 <= kept <= len(before):
            raise ValueError("prompt_kept: more than the prompt before has")
        before = step["prompt"] = before[:kept] + step.pop("prompt_added")
    return EpisodeRecord.model_validate(found)


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or 'episode'}: {first['msg']}"
    if isinstance(error, KeyError):
        return f"{error.args[0]}: missing"
    return str(error)


def _dumps(value: Any) -> str:
    """``value`` on one line; half a surrogate pair, which has no UTF-8, is escaped with all beyond ASCII."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if encodable(line) == line:
        return line
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _save(lines: Iterable[str], path: Path, *, append: bool) -> int:
    if append and path.exists():
        return _append(lines, path)
    written = 0
    with atomic_file(path) as file:
        for line in lines:
            file.write(line + "\n")
            written += 1
    return written


def _append(lines: Iterable[str], path: Path) -> int:
    if not path.is_file():
        raise ConfigurationError(f"{path} is no ordinary file; nothing is added to it")
    with path.open("a+b", buffering=0) as raw:
        before = raw.tell()
        try:
            if before and _last_byte(raw) != b"\n":
                _write(raw, b"\n")
            written = 0
            for line in lines:
                _write(raw, line.encode() + b"\n")
                written += 1
            os.fsync(raw.fileno())
        except BaseException:  # such as a full disk: whoever tried again would add some of them twice
            if raw.tell() == path.stat().st_size:
                raw.truncate(before)
            raise
    return written


def _write(file: FileIO, data: bytes) -> None:
    """Write all of ``data``; what is not buffered may take a part of it at a time."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _last_byte(file: Any) -> bytes:
    file.seek(-1, os.SEEK_END)
    return bytes(file.read(1))


__all__: Sequence[str] = (
    "BadLine",
    "LoadedEpisodes",
    "load_episodes_jsonl",
    "save_episodes_jsonl",
    "save_truths_jsonl",
)

"""Evaluation logs of inspect_ai: one JSON text, or an ``.eval`` archive.

Members of archives can be compressed with Zstandard, which Python's ``zipfile`` cannot read.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from spectator.errors import ConfigurationError
from spectator.importing.file_rows import BOM, MAX_BYTES, Entries, SkippedEntry, Source, guarded, parsed
from spectator.importing.foreign import (
    ForeignEpisode,
    UnreadableEntry,
    count,
    digest_of,
    group_of,
    message_of,
    moment,
    need,
    number,
    text,
    turns_of,
    usage_of,
)
from spectator.journal.encoding import BadLine

ZSTANDARD: Final = 93
"""Number of Zstandard as a compression method of ZIP archives."""

_LOCAL: Final = struct.Struct("<4s22xHH")
"""The local header of a member: signature, length of the name, length of the extra field."""


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
    packed = file.read(member.compress_size)
    data = _expanded(packed, member.compress_type)
    if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
        raise UnreadableEntry("it is damaged: wrong checksum")
    return data


def _expanded(packed: bytes, kind: int) -> bytes:
    if kind == zipfile.ZIP_STORED:
        return packed
    if kind == ZSTANDARD:
        return _expanded_zstandard(packed)
    if kind != zipfile.ZIP_DEFLATED:
        raise UnreadableEntry(f"its compression method {kind} is not supported")
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, MAX_BYTES + 1)
    except zlib.error as error:
        raise UnreadableEntry(f"it is damaged: {error}") from error


def _expanded_zstandard(packed: bytes) -> bytes:
    try:
        import zstandard
    except ImportError as error:
        raise ConfigurationError(
            "this archive needs zstandard: pip install 'openenv-spectator[import]'"
        ) from error
    try:
        with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as stream:
            return stream.read(MAX_BYTES + 1)
    except zstandard.ZstdError as error:
        raise UnreadableEntry(f"it is damaged: {error}") from error


NAME: Final = "inspect"

VERSION: Final = 2
"""The supported version of the log."""

SAMPLES: Final = "samples/"

HEADS: Final = ("header.json", "_journal/start.json")
"""Members that describe the log; unfinished logs have the second one only."""

_LETTERS: Final = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Values of letter scores, as in inspect_ai's metrics: correct, partial, incorrect, no answer."""

_UNREAD: Final = (
    "samples.item.events",
    "samples.item.store",
    "samples.item.timelines",
    "samples.item.events_data",
)
"""Parts of a sample that are large and not needed."""

_WHOLE: Final = 256 * 1024 * 1024
"""Largest log that is read at once, bytes: one with NaN or infinities, or whose samples come first."""

_ATTACHED: Final = "attachment://"


def matches(row: Mapping[str, Any]) -> bool:
    """Whether an object is a log of this format."""
    return isinstance(row.get("eval"), Mapping) and "task" in row["eval"]


def read(source: Source) -> Entries:
    """Yield the samples of a log."""
    if zipfile.is_zipfile(source.path):
        return _read_archive(source)
    return _read_text(source)


def _read_archive(source: Source) -> Entries:
    try:
        with zipfile.ZipFile(source.path) as archive, source.path.open("rb") as file:
            head = _head(archive, file)
            for member in archive.infolist():
                source.done = max(source.done, member.header_offset)
                if member.filename.startswith(SAMPLES) and member.filename.endswith(".json"):
                    yield from guarded(member.filename, lambda one=member: _read_member(file, one, head))  # type: ignore[misc]
    except zipfile.BadZipFile as error:
        raise ConfigurationError(f"{source.path} is not a readable archive: {error}") from error


def _head(archive: zipfile.ZipFile, file: BinaryIO) -> Mapping[str, Any]:
    """Return the description of the log."""
    reason = ""
    for name in HEADS:
        if name not in archive.namelist():
            continue
        try:
            head = parsed(member_bytes(file, archive.getinfo(name)))
        except UnreadableEntry as error:
            reason = f": {name}: {error}"
            continue
        if isinstance(head, dict) and matches(head):
            return _checked(head)
    raise ConfigurationError(
        f"the archive has neither a {' nor a '.join(HEADS)} of inspect_ai that can be read{reason}"
    )


def _checked(head: Mapping[str, Any]) -> Mapping[str, Any]:
    version = head.get("version", VERSION)
    if version != VERSION:
        raise ConfigurationError(f"the log has version {version!r}; only version {VERSION} is supported")
    return head


def _read_member(
    file: BinaryIO, member: zipfile.ZipInfo, head: Mapping[str, Any]
) -> Iterator[ForeignEpisode]:
    sample = parsed(member_bytes(file, member))
    if isinstance(sample, BadLine):
        raise UnreadableEntry(sample.reason)
    yield _sample(sample, head)


def _read_text(source: Source) -> Entries:
    import ijson

    head = _text_head(source)
    if source.size <= _WHOLE and (head is None or _names_infinities(source.path)):
        yield from _read_whole(source)
        return
    if head is None:
        raise ConfigurationError(
            f"{source.path} does not begin like a log of inspect_ai: eval must come first"
        )
    place = 0
    with source.path.open("rb") as file:
        try:
            for sample in _samples(ijson, file):
                source.done, place = file.tell(), place + 1
                yield from guarded(f"samples[{place - 1}]", lambda one=sample: iter([_sample(one, head)]))  # type: ignore[misc]
        except ijson.JSONError as error:
            yield SkippedEntry(
                f"after samples[{place - 1}]" if place else "its samples", f"invalid JSON: {error}"
            )


def _names_infinities(path: Path) -> bool:
    """Whether a file contains NaN or an infinity, within a text or as a number."""
    with path.open("rb") as file:
        before = b""
        while chunk := file.read(1 << 20):
            if b"NaN" in (seen := before + chunk) or b"Infinity" in seen:
                return True
            before = seen[-8:]
    return False


def _read_whole(source: Source) -> Entries:
    """Yield the samples of a log that is parsed at once, with ``None`` for NaN and infinities."""
    log = parsed(source.path.read_bytes().removeprefix(BOM))
    if isinstance(log, BadLine):
        yield SkippedEntry("its samples", log.reason)
        return
    if not isinstance(log, Mapping) or not matches(log):
        raise ConfigurationError(f"{source.path} does not begin like a log of inspect_ai")
    head = _checked(log)
    for place, sample in enumerate(log.get("samples") or []):
        yield from guarded(f"samples[{place}]", lambda one=sample: iter([_sample(one, head)]))  # type: ignore[misc]
    source.done = source.path.stat().st_size


def _text_head(source: Source) -> Mapping[str, Any] | None:
    """Return the members of the log before its samples; ``None`` if these do not describe it."""
    import ijson

    head: dict[str, Any] = {}
    with source.path.open("rb") as file:
        try:
            for name, value in ijson.kvitems(_UntilSamples(file), "", use_float=True):
                head[name] = value
                if name in ("eval", "samples"):
                    break
        except ijson.JSONError:
            pass  # damaged later on: the samples before that are read
    return _checked(head) if matches(head) else None


class _UntilSamples:
    """The first megabytes of a file, in which a log describes itself."""

    def __init__(self, file: BinaryIO, most: int = 8 * 1024 * 1024) -> None:
        self._file, self._left = file, most

    def read(self, size: int = -1) -> bytes:
        read = self._file.read(min(size, self._left) if size >= 0 else self._left)
        self._left -= len(read)
        return read


def _samples(ijson: Any, file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield the samples one by one, without their largest parts."""
    builder, _deep = None, 0
    for prefix, event, value in ijson.parse(file, use_float=True):
        if prefix == "samples.item" and event == "start_map":
            builder = ijson.ObjectBuilder()
        if builder is None or prefix.startswith(_UNREAD):
            continue
        if event == "map_key" and prefix == "samples.item" and f"{prefix}.{value}" in _UNREAD:
            continue
        overflow = event == "number" and isinstance(value, float) and math.isinf(value)
        builder.event("null" if overflow else event, None if overflow else value)
        if prefix == "samples.item" and event == "end_map":
            yield builder.value
            builder = None


def _sample(sample: Any, head: Mapping[str, Any]) -> ForeignEpisode:
    if not isinstance(sample, Mapping) or "id" not in sample:
        raise UnreadableEntry("it is not a sample: id is missing")
    attached = sample.get("attachments") or {}
    listed = need(sample, "messages", list, "it must list the messages")
    messages = [
        message_of(_resolved(one, attached), f"messages[{place}]") for place, one in enumerate(listed)
    ]
    turns, after = turns_of(messages)
    _add_details(turns, listed, sample)
    about = head["eval"]
    scored, invalid = (
        _scores(sample.get("scores"), about.get("scorers")),
        _invalidation(sample.get("invalidation")),
    )
    scores = {} if invalid else scored
    error, limit = sample.get("error"), sample.get("limit")
    epoch = count(sample.get("epoch")) or 1
    environment = text(about.get("task")).rsplit("/", 1)[-1] or NAME
    log = [text(about.get("run_id")), text(about.get("eval_id"))]
    identity = text(sample.get("uuid")) or (log if any(log) else digest_of([environment, listed, scored]))
    metadata = sample.get("metadata") or {}
    return ForeignEpisode(
        key=[NAME, identity, sample["id"], epoch],
        environment=environment,
        title=text(about.get("task_display_name")) or text(about.get("task")),
        agent=text((sample.get("output") or {}).get("model")) or text(about.get("model")),
        turns=turns,
        after=after,
        group=group_of(text(about.get("task")) or environment, f"sample-{sample['id']}", sample.get("input")),
        seed=count(metadata.get("seed")) if isinstance(metadata, Mapping) else None,
        reward=next(iter(scores.values()), None),
        rubric=scores,
        error=invalid or _error(error),
        cut=f"the limit of {text(limit.get('type'))}" if isinstance(limit, Mapping) else None,
        result=_explanation(sample.get("scores")),
        began=moment(sample.get("started_at")) or moment(about.get("created")),
        order_ms=epoch,
    )


def _add_details(turns: Any, messages: list[Any], sample: Mapping[str, Any]) -> None:
    """Set model and reward of each turn, and the usage of a single turn."""
    answers = [one for one in messages if one.get("role") == "assistant"]
    for turn, one in zip(turns, answers, strict=True):
        turn.model = text(one.get("model")) or None
        metadata = one.get("metadata")
        turn.reward = number(metadata.get("reward")) if isinstance(metadata, Mapping) else None
    output = sample.get("output") or {}
    usage = output.get("usage")
    if len(turns) == 1 and isinstance(usage, Mapping):
        turns[0].usage = usage_of(usage, "input_tokens", "output_tokens")
    choices = output.get("choices")
    if turns and isinstance(choices, list) and choices:
        turns[-1].finish_reason = text(choices[0].get("stop_reason")) or None


def _resolved(value: Any, attached: Mapping[str, Any]) -> Any:
    """Return a message with its attachments inserted."""
    if isinstance(value, str) and value.startswith(_ATTACHED):
        return attached.get(value.removeprefix(_ATTACHED), value)
    if isinstance(value, Mapping):
        return {name: _resolved(one, attached) for name, one in value.items()}
    return [_resolved(one, attached) for one in value] if isinstance(value, list) else value


def _scores(scores: object, scorers: object) -> dict[str, float]:
    """Return the scores that are numbers, or letters with a value, in the order of the log's scorers."""
    found = {}
    given = scores if isinstance(scores, Mapping) else {}
    listed = (
        [one.get("name") for one in scorers if isinstance(one, Mapping)] if isinstance(scorers, list) else []
    )
    for name in [*(one for one in listed if one in given), *(one for one in given if one not in listed)]:
        score = given[name]
        value = score.get("value") if isinstance(score, Mapping) else None
        known = _LETTERS.get(value) if isinstance(value, str) else number(value)
        if known is not None:
            found[str(name)] = known
    return found


def _explanation(scores: object) -> str | None:
    first = (
        next((one for one in scores.values() if isinstance(one, Mapping)), {})
        if isinstance(scores, Mapping)
        else {}
    )
    return text(first.get("answer")) or text(first.get("explanation")) or None


def _invalidation(mark: object) -> str | None:
    """Return why the log's author declared a sample invalid; such a sample has no verdict."""
    if not mark:
        return None
    reason = text(mark.get("reason")) if isinstance(mark, Mapping) else text(mark)
    return f"declared invalid: {reason or 'no reason given'}"


def _error(error: object) -> str | None:
    if isinstance(error, Mapping):
        return text(error.get("message")) or "it failed"
    return text(error) or None

"""Import files into a run's folder: each episode once, even if read again.

The format of a file is recognised by how it begins.
"""

from __future__ import annotations

import asyncio
import logging
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from spectator.episodes.reader import BEFORE_END, ViewReader
from spectator.errors import ConfigurationError, JournalError, SequenceConflict
from spectator.events import EpisodeEnded, RecordedEvent, Warned, core_fact
from spectator.importing import inspect_logs, nemo_gym, own_exports, sessions, trl, verifiers
from spectator.importing.file_rows import (
    UNEXPECTED,
    Entries,
    SkippedEntry,
    Source,
    is_table,
    rows,
    table_rows,
)
from spectator.importing.foreign import ForeignEpisode, ForeignTurn
from spectator.importing.foreign_record import (
    ForeignRecord,
    plain_name,
    rewards_of,
    said_fact,
    started_fact,
    step_fact,
    words_of,
)
from spectator.importing.own_exports import EventBatch, batches
from spectator.journal.contract import Attachments, Journal
from spectator.model_calls import ModelCall
from spectator.observations import Profile
from spectator.runs.run_plan import derived_id
from spectator.text import clean_text

LOOKED_AT: Final = 20
"""Lines of a file that are looked at."""

BEGINNING: Final = 4096


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format.

    Args:
        name: As ``--format`` takes it.
        known_by: Whether an object is a line, a row or a whole file of it.
        read: Reads its files; ``None`` for events, which are not translated.
    """

    name: str
    known_by: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Source], Entries] | None


FORMATS: Final = (
    FileFormat(own_exports.NAME, own_exports.known_by, None),
    FileFormat(sessions.NAME, sessions.known_by, sessions.read),
    FileFormat(nemo_gym.NAME, nemo_gym.known_by, nemo_gym.read),
    FileFormat(own_exports.CALLS, own_exports.is_call, own_exports.read_calls),
    FileFormat(own_exports.GROUPS, own_exports.is_group, own_exports.read_groups),
    FileFormat(own_exports.RECORDS, own_exports.is_record, own_exports.read_records),
    FileFormat(verifiers.NAME, verifiers.known_by, verifiers.read),
    FileFormat(trl.NAME, trl.known_by, trl.read),
    FileFormat(inspect_logs.NAME, inspect_logs.known_by, inspect_logs.read),
)
"""All formats; the first that knows a line has it."""

NAMES: Final = tuple(one.name for one in FORMATS)


def format_called(name: str) -> FileFormat:
    """The format with this name.

    Raises:
        ConfigurationError: There is none.
    """
    for one in FORMATS:
        if one.name == name:
            return one
    raise ConfigurationError(f"there is no format {name!r}; there are {', '.join(NAMES)}")


def sniff(path: Path) -> FileFormat:
    """The format of a file, by its beginning.

    Raises:
        ConfigurationError: It is none that is known; the sentence says what was found.
        OSError: It cannot be read.
    """
    if path.stat().st_size == 0:
        raise ConfigurationError(f"{path} is empty")
    if zipfile.is_zipfile(path):
        return format_called(inspect_logs.NAME)
    found = _table_formats(path) if is_table(path) else _line_formats(path)
    if isinstance(found, FileFormat):
        return found
    named = f"; it begins with {found}" if found else ""
    raise ConfigurationError(f"{path} is of no format that is known{named}; --format NAME says which it is")


def _table_formats(path: Path) -> FileFormat | str:
    row = next(table_rows(Source(path)), None)
    if row is None:
        return "a table without rows"
    return format_called(trl.NAME) if trl.known_by(row.value) else f"the columns {_names(row.value)}"


def _line_formats(path: Path) -> FileFormat | str:
    with path.open("rb") as file:
        beginning = file.read(BEGINNING)
    if b"\x00" in beginning:
        return "bytes that are no text"
    if _is_log(beginning):
        return format_called(inspect_logs.NAME)
    seen = ""
    for row in islice(rows(Source(path)), LOOKED_AT):
        if isinstance(row, SkippedEntry):
            continue
        known = next((one for one in FORMATS if one.known_by(row.value)), None)
        if known is not None:
            return known
        seen = seen or f"an object with {_names(row.value)}"
    return seen


def _is_log(beginning: bytes) -> bool:
    """Whether a text begins as a log of inspect_ai: one JSON text, on one line or on many."""
    head = beginning.lstrip()[:2000]
    return (
        head.startswith(b"{") and b'"version"' in head[:200] and b'"eval"' in head and b'"task"' in beginning
    )


def _names(row: Mapping[str, Any]) -> str:
    return ", ".join(map(str, list(row)[:8])) or "nothing"


@dataclass(frozen=True, slots=True)
class BuiltEpisode:
    """An episode that is ready to be recorded.

    Args:
        episode_id: Its id, the same whenever its file is read.
        events: Its events, in order.
        calls: For each of its decisions, the question behind it.
    """

    episode_id: str
    events: Sequence[RecordedEvent]
    calls: Sequence[Sequence[ModelCall]]

    @property
    def attachments(self) -> Attachments:
        """What is recorded beside the events."""
        return Attachments(calls=self.calls)


def imported_id(episode: ForeignEpisode) -> str:
    """The id under which an episode is recorded: it follows from what the episode is."""
    began = episode.order_ms if episode.began is None else int(episode.began.timestamp() * 1000)
    return derived_id(min(max(0, began), 2**48 - 1), ["import", *episode.key])


def build(episode: ForeignEpisode, run_id: str | None, known_at: datetime) -> BuiltEpisode:
    """The record of an episode.

    Args:
        episode: What the file says of it.
        run_id: The run that it is shown in.
        known_at: When it was there at the latest, for one of which the file tells no time.
    """
    episode_id = imported_id(episode)
    record = ForeignRecord(episode_id, episode.began or known_at)
    profile = _profile(episode)
    record.add(0, [started_fact(episode, run_id, profile)])
    total: float | None = None
    for turn, one in enumerate(episode.turns, 1):
        if turn == 1:
            record.add(0, [said_fact(words_of(one.asked), None, None, len(episode.turns))])
        last = turn == len(episode.turns)
        reward = _reward(episode, one, last)
        total = total if reward is None else (total or 0.0) + reward
        record.pass_time(one)
        facts = [core_fact(record.decided(episode, one))]
        following = episode.after if last else episode.turns[turn].asked
        facts.append(said_fact(words_of(following), reward, total, len(episode.turns)))
        if reward is not None:
            rubric = episode.rubric if last else {}
            facts.append(step_fact(reward, rubric, last=last, done=last and episode.ended))
        record.add(turn, facts)
    if not episode.turns:
        record.add(0, [said_fact(words_of(episode.after), None, None, 0)])
    record.add(len(episode.turns), [core_fact(Warned(message=clean_text(n, 500))) for n in episode.notes])
    record.add(len(episode.turns), [core_fact(_ended(episode, profile, total))])
    return BuiltEpisode(episode_id, record.events, record.calls)


def _profile(episode: ForeignEpisode) -> Profile:
    """Rewards of steps where the file has them, or where an episode that was cut short has any."""
    stepwise = any(one.reward is not None for one in episode.turns) or episode.cut is not None
    return rewards_of(stepwise=stepwise)


def _reward(episode: ForeignEpisode, one: ForeignTurn, last: bool) -> float | None:
    """What an answer earned, as far as the file says: the reward of the whole belongs to the last one."""
    if any(turn.reward is not None for turn in episode.turns):
        return one.reward
    return episode.reward if last and episode.error is None else None


def _ended(episode: ForeignEpisode, profile: Profile, total: float | None) -> EpisodeEnded:
    reward = total if episode.reward is None else episode.reward
    stated: dict[str, Any] = {"score": None, "result": None, "turns": len(episode.turns)}
    if episode.error is not None:
        detail = clean_text(episode.error, 500)
        return EpisodeEnded(
            reason="environment_error", detail=detail, failure_class="unknown", terminated=False,
            truncated=True, **stated,
        )  # fmt: skip
    if episode.cut is not None:
        return EpisodeEnded(
            reason="step_cap", detail=clean_text(episode.cut, 500), failure_class="truncated",
            total_reward=reward, terminated=False, truncated=True, **stated,
        )  # fmt: skip
    if not episode.ended:
        detail = "its file ends before it does"
        return EpisodeEnded(reason="interrupted", detail=detail, terminated=False, truncated=True, **stated)
    known = {"total_reward": reward} if profile.rewards == "step" else {}
    stated |= {"score": reward, "result": _result(episode, reward)}
    return EpisodeEnded(reason="finished", terminated=True, truncated=False, **stated, **known)


def _result(episode: ForeignEpisode, reward: float | None) -> str:
    said = "no reward in its file" if reward is None else f"{reward:g} reward"
    answers = len(episode.turns)
    return clean_text(episode.result or f"{said} in {answers} answer{'' if answers == 1 else 's'}", 300)


logger = logging.getLogger(__name__)

TOGETHER: Final = 32
"""Episodes that are handed to the journal together, to share a commit."""

TOGETHER_EVENTS: Final = 2_000
"""Events beyond which no more are added to them."""

TOLD: Final = 20
"""Places of one file that are told singly; the others are counted."""


@dataclass(slots=True)
class ImportReport:
    """What an import came to.

    Args:
        imported: Episodes that were added.
        known: Episodes that were there already.
        left_out: Places of files that were not imported.
        told: The first of these, a sentence each.
    """

    imported: int = 0
    known: int = 0
    left_out: int = 0
    told: list[str] = field(default_factory=list)

    def leave_out(self, source: Source, what: SkippedEntry) -> None:
        """Count a place that is not imported."""
        self.left_out += 1
        if self.left_out <= TOLD:
            self.told.append(f"{source.path}, {what.place}: {what.reason}")


OnProgress = Callable[[Source, ImportReport], None]


async def import_file(
    source: Source, form: FileFormat, journal: Journal, run: str, report: ImportReport, moved: OnProgress
) -> None:
    """Read a file and record what is new of it.

    Args:
        source: The file.
        form: Its format.
        journal: Where the episodes go.
        run: Name of the run that they are shown in.
        report: Counts what became of them.
        moved: Told of progress, now and then.

    Raises:
        ConfigurationError: The file as a whole cannot be read.
        JournalError: Nothing can be recorded.
    """
    if form.read is None:
        await _import_events(source, journal, report, moved)
        return
    known_at = datetime.fromtimestamp(source.path.stat().st_mtime, UTC)
    waiting: list[BuiltEpisode] = []
    entries = form.read(source)
    while (taken := await asyncio.to_thread(_take, entries)) is not None:
        if isinstance(taken, SkippedEntry):
            report.leave_out(source, taken)
        elif await journal.episode(imported_id(taken)) is not None:
            report.known += 1
        else:
            _build(taken, run, known_at, source, waiting, report)
        if len(waiting) >= TOGETHER or sum(len(one.events) for one in waiting) > TOGETHER_EVENTS:
            await _record(journal, waiting, report)
        moved(source, report)
    await _record(journal, waiting, report)
    moved(source, report)


def _take(entries: Iterator[ForeignEpisode | SkippedEntry]) -> ForeignEpisode | SkippedEntry | None:
    return next(entries, None)


def _build(
    episode: ForeignEpisode,
    run: str,
    known_at: datetime,
    source: Source,
    waiting: list[BuiltEpisode],
    report: ImportReport,
) -> None:
    try:
        built = build(episode, plain_name(run), known_at)
    except UNEXPECTED as error:
        report.leave_out(
            source, SkippedEntry(f"episode {episode.key!r}"[:120], f"it cannot be recorded: {error}")
        )
        return
    if any(one.episode_id == built.episode_id for one in waiting):
        report.known += 1
    else:
        waiting.append(built)


async def _record(journal: Journal, waiting: list[BuiltEpisode], report: ImportReport) -> None:
    """Record what waits, each episode whole or not at all."""
    done = await asyncio.gather(
        *(journal.append(one.events, attachments=one.attachments) for one in waiting), return_exceptions=True
    )
    long = [one.episode_id for one in waiting if len(one.events) > BEFORE_END]
    waiting.clear()
    for episode_id in long:
        await _ready_to_open(journal, episode_id)
    for outcome in done:
        if isinstance(outcome, SequenceConflict):
            report.known += 1
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            report.imported += 1


async def _import_events(source: Source, journal: Journal, report: ImportReport, moved: OnProgress) -> None:
    """Record events as they are; what an episode has already is passed over, so that it can be completed."""
    torn: set[str] = set()
    for batch in batches(source):
        if isinstance(batch, SkippedEntry):
            report.leave_out(source, batch)
        else:
            await _add_events(batch, source, journal, report, torn)
        moved(source, report)
    moved(source, report)


async def _add_events(
    batch: EventBatch, source: Source, journal: Journal, report: ImportReport, torn: set[str]
) -> None:
    episode_id = batch.events[0].episode_id
    summary = await journal.episode(episode_id)
    head = 0 if summary is None else summary.head_seq
    fresh = [one for one in batch.events if one.seq > head]
    begins = batch.events[0].seq == 1
    if not fresh:
        report.known += begins
        return
    if fresh[0].seq > head + 1:
        if episode_id not in torn:
            torn.add(episode_id)
            report.leave_out(
                source, SkippedEntry(f"line {batch.line}", _after_a_gap(episode_id, head, fresh[0].seq))
            )
        return
    try:
        await journal.append(fresh)
    except (JournalError, *UNEXPECTED) as error:
        report.leave_out(source, SkippedEntry(f"line {batch.line}", f"events of {episode_id}: {error}"))
        return
    report.imported += begins and head == 0
    if fresh[-1].type == "episode.ended" and fresh[-1].seq > BEFORE_END:
        await _ready_to_open(journal, episode_id)


def _after_a_gap(episode_id: str, head: int, seq: int) -> str:
    missing = f"event {head + 1} is" if seq == head + 2 else f"events {head + 1} to {seq - 1} are"
    shown = f"is shown up to event {head}" if head else "is not shown"
    return f"{episode_id} {shown}: {missing} missing, so those after cannot be recorded"


async def _ready_to_open(journal: Journal, episode_id: str) -> None:
    """Fold a long record once, so that what takes long is kept and its page opens without it."""
    records = ViewReader(journal)
    summary = await journal.episode(episode_id)
    if summary is None or summary.ended_at is None or await records.derives(episode_id):
        return
    try:
        await records.state(summary)
    except JournalError as error:  # whoever opens it is told
        logger.info("episode %s is not folded: %s", episode_id, error)

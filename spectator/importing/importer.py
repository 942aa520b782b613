"""Import files into a run's folder: each episode once, even if a file is read again."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from spectator.core_events import EpisodeEnded, Warned, core_fact
from spectator.episodes.reader import BEFORE_END, ViewReader
from spectator.errors import JournalError, SequenceConflict
from spectator.events import RecordedEvent, decode, encode_json
from spectator.importing.archives import single_document
from spectator.importing.file_formats import EVENTS, FileFormat
from spectator.importing.file_rows import UNEXPECTED, FileRow, SkippedEntry, Source
from spectator.importing.foreign import ForeignEpisode, ForeignTurn
from spectator.importing.foreign_record import ForeignRecord, plain_name, rewards_of, started_fact, step_fact
from spectator.journal.contract import Attachments, EpisodeSummary, Journal
from spectator.model_calls import ModelCall
from spectator.observations import Profile
from spectator.runs.run_plan import derived_id
from spectator.text import clean_text


@dataclass(frozen=True, slots=True)
class BuiltEpisode:
    """An episode that is ready to be recorded.

    Args:
        episode_id: Its id, equal whenever its file is read.
        events: Its events, in order.
        calls: The model calls of each of its decisions.
    """

    episode_id: str
    events: Sequence[RecordedEvent]
    calls: Sequence[Sequence[ModelCall]]

    @property
    def attachments(self) -> Attachments:
        """The attachments to record with the events."""
        return Attachments(calls=self.calls)


def imported_id(episode: ForeignEpisode) -> str:
    """Return the id of an imported episode, derived from its key and time."""
    began = episode.order_ms if episode.began is None else int(episode.began.timestamp() * 1000)
    return derived_id(min(max(0, began), 2**48 - 1), ["import", *episode.key])


def build(episode: ForeignEpisode, run_id: str | None, known_at: datetime) -> BuiltEpisode:
    """Build the record of an episode.

    Args:
        episode: The episode, as read from its file.
        known_at: Time of the file, for episodes without a time.
    """
    episode_id = imported_id(episode)
    record = ForeignRecord(episode_id, episode.began or known_at)
    profile = _profile(episode)
    record.add(0, [started_fact(episode, run_id, profile)])
    total: float | None = None
    for turn, one in enumerate(episode.turns, 1):
        if turn == 1:
            record.add(0, [record.said(one.asked, answers=len(episode.turns))])
        last = turn == len(episode.turns)
        reward = _reward(episode, one, last)
        total = total if reward is None else (total or 0.0) + reward
        record.pass_time(one)
        facts = [core_fact(record.decided(episode, one))]
        following = episode.after if last else episode.turns[turn].asked[episode.turns[turn].known :]
        facts.append(record.said(following, reward, total, len(episode.turns)))
        if reward is not None:
            rubric = episode.rubric if last else {}
            facts.append(step_fact(reward, rubric, last=last, done=last and episode.ended))
        record.add(turn, facts)
    if not episode.turns:
        record.add(0, [record.said(episode.after)])
    record.add(len(episode.turns), [core_fact(Warned(message=clean_text(n, 500))) for n in episode.notes])
    record.add(len(episode.turns), [core_fact(_ended(episode, profile, total))])
    return BuiltEpisode(episode_id, record.events, record.calls)


def _profile(episode: ForeignEpisode) -> Profile:
    """Return the profile: step rewards if the file has them or it was cut short."""
    stepwise = any(one.reward is not None for one in episode.turns) or episode.cut is not None
    return rewards_of(stepwise=stepwise)


def _reward(episode: ForeignEpisode, one: ForeignTurn, last: bool) -> float | None:
    """Return an answer's reward; the last one gets that of the whole episode."""
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
        detail = "its file ends before the episode"
        return EpisodeEnded(reason="interrupted", detail=detail, terminated=False, truncated=True, **stated)
    known = {"total_reward": reward} if profile.rewards == "step" else {}
    stated |= {"score": reward, "result": _result(episode, reward)}
    return EpisodeEnded(reason="finished", terminated=True, truncated=False, **stated, **known)


def _result(episode: ForeignEpisode, reward: float | None) -> str:
    earned = "no reward in its file" if reward is None else f"{reward:g} reward"
    answers = len(episode.turns)
    return clean_text(episode.result or f"{earned} in {answers} answer{'' if answers == 1 else 's'}", 300)


OWN_EVENTS: Final = 500
"""Maximum events of an own export per batch."""


@dataclass(slots=True)
class EventBatch:
    """Consecutive events of one episode.

    Args:
        line: Line of the first event.
    """

    line: int
    events: list[RecordedEvent] = field(default_factory=list)


def batches(source: Source) -> Iterator[EventBatch | SkippedEntry]:
    """Yield the events of a file in batches; other lines as :class:`SkippedEntry`."""
    with single_document(source) as document:
        yield from _batches(document.rows())


def _batches(rows: Iterator[FileRow | SkippedEntry]) -> Iterator[EventBatch | SkippedEntry]:
    batch: EventBatch | None = None
    for row in rows:
        event = row if isinstance(row, SkippedEntry) else _event(row)
        if isinstance(event, SkippedEntry):
            yield event
            continue
        assert isinstance(row, FileRow)
        full = batch is not None and not _fits(batch, event)
        if batch is not None and full:
            yield batch
            batch = None
        batch = batch or EventBatch(row.number)
        batch.events.append(event)
    if batch is not None:
        yield batch


def _fits(batch: EventBatch, event: RecordedEvent) -> bool:
    last = batch.events[-1]
    follows = (last.episode_id, last.seq + 1) == (event.episode_id, event.seq)
    return follows and len(batch.events) < OWN_EVENTS


def _event(row: FileRow) -> RecordedEvent | SkippedEntry:
    if not isinstance(row.value.get("episode_id"), str) or type(row.value.get("seq")) is not int:
        return SkippedEntry(row.place, "an event needs an episode_id, a text, and a seq, a whole number")
    try:
        return decode(encode_json(dict(row.value)))
    except ValueError as error:
        return SkippedEntry(row.place, str(error)[:300])


logger = logging.getLogger(__name__)

BATCH_EPISODES: Final = 32
"""Episodes per batch, to share a commit."""

BATCH_EVENTS: Final = 2_000
"""A batch with more events is complete."""

MAX_MESSAGES: Final = 20
"""Skipped entries with a message; further ones are only counted."""


@dataclass(slots=True)
class ImportReport:
    """Result of an import.

    Args:
        known: Number of episodes that were already imported.
        skipped: Number of entries that could not be imported.
        messages: Messages about the first skipped entries.
        warnings: Sentences about files, of which nothing is lost.
    """

    imported: int = 0
    known: int = 0
    skipped: int = 0
    messages: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def skip(self, source: Source, entry: SkippedEntry) -> None:
        """Count a skipped entry."""
        self.skipped += 1
        if self.skipped <= MAX_MESSAGES:
            self.messages.append(f"{source.path}, {entry.place}: {entry.reason}")


OnProgress = Callable[[Source, ImportReport], None]


async def import_file(
    source: Source,
    form: FileFormat,
    journal: Journal,
    run: str,
    report: ImportReport,
    on_progress: OnProgress,
) -> None:
    """Read a file and record its new episodes.

    Args:
        source: The file.
        run: Name of the run that shows the episodes.
        report: Counts of the import, updated here.
        on_progress: Called from time to time.

    Raises:
        ConfigurationError: The file as a whole cannot be read.
        JournalError: The journal cannot be written.
    """
    if form.name == EVENTS:
        await _import_events(source, journal, report, on_progress)
        return
    known_at = datetime.fromtimestamp(source.path.stat().st_mtime, UTC)
    seen: Counter[bytes] = Counter()
    batch: list[BuiltEpisode] = []
    entries = form.read(source)
    while (entry := await asyncio.to_thread(next, entries, None)) is not None:
        if isinstance(entry, ForeignEpisode) and entry.anonymous:
            _number_twin(entry, seen)
        if isinstance(entry, SkippedEntry):
            report.skip(source, entry)
        elif (known := await journal.episode(imported_id(entry))) is not None:
            await _meet(entry, known, source, journal, report)
        else:
            _build(entry, run, known_at, source, batch, report)
        if len(batch) >= BATCH_EPISODES or sum(len(one.events) for one in batch) > BATCH_EVENTS:
            await _record(journal, batch, report)
        on_progress(source, report)
    await _record(journal, batch, report)
    report.warnings += source.warnings
    on_progress(source, report)


def _number_twin(episode: ForeignEpisode, seen: Counter[bytes]) -> None:
    """Add to the key how many episodes of the file have no id and the same content, up to this one."""
    short = sha256(encode_json(list(episode.key)).encode()).digest()[:8]
    if seen[short]:
        episode.key = [*episode.key, seen[short]]
    seen[short] += 1


async def _meet(
    entry: ForeignEpisode, known: EpisodeSummary, source: Source, journal: Journal, report: ImportReport
) -> None:
    """Count an episode that was imported before; report the answers that its record does not have."""
    report.known += 1
    had, has = known.turns or 0, len(entry.turns)
    reason = f"it was imported when it had {had} of its {has} answers; import it into a new folder"
    if has < had:
        ours = _actions(build(entry, None, datetime.fromtimestamp(0, UTC)).events)
        lost = (ours - _actions(await journal.read(known.episode_id))).total()
        reason = (
            f"{lost} of its {has} answers are not shown, as the others were imported from another file; "
            "import both as one file into a new folder"
        )
    if had < has or (has < had and lost):
        report.skip(source, SkippedEntry(f"episode {known.episode_id}", reason))


def _actions(events: Sequence[RecordedEvent]) -> Counter[str]:
    """Count the actions of an episode."""
    made = (one.event for one in events if one.type == "decision.made")
    return Counter(encode_json(one.data["action"]) for one in made)


def _build(
    episode: ForeignEpisode,
    run: str,
    known_at: datetime,
    source: Source,
    batch: list[BuiltEpisode],
    report: ImportReport,
) -> None:
    try:
        built = build(episode, plain_name(run), known_at)
    except UNEXPECTED as error:
        report.skip(source, SkippedEntry(f"episode {episode.key!r}"[:120], f"it cannot be recorded: {error}"))
        return
    if any(one.episode_id == built.episode_id for one in batch):
        report.known += 1
    else:
        batch.append(built)


async def _record(journal: Journal, batch: list[BuiltEpisode], report: ImportReport) -> None:
    """Record a batch and clear it; each episode is recorded completely or not at all."""
    done = await asyncio.gather(
        *(journal.append(one.events, attachments=one.attachments) for one in batch), return_exceptions=True
    )
    long = [one.episode_id for one in batch if len(one.events) > BEFORE_END]
    batch.clear()
    for episode_id in long:
        await _cache_state(journal, episode_id)
    for outcome in done:
        if isinstance(outcome, SequenceConflict):
            report.known += 1
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            report.imported += 1


async def _import_events(
    source: Source, journal: Journal, report: ImportReport, on_progress: OnProgress
) -> None:
    """Record events unchanged, without those that the journal already has."""
    incomplete: set[str] = set()
    for batch in batches(source):
        if isinstance(batch, SkippedEntry):
            report.skip(source, batch)
        else:
            await _add_events(batch, source, journal, report, incomplete)
        on_progress(source, report)
    on_progress(source, report)


async def _add_events(
    batch: EventBatch, source: Source, journal: Journal, report: ImportReport, incomplete: set[str]
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
        if episode_id not in incomplete:
            incomplete.add(episode_id)
            report.skip(
                source, SkippedEntry(f"line {batch.line}", _gap_message(episode_id, head, fresh[0].seq))
            )
        return
    try:
        await journal.append(fresh)
    except (JournalError, *UNEXPECTED) as error:
        report.skip(source, SkippedEntry(f"line {batch.line}", f"events of {episode_id}: {error}"))
        return
    report.imported += begins and head == 0
    if fresh[-1].type == "episode.ended" and fresh[-1].seq > BEFORE_END:
        await _cache_state(journal, episode_id)


def _gap_message(episode_id: str, head: int, seq: int) -> str:
    missing = f"event {head + 1} is" if seq == head + 2 else f"events {head + 1} to {seq - 1} are"
    shown = f"is shown up to event {head}" if head else "is not shown"
    return f"{episode_id} {shown}: {missing} missing, so later events cannot be recorded"


async def _cache_state(journal: Journal, episode_id: str) -> None:
    """Compute and cache the states of a long record, so that its page opens quickly."""
    records = ViewReader(journal)
    summary = await journal.episode(episode_id)
    if summary is None or summary.ended_at is None or await records.derives(episode_id):
        return
    try:
        await records.state(summary)
    except JournalError as error:  # opening the page reports it
        logger.info("the states of episode %s could not be cached: %s", episode_id, error)

"""The export formats of recorded episodes, in one table for help and checks; see docs/exports.md."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

from spectator.errors import ConfigurationError

if TYPE_CHECKING:
    from spectator.events import Event, RecordedEvent
    from spectator.exports.groups import GroupRule
    from spectator.exports.transcript import Transcript
    from spectator.journal.contract import EpisodeSummary, Journal
    from spectator.journal.outline import EpisodeOutline

PARQUET: Final = ".parquet"
"""File name suffix of tables, for formats with columns."""


class ExportProgress(Protocol):
    """Hears how far an export is."""

    def events(self, number: int) -> None:
        """Count ``number`` more events as read."""

    def episode(self, summary: EpisodeSummary) -> None:
        """Note that all recorded events of an episode were written."""


class NoProgress:
    """Ignores progress."""

    def events(self, number: int) -> None:
        """Do nothing."""

    def episode(self, summary: EpisodeSummary) -> None:
        """Do nothing."""


@dataclass(slots=True)
class ExportSource:
    """A request for an export.

    Args:
        as_recorded: Write events as recorded instead of as viewers see them.
        after_seq: Omit events up to this one.
        min_own_share: Omit episodes of which a fallback decided more than the rest of this share.
        rule: What is known of groups; by default their size is the number of members that were begun.
        notes: File of notes whose labels make the preferences; ``None`` uses rewards.
        progress: Hears how far the export is.
        omitted: Number of omitted episodes by reason; filled by the export.

    Raises:
        ConfigurationError: ``min_own_share`` is not between 0 and 1.
    """

    journal: Journal
    chosen: Sequence[EpisodeSummary]
    as_recorded: bool = False
    after_seq: int = 0
    advantages: bool = False
    min_own_share: float = 0.0
    rule: GroupRule | None = None
    notes: Path | None = None
    progress: ExportProgress = field(default_factory=NoProgress)
    omitted: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.min_own_share <= 1:
            raise ConfigurationError(f"min_own_share: {self.min_own_share} is not between 0 and 1")

    def events(self, episode_id: str) -> AsyncIterator[RecordedEvent]:
        """Read the events of an episode, in order."""
        from spectator.episodes.reader import ViewReader

        source = self.journal if self.as_recorded else ViewReader(self.journal)
        return source.stream(episode_id, after_seq=self.after_seq)

    async def finish(self, summary: EpisodeSummary) -> None:
        """Report an episode as written if its events are those that its digest covers."""
        from spectator.episodes.reader import ViewReader

        if self.as_recorded or not await ViewReader(self.journal).derives(summary.episode_id):
            self.progress.episode(summary)

    async def choose_own(self) -> None:
        """Omit the episodes of which a fallback decided too much."""
        from spectator.journal.outline import outline_of

        kept = []
        for summary in self.chosen:
            if (await outline_of(self.journal, summary)).mostly_own(self.min_own_share):
                kept.append(summary)
            else:
                self.omit("with too small a share of its own decisions")
                self.progress.events(summary.head_seq)
        self.chosen = kept

    async def outlines(self) -> AsyncIterator[EpisodeOutline]:
        """Read the outline of each chosen episode."""
        from spectator.journal.outline import outline_of

        for summary in self.chosen:
            yield await outline_of(self.journal, summary)
            self.progress.events(summary.head_seq)
            self.progress.episode(summary)

    async def transcripts(self) -> AsyncIterator[tuple[EpisodeOutline, Transcript]]:
        """Read the conversation of each episode in which a model decided."""
        from spectator.exports.transcript import transcript_of

        async for outline in self.outlines():
            transcript = await transcript_of(self.journal, outline)
            if transcript.answers:
                yield outline, transcript
            else:
                self.omit("in which no model decided")

    def omit(self, reason: str) -> None:
        """Count an episode that is not written."""
        self.omitted[reason] = self.omitted.get(reason, 0) + 1


Rows = Callable[[ExportSource], AsyncIterator[dict[str, Any]]]
"""Makes the rows of a format, one at a time."""

Write = Callable[[ExportSource, Path], Awaitable[None]]
"""Writes the files of a format."""


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """A format; one of ``rows`` and ``write`` is given.

    Args:
        name: What ``--format`` takes.
        summary: What it holds, in at most 70 characters.
        rows: Makes rows of plain JSON, written as JSON Lines or as a Parquet table.
        columns: Module and names of the constants with its columns and with those of them that hold JSON.
        table: Name of the table in the metadata of a Parquet file.
        write: Writes the files of a format that has no rows.
        parquet: Whether a file must (``True``), may (``None``) or cannot (``False``) be Parquet.
        folder: Whether several episodes are written into a folder.
        ended_only: Whether it can only be made of ended episodes.
    """

    name: str
    summary: str
    rows: Rows | None = None
    columns: tuple[str, str, str | None] | None = None
    table: str = ""
    write: Write | None = None
    parquet: bool | None = None
    folder: bool = False
    ended_only: bool = False

    def takes(self, summary: EpisodeSummary) -> bool:
        """Tell whether the format can be made of an episode."""
        return not self.ended_only or summary.ended_at is not None

    def check(self, out: Path) -> None:
        """Reject a file where a folder is needed, and the reverse.

        Raises:
            ConfigurationError: ``out`` does not fit the format.
        """
        if not self.folder and out.is_dir():
            raise ConfigurationError(f"--out {out} is a folder; --format {self.name} writes a file")
        if str(out) == "-":
            if self.parquet:
                raise ConfigurationError(f"--format {self.name} needs --out FILE")
        elif self.parquet is False and out.suffix == PARQUET:
            raise ConfigurationError(
                f"--format {self.name} cannot be a {PARQUET} file; --format parquet writes events as a table"
            )

    async def export(self, source: ExportSource, out: Path) -> int | None:
        """Write the chosen episodes; returns the number of rows, ``None`` for a format without rows."""
        if source.min_own_share and self.name != "groups":  # groups are read whole, and count what they omit
            await source.choose_own()
        if self.rows is None:
            assert self.write is not None
            await self.write(source, out)
            return None
        rows = self.rows(source)
        return await (self._as_table(rows, out) if out.suffix == PARQUET else _as_lines(rows, out))

    def schema(self) -> tuple[Mapping[str, str], Sequence[str]]:
        """Return the Arrow type of every column, and the columns that hold JSON."""
        assert self.columns is not None
        module, columns, as_json = self.columns
        constants = import_module(f"spectator.exports.{module}")
        return getattr(constants, columns), () if as_json is None else getattr(constants, as_json)

    async def _as_table(self, rows: AsyncIterator[dict[str, Any]], out: Path) -> int:
        from spectator.exports.tables import RowFile

        written = 0
        with RowFile(out, *self.schema(), name=self.table) as table:
            async for row in rows:
                table.add(row)
                written += 1
        return written


async def _as_lines(rows: AsyncIterator[dict[str, Any]], out: Path) -> int:
    from spectator.journal.encoding import json_line

    written = 0
    with _text_file(out) as file:
        async for row in rows:
            file.write(f"{json_line(row)}\n")
            written += 1
    return written


@contextmanager
def _text_file(path: Path) -> Iterator[IO[str]]:
    """Standard output for ``-``, or a file that appears once it is complete."""
    from spectator.journal.encoding import atomic_file

    if str(path) == "-":
        yield sys.stdout
        return
    with atomic_file(path) as file:
        yield file


async def _write_ndjson(source: ExportSource, out: Path) -> None:
    with _text_file(out) as file:
        for summary in source.chosen:
            async for recorded in source.events(summary.episode_id):
                file.write(f"{recorded.text}\n")
                source.progress.events(1)
            await source.finish(summary)


async def _write_parquet(source: ExportSource, out: Path) -> None:
    from spectator.exports.tables import Table

    async def events(summary: EpisodeSummary) -> AsyncIterator[Event]:
        async for recorded in source.events(summary.episode_id):
            source.progress.events(1)
            yield recorded.event

    with Table(out) as table:
        for summary in source.chosen:
            await table.add(summary, events(summary))
            await source.finish(summary)


async def _write_truth(source: ExportSource, out: Path) -> None:
    with _text_file(out) as file:
        for summary in source.chosen:
            truth = await source.journal.truth(summary.episode_id)
            if truth is not None:
                file.write(f'{{"episode_id":"{summary.episode_id}","truth":{truth}}}\n')
            else:
                source.omit("without a recorded truth")


async def _write_traces(source: ExportSource, out: Path) -> None:
    """Write one file per episode; a single one may go to standard output."""
    from spectator.exports.records import session_trace
    from spectator.journal.encoding import json_line

    path = _trace_paths(out, len(source.chosen))
    async for outline, transcript in source.transcripts():
        with _text_file(path(outline.summary.episode_id)) as file:
            for line in session_trace(outline, transcript):
                file.write(f"{json_line(line)}\n")


def _trace_paths(out: Path, episodes: int) -> Callable[[str], Path]:
    """Decide on the file of each trace: ``out`` itself for a single one, unless that is a folder.

    Raises:
        ConfigurationError: Several traces do not fit into ``out``.
    """
    if episodes == 1 and not out.is_dir():
        return lambda _: out
    if str(out) == "-" or out.is_file():
        raise ConfigurationError(f"traces of several episodes need a folder: --out {out} is not one")
    return lambda episode_id: out / f"{episode_id}.jsonl"


async def _write_inspect(source: ExportSource, out: Path) -> None:
    """Write one log; its head describes all samples, which therefore wait in a temporary file."""
    from spectator.exports.inspect_log import InspectLog
    from spectator.journal.encoding import json_line

    log = InspectLog()
    with TemporaryFile("w+", encoding="utf-8") as waiting:
        async for outline, transcript in source.transcripts():
            comma = "," if log.samples else ""
            waiting.write(comma + json_line(await log.sample(source.journal, outline, transcript)))
        waiting.seek(0)
        with _text_file(out) as file:
            file.write(json_line(log.head())[:-1] + ',"samples":[')
            copyfileobj(waiting, file)
            file.write("]}\n")


async def _call_rows(source: ExportSource) -> AsyncIterator[dict[str, Any]]:
    from spectator.exports.tables import row_of_call

    async for outline in source.outlines():
        seats = {one.agent: one for one in outline.of_seats()}
        async for one in source.journal.calls(outline.summary.episode_id):
            asked = outline.asked(one.decided.seq)
            if one.decided.seq > source.after_seq and asked is not None:
                yield row_of_call(seats.get(asked.actor, outline), one)


async def _token_rows(source: ExportSource) -> AsyncIterator[dict[str, Any]]:
    from spectator.exports.tokens import rows_of_tokens

    async for outline in source.outlines():
        row = None
        for seat in outline.of_seats():
            if seat.mostly_own(source.min_own_share):
                async for row in rows_of_tokens(source.journal, seat):
                    yield row
        if row is None:
            source.omit("without token ids")


async def _record_rows(source: ExportSource) -> AsyncIterator[dict[str, Any]]:
    from spectator.exports.records import episode_record

    async for outline, transcript in source.transcripts():
        record = episode_record(outline, transcript)
        if record is not None:
            yield record
        else:
            source.omit("without a verdict")


async def _group_rows(source: ExportSource) -> AsyncIterator[dict[str, Any]]:
    """Make the groups of the chosen episodes, each whole: a part of one would misstate the group."""
    from spectator.exports.groups import GroupRule, by_group, rows_of_group
    from spectator.journal.contract import EpisodeFilter, every_episode

    groups = by_group(source.chosen)
    rule = replace(source.rule or GroupRule(), min_own_share=source.min_own_share)
    if not groups:
        raise ConfigurationError("none of these episodes belongs to a group")
    for (run_id, group_id), some in groups.items():
        whole = EpisodeFilter(run_id=run_id, group_id=group_id, limit=1000)
        found = await every_episode(source.journal, whole)
        members = [one for one in found if one.parent is None and one.run_id == run_id]
        if members:
            for row in await rows_of_group(source.journal, members, rule, advantages=source.advantages):
                yield row
        source.progress.events(sum(one.head_seq for one in some))


async def _preference_rows(source: ExportSource) -> AsyncIterator[dict[str, Any]]:
    from spectator.exports.preferences import comparison_sets, pairs_of
    from spectator.journal.notes import NoteStore, verdicts

    liked = None if source.notes is None else verdicts(NoteStore(source.notes).all())
    for compared in comparison_sets(source.chosen):
        for pair in await pairs_of(source.journal, compared, verdicts=liked):
            yield pair
        source.progress.events(sum(one.head_seq for one in compared))


FORMATS: Final[Mapping[str, ExportFormat]] = {
    one.name: one
    for one in (
        ExportFormat("ndjson", "events, one a line", write=_write_ndjson, parquet=False),
        ExportFormat("parquet", "events as a table", write=_write_parquet, parquet=True),
        ExportFormat(
            "messages",
            "calls to models: prompt, tools, answer, tokens, mask, reward",
            rows=_call_rows,
            columns=("tables", "CALL_COLUMNS", "CALL_JSON_COLUMNS"),
            table="spectator.calls",
        ),
        ExportFormat(
            "tokens",
            "rows of token ids with loss mask, log probabilities, weight versions",
            rows=_token_rows,
            columns=("tokens", "COLUMNS", None),
            table="spectator.tokens",
        ),
        ExportFormat(
            "groups",
            "episodes of one task: prompt, completions, rewards (GRPO)",
            rows=_group_rows,
            columns=("groups", "COLUMNS", "JSON_COLUMNS"),
            table="spectator.groups",
        ),
        ExportFormat(
            "preferences",
            "pairs of answers at the same step, from groups and forks (DPO)",
            rows=_preference_rows,
            columns=("preferences", "COLUMNS", "JSON_COLUMNS"),
            table="spectator.preferences",
        ),
        ExportFormat(
            "episode-record",
            "whole episodes as OpenEnv's EpisodeRecord",
            rows=_record_rows,
            columns=("records", "RECORD_COLUMNS", "RECORD_JSON_COLUMNS"),
            table="spectator.records",
        ),
        ExportFormat(
            "traces",
            "sessions for the trace viewer of the Hugging Face Hub",
            write=_write_traces,
            parquet=False,
            folder=True,
        ),
        ExportFormat("inspect", "one evaluation log for inspect_ai", write=_write_inspect, parquet=False),
        ExportFormat(
            "truth",
            "what the world of an ended episode hid",
            write=_write_truth,
            parquet=False,
            ended_only=True,
        ),
    )
}
"""Every export format by its name."""


def format_named(name: str) -> ExportFormat:
    """Look up a format.

    Raises:
        ConfigurationError: The name is unknown.
    """
    if name not in FORMATS:
        raise ConfigurationError(f"unknown export format {name!r}; use one of {', '.join(FORMATS)}")
    return FORMATS[name]

"""The forms in which commands write recorded episodes: events, rows for trainers, groups, traces."""

from __future__ import annotations

import io
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final

import click

from spectator.cli.recordings import every_episode

if TYPE_CHECKING:
    from spectator.events import Event, RecordedEvent
    from spectator.journal.base import EpisodeSummary, Journal
    from spectator.journal.outline import EpisodeOutline
    from spectator.rollouts.exports.groups import GroupRule
    from spectator.rollouts.exports.transcript import Transcript

PARQUET: Final = ".parquet"


@dataclass(slots=True)
class ExportSource:
    """Where episodes are read from, and how.

    Args:
        journal: Where they are recorded.
        as_recorded: Whether events are written as recorded, or as viewers see them.
        after_seq: Events up to this one are left out.
        advantages: Whether groups state advantages.
        rule: What is known of groups.
        notes: What people noted, whose labels make the preferences; ``None`` takes rewards.
        left_out: How many were left out, by reason, to be told at the end.
    """

    journal: Journal
    as_recorded: bool = False
    after_seq: int = 0
    advantages: bool = False
    rule: GroupRule | None = None
    notes: Path | None = None
    left_out: dict[str, int] = field(default_factory=dict)

    def events(self, episode_id: str) -> AsyncIterator[RecordedEvent]:
        """The events of an episode, in order."""
        from spectator.episodes.record.reader import ViewReader

        source = self.journal if self.as_recorded else ViewReader(self.journal)
        return source.stream(episode_id, after_seq=self.after_seq)

    async def plain(self, episode_id: str) -> bool:
        """Whether they are those that the record's digest is of."""
        from spectator.episodes.record.reader import ViewReader

        return self.as_recorded or not await ViewReader(self.journal).derives(episode_id)

    def leave_out(self, reason: str) -> None:
        """Count something that is not written."""
        self.left_out[reason] = self.left_out.get(reason, 0) + 1


Rows = Callable[[ExportSource, "Sequence[EpisodeSummary]"], AsyncIterator[dict[str, Any]]]


async def _ndjson(source: ExportSource, chosen: Sequence[EpisodeSummary], out: Path) -> None:
    with _file(out) as file, ExportProgress(chosen) as progress:
        for summary in chosen:
            async for recorded in source.events(summary.episode_id):
                click.echo(recorded.text, file=file)
                progress.event()
            if await source.plain(summary.episode_id):
                progress.episode(summary)


async def _parquet(source: ExportSource, chosen: Sequence[EpisodeSummary], out: Path) -> None:
    from spectator.journal.table import Table

    async def events(summary: EpisodeSummary) -> AsyncIterator[Event]:
        async for recorded in source.events(summary.episode_id):
            progress.event()
            yield recorded.event

    with Table(out) as table, ExportProgress(chosen) as progress:
        for summary in chosen:
            await table.add(summary, events(summary))
            if await source.plain(summary.episode_id):
                progress.episode(summary)


async def _truth(source: ExportSource, chosen: Sequence[EpisodeSummary], out: Path) -> None:
    """What the worlds hid; it is refused of an episode that has not ended."""
    with _file(out) as file:
        for summary in chosen:
            truth = await source.journal.truth(summary.episode_id)
            if truth is not None:
                click.echo(f'{{"episode_id":"{summary.episode_id}","truth":{truth}}}', file=file)


async def _outlines(
    source: ExportSource, chosen: Sequence[EpisodeSummary]
) -> AsyncIterator[tuple[EpisodeSummary, EpisodeOutline]]:
    from spectator.journal.outline import outline_of

    with ExportProgress(chosen) as progress:
        for summary in chosen:
            yield summary, await outline_of(source.journal, summary)
            progress.event(summary.head_seq)
            progress.episode(summary)


async def _calls(source: ExportSource, chosen: Sequence[EpisodeSummary]) -> AsyncIterator[dict[str, Any]]:
    """The calls to models of the chosen episodes, in order."""
    from spectator.journal.training import row_of_call

    async for summary, outline in _outlines(source, chosen):
        async for one in source.journal.calls(summary.episode_id):
            if one.decided.seq > source.after_seq and outline.asked(one.decided.seq) is not None:
                yield row_of_call(outline, one)


async def _tokens(source: ExportSource, chosen: Sequence[EpisodeSummary]) -> AsyncIterator[dict[str, Any]]:
    from spectator.rollouts.exports.tokens import rows_of_tokens

    async for _, outline in _outlines(source, chosen):
        row = None
        async for row in rows_of_tokens(source.journal, outline):
            yield row
        if row is None:
            source.leave_out("without token ids")


async def _transcripts(
    source: ExportSource, chosen: Sequence[EpisodeSummary]
) -> AsyncIterator[tuple[EpisodeOutline, Transcript]]:
    """Episodes in which a model decided."""
    from spectator.rollouts.exports.transcript import transcript_of

    async for _, outline in _outlines(source, chosen):
        transcript = await transcript_of(source.journal, outline)
        if transcript.answers:
            yield outline, transcript
        else:
            source.leave_out("in which no model decided")


async def _records(source: ExportSource, chosen: Sequence[EpisodeSummary]) -> AsyncIterator[dict[str, Any]]:
    from spectator.rollouts.exports.records import episode_record

    async for outline, transcript in _transcripts(source, chosen):
        record = episode_record(outline, transcript)
        if record is not None:
            yield record
        else:
            source.leave_out("without a verdict")


async def _groups(source: ExportSource, chosen: Sequence[EpisodeSummary]) -> AsyncIterator[dict[str, Any]]:
    """The groups of the chosen episodes, each whole: a part of one would tell its state wrongly."""
    from spectator.journal.base import EpisodeFilter
    from spectator.rollouts.exports.groups import GroupRule, by_group, row_of_group

    groups = by_group(chosen)
    if not groups:
        raise click.ClickException("none of these episodes belongs to a group")
    with ExportProgress([one for group in groups.values() for one in group]) as progress:
        for (run_id, group_id), some in groups.items():
            whole = EpisodeFilter(run_id=run_id, group_id=group_id, limit=1000)
            found = await every_episode(source.journal, whole)
            members = [one for one in found if one.parent is None and one.run_id == run_id]
            if members:
                rule = source.rule or GroupRule()
                yield await row_of_group(source.journal, members, rule, advantages=source.advantages)
            progress.event(sum(one.head_seq for one in some))


async def _preferences(
    source: ExportSource, chosen: Sequence[EpisodeSummary]
) -> AsyncIterator[dict[str, Any]]:
    from spectator.journal.notes import NoteBook, verdicts
    from spectator.rollouts.exports.preferences import comparison_sets, pairs_of

    liked = None if source.notes is None else verdicts(NoteBook(source.notes).all())
    sets = comparison_sets(chosen)
    with ExportProgress([one for compared in sets for one in compared]) as progress:
        for compared in sets:
            for pair in await pairs_of(source.journal, compared, verdicts=liked):
                yield pair
            progress.event(sum(one.head_seq for one in compared))


async def _traces(source: ExportSource, chosen: Sequence[EpisodeSummary], out: Path) -> None:
    """One file an episode; a single one may go to standard output."""
    from spectator.journal.json_lines import json_line
    from spectator.rollouts.exports.records import session_trace

    if len(chosen) > 1:
        _check_folder(out)
    async for outline, transcript in _transcripts(source, chosen):
        with _file(_trace_path(out, outline.summary.episode_id, alone=len(chosen) == 1)) as file:
            for line in session_trace(outline, transcript):
                click.echo(json_line(line), file=file)


async def _inspect(source: ExportSource, chosen: Sequence[EpisodeSummary], out: Path) -> None:
    """One evaluation log; its head tells of all samples, which therefore wait in a file of their own."""
    from spectator.journal.json_lines import json_line
    from spectator.rollouts.exports.inspect_log import InspectLog

    log = InspectLog()
    with TemporaryFile("w+", encoding="utf-8") as waiting:
        async for outline, transcript in _transcripts(source, chosen):
            comma = "," if log.samples else ""
            waiting.write(comma + json_line(await log.sample(source.journal, outline, transcript)))
        waiting.seek(0)
        with _file(out) as file:
            file.write(json_line(log.head())[:-1] + ',"samples":[')
            copyfileobj(waiting, file)
            file.write("]}\n")


def _check_folder(out: Path) -> None:
    """Refuse a place that can hold one trace only."""
    if str(out) == "-" or out.is_file():
        raise click.UsageError(f"traces of several episodes need a folder: --out {out} is none")


def _trace_path(out: Path, episode_id: str, *, alone: bool) -> Path:
    """The file of one trace: ``out`` itself for a single one, unless that is a folder."""
    return out if alone and not out.is_dir() else out / f"{episode_id}.jsonl"


async def write_export(form: str, source: ExportSource, chosen: Sequence[EpisodeSummary], out: Path) -> None:
    """Write ``chosen`` in the form of that name to ``out``; ``-`` is standard output."""
    if form in WHOLE:
        await WHOLE[form](source, chosen, out)
    else:
        rows = ROWS[form.removesuffix("-parquet")](source, chosen)
        if form.endswith("-parquet") or out.suffix == PARQUET:
            written = await _rows_as_parquet(form.removesuffix("-parquet"), rows, out)
        else:
            written = await _rows_as_lines(rows, out)
        if not written:
            click.echo(f"no row was written: these episodes hold nothing for --format {form}", err=True)
    for reason, count in source.left_out.items():
        click.echo(f"left out: {count} episode{'s' if count > 1 else ''} {reason}", err=True)


async def _rows_as_lines(rows: AsyncIterator[dict[str, Any]], out: Path) -> int:
    from spectator.journal.json_lines import json_line

    written = 0
    with _file(out) as file:
        async for row in rows:
            click.echo(json_line(row), file=file)
            written += 1
    return written


async def _rows_as_parquet(form: str, rows: AsyncIterator[dict[str, Any]], out: Path) -> int:
    from spectator.journal.parquet import RowFile

    columns, as_json, name = _columns(form)
    written = 0
    with RowFile(out, columns, as_json, name=name) as table:
        async for row in rows:
            table.add(row)
            written += 1
    return written


def _columns(form: str) -> tuple[Mapping[str, str], Sequence[str], str]:
    """Columns of a form, those of them that hold JSON, and the name of the table."""
    from spectator.journal import training
    from spectator.rollouts.exports import groups, preferences, records, tokens

    return {
        "messages": (training.COLUMNS, training.JSON_COLUMNS, "spectator.calls"),
        "tokens": (tokens.COLUMNS, (), "spectator.tokens"),
        "groups": (groups.COLUMNS, groups.JSON_COLUMNS, "spectator.groups"),
        "preferences": (preferences.COLUMNS, preferences.JSON_COLUMNS, "spectator.preferences"),
        "episode-record": (records.RECORD_COLUMNS, records.RECORD_JSON_COLUMNS, "spectator.records"),
    }[form]


WHOLE: Final[Mapping[str, Callable[[ExportSource, Sequence[EpisodeSummary], Path], Awaitable[None]]]] = {
    "inspect": _inspect,
    "ndjson": _ndjson,
    "parquet": _parquet,
    "traces": _traces,
    "truth": _truth,
}
"""Forms that write their files themselves."""

ROWS: Final[Mapping[str, Rows]] = {
    "messages": _calls,
    "tokens": _tokens,
    "groups": _groups,
    "preferences": _preferences,
    "episode-record": _records,
}
"""Forms of one row of plain JSON each: lines of JSON, or a Parquet table where the file's name ends so."""

FORMS: Final = (
    "ndjson", "parquet", "messages", "messages-parquet", "tokens", "groups", "preferences",
    "episode-record", "traces", "inspect", "truth",
)  # fmt: skip


@contextmanager
def _file(path: Path) -> Iterator[IO[str]]:
    """Standard output, or a file that is there once it is complete."""
    from spectator.journal.json_lines import whole_file

    if str(path) == "-":
        yield sys.stdout
        return
    with whole_file(path) as file:
        yield file


class ExportProgress:
    """Tells on standard error how far it is, and at the end of each of a few episodes its digest.

    Args:
        chosen: What is written.
    """

    def __init__(self, chosen: Sequence[EpisodeSummary]) -> None:
        self._few = len(chosen) <= 10
        total = sum(summary.head_seq for summary in chosen)
        shown = sys.stderr if sys.stderr.isatty() else io.StringIO()  # there it would say its label alone
        self._bar = click.progressbar(length=total, label="events", file=shown, update_min_steps=500)

    def __enter__(self) -> ExportProgress:
        self._bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.__exit__(None, None, None)

    def event(self, number: int = 1) -> None:
        """So many more events are written."""
        self._bar.update(number)

    def episode(self, summary: EpisodeSummary) -> None:
        """All of an episode is written."""
        if self._few and summary.ended_at is not None and summary.digest is not None:
            click.echo(f"{summary.episode_id}: {summary.head_seq} events, digest {summary.digest}", err=True)

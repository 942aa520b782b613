"""The command ``spectator export``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from spectator.cli.recordings import every_episode, journal_folder, recorded_journal, summary_of

if TYPE_CHECKING:
    from spectator.events import Event, RecordedEvent
    from spectator.journal.base import EpisodeSummary, Journal


@click.command()
@click.argument("episode_ids", metavar="[EPISODE_ID]...", nargs=-1)
@journal_folder
@click.option("--all", "everything", is_flag=True, help="Every episode that matches, oldest first.")
@click.option("--environment", help="With --all: only of this world.")
@click.option("--captain", help="With --all: only with this preset in the agent's seat.")
@click.option("--run", "run_id", help="With --all: only of this run.")
@click.option("--group", "group_id", help="With --all: only of this group.")
@click.option("--attempt", type=click.IntRange(min=1), help="With --all: only attempts with this number.")
@click.option("--ended/--unended", default=None, help="With --all: only such.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["ndjson", "parquet", "messages", "messages-parquet", "truth"]),
    default="ndjson",
    show_default=True,
    help="Events; events as a table; calls to models, one a line; the same as a table; the sealed truth.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    default="-",
    show_default=True,
    help="File, complete or not there; - is stdout.",
)
@click.option(
    "--as-recorded",
    is_flag=True,
    help="Leave out patches and commentary where they are not recorded; as a rule they are derived.",
)
@click.option("--after-seq", type=click.IntRange(min=0), default=0, show_default=True)
def export(
    episode_ids: tuple[str, ...],
    data_dir: Path,
    everything: bool,
    environment: str | None,
    captain: str | None,
    run_id: str | None,
    group_id: str | None,
    attempt: int | None,
    ended: bool | None,
    form: str,
    out: Path,
    as_recorded: bool,
    after_seq: int,
) -> None:
    """Write recorded episodes: as NDJSON, the events as viewers see them, or as a Parquet table for training.

    In the form messages each line is one call to a model: the messages and tools that it was shown, its whole
    reply, token ids, log probabilities and mask as far as its server gave them. In the form truth each line
    is what the world of an ended episode hid.

    \b
    Example: spectator export ep-01K9ZQ3V5M0000000000000000 > match.ndjson
    Example: spectator export --all --ended --format parquet --out episodes.parquet
    Example: spectator export --all --run nightly-7 --format messages > calls.ndjson
    """
    from spectator.journal.base import EpisodeFilter

    if everything == bool(episode_ids):
        raise click.UsageError("name the episodes, or ask for --all of them")
    asked = {
        "environment": environment,
        "captain": captain,
        "run_id": run_id,
        "group_id": group_id,
        "attempt": attempt,
        "ended": ended,
    }
    if not everything and any(value is not None for value in asked.values()):
        raise click.UsageError(
            "--environment, --captain, --run, --group, --attempt and --ended choose among --all"
        )
    if form.endswith("parquet") and str(out) == "-":
        raise click.UsageError(f"--format {form} needs --out FILE")

    async def write() -> None:
        async with recorded_journal(data_dir) as journal:
            if everything:
                wanted = EpisodeFilter(limit=1000, **asked)  # type: ignore[arg-type]
                chosen = await every_episode(journal, wanted)
                chosen = [one for one in chosen if form != "truth" or one.ended_at is not None]
            else:
                chosen = [await summary_of(journal, episode_id) for episode_id in episode_ids]
            if not chosen:
                raise click.ClickException("no episode matches")
            await FORMS[form](_Source(journal, as_recorded, after_seq), chosen, out)

    asyncio.run(write())


class _Source:
    """Where events are read from: the record, or what viewers see of it."""

    def __init__(self, journal: Journal, as_recorded: bool, after_seq: int) -> None:
        from spectator.episodes.record.reader import ViewReader

        self._views = ViewReader(journal)
        self.journal = journal
        self._as_recorded = as_recorded
        self.after_seq = after_seq

    def events(self, episode_id: str) -> AsyncIterator[RecordedEvent]:
        """The events of an episode, in order."""
        source = self.journal if self._as_recorded else self._views
        return source.stream(episode_id, after_seq=self.after_seq)

    async def plain(self, episode_id: str) -> bool:
        """Whether they are those that the record's digest is of."""
        return self._as_recorded or not await self._views.derives(episode_id)


async def _ndjson(source: _Source, chosen: Sequence[EpisodeSummary], out: Path) -> None:
    with _file(out) as file, _ExportProgress(chosen) as progress:
        for summary in chosen:
            async for recorded in source.events(summary.episode_id):
                click.echo(recorded.text, file=file)
                progress.event()
            if await source.plain(summary.episode_id):
                progress.episode(summary)


async def _parquet(source: _Source, chosen: Sequence[EpisodeSummary], out: Path) -> None:
    from spectator.journal.table import Table

    async def events(summary: EpisodeSummary) -> AsyncIterator[Event]:
        async for recorded in source.events(summary.episode_id):
            progress.event()
            yield recorded.event

    with Table(out) as table, _ExportProgress(chosen) as progress:
        for summary in chosen:
            await table.add(summary, events(summary))
            if await source.plain(summary.episode_id):
                progress.episode(summary)


async def _rows(source: _Source, chosen: Sequence[EpisodeSummary]) -> AsyncIterator[dict[str, Any]]:
    """The calls to models of the chosen episodes, in order, as rows."""
    from spectator.journal.training import row_of_call

    with _ExportProgress(chosen) as progress:
        for summary in chosen:
            written = 0
            async for one in source.journal.calls(summary.episode_id):
                progress.event(one.decided.seq - written)
                written = one.decided.seq
                if one.decided.seq > source.after_seq:
                    yield row_of_call(summary, one)
            progress.event(summary.head_seq - written)
            progress.episode(summary)


async def _messages(source: _Source, chosen: Sequence[EpisodeSummary], out: Path) -> None:
    from spectator.journal.packing import json_bytes

    with _file(out) as file:
        async for row in _rows(source, chosen):
            click.echo(json_bytes(row).decode(), file=file)


async def _messages_parquet(source: _Source, chosen: Sequence[EpisodeSummary], out: Path) -> None:
    from spectator.journal.training import CallTable

    with CallTable(out) as table:
        async for row in _rows(source, chosen):
            table.add(row)


async def _truth(source: _Source, chosen: Sequence[EpisodeSummary], out: Path) -> None:
    """What the worlds hid; it is refused of an episode that has not ended."""
    with _file(out) as file:
        for summary in chosen:
            truth = await source.journal.truth(summary.episode_id)
            if truth is not None:
                click.echo(f'{{"episode_id":"{summary.episode_id}","truth":{truth}}}', file=file)


FORMS: Final[Mapping[str, Callable[[_Source, Sequence[EpisodeSummary], Path], Awaitable[None]]]] = {
    "ndjson": _ndjson,
    "parquet": _parquet,
    "messages": _messages,
    "messages-parquet": _messages_parquet,
    "truth": _truth,
}
"""How each form is written."""


@contextmanager
def _file(path: Path) -> Iterator[IO[str]]:
    """Standard output, or a file that is there once it is complete."""
    if str(path) == "-":
        yield sys.stdout
        return
    part = path.with_name(path.name + ".part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


class _ExportProgress:
    """Tells on standard error how far it is, and at the end of each of a few episodes its digest."""

    def __init__(self, chosen: Sequence[EpisodeSummary]) -> None:
        self._few = len(chosen) <= 10
        total = sum(summary.head_seq for summary in chosen)
        self._bar = click.progressbar(length=total, label="events", file=sys.stderr, update_min_steps=500)

    def __enter__(self) -> _ExportProgress:
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

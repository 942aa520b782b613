"""The command ``spectator export``."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spectator.cli.options import Command, journal_folder, recorded_journal, summary_of
from spectator.errors import ConfigurationError
from spectator.exports.formats import FORMATS, ExportFormat, ExportSource

if TYPE_CHECKING:
    from spectator.journal.contract import EpisodeFilter, EpisodeSummary, Journal

FORMAT_HELP = "\n".join(f"{one.name:<15} {one.summary}" for one in FORMATS.values())
"""One line for each format."""


def format_options(command: Command) -> Command:
    """Add the options of every command that exports episodes, and the table of formats to its help."""
    form = click.option(
        "--format",
        "form",
        type=click.Choice(list(FORMATS)),
        default="ndjson",
        show_default=True,
        callback=lambda _, __, name: FORMATS[name],
        help="What to write; docs/exports.md describes each format.",
    )
    out = click.option(
        "--out",
        type=click.Path(allow_dash=True, path_type=Path),
        default="-",
        show_default=True,
        help="File, which appears once it is complete; - is stdout. A name that ends in .parquet writes a "
        "table. Traces of several episodes need a folder.",
    )
    advantages = click.option(
        "--advantages", is_flag=True, help="With groups: add the normalised advantage of each member."
    )
    notes = click.option(
        "--notes",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="With preferences: use the labels good and bad in this file of notes instead of rewards.",
    )
    command.__doc__ = (command.__doc__ or "").replace("FORMATS", FORMAT_HELP.replace("\n", "\n    "))
    return form(out(advantages(notes(command))))


def check_out(form: ExportFormat, out: Path) -> None:
    """Reject an ``--out`` that does not fit the format.

    Raises:
        UsageError: It does not fit.
    """
    try:
        form.check(out)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error


async def write_export(form: ExportFormat, source: ExportSource, out: Path) -> None:
    """Write the chosen episodes with a progress bar; say what was omitted."""
    with ProgressBar(source.chosen) as progress:
        source.progress = progress
        written = await form.export(source, out)
    if written == 0:
        click.echo(f"no row was written: these episodes hold nothing for --format {form.name}", err=True)
    for reason, count in source.omitted.items():
        click.echo(f"omitted: {count} episode{'s' if count > 1 else ''} {reason}", err=True)


class ProgressBar:
    """Shows on standard error how far an export is, and at the end of each of a few episodes its digest.

    Args:
        chosen: What is exported.
    """

    def __init__(self, chosen: Sequence[EpisodeSummary]) -> None:
        self._few = len(chosen) <= 10
        total = sum(summary.head_seq for summary in chosen)
        shown = sys.stderr if sys.stderr.isatty() else io.StringIO()  # it would print its label alone
        self._bar = click.progressbar(length=total, label="events", file=shown, update_min_steps=500)

    def __enter__(self) -> ProgressBar:
        self._bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.__exit__(None, None, None)

    def events(self, number: int) -> None:
        """Advance by ``number`` events."""
        self._bar.update(number)

    def episode(self, summary: EpisodeSummary) -> None:
        """Print the digest of a finished episode."""
        if self._few and summary.ended_at is not None and summary.digest is not None:
            click.echo(f"{summary.episode_id}: {summary.head_seq} events, digest {summary.digest}", err=True)


@click.command()
@click.argument("episode_ids", metavar="[EPISODE_ID]...", nargs=-1)
@journal_folder
@click.option("--all", "everything", is_flag=True, help="Every episode that matches, oldest first.")
@click.option("--environment", help="With --all: only of this world.")
@click.option("--captain", help="With --all: only with this preset in the agent's seat.")
@click.option("--run", "run_id", help="With --all: only of this run.")
@click.option("--group", "group_id", help="With --all: only of this group.")
@click.option("--attempt", type=click.IntRange(min=1), help="With --all: only attempts with this number.")
@click.option("--ended/--unended", default=None, help="With --all: only ended or unended episodes.")
@format_options
@click.option(
    "--as-recorded",
    is_flag=True,
    help="Omit patches and commentary that are not recorded; by default they are derived.",
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
    form: ExportFormat,
    out: Path,
    advantages: bool,
    notes: Path | None,
    as_recorded: bool,
    after_seq: int,
) -> None:
    """Export recorded episodes: their events as viewers see them, or what a trainer needs.

    \b
    FORMATS

    \b
    Example: spectator export ep-01K9ZQ3V5M0000000000000000 > match.ndjson
    Example: spectator export --all --ended --format parquet --out episodes.parquet
    Example: spectator export --all --run nightly-7 --format messages > calls.ndjson
    """
    asked = {
        "environment": environment,
        "captain": captain,
        "run_id": run_id,
        "group_id": group_id,
        "attempt": attempt,
        "ended": ended,
    }
    wanted = _wanted(episode_ids, everything, asked)
    check_out(form, out)

    async def write() -> None:
        async with recorded_journal(data_dir) as journal:
            chosen = await _chosen(journal, wanted, form)
            source = ExportSource(journal, chosen, as_recorded, after_seq, advantages, notes=notes)
            await write_export(form, source, out)

    asyncio.run(write())


def _wanted(
    episode_ids: Sequence[str], everything: bool, asked: Mapping[str, Any]
) -> EpisodeFilter | Sequence[str]:
    """The episodes that are named, or what all of them are chosen by."""
    from spectator.journal.contract import EpisodeFilter

    if everything == bool(episode_ids):
        raise click.UsageError("name the episodes, or ask for --all of them")
    if everything:
        return EpisodeFilter(limit=1000, **asked)
    if any(value is not None for value in asked.values()):
        raise click.UsageError("--environment, --captain, --run, --group, --attempt and --ended need --all")
    return episode_ids


async def _chosen(
    journal: Journal, wanted: EpisodeFilter | Sequence[str], form: ExportFormat
) -> Sequence[EpisodeSummary]:
    """The episodes named, or all that match and that the format can be made of."""
    from spectator.journal.contract import every_episode

    if isinstance(wanted, Sequence):
        return [await summary_of(journal, episode_id) for episode_id in wanted]
    chosen = [one for one in await every_episode(journal, wanted) if form.takes(one)]
    if not chosen:
        raise click.ClickException("no episode matches")
    return chosen

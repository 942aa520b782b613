"""The command ``spectator export``."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spectator.cli.options import Command, finite, journal_folder, recorded_journal, summary_of
from spectator.errors import ConfigurationError
from spectator.exports.formats import FORMATS, ExportFormat, ExportSource

if TYPE_CHECKING:
    from spectator.journal.contract import EpisodeFilter, EpisodeSummary, Journal

FORMAT_HELP = "\n".join(["Formats:", *(f"  {one.name:<15} {one.summary}" for one in FORMATS.values())])
"""The table of formats for the help: one line per format."""


def format_options(command: Command) -> Command:
    """Add the export options to a command, and the table of formats to its help.

    The table replaces the word ``FORMATS`` in the command's docstring.
    """
    form = click.option(
        "--format",
        "form",
        type=click.Choice(list(FORMATS)),
        default="ndjson",
        callback=lambda _, __, name: FORMATS[name],
        help="Output format; see the list above and docs/exports.md.",
    )
    out = click.option(
        "--out",
        type=click.Path(allow_dash=True, path_type=Path),
        default="-",
        help="Output file, created once it is complete; - = standard output. A name that ends in .parquet "
        "writes a table. Traces of several episodes need a folder.",
    )
    advantages = click.option(
        "--advantages", is_flag=True, help="With --format groups: add each member's normalized advantage."
    )
    notes = click.option(
        "--notes",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="With --format preferences: use the labels good and bad of this notes file instead of rewards.",
    )
    own = click.option(
        "--min-own-share",
        type=click.FloatRange(0, 1),
        callback=finite,
        default=0.0,
        help="Omit episodes of which the model made a smaller share of the decisions itself, a fallback the "
        "others. An answer that was penalised or masked is no fallback's.",
    )
    command.__doc__ = (command.__doc__ or "").replace("FORMATS", FORMAT_HELP.replace("\n", "\n    "))
    return form(out(advantages(notes(own(command)))))


def check_out(form: ExportFormat, out: Path) -> None:
    """Check that ``--out`` fits the format."""
    try:
        form.check(out)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error


async def write_export(form: ExportFormat, source: ExportSource, out: Path) -> None:
    """Write the chosen episodes with a progress bar; report omitted episodes."""
    with ProgressBar(source.chosen) as progress:
        source.progress = progress
        written = await form.export(source, out)
    if written == 0:
        click.echo(f"no rows written: these episodes have no data for --format {form.name}", err=True)
    for reason, count in source.omitted.items():
        click.echo(f"omitted: {count} episode{'s' if count > 1 else ''} {reason}", err=True)


class ProgressBar:
    """Progress of an export on standard error.

    Prints each finished episode's digest if the export has at most 10 episodes.
    """

    def __init__(self, chosen: Sequence[EpisodeSummary]) -> None:
        self._few = len(chosen) <= 10
        total = sum(summary.head_seq for summary in chosen)
        # Without a terminal, click would print the label alone.
        file = sys.stderr if sys.stderr.isatty() else io.StringIO()
        self._bar = click.progressbar(length=total, label="events", file=file, update_min_steps=500)

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
@click.option("--all", "everything", is_flag=True, help="Export every episode that matches, oldest first.")
@click.option("--environment", help="With --all: only episodes of this world.")
@click.option("--captain", help="With --all: only episodes with this preset in the agent's seat.")
@click.option("--run", "run_id", help="With --all: only episodes of this run.")
@click.option("--group", "group_id", help="With --all: only episodes of this group.")
@click.option("--attempt", type=click.IntRange(min=1), help="With --all: only attempts with this number.")
@click.option("--ended/--unended", default=None, help="With --all: only ended or unended episodes.")
@format_options
@click.option(
    "--as-recorded",
    is_flag=True,
    help="Write only recorded events; by default, patches and commentary that were not recorded are derived.",
)
@click.option(
    "--after-seq", type=click.IntRange(min=0), default=0, help="Write only events after this sequence number."
)
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
    min_own_share: float,
    as_recorded: bool,
    after_seq: int,
) -> None:
    """Export recorded episodes as events, or as training data.

    \b
    FORMATS

    \b
    Example: spectator export ep-01K9ZQ3V5M0000000000000000 > match.ndjson
    Example: spectator export --all --ended --format parquet --out episodes.parquet
    Example: spectator export --all --run nightly-7 --format messages > calls.ndjson
    """
    conditions = {
        "environment": environment,
        "captain": captain,
        "run_id": run_id,
        "group_id": group_id,
        "attempt": attempt,
        "ended": ended,
    }
    from spectator.exports.groups import GroupRule

    wanted = _wanted(episode_ids, everything, conditions)
    check_out(form, out)

    async def write() -> None:
        async with recorded_journal(data_dir) as journal:
            chosen = await _chosen(journal, wanted, form)
            source = ExportSource(
                journal, chosen, as_recorded, after_seq, advantages, min_own_share,
                rule=GroupRule.of_folder(data_dir), notes=notes,
            )  # fmt: skip
            await write_export(form, source, out)

    asyncio.run(write())


def _wanted(
    episode_ids: Sequence[str], everything: bool, conditions: Mapping[str, Any]
) -> EpisodeFilter | Sequence[str]:
    """Return the named episodes, or with ``--all`` the filter that selects them."""
    from spectator.journal.contract import EpisodeFilter

    if everything == bool(episode_ids):
        raise click.UsageError("give either episode ids or --all")
    if everything:
        return EpisodeFilter(limit=1000, **conditions)
    if any(value is not None for value in conditions.values()):
        raise click.UsageError("--environment, --captain, --run, --group, --attempt and --ended need --all")
    return episode_ids


async def _chosen(
    journal: Journal, wanted: EpisodeFilter | Sequence[str], form: ExportFormat
) -> Sequence[EpisodeSummary]:
    from spectator.journal.contract import every_episode

    if isinstance(wanted, Sequence):
        return [await summary_of(journal, episode_id) for episode_id in wanted]
    chosen = [one for one in await every_episode(journal, wanted) if form.takes(one)]
    if not chosen:
        raise click.ClickException("no episode matches")
    return chosen

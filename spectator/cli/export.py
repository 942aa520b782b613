"""The command ``spectator export``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spectator.cli.exporting import FORMS, PARQUET, ExportSource, write_export
from spectator.cli.options import Command
from spectator.cli.recordings import every_episode, journal_folder, recorded_journal, summary_of

if TYPE_CHECKING:
    from spectator.journal.base import EpisodeFilter, EpisodeSummary, Journal


def form_options(command: Command) -> Command:
    """The options of every command that writes recorded episodes: in which form, and where to."""
    form = click.option(
        "--format",
        "form",
        type=click.Choice(FORMS),
        default="ndjson",
        show_default=True,
        help="What is written; docs/rollouts-exports.md has a page on each.",
    )
    out = click.option(
        "--out",
        type=click.Path(allow_dash=True, path_type=Path),
        default="-",
        show_default=True,
        help="File, complete or not there; - is stdout. A name in .parquet makes a table of it; traces of "
        "several episodes want a folder.",
    )
    advantages = click.option(
        "--advantages", is_flag=True, help="With groups: state the normalised advantage of each member."
    )
    notes = click.option(
        "--notes",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="With preferences: the labels good and bad in this file of notes, in place of rewards.",
    )
    return form(out(advantages(notes(command))))


def check_form(form: str, out: Path) -> None:
    """Refuse a table on standard output, and a folder or file where the other is needed.

    Raises:
        UsageError: It is one.
    """
    if form != "traces" and out.is_dir():
        raise click.UsageError(f"--out {out} is a folder; --format {form} writes a file")
    if form.endswith("parquet") and str(out) == "-":
        raise click.UsageError(f"--format {form} needs --out FILE")
    if form in ("ndjson", "truth", "traces", "inspect") and out.suffix == PARQUET:
        raise click.UsageError(f"--format {form} is no table; --format parquet has the events as one")


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
@form_options
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
    advantages: bool,
    notes: Path | None,
    as_recorded: bool,
    after_seq: int,
) -> None:
    """Write recorded episodes: their events as viewers see them, or what a trainer needs.

    \b
    ndjson          events, one a line
    parquet         events as a table
    messages        calls to models: prompt, tools, answer, tokens, mask, reward
    tokens          rows of token ids with loss mask, log probabilities, versions of weights
    groups          episodes of one task: prompt, completions, rewards (GRPO)
    preferences     pairs of answers at the same step, from groups and forks (DPO)
    episode-record  whole episodes as OpenEnv's EpisodeRecord
    traces          sessions for the trace viewer of the Hugging Face Hub
    truth           what the world of an ended episode hid

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
    check_form(form, out)

    async def write() -> None:
        async with recorded_journal(data_dir) as journal:
            chosen = await _chosen(journal, wanted, form)
            source = ExportSource(journal, as_recorded, after_seq, advantages, notes=notes)
            await write_export(form, source, chosen, out)

    asyncio.run(write())


def _wanted(
    episode_ids: Sequence[str], everything: bool, asked: Mapping[str, Any]
) -> EpisodeFilter | Sequence[str]:
    """The episodes that are named, or what all of them are chosen by."""
    from spectator.journal.base import EpisodeFilter

    if everything == bool(episode_ids):
        raise click.UsageError("name the episodes, or ask for --all of them")
    if everything:
        return EpisodeFilter(limit=1000, **asked)
    if any(value is not None for value in asked.values()):
        raise click.UsageError(
            "--environment, --captain, --run, --group, --attempt and --ended choose among --all"
        )
    return episode_ids


async def _chosen(
    journal: Journal, wanted: EpisodeFilter | Sequence[str], form: str
) -> Sequence[EpisodeSummary]:
    """The episodes named, or all that match; of the truth of all, only those that are over have any."""
    if isinstance(wanted, Sequence):
        return [await summary_of(journal, episode_id) for episode_id in wanted]
    chosen = await every_episode(journal, wanted)
    chosen = [one for one in chosen if form != "truth" or one.ended_at is not None]
    if not chosen:
        raise click.ClickException("no episode matches")
    return chosen

"""The command ``spectator rollouts export``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spectator.cli.export import check_out, format_options, write_export
from spectator.cli.rollouts_place import FOLDER, journal_options, one_place, recorded_run
from spectator.exports.formats import ExportFormat, ExportSource

if TYPE_CHECKING:
    from spectator.journal.sql_journal import SqlJournal
    from spectator.rollouts.request import RolloutRequest


@asynccontextmanager
async def _recorded(
    folder: Path | None, journal: str | None, run_name: str | None
) -> AsyncIterator[tuple[RolloutRequest, SqlJournal]]:
    """A run and its record, wherever it is."""
    from spectator.cli.options import recorded_journal
    from spectator.rollouts.folder import read_request

    if folder is None:
        async with recorded_run(journal, run_name) as found:
            yield found
        return
    request, _ = read_request(folder)
    async with recorded_journal(folder) as opened:
        yield request, opened


@click.command("export")
@FOLDER
@journal_options
@format_options
def export_rollouts(
    folder: Path | None,
    journal: str | None,
    run_name: str | None,
    form: ExportFormat,
    out: Path,
    advantages: bool,
    notes: Path | None,
) -> None:
    """Export the episodes of a run for trainers; safe while it runs.

    A group is complete when each of its members has a verdict, and open while one has yet to be played.

    \b
    FORMATS

    \b
    Example: spectator rollouts export runs/first --format groups --advantages --out groups.jsonl
    Example: spectator rollouts export runs/first --format tokens --out tokens.parquet
    """
    from spectator.errors import TRIED_AGAIN
    from spectator.exports.groups import GroupRule
    from spectator.journal.contract import EpisodeFilter, every_episode

    check_out(form, out)
    place = one_place(folder, journal, run_name)

    async def write() -> None:
        async with _recorded(place, journal, run_name) as (request, opened):
            rule = GroupRule(request.group_size, request.attempts, TRIED_AGAIN)
            wanted = EpisodeFilter(run_id=run_name if place is None else None, limit=1000)
            chosen = [one for one in await every_episode(opened, wanted) if form.takes(one)]
            if not chosen:
                raise click.ClickException("no episode of the run has begun")
            source = ExportSource(opened, chosen, advantages=advantages, rule=rule, notes=notes)
            await write_export(form, source, out)

    asyncio.run(write())

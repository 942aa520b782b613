"""The command ``spectator rollouts export``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spectator.cli.export import check_form, form_options
from spectator.cli.exporting import ExportSource, write_export
from spectator.cli.rollouts_place import FOLDER, journal_options, one_place, recorded_run

if TYPE_CHECKING:
    from spectator.journal.stores.sqlite import SqlJournal
    from spectator.rollouts.request import RolloutRequest


@asynccontextmanager
async def _recorded(
    folder: Path | None, journal: str | None, run_name: str | None
) -> AsyncIterator[tuple[RolloutRequest, SqlJournal]]:
    """A run and its record, wherever it is."""
    from spectator.cli.recordings import recorded_journal
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
@form_options
def export_rollouts(
    folder: Path | None,
    journal: str | None,
    run_name: str | None,
    form: str,
    out: Path,
    advantages: bool,
    notes: Path | None,
) -> None:
    """Write the episodes of a run in a form for trainers; safe while it runs.

    The forms are those of spectator export. A group is complete when each of its members has a verdict, and
    open while one of them is still to be played.

    \b
    Example: spectator rollouts export runs/first --format groups --advantages --out groups.jsonl
    Example: spectator rollouts export runs/first --format tokens --out tokens.parquet
    """
    from spectator.cli.recordings import every_episode
    from spectator.journal.base import EpisodeFilter
    from spectator.rollouts.exports.groups import GroupRule
    from spectator.runs.failure_policy import TRIED_AGAIN

    check_form(form, out)
    place = one_place(folder, journal, run_name)

    async def write() -> None:
        async with _recorded(place, journal, run_name) as (request, opened):
            rule = GroupRule(request.group_size, request.attempts, TRIED_AGAIN)
            wanted = EpisodeFilter(run_id=run_name if place is None else None, limit=1000)
            chosen = await every_episode(opened, wanted)
            chosen = [one for one in chosen if form != "truth" or one.ended_at is not None]
            if not chosen:
                raise click.ClickException("no episode of the run has begun")
            await write_export(
                form, ExportSource(opened, advantages=advantages, rule=rule, notes=notes), chosen, out
            )

    asyncio.run(write())

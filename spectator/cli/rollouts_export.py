"""The command ``spectator rollouts export``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from spectator.cli.export import check_form, form_options
from spectator.cli.exporting import ExportSource, write_export


@click.command("export")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@form_options
def export_rollouts(folder: Path, form: str, out: Path, advantages: bool, notes: Path | None) -> None:
    """Write the episodes of a run in a form for trainers; safe while it runs.

    The forms are those of spectator export. A group is complete when each of its members has a verdict, and
    open while one of them is still to be played.

    \b
    Example: spectator rollouts export runs/first --format groups --advantages --out groups.jsonl
    Example: spectator rollouts export runs/first --format tokens --out tokens.parquet
    """
    from spectator.cli.recordings import every_episode, recorded_journal
    from spectator.journal.base import EpisodeFilter
    from spectator.rollouts.exports.groups import GroupRule
    from spectator.rollouts.folder import read_request
    from spectator.runs.failure_policy import TRIED_AGAIN

    check_form(form, out)
    request, _ = read_request(folder)
    rule = GroupRule(request.group_size, request.attempts, TRIED_AGAIN)

    async def write() -> None:
        async with recorded_journal(folder) as journal:
            chosen = await every_episode(journal, EpisodeFilter(limit=1000))
            chosen = [one for one in chosen if form != "truth" or one.ended_at is not None]
            if not chosen:
                raise click.ClickException("no episode of the run has begun")
            await write_export(
                form, ExportSource(journal, advantages=advantages, rule=rule, notes=notes), chosen, out
            )

    asyncio.run(write())

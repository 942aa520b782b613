"""The command ``spectator prune``."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spectator.cli.recordings import journal_folder, recorded_journal

if TYPE_CHECKING:
    from spectator.journal.stores.retention import Keep


@click.command()
@journal_folder
@click.option("--keep-episodes", type=click.IntRange(min=0), default=0, help="Ended ones; 0 = no limit.")
@click.option("--keep-days", type=click.FloatRange(min=0), default=0, help="Since their end; 0 = no limit.")
@click.option("--keep-mb", type=click.FloatRange(min=0), default=0, help="Of journal; 0 = no limit.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed; works while a server runs.")
@click.option(
    "--compact", is_flag=True, help="Rewrite the file afterwards, so that it is as small as can be."
)
def prune(
    data_dir: Path, keep_episodes: int, keep_days: float, keep_mb: float, dry_run: bool, compact: bool
) -> None:
    """Remove the oldest ended episodes until the journal is within limits; unended ones are always kept.

    A server does so by itself with SPECTATOR_KEEP_EPISODES, SPECTATOR_KEEP_DAYS and SPECTATOR_KEEP_MB.

    \b
    Example: spectator prune --keep-days 30 --keep-mb 2000 --dry-run
    """
    from spectator.journal.stores.retention import Keep

    keep = Keep(keep_episodes, keep_days, keep_mb)
    if keep == Keep() and not compact:
        raise click.UsageError("set a limit: --keep-episodes, --keep-days or --keep-mb; or --compact")
    asyncio.run(_prune(data_dir, keep, dry_run=dry_run, compact=compact))


async def _prune(data_dir: Path, keep: Keep, *, dry_run: bool, compact: bool) -> None:
    async with recorded_journal(data_dir, writable=not dry_run) as journal:
        old = await journal.surplus(keep, datetime.now(UTC))
        for one in old:
            click.echo(f"{one.episode_id}  ended {one.ended_at}  {one.bytes / 1e6:.1f} MB  ({one.why})")
        if not dry_run:
            with click.progressbar(old, label="removing", file=sys.stderr) as removing:
                for one in removing:
                    await journal.remove(one.episode_id)
            await journal.tidy()
            if compact:
                await journal.compact()
        size = await journal.figures()
    done = "would be removed" if dry_run else "removed"
    total = sum(one.bytes for one in old) / 1e6
    click.echo(
        f"{len(old)} episodes, {total:.1f} MB {done}; the journal takes {size.bytes / 1e6:.1f} MB", err=True
    )

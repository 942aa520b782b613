"""Owns `spectator verify`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from spectator.cli.recordings import journal_folder, recorded_episode


@click.command()
@click.argument("episode_id")
@journal_folder
def verify(episode_id: str, data_dir: Path) -> None:
    """Play a recorded episode again from its seed and decisions, and compare every event.

    \b
    Example: spectator verify ep-01K9ZQ3V5M0000000000000000
    """
    from spectator.episodes.verify import verify as replay_and_compare

    async def check() -> None:
        async with recorded_episode(episode_id, data_dir) as journal:
            found = await replay_and_compare(journal.stream(episode_id))
        for discrepancy in found:
            click.echo(f"event {discrepancy.seq}: {discrepancy.message}", err=True)
        if found:
            raise click.ClickException(f"{episode_id} is not what its seed and decisions give")
        click.echo(f"{episode_id}: every event is what its seed and decisions give")

    asyncio.run(check())

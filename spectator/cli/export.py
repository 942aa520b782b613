"""Owns `spectator export`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from spectator.cli.recordings import journal_folder, recorded_episode


@click.command()
@click.argument("episode_id")
@journal_folder
@click.option("--after-seq", type=click.IntRange(min=0), default=0, show_default=True)
def export(episode_id: str, data_dir: Path, after_seq: int) -> None:
    """Write a recorded episode's events to standard output as NDJSON, byte for byte as recorded.

    \b
    Example: spectator export ep-01K9ZQ3V5M0000000000000000 > match.ndjson
    """

    async def write() -> None:
        async with recorded_episode(episode_id, data_dir) as journal:
            async for recorded in journal.stream(episode_id, after_seq=after_seq):
                click.echo(recorded.text)

    asyncio.run(write())

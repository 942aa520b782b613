"""Owns `spectator watch`."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import click

from spectator.cli.recordings import recorded_episode


@click.command()
@click.argument("source")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default="data",
    show_default=True,
    help="Folder of the journal, for a recorded episode.",
)
@click.option("--turn-seconds", type=click.FloatRange(min=0), default=0.5, show_default=True)
def watch(source: str, data_dir: Path, turn_seconds: float) -> None:
    """Watch an episode in the terminal: SOURCE is a server's address, a page's, or a recorded episode's id.

    \b
    Example: spectator watch http://localhost:8000
    Example: spectator watch ep-01K9ZQ3V5M0000000000000000 --turn-seconds 0.2
    """
    try:
        from rich.console import Console
        from rich.live import Live

        from spectator import terminal, watching
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error.name} is not installed; watching needs: pip install 'openenv-spectator[watch]'"
        ) from error

    async def show(sights: AsyncIterator[watching.Sight]) -> None:
        with Live(console=Console(), auto_refresh=False, vertical_overflow="crop") as screen:
            async for sight in sights:
                screen.update(terminal.draw(sight.state, sight.connection), refresh=True)

    async def recorded() -> None:
        async with recorded_episode(source, data_dir) as journal:
            await show(watching.watch_recorded(journal, source, wait_s=turn_seconds))

    try:
        if "://" in source:
            asyncio.run(show(watching.watch_live(watching.live_url(source), rng=random.Random())))
        else:
            asyncio.run(recorded())
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    except KeyboardInterrupt:
        sys.exit(130)

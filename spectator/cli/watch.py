"""The command ``spectator watch``."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from spectator.cli.recordings import recorded_episode
from spectator.text import clean_text

if TYPE_CHECKING:
    from rich.console import Console

    from spectator.watching import WatchedMoment

REDRAW_S: Final = 0.1
"""Least time between two pictures, so that a fast match does not fill a slow line."""


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

    Keys: Ctrl+C leaves; the episode goes on.
    """
    try:
        from rich.console import Console

        from spectator import terminal, watching  # noqa: F401 - both are needed, and may be missing
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error.name} is not installed; watching needs: pip install 'openenv-spectator[watch]'"
        ) from error

    async def show(moments: AsyncIterator[watching.WatchedMoment]) -> None:
        console = Console()
        redraws = console.is_terminal and not console.is_dumb_terminal
        last = await (_redraw(moments, console) if redraws else _print_news(moments))
        if last is not None and last.failed:
            raise click.ClickException(clean_text(last.connection, 200))

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


async def _redraw(moments: AsyncIterator[WatchedMoment], console: Console) -> WatchedMoment | None:
    """Draw each moment over the one before; returns the last."""
    from rich.live import Live

    from spectator import terminal

    last: WatchedMoment | None = None
    changed = asyncio.Event()

    async def draw(screen: Live) -> None:
        while True:
            await changed.wait()
            changed.clear()
            if last is not None:
                screen.update(terminal.draw(last.state, last.connection, console), refresh=True)
            await asyncio.sleep(REDRAW_S)

    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as screen:
        drawing = asyncio.create_task(draw(screen))
        try:
            async for moment in moments:
                last = moment
                changed.set()
        finally:
            drawing.cancel()
            if last is not None:
                screen.update(terminal.draw(last.state, last.connection, console))
    return last


async def _print_news(moments: AsyncIterator[WatchedMoment]) -> WatchedMoment | None:
    """Print what is new, line by line; returns the last moment."""
    from spectator import terminal

    tale, last = terminal.Tale(), None
    async for last in moments:
        for line in tale.news(last.state, last.connection):
            click.echo(line)
    return last

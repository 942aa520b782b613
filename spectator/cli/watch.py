"""The command ``spectator watch``."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from spectator.cli.keyboard import has_keyboard, pressed
from spectator.cli.recordings import recorded_episode
from spectator.text import clean_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from spectator.terminal_player import TerminalPlayer
    from spectator.watching import WatchedMoment

REDRAW_S: Final = 0.1
"""Least time between two pictures, so that a fast match does not fill a slow line."""

MOST_STEPS: Final = 1_000_000
"""Moments that are passed at once where none is to be waited for."""


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

    Keys: space stands still, the arrows go by turns, comma and full stop by overs, the square brackets by
    big moments, minus and plus change the speed, L goes live, ? lists all, Q and Ctrl+C leave; the episode
    goes on.
    """
    try:
        from rich.console import Console

        from spectator import terminal, watching  # noqa: F401 - both are needed, and may be missing
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error.name} is not installed; watching needs: pip install 'openenv-spectator[watch]'"
        ) from error

    async def show(moments: AsyncIterator[watching.WatchedMoment], *, live: bool) -> None:
        console = Console()
        redraws = console.is_terminal and not console.is_dumb_terminal
        last = await (_show(moments, console, turn_seconds, live) if redraws else _print_news(moments))
        if last is not None and last.failed:
            raise click.ClickException(clean_text(last.connection, 200))

    async def recorded() -> None:
        async with recorded_episode(source, data_dir) as journal:
            wait_s = 0.0 if has_keyboard() else turn_seconds
            await show(watching.watch_recorded(journal, source, wait_s=wait_s), live=False)

    try:
        if "://" in source:
            asyncio.run(show(watching.watch_live(watching.live_url(source), rng=random.Random()), live=True))
        else:
            asyncio.run(recorded())
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    except KeyboardInterrupt:
        sys.exit(130)


async def _show(
    moments: AsyncIterator[WatchedMoment], console: Console, turn_s: float, live: bool
) -> WatchedMoment | None:
    """Draw each moment over the one before, as the keys say; returns the last."""
    from rich.live import Live

    from spectator.terminal_player import TerminalPlayer

    keyboard = has_keyboard()
    player = TerminalPlayer(turn_s=turn_s, follow=live or not keyboard)
    changed = asyncio.Event()

    def press(key: str) -> None:
        player.press(key)
        changed.set()

    async def follow() -> None:
        async for moment in moments:
            player.take(moment)
            changed.set()
            await asyncio.sleep(0)

    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as screen:
        following = asyncio.create_task(follow())
        following.add_done_callback(lambda _: changed.set())
        try:
            with pressed(press) if keyboard else nullcontext():
                await _draw_on(player, changed, screen, keyboard, following)
        finally:
            following.cancel()
            await asyncio.wait({following})
            _draw(player, screen, keyboard)
    if not following.cancelled():
        following.result()
    return player.newest


async def _draw_on(
    player: TerminalPlayer,
    changed: asyncio.Event,
    screen: Live,
    keyboard: bool,
    following: asyncio.Task[None],
) -> None:
    """Draw what changes and what is due until somebody leaves, or, without a keyboard, until all has come."""
    clock, due = asyncio.get_running_loop().time, None
    while not (player.left or (following.done() and (not keyboard or _is_lost(player, following)))):
        wait = player.wait_s()
        due = None if wait is None else clock() + wait if due is None else due
        try:
            await asyncio.wait_for(changed.wait(), None if due is None else max(0.0, due - clock()))
        except TimeoutError:
            player.play_on(max(1, round(REDRAW_S / wait)) if wait else MOST_STEPS)
            due = None
        changed.clear()
        _draw(player, screen, keyboard)
        await asyncio.sleep(REDRAW_S)


def _is_lost(player: TerminalPlayer, following: asyncio.Task[None]) -> bool:
    """Whether nothing can be shown."""
    return (
        following.cancelled()
        or following.exception() is not None
        or bool(player.newest and player.newest.failed)
    )


def _draw(player: TerminalPlayer, screen: Live, keyboard: bool) -> None:
    from spectator import terminal
    from spectator.terminal_player import KEYS, KEYS_LINE

    shown = player.shown()
    if shown is None:
        return
    below = (player.line(), KEYS_LINE) if keyboard else (terminal.KEYS,)
    keys = KEYS if keyboard and player.helping else None
    screen.update(terminal.draw(shown.state, shown.connection, screen.console, below, keys), refresh=True)


async def _print_news(moments: AsyncIterator[WatchedMoment]) -> WatchedMoment | None:
    """Print what is new, line by line; returns the last moment."""
    from spectator import terminal

    tale, last = terminal.Tale(), None
    async for last in moments:
        for line in tale.news(last.state, last.connection):
            click.echo(line)
    return last

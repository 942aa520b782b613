"""The command ``spectator copy-journal``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from spectator.journal import JOURNAL_FILE
from spectator.process_environment import journal_url


@click.command("copy-journal")
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default="data",
    show_default=True,
    help="Folder of the journal that is copied; its server is stopped.",
)
@click.option(
    "--to", "target", metavar="URL", help="PostgreSQL that it goes to; SPECTATOR_JOURNAL_URL without it."
)
def copy_journal(data_dir: Path, target: str | None) -> None:
    """Copy a folder's journal into an empty PostgreSQL, where several servers may share it.

    Each episode is copied whole or not at all, and compared row by row and by its digests before it counts;
    the journal itself stays as it is. What interrupts the command loses nothing: the same command goes on.

    \b
    Example: SPECTATOR_JOURNAL_URL=postgresql://... spectator copy-journal --data-dir data
    """
    from spectator.errors import EpisodeDamaged
    from spectator.journal.stores.moving import Moved, moving
    from spectator.journal.stores.postgres import is_server

    path, url = data_dir / JOURNAL_FILE, target or journal_url()
    if url is None or not is_server(url):
        raise click.UsageError(
            "say where to: --to or SPECTATOR_JOURNAL_URL, postgresql://user:password@host/database"
        )
    if not path.exists():
        raise click.ClickException(f"there is no journal at {path}; name its folder with --data-dir")
    moved: list[Moved] = []
    damaged: list[str] = []
    with (
        moving(f"sqlite:///{path}", url) as copying,
        click.progressbar(copying.episodes(), label="copying", file=sys.stderr) as going,
    ):
        for episode_id in going:
            try:
                moved.append(copying.move(episode_id))
            except EpisodeDamaged as error:
                damaged.append(str(error))
    new = [one for one in moved if not one.was_there]
    click.echo(
        f"{len(new)} episodes, {sum(one.events for one in new)} events copied, every digest as it was; "
        f"{len(moved) - len(new)} were there already"
    )
    for one in damaged:
        click.echo(one, err=True)
    if damaged:
        raise click.ClickException(f"{len(damaged)} episodes are not as they were recorded and were left out")

"""The command ``spectator board``: verified results on a server's leaderboard."""

from __future__ import annotations

from pathlib import Path

import click

from spectator.cli.verify_bundle import check_bundle, max_size, refuse

data_folder = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default="data",
    show_default=True,
    help="The server's data folder.",
)


@click.group()
def board() -> None:
    """Verified results of published evaluations on a server's leaderboard."""


@board.command("add")
@click.argument("bundle", metavar="DIR|ZIP", type=click.Path(path_type=Path))
@data_folder
@max_size
def add(bundle: Path, data_dir: Path, max_gb: float) -> None:
    """Verify a bundle, all of it, and show what it says on the leaderboard of the server.

    A bundle that is not as claimed is refused. No match of it gets into the server's journal; the server
    need not be stopped.

    \b
    Example: spectator board add out/ --data-dir data
    """
    from spectator import __version__
    from spectator.clock import SystemClock, timestamp
    from spectator.evaluation.bundles.board import keep_verified, verified_result

    manifest, verdict = check_bundle(bundle, None, max_gb)
    if not verdict.verified:
        refuse([str(one) for one in verdict.wrong])
    now = timestamp(SystemClock().now())
    keep_verified(
        data_dir, verified_result(manifest, verdict.digest, verified_at=now, verified_by=__version__)
    )
    click.echo(f"verified, and on the board: {verdict.digest}")


@board.command("list")
@data_folder
def list_results(data_dir: Path) -> None:
    """Say which results are on the board."""
    from spectator.evaluation.bundles.board import verified_results

    for one in verified_results(data_dir):
        names = ", ".join(captain.name for captain in one.captains)
        click.echo(
            f"{one.digest[:12]}  {one.verified_at[:10]}  {one.environment}, {one.matches} matches: {names}"
        )


@board.command("remove")
@click.argument("digest")
@data_folder
def remove(digest: str, data_dir: Path) -> None:
    """Take the result whose digest begins with DIGEST off the board."""
    from spectator.evaluation.bundles.board import take_off

    taken = take_off(data_dir, digest)
    if taken is None:
        raise click.ClickException(
            f"no single result on the board begins with {digest!r}; see: spectator board list"
        )
    click.echo(f"off the board: {taken.digest}")

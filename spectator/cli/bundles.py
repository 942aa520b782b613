"""The commands ``spectator verify-bundle`` and ``spectator board``."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from spectator.errors import BundleError

if TYPE_CHECKING:
    from spectator.evaluation.bundles.bundle import BundleManifest
    from spectator.evaluation.bundles.verification import Verdict


NO_BUNDLE: Final = 2
"""The exit code where there is nothing to check."""

TOLD: Final = 20
"""Misstatements that are told one by one."""


class _NoBundle(click.ClickException):
    """There is no bundle that can be read."""

    exit_code = NO_BUNDLE


max_size = click.option(
    "--max-gb", type=click.FloatRange(min=0, min_open=True), default=4.0, show_default=True,
    help="Largest bundle that is read.",
)  # fmt: skip


@click.command("verify-bundle")
@click.argument("bundle", metavar="DIR|ZIP", type=click.Path(path_type=Path))
@click.option(
    "--sample", type=click.IntRange(min=1), metavar="N",
    help="Play only N episodes again, drawn at random; everything else is checked as ever.",
)  # fmt: skip
@click.option(
    "--digest", help="What the bundle's digest has to be, as stated elsewhere: 64 hexadecimal digits."
)
@click.option(
    "--commitment",
    help="What the commitment of its sealed seeds has to be, as published before they were played.",
)
@max_size
def verify_bundle(
    bundle: Path, sample: int | None, digest: str | None, commitment: str | None, max_gb: float
) -> None:
    """Check a published evaluation: whether every decision, score, reward and interval is as claimed.

    No key and no network is needed. Every match is played again from its seed, scripted captains decide
    anew, models' decisions are made again from their recorded replies, and the results are computed anew.
    docs/evaluation.md says what that shows and what it cannot.

    Exit code 0: everything is as claimed. 1: something is not. 2: it is no bundle.

    \b
    Example: spectator verify-bundle out/
    Example: spectator verify-bundle result.zip --sample 10
    """
    manifest, verdict = check_bundle(bundle, sample, max_gb)
    wrong = [str(one) for one in verdict.wrong]
    if digest is not None and digest.lower() != verdict.digest:
        wrong.append(f"the bundle's digest is {verdict.digest}, not the one that was stated")
    if commitment is not None and commitment.lower() != manifest.seeds.commitment:
        wrong.append("seeds.commitment: is not the one that was stated before")
    if wrong:
        refuse(wrong)
    _confirm(manifest, verdict)


def check_bundle(bundle: Path, sample: int | None, max_gb: float) -> tuple[BundleManifest, Verdict]:
    """Check a bundle, with a bar.

    Raises:
        ClickException: It is none, or its files are not those of its manifest.
    """
    from spectator.clock import SystemClock
    from spectator.evaluation.bundles import verification
    from spectator.evaluation.bundles.bundle import WrongFiles, opened

    part = None if sample is None else verification.Sample(sample, random.SystemRandom())
    try:
        with opened(bundle, max_bytes=int(max_gb * 2**30)) as there, _bar() as report:
            checking = verification.verify_bundle(there, clock=SystemClock(), sample=part, report=report)
            return there.manifest, asyncio.run(checking)
    except WrongFiles as error:
        refuse(error.told)
    except BundleError as error:
        raise _NoBundle(f"{bundle} is no bundle: {error}") from error


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """A bar of episodes on standard error."""
    with click.progressbar(label="episodes", file=sys.stderr, length=1, show_pos=True) as bar:

        def report(done: int, total: int) -> None:
            bar.length = max(1, total)
            bar.update(done - bar.pos)

        yield report


def refuse(wrong: Sequence[str]) -> NoReturn:
    """Say what is not as claimed.

    Raises:
        ClickException: In any case.
    """
    for told in wrong[:TOLD]:
        click.echo(told, err=True)
    if len(wrong) > TOLD:
        click.echo(f"... and {len(wrong) - TOLD} more", err=True)
    raise click.ClickException("the bundle is not as claimed")


def _confirm(manifest: BundleManifest, verdict: Verdict) -> None:
    """Say what was found to be as claimed, and what was not looked at."""
    results = manifest.results
    for one in results.captains:
        share = f"{100 * one.share.value:.1f} % ({100 * one.share.low:.1f} to {100 * one.share.high:.1f})"
        click.echo(f"{'-' if one.rank is None else one.rank:>2}  {one.name}  {share}")
    seeds = manifest.seeds
    made = f"sealed seeds, commitment {seeds.commitment}" if seeds.made == "sealed" else "development seeds"
    click.echo(f"{len(results.matches)} matches on {seeds.count} seeds; {made}")
    for note in verdict.notes:
        click.echo(f"note: {note}")
    click.echo(f"digest {verdict.digest}")
    if verdict.whole:
        click.echo("verified: every decision, score, reward and interval is as claimed")
    else:
        left = verdict.episodes - verdict.replayed
        click.echo(
            f"a sample is as claimed: {verdict.replayed} of {verdict.episodes} episodes were played again. "
            f"NOT checked: the worlds and decisions of the other {left}"
        )


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

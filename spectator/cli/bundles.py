"""The bundle that ``spectator evaluate --publish`` writes, ``verify-bundle`` and ``board``."""

from __future__ import annotations

import asyncio
import random
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from spectator.errors import BundleError, FieldError, InvalidRequest
from spectator.process_environment import private_variables

if TYPE_CHECKING:
    from spectator.catalog import LoadWorld
    from spectator.evaluation.bundles.bundle import BundleManifest
    from spectator.evaluation.bundles.verification import Verdict
    from spectator.evaluation.schedule import EvaluationRequest, Schedule


PHRASE: Final = "sealed-phrase.txt"
"""File in an evaluation's folder with its generated phrase."""


def sealed_phrase(folder: Path, *, draw: bool) -> str | None:
    """Return the phrase of the evaluation in ``folder``, or generate one; else ``None``.

    Args:
        folder: The evaluation's folder.
        draw: Whether to generate one for a new evaluation; :func:`announce_commitment` stores it.
    """
    from spectator.evaluation.schedule import MANIFEST

    path = folder / PHRASE
    if path.is_file():
        return path.read_text(encoding="utf-8").strip()
    return secrets.token_urlsafe(32) if draw and not (folder / MANIFEST).exists() else None


def _keep_phrase(folder: Path, phrase: str) -> None:
    """Store a generated phrase in the evaluation's folder, readable only by its owner."""
    from spectator.evaluation.schedule import write_text

    path = folder / PHRASE
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, phrase + "\n")
        path.chmod(0o600)
        click.echo(
            f"generated a secret phrase for the seeds; keep it secret until you publish: {path}", err=True
        )


def with_announced_anchors(request: EvaluationRequest, load: LoadWorld) -> EvaluationRequest:
    """Add the world's anchors to the captains of ``request``, and print which were added."""
    from spectator.evaluation.bundles.bundle import anchors_of
    from spectator.evaluation.bundles.publication import with_anchors

    try:
        anchored = with_anchors(request, anchors_of(load(request.environment)))
    except InvalidRequest as error:
        raise InvalidRequest([FieldError("environment", one.rule) for one in error.fields]) from error
    if added := anchored.captains[len(request.captains) :]:
        click.echo(
            f"added {', '.join(added)}, as in every bundle; every captain plays against them too. "
            "--estimate shows the cost",
            err=True,
        )
    return anchored


def announce_commitment(schedule: Schedule, phrase: str, keep_in: Path | None) -> None:
    """Print the commitment; published before the first match, it proves that the phrase was fixed.

    Args:
        phrase: The secret phrase of the seeds.
        keep_in: Folder to store a generated phrase in; ``None`` if the user supplied it.
    """
    from spectator.evaluation.bundles.bundle import commitment

    if keep_in is not None:
        _keep_phrase(keep_in, phrase)
    stated = commitment(schedule.world.name, schedule.pack, phrase)
    click.echo(f"sealed seeds, commitment {stated}", err=True)


def publish_bundle(schedule: Schedule, request: EvaluationRequest, folder: Path, target: Path) -> None:
    """Write the bundle of the finished evaluation in ``folder``."""
    from spectator.clock import SystemClock
    from spectator.evaluation.bundles.publication import private_texts, publish
    from spectator.evaluation.schedule import keep_manifest

    clock = SystemClock()
    kept = keep_manifest(folder, schedule, int(clock.now().timestamp() * 1000))
    private = private_texts(
        schedule.world, private_variables(), (Path.home(), Path.cwd(), folder, target.parent)
    )
    with click.progressbar(label="bundle", file=sys.stderr, length=1, show_pos=True) as bar:

        def report(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        published = asyncio.run(
            publish(schedule, request, folder, kept, target, private=private, clock=clock, report=report)
        )
    megabytes = published.bytes / 1e6
    click.echo(
        f"{published.folder}: {published.episodes} episodes, {megabytes:.1f} MB, digest {published.digest}"
    )
    click.echo(f"check it anywhere, without a key: spectator verify-bundle {published.folder}")


NOT_A_BUNDLE: Final = 2
"""Exit code if there is no bundle to check."""

MOST_SHOWN: Final = 20
"""Wrong claims that are printed; the rest are counted."""


class _NotABundle(click.ClickException):
    """The path is not a readable bundle."""

    exit_code = NOT_A_BUNDLE


max_size = click.option(
    "--max-gb", type=click.FloatRange(min=0, min_open=True), default=4.0,
    help="Largest bundle to read, in GiB.",
)  # fmt: skip


@click.command("verify-bundle")
@click.argument("bundle", metavar="DIR|ZIP", type=click.Path(path_type=Path))
@click.option(
    "--sample", type=click.IntRange(min=1), metavar="N",
    help="Replay only N random episodes; everything else is still checked.",
)  # fmt: skip
@click.option("--digest", help="Expected digest of the bundle, as stated elsewhere: 64 hexadecimal digits.")
@click.option(
    "--commitment", help="Expected commitment of the sealed seeds, as published before the first match."
)
@max_size
def verify_bundle(
    bundle: Path, sample: int | None, digest: str | None, commitment: str | None, max_gb: float
) -> None:
    """Check a published evaluation by replaying its matches.

    Checks every decision, score, reward and interval, without a key or a network: it replays every match from
    its seed, repeats the decisions of scripted captains, derives the decisions of models from their recorded
    replies, and computes the results again. docs/evaluation.md explains what this proves and what it cannot.
    The bundle of a collider league is checked from its phrase and entries.

    Exit code 0: everything is as claimed. 1: something is not. 2: not a bundle.

    \b
    Example: spectator verify-bundle out/
    Example: spectator verify-bundle result.zip --sample 10
    """
    if _verified_league(bundle, max_gb, digest, commitment):
        return
    manifest, verdict = check_bundle(bundle, sample, max_gb)
    wrong = [str(one) for one in verdict.wrong]
    if digest is not None and digest.lower() != verdict.digest:
        wrong.append(f"the bundle's digest is {verdict.digest}, not the stated one")
    if commitment is not None and commitment.lower() != manifest.seeds.commitment:
        wrong.append("seeds.commitment: is not the stated one")
    if wrong:
        reject(wrong)
    _confirm(manifest, verdict)


def _verified_league(bundle: Path, max_gb: float, digest: str | None, commitment: str | None) -> bool:
    """Check the bundle of a collider league; return whether it is one."""
    from spectator.cli.collider import verify_league
    from spectator.evaluation.bundles.bundle import manifest_text

    try:
        return verify_league(manifest_text(bundle, max_bytes=int(max_gb * 2**30)), digest, commitment)
    except BundleError as error:
        raise _NotABundle(f"{bundle} is not a bundle: {error}") from error


def check_bundle(bundle: Path, sample: int | None, max_gb: float) -> tuple[BundleManifest, Verdict]:
    """Check a bundle, and show a progress bar."""
    from spectator.clock import SystemClock
    from spectator.evaluation.bundles import verification
    from spectator.evaluation.bundles.bundle import WrongFiles, opened

    part = None if sample is None else verification.Sample(sample, random.SystemRandom())
    try:
        with opened(bundle, max_bytes=int(max_gb * 2**30)) as there, _bar() as report:
            checking = verification.verify_bundle(there, clock=SystemClock(), sample=part, report=report)
            return there.manifest, asyncio.run(checking)
    except WrongFiles as error:
        reject(error.mistakes)
    except BundleError as error:
        raise _NotABundle(f"{bundle} is not a bundle: {error}") from error


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    with click.progressbar(label="episodes", file=sys.stderr, length=1, show_pos=True) as bar:

        def report(done: int, total: int) -> None:
            bar.length = max(1, total)
            bar.update(done - bar.pos)

        yield report


def reject(wrong: Sequence[str]) -> NoReturn:
    """Print what is not as claimed."""
    for message in wrong[:MOST_SHOWN]:
        click.echo(message, err=True)
    if len(wrong) > MOST_SHOWN:
        click.echo(f"... and {len(wrong) - MOST_SHOWN} more", err=True)
    raise click.ClickException("the bundle is not as claimed")


def _confirm(manifest: BundleManifest, verdict: Verdict) -> None:
    results = manifest.results
    for one in results.captains:
        share = "not ranked"
        if (won := one.share) is not None:
            share = f"{100 * won.value:.1f} % ({100 * won.low:.1f} to {100 * won.high:.1f})"
        click.echo(f"{'-' if one.rank is None else one.rank:>2}  {one.name}  {share}")
    for one in results.captains:
        if one.asked.settings is not None:
            failed = ", ".join(f"{why} {times}" for why, times in one.asked.fallbacks.items()) or "none"
            click.echo(f"{one.name}: {one.asked.decisions} decisions, failed: {failed}")
            for line in (f"requests: {one.asked.replies.requests}", *one.asked.replies.lines()):
                click.echo(f"    {line}")
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
            f"a sample is as claimed: {verdict.replayed} of {verdict.episodes} episodes were replayed. "
            f"NOT checked: the worlds and decisions of the other {left}"
        )


data_folder = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default="data",
    help="The server's data folder.",
)


@click.group()
def board() -> None:
    """Manage verified results on a server's leaderboard."""


@board.command("add")
@click.argument("bundle", metavar="DIR|ZIP", type=click.Path(path_type=Path))
@data_folder
@max_size
def add(bundle: Path, data_dir: Path, max_gb: float) -> None:
    """Verify a whole bundle, and show its results on the server's leaderboard.

    A bundle that is not as claimed is rejected. Its matches do not enter the server's journal. The server can
    keep running.

    \b
    Example: spectator board add out/ --data-dir data
    """
    from spectator import __version__
    from spectator.clock import SystemClock, timestamp
    from spectator.evaluation.bundles.board import keep_verified, verified_result

    manifest, verdict = check_bundle(bundle, None, max_gb)
    if not verdict.verified:
        reject([str(one) for one in verdict.wrong])
    now = timestamp(SystemClock().now())
    keep_verified(
        data_dir, verified_result(manifest, verdict.digest, verified_at=now, verified_by=__version__)
    )
    click.echo(f"verified, and on the board: {verdict.digest}")


@board.command("list")
@data_folder
def list_results(data_dir: Path) -> None:
    """List the results on the board."""
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
    """Remove the result whose digest begins with DIGEST."""
    from spectator.evaluation.bundles.board import remove_result

    removed = remove_result(data_dir, digest)
    if removed is None:
        raise click.ClickException(
            f"{digest!r} does not match exactly one result on the board; see: spectator board list"
        )
    click.echo(f"removed from the board: {removed.digest}")

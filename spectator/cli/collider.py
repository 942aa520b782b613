"""The commands ``collider league``: make, enter and score a league of sealed pseudo-experiments."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from spectator.cli.bundles import reject
from spectator.errors import BundleError, FieldError, InvalidRequest

if TYPE_CHECKING:
    from spectator.environments.collider.league import Document, LeagueBundle

LEAGUE: Final = "league.json"
"""Name of what agents see, in the folder of a league."""

_truth_file = click.option(
    "--truth",
    "truth_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of the sealed truth; default: DIR-truth.json, beside the folder.",
)
_folder = click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))


@click.group()
def collider() -> None:
    """Compare methods of inference on sealed pseudo-experiments."""


@collider.group()
def league() -> None:
    """Score intervals for the strength of a signal, by coverage and width.

    \b
    Example: spectator collider league make --out season
             spectator collider league enter season --entry toys --out toys.json
             spectator collider league score season toys.json mine.json --publish board
             spectator verify-bundle board
    """


@league.command()
@click.option("--experiments", type=click.IntRange(1, 5000), default=100)
@click.option("--seed", type=click.IntRange(min=0), help="Make a development league, which anyone can make.")
@click.option(
    "--sealed", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the secret phrase; default: a random one.",
)  # fmt: skip
@click.option("--out", "folder", type=click.Path(file_okay=False, path_type=Path), required=True)
@_truth_file
def make(
    experiments: int, seed: int | None, sealed: Path | None, folder: Path, truth_file: Path | None
) -> None:
    """Make a league: the folder that agents may read, and the sealed truth beside it.

    Publish the printed commitment before the first entry. It proves that the truth was fixed by then.
    """
    from spectator.environments.collider.league import DEVELOPMENT, make_league
    from spectator.evaluation.schedule import write_text

    if seed is not None and sealed is not None:
        raise click.UsageError("--seed makes a public league and --sealed a secret one; use one of them")
    phrase = secrets.token_urlsafe(32) if sealed is None else sealed.read_text(encoding="utf-8").strip()
    made, truth = make_league(phrase if seed is None else f"{DEVELOPMENT}{seed}", experiments)
    kept = _beside(folder, truth_file)
    if kept.is_relative_to(folder.resolve()):
        raise InvalidRequest([FieldError("truth", f"must be outside {folder}, which agents may read")])
    for path in (folder / LEAGUE, kept):
        if path.exists():
            raise InvalidRequest([FieldError("out", f"{path} already exists; choose another folder")])
    write_text(kept, truth.model_dump_json(indent=1) + "\n")
    kept.chmod(0o600)
    write_text(folder / LEAGUE, made.model_dump_json(indent=1) + "\n")
    click.echo(f"{folder / LEAGUE}: {experiments} pseudo-experiments, {made.made}")
    click.echo(f"{kept}: the truth; keep it from all agents until you score")
    click.echo(f"commitment {made.commitment}")


def _beside(folder: Path, truth_file: Path | None) -> Path:
    whole = folder.resolve()
    return truth_file.resolve() if truth_file else whole.with_name(f"{whole.name}-truth.json")


def _read(kind: type[Document], path: Path) -> Document:
    from spectator.environments.collider.league import read_document

    return read_document(kind, path.read_bytes(), path.name)


@league.command()
@_folder
@click.option("--entry", type=click.Choice(["asymptotic", "toys", "bayesian"]), required=True)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File to write.")
def enter(folder: Path, entry: str, out: Path) -> None:
    """Write the entry of a built-in method.

    Any other program may write such a file: the commitment of the league, a name, and for each experiment its
    id with the low and high end of the interval (docs/evaluation.md).
    """
    from spectator.environments.collider.league import League, built_in_entry, digest_of
    from spectator.evaluation.schedule import write_text

    found = built_in_entry(_read(League, folder / LEAGUE), entry)
    write_text(out, found.model_dump_json(indent=1) + "\n")
    click.echo(f"{out}: {len(found.intervals)} intervals, digest {digest_of(found)}")


@league.command()
@_folder
@click.argument("entries", metavar="ENTRY...", nargs=-1, required=True, type=click.Path(path_type=Path))
@_truth_file
@click.option(
    "--publish", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Write a bundle that `spectator verify-bundle` can check.",
)  # fmt: skip
def score(folder: Path, entries: tuple[Path, ...], truth_file: Path | None, publish: Path | None) -> None:
    """Open the sealed truth and print the board, best entry first.

    Coverage is that of 68.27 % intervals, with its exact 95 % interval. The score is high for narrow
    intervals and falls where coverage is more than two standard errors off. Entries whose scores overlap
    share a rank. Do not accept entries after you scored: --publish reveals the truth.
    """
    from spectator.environments.collider.league import League, LeagueEntry, LeagueTruth, bundle_of
    from spectator.evaluation.bundles.bundle import MANIFEST
    from spectator.evaluation.schedule import write_text

    if publish is not None and publish.is_dir() and any(one.name != MANIFEST for one in publish.iterdir()):
        raise InvalidRequest(
            [FieldError("publish", f"{publish} contains other files; choose another folder")]
        )
    truth = _read(LeagueTruth, _beside(folder, truth_file))
    made = _read(League, folder / LEAGUE)
    bundle = bundle_of(made, truth, [_read(LeagueEntry, path) for path in entries])
    if publish is not None and (wrong := _wrong(bundle)):
        reject(wrong)
    _print_board(bundle)
    if publish is not None:
        text = bundle.model_dump_json(indent=1)
        write_text(publish / MANIFEST, text)
        click.echo(f"{publish}: digest {hashlib.sha256(text.encode()).hexdigest()}")
        click.echo(f"check it anywhere: spectator verify-bundle {publish}")


def _print_board(bundle: LeagueBundle) -> None:
    click.echo(f"{'rank':>4}  {'entry':<20}  {'coverage, %':<20}  {'mean width':<24}  score")
    for one in bundle.board:
        share, width, points = one.coverage, one.width, one.score
        coverage = f"{100 * share.value:.1f} ({100 * share.low:.1f} to {100 * share.high:.1f})"
        widths = f"{width.value:.3f} ({width.low:.3f} to {width.high:.3f})"
        scored = f"{points.value:.2f} ({points.low:.2f} to {points.high:.2f})"
        click.echo(f"{one.rank:>4}  {one.name:<20.40}  {coverage:<20}  {widths:<24}  {scored}")


def _wrong(bundle: LeagueBundle) -> list[str]:
    """Compute a bundle again from its phrase and entries; return a sentence for each difference."""
    from spectator.environments.collider.league import BUILT_IN, built_in_entry, bundle_of, make_league
    from spectator.evaluation.bundles.verification import differences

    claimed = bundle.model_dump(mode="json")
    made, truth = make_league(bundle.truth.phrase, len(bundle.truth.experiments))
    wrong = [
        *differences(claimed["league"], made.model_dump(mode="json"), "league"),
        *differences(claimed["truth"], truth.model_dump(mode="json"), "truth"),
    ]
    if wrong:
        return wrong
    entries = [built_in_entry(made, one.name) if one.name in BUILT_IN else one for one in bundle.entries]
    again = bundle_of(made, truth, entries).model_dump(mode="json")
    return [one for name in ("entries", "board") for one in differences(claimed[name], again[name], name)]


def verify_league(text: bytes, digest: str | None, commitment: str | None) -> bool:
    """Check the bundle of a league: compute every number again from the phrase and the entries.

    Args:
        text: The manifest of a bundle.
        digest: Expected digest, if stated elsewhere.
        commitment: Expected commitment, if published before.

    Returns:
        Whether it is the bundle of a league; others are not checked.

    Raises:
        BundleError: It is one, but this version cannot read it.
    """
    from spectator.environments.collider.league import LeagueBundle, read_document
    from spectator.evaluation.bundles.bundle import MANIFEST

    if b'"spectator.collider.league-bundle/' not in text[:100]:
        return False
    try:
        bundle = read_document(LeagueBundle, text, MANIFEST)
    except InvalidRequest as error:
        raise BundleError(str(error)) from error
    wrong, found = [], hashlib.sha256(text).hexdigest()
    if digest is not None and digest.lower() != found:
        wrong.append(f"the bundle's digest is {found}, not the stated one")
    if commitment is not None and commitment.lower() != bundle.league.commitment:
        wrong.append("league.commitment: is not the stated one")
    if wrong := [*wrong, *_wrong(bundle)]:
        reject(wrong)
    _print_board(bundle)
    click.echo(f"commitment {bundle.league.commitment}, {bundle.league.made}")
    click.echo(f"digest {found}")
    click.echo("verified: every count, truth, built-in interval, coverage, width and score is as claimed")
    return True

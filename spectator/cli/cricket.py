"""The commands ``cricket``: import real matches, list them, play on from any ball, price their overs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from spectator.cli.play import play as play_episode

if TYPE_CHECKING:
    from spectator.environments.cricket.imported_matches import MatchImport
    from spectator.environments.cricket.real_match_record import OverPrice, RealMatch
    from spectator.environments.world import Pack

NOTHING_IMPORTED: Final = 1
"""The exit code if no match can be played on."""

_data_dir = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default="data",
    help="Folder that keeps the imported matches; `spectator serve` with it offers them as packs.",
)


@click.group()
def cricket() -> None:
    """Captain a real match from your own Cricsheet files.

    \b
    Example: spectator cricket import ~/Downloads/t20s_json
             spectator cricket matches
             spectator cricket play real-1234567 --from 2:14.3 --captain llm:hf > match.ndjson
             spectator cricket report real-1234567
    """


@cricket.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@_data_dir
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=200,
    help="Matches to keep as packs: the latest. All files count for the ratings.",
)
@click.option("--verbose", is_flag=True, help="Print the notes of every match, not only of the last ten.")
def import_command(paths: tuple[Path, ...], data_dir: Path, keep: int, verbose: bool) -> None:
    """Import match files in Cricsheet's JSON format, or folders of them.

    Nothing is downloaded. Files that the world cannot play are named with the reason, and the import goes on.
    Ratings of players are shrunk by person, venue and season from all the files given (docs/real-matches.md).

    \b
    Exit code: 0 at least one match can be played on
               1 none can
    """
    from spectator.environments.cricket.imported_matches import import_matches, match_files, save_matches

    count = sum(1 for _ in match_files(paths))
    if not count:
        raise click.UsageError("no .json file in these folders; extract the archive of Cricsheet first")
    with click.progressbar(length=2 * count, label="reading", file=sys.stderr) as going:
        report = import_matches(paths, keep=keep, advanced=lambda: going.update(1))
    for path, why in report.refused:
        click.echo(f"{path}: {why}", err=True)
    if report.kept:
        _summarize(report, verbose)
        click.echo(f"kept in {save_matches(data_dir, report.kept)}; a running server needs a restart")
    click.echo(
        f"{len(report.kept)} matches to play on, {report.counted} of {count} files counted for ratings, "
        f"{len(report.refused)} not used"
    )
    if not report.kept:
        sys.exit(NOTHING_IMPORTED)


def _summarize(report: MatchImport, verbose: bool) -> None:
    from spectator.environments.cricket.real_match_record import ATTRIBUTION

    shown = report.kept if verbose else report.kept[:10]
    for one in shown:
        record = one.record
        click.echo(f"{one.key}  {record.date}  {record.title}, {record.venue}: {record.result}")
        for note in one.notes:
            click.echo(f"    {note}")
    if len(shown) < len(report.kept):
        click.echo(f"... and {len(report.kept) - len(shown)} more; see `spectator cricket matches`")
    click.echo(ATTRIBUTION)


@cricket.command()
@_data_dir
def matches(data_dir: Path) -> None:
    """List the imported matches."""
    from spectator.environments.cricket.imported_matches import imported_packs
    from spectator.environments.cricket.real_match_record import ATTRIBUTION

    packs = imported_packs(data_dir)
    for name, pack in packs.items():
        click.echo(f"{name}  {pack.summary.removeprefix('Play on a real match: ')}")
    click.echo(ATTRIBUTION if packs else "no match is imported; use `spectator cricket import`")


@cricket.command()
@click.argument("match")
@click.option(
    "--from",
    "start",
    default="1:0.0",
    help="Innings and overs bowled where play starts; 14.3+1 is one delivery (a wide or no-ball) later.",
)
@click.option("--team", help="Team that your captain leads; default: the first named.")
@click.option("--captain", metavar="PRESET", help="Your captain; default: the world's default.")
@click.option("--opponent", metavar="PRESET", help="Captain of the other team; default: the world's default.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed; default: a random seed.")
@_data_dir
@click.pass_context
def play(
    context: click.Context,
    match: str,
    start: str,
    team: str | None,
    captain: str | None,
    opponent: str | None,
    seed: int | None,
    data_dir: Path,
) -> None:
    """Play on from any ball of a real match; print the events as NDJSON and record them.

    MATCH is a name from `spectator cricket matches`, or a Cricsheet file, which is then imported. The same
    works with `spectator play cricket --pack MATCH --option real_from=2:14.3 --option real_team=2`.
    """
    name, _, record = _found(match, data_dir)
    options: dict[str, Any] = {"real_from": start}
    if team is not None:
        options["real_team"] = _number_of(team, record.teams)
    context.invoke(
        play_episode, environment="cricket", captain=captain, opponent=opponent, pack=name, seed=seed,
        options=options, data_dir=data_dir,
    )  # fmt: skip


def _found(match: str, data_dir: Path) -> tuple[str, Pack, RealMatch]:
    """Return the name, pack and record of an imported match; a file is imported first."""
    from spectator.environments.cricket.imported_matches import import_matches, imported_packs, save_matches
    from spectator.environments.cricket.real_match_record import RealMatch

    if match.endswith(".json") and Path(match).is_file():
        report = import_matches([Path(match)])
        for path, why in report.refused:
            raise click.ClickException(f"{path}: {why}")
        name = report.kept[0].key
        if name not in imported_packs(data_dir):  # a larger import has rated its players better
            save_matches(data_dir, report.kept)
    else:
        name = match
    packs = imported_packs(data_dir)
    if name not in packs:
        raise click.ClickException(
            f"{match!r} is not an imported match of {data_dir}; see `spectator cricket matches`"
        )
    return name, packs[name], RealMatch.model_validate(packs[name].options["real_match"])


def _number_of(team: str, teams: Sequence[str]) -> int:
    for number, name in enumerate(teams, 1):
        if name.casefold() == team.casefold():
            return number
    raise click.ClickException(f"--team {team!r} does not play; use {teams[0]!r} or {teams[1]!r}")


@cricket.command()
@click.argument("match")
@_data_dir
def report(match: str, data_dir: Path) -> None:
    """Print what every over of a real match was worth, luck apart; keep it for the watch page.

    MATCH is as in `spectator cricket play`. It takes about half a minute for twenty overs a side.
    """
    from spectator.environments.cricket.imported_matches import (
        HOW_PRICED,
        Imported,
        price_overs,
        save_matches,
    )
    from spectator.environments.cricket.real_match_record import ATTRIBUTION

    name, pack, record = _found(match, data_dir)
    profile, level = pack.options["profile"], pack.options["level"]
    overs = sum(1 + one.balls[-1][0] for one in record.innings if one.balls)
    with click.progressbar(
        price_overs(record, profile, level), length=overs, label="pricing", file=sys.stderr
    ) as going:
        prices = list(going)
    save_matches(data_dir, [Imported(name, record.model_copy(update={"prices": prices}), profile, level, [])])
    click.echo(f"{record.title}, {record.venue}, {record.date}: {record.result}")
    for number, innings in enumerate(record.innings, 1):
        fielding = record.teams[1 - innings.batting]
        click.echo(f"\nInnings {number}: {fielding} bowl (chances of {fielding}, in %)")
        click.echo(f"{'over':>4}  {'bowler':<22}  score before   best  {'with':<22}  worth   luck")
        for line in _lines([one for one in prices if one.innings == number]):
            click.echo(line)
    click.echo(f"\n{HOW_PRICED}\n{ATTRIBUTION}")


def _lines(prices: Sequence[OverPrice]) -> Iterator[str]:
    for one in prices:
        worth, luck = one.before - one.best, one.after - one.before
        score = f"{one.runs}-{one.wickets}"
        yield (
            f"{one.over:>4}  {one.bowler[:22]:<22} {score:>6} {100 * one.before:>6.1f} {100 * one.best:>6.1f}"
            f"  {one.best_bowler[:22] if worth < 0 else '-':<22} {100 * worth:>+6.1f} {100 * luck:>+6.1f}"
        )
    if prices:
        calls, luck = (
            sum(one.before - one.best for one in prices),
            sum(one.after - one.before for one in prices),
        )
        yield f"      all overs: bowlers chosen {100 * calls:+.1f}, luck {100 * luck:+.1f}"

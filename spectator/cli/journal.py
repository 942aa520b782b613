"""The commands ``copy-journal``, ``prune``, ``replay`` and ``import``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from spectator.cli.options import journal_folder, recorded_episode, recorded_journal
from spectator.journal import JOURNAL_FILE
from spectator.process_environment import journal_url

if TYPE_CHECKING:
    from spectator.importing.file_rows import Source
    from spectator.importing.importer import FileFormat, ImportReport, OnProgress
    from spectator.journal.retention import Keep


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
    from spectator.journal.postgres import is_server
    from spectator.journal.transfer import MigratedEpisode, moving

    path, url = data_dir / JOURNAL_FILE, target or journal_url()
    if url is None or not is_server(url):
        raise click.UsageError(
            "say where to: --to or SPECTATOR_JOURNAL_URL, postgresql://user:password@host/database"
        )
    if not path.exists():
        raise click.ClickException(f"there is no journal at {path}; name its folder with --data-dir")
    moved: list[MigratedEpisode] = []
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


@click.command()
@journal_folder
@click.option("--keep-episodes", type=click.IntRange(min=0), default=0, help="Ended ones; 0 = no limit.")
@click.option("--keep-days", type=click.FloatRange(min=0), default=0, help="Since their end; 0 = no limit.")
@click.option("--keep-mb", type=click.FloatRange(min=0), default=0, help="Of journal; 0 = no limit.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed; works while a server runs.")
@click.option(
    "--compact", is_flag=True, help="Rewrite the file afterwards, so that it is as small as can be."
)
def prune(
    data_dir: Path, keep_episodes: int, keep_days: float, keep_mb: float, dry_run: bool, compact: bool
) -> None:
    """Remove the oldest ended episodes until the journal is within limits; unended ones are always kept.

    A server does so by itself with SPECTATOR_KEEP_EPISODES, SPECTATOR_KEEP_DAYS and SPECTATOR_KEEP_MB.

    \b
    Example: spectator prune --keep-days 30 --keep-mb 2000 --dry-run
    """
    from spectator.journal.retention import Keep

    keep = Keep(keep_episodes, keep_days, keep_mb)
    if keep == Keep() and not compact:
        raise click.UsageError("set a limit: --keep-episodes, --keep-days or --keep-mb; or --compact")
    asyncio.run(_prune(data_dir, keep, dry_run=dry_run, compact=compact))


async def _prune(data_dir: Path, keep: Keep, *, dry_run: bool, compact: bool) -> None:
    async with recorded_journal(data_dir, writable=not dry_run) as journal:
        old = await journal.surplus(keep, datetime.now(UTC))
        for one in old:
            click.echo(f"{one.episode_id}  ended {one.ended_at}  {one.bytes / 1e6:.1f} MB  ({one.why})")
        if not dry_run:
            with click.progressbar(old, label="removing", file=sys.stderr) as removing:
                for one in removing:
                    await journal.remove(one.episode_id)
            await journal.tidy()
            if compact:
                await journal.compact()
        size = await journal.figures()
    done = "would be removed" if dry_run else "removed"
    total = sum(one.bytes for one in old) / 1e6
    click.echo(
        f"{len(old)} episodes, {total:.1f} MB {done}; the journal takes {size.bytes / 1e6:.1f} MB", err=True
    )


REASON_LENGTH = 160


@click.command()
@click.argument("episode_id")
@click.option("--as-endpoint", is_flag=True, help="Serve the models' recorded replies as an endpoint.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where the endpoint listens.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8001, show_default=True, help="0 takes a free one."
)
@journal_folder
def replay(episode_id: str, as_endpoint: bool, host: str, port: int, data_dir: Path) -> None:
    """Tell the decisions of a recorded episode, or answer its models' questions from the record.

    With --as-endpoint it serves chat completions: whoever asks what the episode's models were asked gets the
    reply that was recorded, without a model. A question that was never asked is answered 404, with the
    nearest one that was and how it differs. The address goes to standard output.

    \b
    Example: spectator replay ep-01K9ZQ3V5M0000000000000000
             spectator replay ep-01K9ZQ3V5M0000000000000000 --as-endpoint --port 8001
    """
    try:
        asyncio.run(
            _serve(episode_id, data_dir, host, port)
            if as_endpoint
            else _print_decisions(episode_id, data_dir)
        )
    except KeyboardInterrupt:
        sys.exit(130)


async def _print_decisions(episode_id: str, data_dir: Path) -> None:
    async with recorded_episode(episode_id, data_dir) as journal:
        async for recorded in journal.stream(episode_id):
            event = recorded.event
            if event.type == "decision.made":
                click.echo(_decision_line(event.turn, event.data))
            elif event.type == "action.refused":
                click.echo(f"{'':>5}  refused: {event.data['message']}")
            elif event.type == "episode.ended":
                score = "" if event.data["score"] is None else f", score {event.data['score']:.4f}"
                click.echo(
                    f"{event.data['reason']}: {event.data['result'] or event.data['detail'] or ''}{score}"
                )


def _decision_line(turn: int, decision: Mapping[str, Any]) -> str:
    action = decision["action"]
    named = isinstance(action.get("tool"), str)
    arguments = action.get("arguments") or {} if named else action
    told = " ".join(f"{name}={value}" for name, value in arguments.items())
    who = f"{decision['actor']} ({decision['source']}{', ' + decision['model'] if decision['model'] else ''})"
    why = decision["fallback_reason"] or decision["reasoning"].partition("\n")[0]
    line = f"{turn:>5}  {who}  {action['tool'] if named else ''} {told}".rstrip()
    return f"{line}  # {why[:REASON_LENGTH]}" if why else line


async def _serve(episode_id: str, data_dir: Path, host: str, port: int) -> None:
    from spectator.episodes.recorded_calls import exchanges_of
    from spectator.llm.exchanges import Playback
    from spectator.llm.playback_server import serving_playback

    async with recorded_episode(episode_id, data_dir) as journal:
        exchanges = await exchanges_of(journal, episode_id)
    if not exchanges:
        raise click.ClickException(f"{episode_id} holds no exchange with a language model")
    try:
        async with serving_playback(Playback(exchanges), host, port) as base_url:
            click.echo(f"{len(exchanges)} recorded questions of {episode_id}; Ctrl-C ends it", err=True)
            click.echo(base_url)
            await asyncio.Event().wait()
    except OSError as error:
        raise click.ClickException(f"cannot listen on {host}:{port}: {error.strerror or error}") from error


FORMS: Final = (
    "ndjson", "hf-traces", "nemo-gym", "messages", "groups", "episode-record", "verifiers", "trl", "inspect",
)  # fmt: skip

INTERRUPTED: Final = "\ninterrupted: what is imported stays, and the same command imports the rest"


@click.command("import")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--into", required=True, type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the run; made when it is not there. A server shows it when it is in its folder of runs.",
)  # fmt: skip
@click.option(
    "--format", "form", type=click.Choice(FORMS), help="What the files are; recognised when left out."
)
@click.option(
    "--reward", "rewards", multiple=True, metavar="COLUMN",
    help="With trl: a column that is a reward, repeatable; without it all numbers but TRL's own are.",
)  # fmt: skip
def import_files(files: tuple[Path, ...], into: Path, form: str | None, rewards: tuple[str, ...]) -> None:
    """Show runs of other programs: read their files into a folder that the pages of runs show.

    What cannot be read is told with file and line, and the rest is imported. The same file again adds
    nothing; a file that grew adds what is new.

    \b
    Exit code: 0 everything is in, 1 something was left out, 3 nothing could be imported, 130 interrupted.
    \b
    Example: spectator import outputs/traces.jsonl --into runs/sums
    Example: spectator import completions/*.parquet --into runs/grpo --format trl
    """
    from spectator.importing.file_rows import Source
    from spectator.importing.importer import ImportReport
    from spectator.runs.run_folder import run_name

    name, report = run_name(into), ImportReport()
    sources = [Source(path, rewards=rewards) for path in files]
    forms = [(source, found) for source in sources if (found := _form(source, form, report)) is not None]
    if forms:
        into.mkdir(parents=True, exist_ok=True)
        try:
            asyncio.run(_import(forms, into, name, report))
        except KeyboardInterrupt:
            click.echo(INTERRUPTED, err=True)
            sys.exit(130)
    _report(report, into, name)
    if report.left_out:
        sys.exit(1 if report.imported or report.known else 3)


def _form(source: Source, form: str | None, report: ImportReport) -> FileFormat | None:
    from spectator.errors import ConfigurationError
    from spectator.importing.file_rows import SkippedEntry
    from spectator.importing.importer import format_called, sniff

    try:
        return sniff(source.path) if form is None else format_called(form)
    except ConfigurationError as error:
        report.leave_out(source, SkippedEntry("the whole file", str(error)))
        return None


async def _import(
    forms: list[tuple[Source, FileFormat]], into: Path, name: str, report: ImportReport
) -> None:
    from spectator.errors import ConfigurationError
    from spectator.importing.file_rows import SkippedEntry
    from spectator.importing.importer import import_file
    from spectator.journal.sql_journal import SqlJournal

    journal = await SqlJournal.open(f"sqlite:///{into / 'journal.db'}")
    whole = sum(source.size for source, _ in forms)
    try:
        with click.progressbar(length=whole, label="Importing", file=sys.stderr) as bar:
            moved = _progress(bar, [source for source, _ in forms])
            for source, form in forms:
                try:
                    await import_file(source, form, journal, name, report, moved)
                except ConfigurationError as error:
                    report.leave_out(source, SkippedEntry("the whole file", str(error)))
    finally:
        await journal.aclose()


def _progress(bar: click._termui_impl.ProgressBar[int], sources: list[Source]) -> OnProgress:
    def moved(source: Source, report: ImportReport) -> None:
        bar.label = f"{report.imported} episodes"
        bar.update(max(0, sum(one.done for one in sources) - bar.pos))

    return moved


def _report(report: ImportReport, into: Path, name: str) -> None:
    for sentence in report.told:
        click.echo(sentence, err=True)
    more = report.left_out - len(report.told)
    if more:
        click.echo(f"and {more} more places that were left out", err=True)
    known = f", {report.known} were there already" if report.known else ""
    episodes = f"{report.imported} episode{'' if report.imported == 1 else 's'} imported{known}"
    left = f"; {report.left_out} left out" if report.left_out else ""
    click.echo(f"{episodes}{left}. They are in {into}, shown at /rollouts/{name}.")

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
    from spectator.importing.file_formats import FileFormat
    from spectator.importing.file_rows import Source
    from spectator.importing.importer import ImportReport, OnProgress
    from spectator.journal.retention import Keep


@click.command("copy-journal")
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default="data",
    help="Folder of the journal to copy. Stop its server first.",
)
@click.option(
    "--to", "target", metavar="URL", help="PostgreSQL database to copy to; default: SPECTATOR_JOURNAL_URL."
)
def copy_journal(data_dir: Path, target: str | None) -> None:
    """Copy a SQLite journal into an empty PostgreSQL database.

    Several servers can share a PostgreSQL journal. Each episode is copied in one transaction, and its rows
    and digests are compared with the original. The original journal is not changed. To resume an interrupted
    copy, repeat the command.

    \b
    Example: SPECTATOR_JOURNAL_URL=postgresql://... spectator copy-journal --data-dir data
    """
    from spectator.errors import EpisodeDamaged
    from spectator.journal.postgres import is_server
    from spectator.journal.transfer import MigratedEpisode, moving

    path, url = data_dir / JOURNAL_FILE, target or journal_url()
    if url is None or not is_server(url):
        raise click.UsageError(
            "no target; set --to or SPECTATOR_JOURNAL_URL to postgresql://user:password@host/database"
        )
    if not path.exists():
        raise click.ClickException(f"there is no journal at {path}; set --data-dir to its folder")
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
        f"{len(new)} episodes, {sum(one.events for one in new)} events copied, every digest verified; "
        f"{len(moved) - len(new)} were already there"
    )
    for one in damaged:
        click.echo(one, err=True)
    if damaged:
        raise click.ClickException(f"{len(damaged)} episodes are damaged and were not copied")


@click.command()
@journal_folder
@click.option(
    "--keep-episodes", type=click.IntRange(min=0), default=0, help="Ended episodes to keep; 0 = no limit."
)
@click.option(
    "--keep-days",
    type=click.FloatRange(min=0),
    default=0,
    help="Days to keep an episode after its end; 0 = no limit.",
)
@click.option(
    "--keep-mb", type=click.FloatRange(min=0), default=0, help="Journal size to keep, in MB; 0 = no limit."
)
@click.option(
    "--dry-run", is_flag=True, help="Only list what would be removed; works while a server is running."
)
@click.option("--compact", is_flag=True, help="Shrink the journal file afterwards by rewriting it.")
def prune(
    data_dir: Path, keep_episodes: int, keep_days: float, keep_mb: float, dry_run: bool, compact: bool
) -> None:
    """Remove old episodes until the journal is within its limits.

    Removes the oldest ended episodes first; episodes that have not ended are always kept. A server does this
    itself if SPECTATOR_KEEP_EPISODES, SPECTATOR_KEEP_DAYS or SPECTATOR_KEEP_MB is set.

    \b
    Example: spectator prune --keep-days 30 --keep-mb 2000 --dry-run
    """
    from spectator.journal.retention import Keep

    keep = Keep(keep_episodes, keep_days, keep_mb)
    if keep == Keep() and not compact:
        raise click.UsageError("nothing to do; set --keep-episodes, --keep-days, --keep-mb or --compact")
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
@click.option("--as-endpoint", is_flag=True, help="Serve the recorded model replies over HTTP.")
@click.option("--host", default="127.0.0.1", help="Address that the endpoint listens on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8001,
    help="Port that the endpoint listens on; 0 = any free port.",
)
@journal_folder
def replay(episode_id: str, as_endpoint: bool, host: str, port: int, data_dir: Path) -> None:
    """Print an episode's decisions, or serve its model replies.

    With --as-endpoint, serves chat completions: a request that the episode's models received gets the
    recorded reply, without a model. Any other request gets 404, with the most similar recorded request and
    how it differs. The endpoint's address is printed to standard output.

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
    given = " ".join(f"{name}={value}" for name, value in arguments.items())
    who = f"{decision['actor']} ({decision['source']}{', ' + decision['model'] if decision['model'] else ''})"
    why = decision["fallback_reason"] or decision["reasoning"].partition("\n")[0]
    line = f"{turn:>5}  {who}  {action['tool'] if named else ''} {given}".rstrip()
    return f"{line}  # {why[:REASON_LENGTH]}" if why else line


async def _serve(episode_id: str, data_dir: Path, host: str, port: int) -> None:
    from spectator.episodes.recorded_calls import exchanges_of
    from spectator.llm.exchanges import Playback
    from spectator.llm.playback_server import serving_playback

    async with recorded_episode(episode_id, data_dir) as journal:
        exchanges = await exchanges_of(journal, episode_id)
    if not exchanges:
        raise click.ClickException(
            f"{episode_id} has no recorded model calls; no language model played in it"
        )
    try:
        async with serving_playback(Playback(exchanges), host, port) as base_url:
            click.echo(
                f"serving {len(exchanges)} recorded replies of {episode_id}; stop with Ctrl-C", err=True
            )
            click.echo(base_url)
            await asyncio.Event().wait()
    except OSError as error:
        raise click.ClickException(f"cannot listen on {host}:{port}: {error.strerror or error}") from error


FORMS: Final = (
    "ndjson", "claude-code", "codex", "hf-traces", "nemo-gym", "messages", "groups", "episode-record",
    "collector", "steps", "verifiers", "prime-rl", "trl", "inspect", "lm-eval", "tau-bench", "tau2-bench",
    "atif", "swe-agent", "mini-swe-agent", "langsmith", "langfuse", "otel", "sharegpt", "chatml",
)  # fmt: skip

INTERRUPTED: Final = "\ninterrupted; finished episodes are kept. Repeat the command to import the rest."


@click.command("import")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--into", required=True, type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the run; created if missing. A server shows the runs in SPECTATOR_RUNS_DIR.",
)  # fmt: skip
@click.option("--format", "form", type=click.Choice(FORMS), help="Format of the files; detected if omitted.")
@click.option(
    "--reward", "rewards", multiple=True, metavar="COLUMN",
    help="With --format trl: a reward column, repeatable. Default: all numeric columns but TRL's own.",
)  # fmt: skip
@click.option(
    "--map", "paths", metavar="FIELD=PATH,...",
    help="For files of no known format: where messages, reward, group, ... are, as paths of jmespath.org.",
)  # fmt: skip
def import_files(
    files: tuple[Path, ...], into: Path, form: str | None, rewards: tuple[str, ...], paths: str | None
) -> None:
    """Import runs of other programs, to watch them here.

    Entries that cannot be read are reported with file and line, and the rest is imported. Importing a file
    again adds only what is new.

    \b
    Exit code: 0   everything was imported
               1   some entries were skipped
               3   nothing could be imported
               130 interrupted

    \b
    Example: spectator import outputs/traces.jsonl --into runs/sums
    Example: spectator import completions/*.parquet --into runs/grpo --format trl
    Example: spectator import mine.jsonl --into runs/mine --map messages=chat,reward=score.total,group=task
    """
    from spectator.errors import ConfigurationError
    from spectator.importing.file_formats import format_named, mapped
    from spectator.importing.file_rows import Source
    from spectator.importing.importer import ImportReport
    from spectator.runs.run_folder import run_name

    name, report = run_name(into), ImportReport()
    sources = [Source(path, rewards=rewards, scratch=into) for path in files]
    try:
        forced = mapped(paths) if paths else format_named(form) if form else None
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error
    forms = [(source, found) for source in sources if (found := _form(source, forced, report)) is not None]
    if forms:
        into.mkdir(parents=True, exist_ok=True)
        try:
            asyncio.run(_import(forms, into, name, report))
        except KeyboardInterrupt:
            click.echo(INTERRUPTED, err=True)
            sys.exit(130)
    _report(report, into, name)
    if report.skipped:
        sys.exit(1 if report.imported or report.known else 3)


def _form(source: Source, forced: FileFormat | None, report: ImportReport) -> FileFormat | None:
    from spectator.errors import ConfigurationError
    from spectator.importing.file_formats import sniff
    from spectator.importing.file_rows import SkippedEntry

    try:
        return sniff(source) if forced is None else forced
    except ConfigurationError as error:
        report.skip(source, SkippedEntry("the whole file", str(error)))
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
            on_progress = _progress(bar, [source for source, _ in forms])
            for source, form in forms:
                try:
                    await import_file(source, form, journal, name, report, on_progress)
                except ConfigurationError as error:
                    report.skip(source, SkippedEntry("the whole file", str(error)))
    finally:
        await journal.aclose()


def _progress(bar: click._termui_impl.ProgressBar[int], sources: list[Source]) -> OnProgress:
    def on_progress(source: Source, report: ImportReport) -> None:
        bar.label = f"{report.imported} episodes"
        bar.update(max(0, sum(one.done for one in sources) - bar.pos))

    return on_progress


def _report(report: ImportReport, into: Path, name: str) -> None:
    for message in [*report.warnings, *report.messages]:
        click.echo(message, err=True)
    more = report.skipped - len(report.messages)
    if more:
        click.echo(f"and {more} more skipped entries", err=True)
    known = f", {report.known} already there" if report.known else ""
    episodes = f"{report.imported} episode{'' if report.imported == 1 else 's'} imported{known}"
    skipped = (
        f"; {report.skipped} entr{'y' if report.skipped == 1 else 'ies'} skipped" if report.skipped else ""
    )
    shown = f". Run folder: {into}; page: /rollouts/{name}" if report.imported or report.known else ""
    click.echo(f"{episodes}{skipped}{shown}")

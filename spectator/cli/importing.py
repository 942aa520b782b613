"""The command ``spectator import``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from spectator.importing.importing import ImportReport, OnProgress
    from spectator.importing.reading import Source
    from spectator.importing.sniffing import FileFormat

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
    from spectator.following.run_folder import run_name
    from spectator.importing.importing import ImportReport
    from spectator.importing.reading import Source

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
    from spectator.importing.reading import LeftOut
    from spectator.importing.sniffing import format_called, sniff

    try:
        return sniff(source.path) if form is None else format_called(form)
    except ConfigurationError as error:
        report.leave_out(source, LeftOut("the whole file", str(error)))
        return None


async def _import(
    forms: list[tuple[Source, FileFormat]], into: Path, name: str, report: ImportReport
) -> None:
    from spectator.errors import ConfigurationError
    from spectator.importing.importing import import_file
    from spectator.importing.reading import LeftOut
    from spectator.journal.stores.sqlite import SqlJournal

    journal = await SqlJournal.open(f"sqlite:///{into / 'journal.db'}")
    whole = sum(source.size for source, _ in forms)
    try:
        with click.progressbar(length=whole, label="Importing", file=sys.stderr) as bar:
            moved = _progress(bar, [source for source, _ in forms])
            for source, form in forms:
                try:
                    await import_file(source, form, journal, name, report, moved)
                except ConfigurationError as error:
                    report.leave_out(source, LeftOut("the whole file", str(error)))
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

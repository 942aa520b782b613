"""Where a run of rollouts is: in a folder, or in a database under its name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from spectator.errors import ConfigurationError
from spectator.process_environment import journal_url

if TYPE_CHECKING:
    from spectator.journal.sql_journal import SqlJournal
    from spectator.rollouts.request import RolloutRequest

Command = TypeVar("Command", bound=Callable[..., Any])

FOLDER = click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
"""The folder of a run; none where it is in a database."""


def journal_options(command: Command) -> Command:
    """``--journal`` and ``--run``; :func:`is_in_database` and :func:`server_url` read them."""
    journal = click.option(
        "--journal", metavar="URL",
        help="Journal on a database server, postgresql://... [default: SPECTATOR_JOURNAL_URL]",
    )  # fmt: skip
    run = click.option("--run", "run_name", metavar="NAME", help="The run's name in that journal.")
    return journal(run(command))


def is_in_database(journal: str | None, run_name: str | None) -> bool:
    """Whether the options name a run in a database, not one in a folder."""
    return journal is not None or run_name is not None


def server_url(journal: str | None) -> str:
    """The URL of the journal on a database server.

    Raises:
        ConfigurationError: There is none, or it is a file's; the message holds nothing of it.
    """
    from spectator.journal.postgres import is_server

    url = journal or journal_url()
    if url is None:
        raise ConfigurationError("name the journal: --journal postgresql://..., or SPECTATOR_JOURNAL_URL")
    if not is_server(url):
        raise ConfigurationError(
            "--journal takes a journal on a database server, postgresql://...; name a run in a folder by its "
            "folder"
        )
    return url


def need_run(run_name: str | None) -> str:
    """The run that is named.

    Raises:
        click.UsageError: None is.
    """
    if run_name is None:
        raise click.UsageError("--journal needs --run NAME, the run's name in that journal")
    return run_name


def one_place(folder: Path | None, journal: str | None, run_name: str | None) -> Path | None:
    """The folder of a run; ``None`` where it is in a database.

    Raises:
        click.UsageError: Both are named, or neither.
    """
    if is_in_database(journal, run_name) == (folder is not None):
        raise click.UsageError("name the run's folder, or --journal URL and --run NAME")
    return folder


@asynccontextmanager
async def recorded_run(
    journal: str | None, run_name: str | None
) -> AsyncIterator[tuple[RolloutRequest, SqlJournal]]:
    """A run in a database and its journal, to be read.

    Raises:
        InvalidRequest: There is no such run.
        ConfigurationError: There is no such journal.
    """
    from spectator.journal.sql_journal import SqlJournal
    from spectator.rollouts.fleet_plan import find_rows, read_plan

    name = need_run(run_name)
    opened = await SqlJournal.open(server_url(journal), writable=False)
    try:
        (row,) = await find_rows(opened, name)
        yield read_plan(row).request, opened
    finally:
        await opened.aclose()

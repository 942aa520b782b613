"""Runs of rollouts in a database, which any number of processes play: begun, joined and found by name."""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from spectator.cli.environment import journal_url, read_caps, read_key, read_worlds
from spectator.cli.event_loop import run_busily
from spectator.cli.rollouts_carrying import carry_out, conclude, exit_code
from spectator.errors import ConfigurationError

if TYPE_CHECKING:
    from spectator.journal.stores.fleet_runs import FleetRow
    from spectator.journal.stores.sqlite import SqlJournal
    from spectator.rollouts.fleet import OnBegin
    from spectator.rollouts.joint.plan import FleetPlan
    from spectator.rollouts.joint.working import Here
    from spectator.rollouts.request import RolloutRequest

Command = TypeVar("Command", bound=Callable[..., Any])
_Result = TypeVar("_Result")

FindRows = Callable[["Here"], Awaitable[Sequence["FleetRow"]]]

FOLDER = click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
"""The folder of a run; none where it is in a database."""


def journal_options(command: Command) -> Command:
    """``--journal`` and ``--run``; :func:`is_joint` and :func:`server_url` read them."""
    journal = click.option(
        "--journal", metavar="URL",
        help="Journal on a database server, postgresql://...; SPECTATOR_JOURNAL_URL where it is left out.",
    )  # fmt: skip
    run = click.option("--run", "run_name", metavar="NAME", help="The run's name in that journal.")
    return journal(run(command))


def is_joint(journal: str | None, run_name: str | None) -> bool:
    """Whether a run in a database is meant, and none in a folder."""
    return journal is not None or run_name is not None


def server_url(journal: str | None) -> str:
    """The URL of the journal on a database server.

    Raises:
        ConfigurationError: There is none, or it is of a file; nothing of it is told.
    """
    from spectator.journal.stores.postgres import is_server

    url = journal or journal_url()
    if url is None:
        raise ConfigurationError("name the journal: --journal postgresql://..., or SPECTATOR_JOURNAL_URL")
    if not is_server(url):
        raise ConfigurationError(
            "a run that several processes play needs a journal on a database server, postgresql://...; "
            "one in a folder is named by its folder"
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
    joint = is_joint(journal, run_name)
    if joint == (folder is not None):
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
    from spectator.journal.stores.sqlite import SqlJournal
    from spectator.rollouts.joint.plan import find_rows, read_plan

    name = need_run(run_name)
    opened = await SqlJournal.open(server_url(journal), writable=False)
    try:
        (row,) = await find_rows(opened, name)
        yield read_plan(row).request, opened
    finally:
        await opened.aclose()


def run_joint(request: RolloutRequest, given: Mapping[str, Any]) -> None:
    """Begin a run in a database, or go on with it, and leave with the command's exit code."""
    from spectator.policies.spending import Caps
    from spectator.rollouts.joint.plan import FleetPlan, find_rows
    from spectator.rollouts.joint.working import begin_run

    name = need_run(given["run_name"])
    _refuse_options_of_folders(given)
    whole = Caps(given["max_tokens"] or 0, given["max_cost"] or 0.0)
    plan = FleetPlan.of(
        request, deadlines=_deadlines(given), stepper=given["stepper"], whole=whole,
        max_in_flight=given["max_in_flight"],
    )  # fmt: skip

    async def rows(here: Here) -> Sequence[FleetRow]:
        if given["resume"]:
            await find_rows(here.journal, name)
        return [await begin_run(name, plan, here)]

    sys.exit(run_busily(_play_all(server_url(given["journal"]), given["concurrency"], rows)))


def _refuse_options_of_folders(given: Mapping[str, Any]) -> None:
    for flag, unset in (("experiences", None), ("handler", "none")):
        if given[flag] != unset:
            raise click.UsageError(f"--{flag} is of runs in a folder")
    if given["workers"]:
        raise click.UsageError("--workers is of runs in a folder; here start `spectator rollouts worker`")


@click.command()
@journal_options
@click.option(
    "--concurrency", type=click.IntRange(1, 4096), default=64, show_default=True,
    help="Episodes at once in this process.",
)  # fmt: skip
def worker(journal: str | None, run_name: str | None, concurrency: int) -> None:
    """Play a run that lies in a database, beside any number of others that do so on any machine.

    It needs the journal's URL, and the endpoint's key in the variable that the run names. Without --run it
    plays every run of the journal that is not over, the oldest first. Ctrl-C and the exit codes are those of
    run.

    \b
    Example: SPECTATOR_JOURNAL_URL=postgresql://... spectator rollouts worker --run first --concurrency 32
    """
    from spectator.rollouts.joint.plan import find_rows

    url = server_url(journal)
    sys.exit(run_busily(_play_all(url, concurrency, lambda here: find_rows(here.journal, run_name))))


class _OneLine(logging.Formatter):
    """Tells each warning in one line, without a trace."""

    def format(self, record: logging.LogRecord) -> str:
        """What is told, and the error where there is one."""
        error = record.exc_info[1] if record.exc_info else None
        told = record.getMessage()
        return told if error is None else f"{told}: {error}"


def _one_line_each() -> logging.Handler:
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_OneLine())
    return handler


async def _play_all(url: str, concurrency: int, find: FindRows) -> int:
    from spectator.rollouts.joint.plan import read_plan

    async def play(here: Here) -> int:
        codes = [0]
        for row in await find(here):
            codes.append(await _play(row, read_plan(row), here))
            if codes[-1] not in (0, 1):
                break
        return max(codes)

    handler = _one_line_each()
    logging.getLogger("spectator").addHandler(handler)
    try:
        return await _with_journal(url, concurrency, play)
    finally:
        logging.getLogger("spectator").removeHandler(handler)


async def _with_journal(url: str, concurrency: int, work: Callable[[Here], Awaitable[_Result]]) -> _Result:
    """Do ``work`` with what this process brings along to play, its journal open meanwhile."""
    from spectator.clock import SystemClock
    from spectator.journal.stores.commit_notices import telling
    from spectator.journal.stores.sqlite import SqlJournal
    from spectator.rollouts.joint.working import Here

    clock, worlds, caps = SystemClock(), read_worlds(), read_caps()
    day, episode, _ = caps.ledger(clock).caps
    brought: dict[str, Any] = {"day": day, "episode": episode, "rng": random.SystemRandom(), "key": read_key}
    journal = await SqlJournal.open(url)
    try:
        async with telling(url, clock) as recorded:
            return await work(Here(journal, concurrency, clock, worlds, recorded=recorded, **brought))
    finally:
        await journal.aclose()


async def _play(row: FleetRow, plan: FleetPlan, here: Here) -> int:
    """Play one run, and say what it came to; the exit code."""
    from dataclasses import replace

    from spectator.cli.rollouts_view import FleetView
    from spectator.rollouts.joint.working import play_run
    from spectator.rollouts.status import status_of

    async def play(begin: OnBegin) -> Any:
        return await play_run(row, replace(here, on_begin=begin))

    limits = plan.limits
    view = FleetView(plan.request, limits.env_wait_s, limits.model_wait_s)
    report, interrupted = await carry_out(play, view, None)
    conclude(report, f"the journal, run {row.name}")
    succeeded = False
    if not interrupted and report.halted is None:
        status = await status_of(plan.request, here.journal, here.clock.now(), row.name)
        succeeded = status.verdicts == report.total
    return exit_code(report, interrupted, succeeded)


def _deadlines(given: Mapping[str, Any]) -> Any:
    from spectator.rollouts.deadlines import Deadlines

    times = ("episode_s", "env_s", "env_start_s", "env_wait_s", "model_wait_s", "startup_jitter_s")
    return Deadlines(**{name: given[name] for name in times})

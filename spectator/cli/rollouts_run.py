"""Play runs of rollouts in the terminal: display, log and interrupts."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from spectator.errors import ConfigurationError, SpectatorError
from spectator.process_environment import read_caps, read_key, read_worlds

if TYPE_CHECKING:
    from spectator.cli.rollouts_view import FleetView
    from spectator.journal.coordination import FleetRow
    from spectator.journal.sql_journal import SqlJournal
    from spectator.rollouts.fleet import FleetReport, OnBegin, RunningFleet, Worker
    from spectator.rollouts.fleet_plan import FleetPlan
    from spectator.rollouts.handlers import EpisodeHandler
    from spectator.rollouts.sinks import MakeSink


_Result = TypeVar("_Result")

YOUNG_OBJECTS: Final = 10_000
"""Net new objects after which Python collects cycles among them.

With the default of 700, collections see most of a turn's objects while in use: 40 us per turn and 40 ms
for a full collection, against 6 us and at most 5 ms with this (64 episodes at once). More gains nothing.
"""


def run_busily(main: Coroutine[Any, Any, _Result]) -> _Result:
    """Run ``main`` like :func:`asyncio.run`, on uvloop if possible: a fifth less processor time.

    >>> async def answer():
    ...     return 42
    >>> run_busily(answer())
    42
    """
    collect_rarely()
    try:
        from uvloop import new_event_loop
    except ImportError:  # uvloop does not support Windows
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


def collect_rarely() -> None:
    """Collect cycles less often, and never among objects that exist now."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


MAX_BYTES: Final = 8 * 1024 * 1024
"""Bytes at which the file is renamed to ``.1``, replacing the previous one."""


class RunLog(RotatingFileHandler):
    """Writes this library's warnings to a file from :meth:`begin` to :meth:`end`.

    The file is created with the first warning. A full disk loses warnings and nothing else.

    Args:
        path: The file; its folder must exist at the first warning.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=MAX_BYTES, backupCount=1, encoding="utf-8", delay=True)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        self.setLevel(logging.WARNING)
        self.taken = 0
        """Warnings so far."""

    def begin(self) -> None:
        """Start to write warnings."""
        logger = logging.getLogger("spectator")
        logger.addHandler(self)
        logger.propagate = False

    def end(self) -> None:
        """Stop. Safe to call without :meth:`begin`."""
        logger = logging.getLogger("spectator")
        logger.removeHandler(self)
        logger.propagate = True
        with suppress(OSError):  # closing writes what a full disk did not take
            self.close()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a warning."""
        self.taken += 1
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore a failed write: there is nowhere to report it."""


HALTED = 3
"""Exit code of a run that was halted."""


async def carry_out(
    play: Callable[[OnBegin], Awaitable[FleetReport]], view: FleetView, log: RunLog | None
) -> tuple[FleetReport, bool]:
    """Play a run until it ends or is interrupted; returns its report and whether it was.

    The first interrupt lets the running episodes finish; the second, like SIGTERM, leaves them unfinished.

    Args:
        log: Takes warnings; ``None`` leaves logging as it is.
    """
    interrupted = False
    task, code = asyncio.current_task(), 130
    assert task is not None

    def begin(running: RunningFleet) -> None:
        if log is not None:
            log.begin()
        view.begin(running)

    def terminate() -> None:
        nonlocal code
        code = 143
        task.cancel()

    def interrupt() -> None:
        nonlocal interrupted
        if interrupted:
            task.cancel()
            return
        interrupted = True
        view.drain()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupt)
    loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        with view:
            report = await play(begin)
    except asyncio.CancelledError:
        click.echo("interrupted; the same command resumes the unfinished episodes", err=True)
        sys.exit(code)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)
        if log is not None:
            log.end()
            if log.taken:
                click.echo(f"{log.taken} warnings are in {log.baseFilename}", err=True)
    return report, interrupted


def conclude(report: FleetReport, where: str) -> None:
    """Print the results of a run."""
    from spectator.cli.rollouts_view import mean_words
    from spectator.journal.outline import OwnCount

    played = report.report.last
    over = [one for one in played if one.end_reason is not None]
    failed = Counter[str](report.failed_elsewhere)
    failed.update(one.failure_class or "only fallbacks" for one in over if one.total_reward is None)
    left = Counter(one.failure_class or "unknown" for one in played if one.end_reason is None)
    rewards = [one.total_reward for one in over if one.total_reward is not None]
    own = OwnCount(sum(one.decisions for one in over), sum(one.own for one in over))
    click.echo(f"{report.over} of {report.total} episodes are over; the record is in {where}")
    if over:
        now = "" if len(over) == report.over else f"of {len(over)} played now: "
        click.echo(f"  {now}{mean_words(rewards, own, sum(one.penalised for one in over))}")
    for name, count in failed.most_common():
        click.echo(f"  {count} without a verdict: {name}")
    for name, count in left.most_common():
        click.echo(f"  {count} left to be resumed: {name}")
    if report.sink_missed is not None:
        click.echo(f"  {report.sink_missed}; `spectator rollouts send` passes all sessions on again")


def exit_code(report: FleetReport, interrupted: bool) -> int:
    """Return the command's exit code; prints why it did not play everything."""
    if interrupted:
        if report.over < report.total:
            click.echo("interrupted; the same command plays the rest", err=True)
        return 130
    if report.halted is not None:
        click.echo(f"halted: {report.halted}; fix that and run the same command to resume", err=True)
        return HALTED
    return 0 if report.succeeded and not report.only_failures else 1


async def play_folder(
    plan: FleetPlan, folder: Path, *, workers: int, concurrency: int, begin: OnBegin
) -> FleetReport:
    """Play a run in a folder: in this process, or by worker processes.

    Args:
        workers: Worker processes; 0 plays in this one.
        begin: Called once, after the first look at what remains.
    """
    from spectator.clock import SystemClock
    from spectator.rollouts.fleet import SPARE_FACTOR, opened_run, play_run
    from spectator.rollouts.folder_workers import run_workers

    shared: dict[str, Any] = {"clock": SystemClock(), "load": read_worlds(), "rng": random.SystemRandom()}
    read_key(plan.request.model.api_key_env)  # fail before anything is written
    handler, sink = handler_of(plan, folder), sink_of(plan)
    if workers:
        return await run_workers(
            plan, folder, workers=workers, concurrency=concurrency, on_begin=begin, **shared
        )
    async with opened_run(folder, plan, **shared) as (row, journal, _):
        worker = replace(_worker(journal, concurrency, **shared), spare_factor=SPARE_FACTOR, on_begin=begin)
        return await play_run(row, replace(worker, handler=handler, sink=sink, patience_s=0.0))


async def play_as_worker(folder: Path, concurrency: int, name: str) -> int:
    """Play as a worker process, which exits with its parent; returns the exit code."""
    from spectator.rollouts.fleet import open_folder
    from spectator.rollouts.fleet_plan import IN_FOLDER, find_rows, read_plan
    from spectator.runs.worker_processes import end_with_parent

    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        journal = await open_folder(folder, name)
        try:
            (row,) = await find_rows(journal, IN_FOLDER)
            plan = read_plan(row)
            worker = replace(
                _worker(journal, concurrency),
                handler=handler_of(plan, folder),
                sink=sink_of(plan),
                patience_s=0.0,
            )
            report, interrupted = await _play_shown(row, worker, quiet=True)
        finally:
            await journal.aclose()
    except SpectatorError as error:
        click.echo(f"halted: {' '.join(str(error).split())}", err=True)
        return HALTED
    if report.halted is not None:
        click.echo(f"halted: {report.halted}", err=True)
        return HALTED
    return 130 if interrupted else int(not report.succeeded)


async def play_runs(
    url: str, concurrency: int, find: Callable[[Worker], Awaitable[Sequence[FleetRow]]]
) -> int:
    """Play runs in a database, one after another; returns the exit code."""
    async with _worker_at(url, concurrency) as worker:
        codes = [0]
        for row in await find(worker):
            report, interrupted = await _play_shown(row, worker)
            conclude(report, f"the journal, run {row.name}")
            codes.append(exit_code(report, interrupted))
            if codes[-1] not in (0, 1):
                break
        return max(codes)


async def _play_shown(row: FleetRow, worker: Worker, *, quiet: bool = False) -> tuple[FleetReport, bool]:
    from spectator.cli.rollouts_view import FleetView
    from spectator.rollouts.fleet import play_run
    from spectator.rollouts.fleet_plan import read_plan

    plan = read_plan(row)
    limits = plan.limits
    view = FleetView(plan.request, limits.env_wait_s, limits.model_wait_s, quiet=quiet)
    with _one_line_warnings():
        return await carry_out(lambda begin: play_run(row, replace(worker, on_begin=begin)), view, None)


@asynccontextmanager
async def _worker_at(url: str, concurrency: int) -> AsyncIterator[Worker]:
    from spectator.clock import SystemClock
    from spectator.journal.postgres import telling
    from spectator.journal.sql_journal import SqlJournal

    worlds = read_worlds()
    journal = await SqlJournal.open(url)
    try:
        async with telling(url, SystemClock()) as recorded:
            yield replace(_worker(journal, concurrency, load=worlds), recorded=recorded)
    finally:
        await journal.aclose()


def _worker(journal: SqlJournal, concurrency: int, **known: Any) -> Worker:
    from spectator.clock import SystemClock
    from spectator.rollouts.fleet import Worker

    caps = read_caps().ledger(SystemClock()).caps
    brought: dict[str, Any] = {"clock": SystemClock(), "rng": random.SystemRandom(), **known}
    if "load" not in brought:
        brought["load"] = read_worlds()
    return Worker(journal, concurrency, key=read_key, day=caps[0], episode=caps[1], **brought)


def handler_of(plan: FleetPlan, folder: Path) -> EpisodeHandler:
    """Make the handler of a run in a folder.

    Raises:
        ConfigurationError: The experiences or their statistics are damaged, or the plan lacks them.
    """
    from spectator.rollouts import handlers
    from spectator.rollouts.handlers import TallyFile

    kinds: Mapping[str, Any] = {
        "template": handlers.TemplateHandler,
        "ucb": handlers.UcbHandler,
        "contextual-ucb": handlers.ContextualUcbHandler,
    }
    if plan.handler not in kinds:
        return handlers.NullHandler()
    if not plan.experiences:
        raise ConfigurationError(f"--handler {plan.handler} needs --experiences FILE")
    tallies = TallyFile(folder / "experiences.tallies.json")
    tallies.read()  # fail now rather than in every episode
    handler: EpisodeHandler = kinds[plan.handler](handlers.load_experiences(Path(plan.experiences)), tallies)
    return handler


def sink_of(plan: FleetPlan) -> MakeSink | None:
    """Import the sink of a run; ``None`` if it has none."""
    from spectator.rollouts.sinks import import_sink

    return import_sink(plan.sink) if plan.sink else None


class _OneLine(logging.Formatter):
    """Formats each warning as one line, without a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        message = record.getMessage()
        return message if error is None else f"{message}: {error}"


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(_OneLine())
    logger = logging.getLogger("spectator")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)

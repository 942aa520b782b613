"""The command: ``python -m benchmarks nemesis --runs 200 --seed 1``."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure
from benchmarks.nemesis.checker import Violation, counted
from benchmarks.nemesis.cluster import ForkServer
from benchmarks.nemesis.faults import compiled
from benchmarks.nemesis.nemeses import NEMESES, skipped
from benchmarks.nemesis.plan import NemesisPlan, draw
from benchmarks.nemesis.planted_bugs import BUGS
from benchmarks.nemesis.replicated_postgres import DATABASE
from benchmarks.nemesis.run import NemesisOutcome, Tools, play
from spectator.errors import EpisodeError
from spectator.journal.sql_journal import SqlJournal
from tests.postgres import Cluster, find_programs, unprivileged

NOT_PLAYED = "the run is played"
"""The promise that a run breaks if it cannot be played to its end, for any reason."""

BUG_RUNS = 4
"""Most runs in which a planted bug must be found."""


@contextmanager
def tools(*, postgres: bool = True) -> Iterator[tuple[Tools, Path]]:
    """Prepare what runs share; yields it and a folder for runs."""
    with TemporaryDirectory(prefix="spectator-nemesis-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL runs as another user
        programs = find_programs() if postgres else None
        template = None if programs is None else _template(programs, folder / "template")
        fork_server = ForkServer(compiled(folder))
        try:
            yield Tools(fork_server, programs, template), folder
        finally:
            fork_server.close()


def _template(programs: str, folder: Path) -> Path:
    """Make a data folder of PostgreSQL with an empty journal."""
    folder.mkdir(mode=0o755)
    if owner := unprivileged():
        shutil.chown(folder, **owner)
    cluster = Cluster(programs, folder)
    cluster.begin()
    try:
        cluster.execute("postgres", f"CREATE DATABASE {DATABASE}")

        async def make() -> None:
            await (await SqlJournal.open(cluster.url(DATABASE))).aclose()

        asyncio.run(make())
    finally:
        cluster.stop("fast")
    return folder / "data"


def allowed(wanted: str, *, loses: bool, faults: bool) -> list[str]:
    """Return the names of the nemeses to draw from.

    Args:
        wanted: Names with commas between them; all if empty.
        loses: Whether to include those that make the database lose commits.
        faults: Whether the library of ``faults.c`` is available.

    Raises:
        ValueError: A name is unknown, or none is left.
    """
    names = wanted.split(",") if wanted else [one for one in NEMESES if loses or not NEMESES[one].loses]
    if unknown := [name for name in names if name not in NEMESES]:
        raise ValueError(f"unknown nemesis {unknown[0]!r}; use {', '.join(NEMESES)}")
    left_out = skipped(faults=faults)
    for name in names:
        if name in left_out:
            sys.stderr.write(f"skipped {name}: {left_out[name]}\n")
    if not (names := [name for name in names if name not in left_out]):
        raise ValueError("no nemesis is left")
    return names


def perform(plan: NemesisPlan, shared: Tools, folder: Path) -> NemesisOutcome:
    """Play one run in its own folder; a run that cannot be played to its end is a violation too."""
    began = time.monotonic()
    with TemporaryDirectory(prefix=f"run-{plan.seed}-", dir=folder) as own:
        Path(own).chmod(0o755)
        try:
            return asyncio.run(play(plan, shared, Path(own)))
        except (RuntimeError, OSError, AssertionError, TimeoutError, EpisodeError) as error:
            logs = "".join(path.read_text(errors="replace") for path in sorted(Path(own).glob("*.log")))
            broken = [Violation(NOT_PLAYED, f"{type(error).__name__}: {str(error)[:300]}")]
            return NemesisOutcome(
                plan, broken, {}, time.monotonic() - began, f"{logs}\n{traceback.format_exc()}"
            )


def measure(runs: int, seed: int, names: Sequence[str], shared: Tools, folder: Path, logs: Path) -> Figure:
    """Play many runs; reports each on standard error, and the figure of all."""
    found: list[NemesisOutcome] = []
    for number in range(seed, seed + runs):
        outcome = perform(draw(number, names, postgres=None if shared.programs else False), shared, folder)
        found.append(outcome)
        wrong = "; ".join(f"{one.promise}: {one.detail}" for one in outcome.violations) or "ok"
        sys.stderr.write(f"{outcome.plan.sentence()}: {outcome.seconds:.1f} s: {wrong}\n")
        if outcome.violations:
            logs.mkdir(parents=True, exist_ok=True)
            (logs / f"nemesis-{number}.log").write_text(outcome.logs)
    return figure(found)


def figure(found: Sequence[NemesisOutcome]) -> Figure:
    """Return the figure of many runs."""
    wrong: Counter[str] = Counter()
    used: Counter[str] = Counter()
    effect: Counter[str] = Counter()
    for outcome in found:
        effect.update(outcome.effects)
        wrong.update(counted(outcome.violations))
        used.update(one.name for one in outcome.plan.nemeses)
    what = ", ".join(f"{count} {promise}" for promise, count in wrong.items()) or "no violation"
    value = (
        f"{what}; {', '.join(f'{count:,} {name}' for name, count in effect.items())}; "
        f"{', '.join(f'{count} {name}' for name, count in sorted(used.items()))}; "
        f"{sum(one.seconds for one in found) / len(found):.1f} s a run"
    )
    return Figure(f"{len(found)} runs of mixed nemeses", value, "0 violations", "-")


def find_bugs(seed: int, names: Sequence[str], shared: Tools, folder: Path) -> Iterator[Figure]:
    """Plant each bug, and play runs until it is found."""
    for name in names:
        bug = BUGS[name]
        began = time.monotonic()
        row = Figure(f"`{name}`", f"not found in {BUG_RUNS} runs", bug.promise, "-")
        for number in range(BUG_RUNS):
            plan = draw(seed + number, bug.nemeses, postgres=bug.postgres, most=2, bug=name)
            outcome = perform(plan, shared, folder)
            if found := [one for one in outcome.violations if one.promise != NOT_PLAYED]:
                first = found[0]
                seconds = time.monotonic() - began
                value = f"run {number + 1}, {seconds:.0f} s: {first.promise}: {first.detail}"
                row = Figure(f"`{name}`", value, bug.promise, "-")
                break
        yield row


def main(arguments: Sequence[str] | None = None) -> int:
    """Play runs, or find planted bugs, and print a table; returns 1 if a run is not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks nemesis", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="number of runs (default: 20)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first run (default: 1)")
    parser.add_argument("--nemeses", default="", help=f"names to draw from: {', '.join(NEMESES)}")
    parser.add_argument(
        "--without-loss", action="store_true", help="omit nemeses that make the database lose commits"
    )
    parser.add_argument("--bugs", action="store_true", help="plant bugs instead, and show which are found")
    parser.add_argument("--bug", default="", help=f"names of bugs to plant: {', '.join(BUGS)}")
    parser.add_argument("--logs", type=Path, default=Path(), help="folder for logs of runs with violations")
    asked = parser.parse_args(arguments)
    if asked.runs < 1:
        parser.error("--runs must be at least 1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that all processes of the run are ended
    bugs = asked.bug.split(",") if asked.bug else list(BUGS)
    if unknown := [name for name in bugs if name not in BUGS]:
        parser.error(f"unknown bug {unknown[0]!r}; use {', '.join(BUGS)}")
    with tools() as (shared, folder):
        if shared.programs is None:
            sys.stderr.write("PostgreSQL is not installed: every run uses SQLite\n")
        if asked.bugs or asked.bug:
            print("| bug | found | promise | - |\n|---|---|---|---|", flush=True)
            rows = []
            for row in find_bugs(asked.seed, bugs, shared, folder):
                rows.append(row)
                print(row.row(), flush=True)
            return int(any(row.value.startswith("not found") for row in rows))
        try:
            names = allowed(asked.nemeses, loses=not asked.without_loss, faults=shared.fork_server.has_faults)
        except ValueError as error:
            parser.error(str(error))
        result = measure(asked.runs, asked.seed, names, shared, folder, asked.logs)
    print(result.row(), flush=True)
    return int(not result.value.startswith("no violation"))

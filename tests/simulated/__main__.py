"""Days of a server under simulated schedules: ``python -m tests.simulated [DAYS] [--first N] [--only N]``.

Each day has a number, and the number decides everything in it: who asks for what and when, which write fails,
at which write the power goes, and what runs next whenever several things could. A day that goes wrong is told
by its number, and ``--only`` lives it again. Needs Python 3.12 and ``simloom``; see the Makefile's ``days``.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import simloom
from simloom import SimDeadlockError

from spectator.journal.sql_journal import SqlJournal
from tests.simulated.day import WRITES, Script, live
from tests.simulated.schedules import RANDOM, by_priority

SCHEDULES = (RANDOM, by_priority(2), by_priority(3), by_priority(5))
CHUNK = 25


def script_of(number: int) -> Script:
    """What happens on a day: every write fails in turn, alone and with the two after it, or is the last."""
    kind, write = number % 5, number // 5 % WRITES + 1
    if kind < 2:
        return Script(failing=range(write, write + (1, 3)[kind]))
    return Script(cut_at=write if kind < 4 else 0, cut_after=kind == 3)


def wrong_with(number: int, blank: Path, folder: Path) -> str | None:
    """What went wrong on a day; ``None`` if nothing did."""
    over = False

    async def main(universe: simloom.World) -> None:
        nonlocal over
        mine = folder / str(number)
        mine.mkdir()
        await live(universe, script_of(number), blank, mine)
        over = True

    scheduler = SCHEDULES[number // (5 * WRITES) % len(SCHEDULES)]
    found = simloom.run(
        main, seed=number, virtual_time=True, seed_randomness=True, scheduler=scheduler,
        on_unhandled="record", raise_on_error=False,
    )  # fmt: skip
    if found.error is None or (over and isinstance(found.error, SimDeadlockError)):
        return None  # tasks of a process that died need not come to an end when the universe does
    told = "".join(traceback.format_exception(found.error))
    return f"day {number} ({script_of(number)}, {scheduler.chooser}):\n{told}"


def days_of(numbers: range) -> list[str]:
    """What went wrong on some days."""
    logging.disable()
    with TemporaryDirectory(prefix="spectator-") as kept:
        blank = Path(kept, "blank.db")
        asyncio.run(_make(blank))
        gc.collect()
        gc.freeze()  # each universe ends with a collection, of what came with it alone
        found = [wrong_with(number, blank, Path(kept)) for number in numbers]
    return [one for one in found if one is not None]


async def _make(blank: Path) -> None:
    journal = await SqlJournal.open(f"sqlite:///{blank}")
    await journal.aclose()


def _chunks(first: int, days: int) -> Iterator[range]:
    for begin in range(first, first + days, CHUNK):
        yield range(begin, min(begin + CHUNK, first + days))


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulated", description=__doc__)
    parser.add_argument("days", type=int, nargs="?", default=500)
    parser.add_argument("--first", type=int, default=0, help="number of the first day")
    parser.add_argument("--only", type=int, help="this day, with what is logged on it")
    parser.add_argument("--until-wrong", action="store_true", help="stop at the first that goes wrong")
    given = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a schedule
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulated", *sys.argv[1:]],
                  {**os.environ, "PYTHONHASHSEED": "0"})  # fmt: skip
    first, days = (given.first, given.days) if given.only is None else (given.only, 1)
    began, wrong = time.perf_counter(), list[str]()
    with ProcessPoolExecutor() as pool:
        for found in pool.map(days_of, _chunks(first, days)):
            wrong += found
            if wrong and given.until_wrong:
                pool.shutdown(cancel_futures=True)
                break
    for one in wrong:
        print(one)
    print(f"{days} days, {len(wrong)} of them wrong, {time.perf_counter() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(_main())

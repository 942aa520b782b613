"""Run all measurements, or those named, and print a table: ``python -m benchmarks fanout``.

``python -m benchmarks nemesis`` takes options of its own and plays histories under failures.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from benchmarks import (
    abuse,
    cluster,
    fanout,
    first_page,
    journal,
    kills,
    kills_rollouts,
    live,
    openenv,
    recovery,
    rollouts,
    soak,
    turns,
    views,
    votes,
    watch_page,
    watched_loop,
    watched_run,
)
from benchmarks.figures import HEADER, Figure
from benchmarks.nemesis import command

PARTS: Final[Mapping[str, Callable[[], Iterable[Figure]]]] = {
    "live": lambda: asyncio.run(live.measure()),
    "fanout": fanout.measure,
    "first_page": first_page.measure,
    "first_score": watch_page.first_score,
    "kills": kills.measure,
    "kills_rollouts": kills_rollouts.measure,
    "cluster": cluster.measure,
    "abuse": abuse.measure,
    "recovery": recovery.measure,
    "soak": soak.measure,
    "journal": journal.measure,
    "turns": turns.measure,
    "views": views.measure,
    "votes": votes.measure,
    "rollouts": rollouts.measure,
    "openenv": openenv.measure,
    "watch_page": watch_page.measure,
    "watched_run": watched_run.measure,
    "watched_loop": watched_loop.measure,
}

LONG: Final = {"abuse", "cluster", "kills", "kills_rollouts", "openenv", "recovery", "soak", "views", "votes"}
"""Parts that run only if named, because they take many minutes."""


def main() -> None:
    """Measure the named parts, or all but the long ones, and print."""
    if sys.argv[1:2] == ["nemesis"]:
        sys.exit(command.main(sys.argv[2:]))
    wanted = sys.argv[1:] or [name for name in PARTS if name not in LONG]
    if unknown := [name for name in wanted if name not in PARTS]:
        sys.exit(f"benchmarks: unknown part {unknown[0]!r}; use {', '.join([*PARTS, 'nemesis'])}")
    print(HEADER, flush=True)
    for name in wanted:
        for figure in PARTS[name]():
            print(figure.row(), flush=True)


if __name__ == "__main__":
    main()

"""The run of all measurements, or of those named: ``python -m benchmarks fanout``; a Markdown table."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from benchmarks import (
    abuse,
    cluster,
    corruption,
    fanout,
    first_page,
    first_score,
    journal,
    kills,
    kills_rollouts,
    live,
    openenv,
    recovery,
    rollouts,
    soak,
    turns,
    watch_page,
    watched_loop,
    watched_run,
)
from benchmarks.figures import HEADER, Figure

PARTS: Final[Mapping[str, Callable[[], Iterable[Figure]]]] = {
    "live": lambda: asyncio.run(live.measure()),
    "fanout": fanout.measure,
    "first_page": first_page.measure,
    "first_score": first_score.measure,
    "kills": kills.measure,
    "kills_rollouts": kills_rollouts.measure,
    "cluster": cluster.measure,
    "abuse": abuse.measure,
    "corruption": corruption.measure,
    "recovery": recovery.measure,
    "soak": soak.measure,
    "journal": journal.measure,
    "turns": turns.measure,
    "rollouts": rollouts.measure,
    "openenv": openenv.measure,
    "watch_page": watch_page.measure,
    "watched_run": watched_run.measure,
    "watched_loop": watched_loop.measure,
}

LONG: Final = {"abuse", "cluster", "corruption", "kills", "kills_rollouts", "openenv", "recovery", "soak"}
"""Parts that run only when they are named, for they take many minutes."""


def main() -> None:
    """Measure the parts that are named, or all, and print."""
    wanted = sys.argv[1:] or [name for name in PARTS if name not in LONG]
    if unknown := [name for name in wanted if name not in PARTS]:
        sys.exit(f"benchmarks: there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    print(HEADER, flush=True)
    for name in wanted:
        for figure in PARTS[name]():
            print(figure.row(), flush=True)


if __name__ == "__main__":
    main()

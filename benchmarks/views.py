"""Compare records that hold the viewers' patches with records of facts only: ``python -m benchmarks views``.

The figures of decision 9. Each reader is new, as in a server that has just started; "again" is a second jump
by the same one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, get_args

from benchmarks.figures import Figure
from benchmarks.turns import request, supervised
from spectator.bus import Overflow
from spectator.core_events import View
from spectator.episodes.past_states import StateFile
from spectator.episodes.reader import ViewReader
from spectator.journal.contract import Journal
from spectator.steppers.local import on_a_thread

RECORDS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "336,000 small events": ("counting", {"turns": 112_000}),
    "a match of 50 overs": ("cricket", {"max_overs": 50}),
}
"""The records that are read: their worlds with options."""

WATCHED: Final = {"counting": {"turns": 1_500}, "cricket": {"max_overs": 20}}
"""The episodes that are watched live."""

VIEWERS: Final = 10
"""Listeners of each of them."""

ROUNDS: Final = 3
"""Live episodes of each kind; the cheapest counts."""

PAGE: Final = 1_000
"""Events of a page."""


async def _timed(work: Awaitable[Any]) -> float:
    began = time.perf_counter()
    await work
    return 1e3 * (time.perf_counter() - began)


async def _turn_us(world: str, view: View) -> float:
    """Return the CPU of a watched turn; every environment is stepped on a thread, as in a server."""

    async def listen(subscription: Any) -> None:
        async for _ in subscription:
            pass

    costs: list[float] = []
    async with supervised(1, view) as (supervisor, _, _journal):
        supervisor.open_stepper = on_a_thread
        for seed in range(ROUNDS + 1):  # the first warms up
            began = time.process_time()
            episode = await supervisor.start(request(world, seed, view, WATCHED[world]))
            heard = [listen(episode.subscribe(Overflow.DROP_OLDEST, capacity=8192)) for _ in range(VIEWERS)]
            ended, *_rest = await asyncio.gather(episode.wait(), *heard)
            costs.append(1e6 * (time.process_time() - began) / ended.turns)
    return min(costs[1:])


async def _read_ms(journal: Journal, folder: Path) -> dict[str, float]:
    """Measure what viewers of a recorded episode wait for, with ``states.db`` in ``folder``."""

    async def opened() -> tuple[ViewReader, Any]:
        views = ViewReader(journal, states=StateFile(folder / "states.db", 64_000_000))
        return views, await views.episode("ep-000001")

    async def newest() -> None:
        views, summary = await opened()
        await views.state(summary)
        await views.aclose()

    found = {"first opened": await _timed(newest()), "opened later": await _timed(newest())}
    views, summary = await opened()
    head = summary.head_seq
    found["last page"] = await _timed(views.texts(summary.episode_id, after_seq=head - PAGE))
    found["jump to the middle"] = await _timed(views.state_after(summary, head // 2))
    found["jump again"] = await _timed(views.state_after(summary, head // 2 - 2 * PAGE))
    found["a page there"] = await _timed(views.texts(summary.episode_id, after_seq=head // 2, limit=PAGE))
    await views.aclose()
    return found


async def _record(world: str, options: Mapping[str, Any], view: View) -> dict[str, float]:
    async with supervised(1, view) as (supervisor, _, journal):
        episode = await supervisor.start(request(world, 1, view, options))
        await episode.wait()
        texts = [len(one) for one in await journal.texts(episode.episode_id)]
        with TemporaryDirectory(prefix="spectator-") as folder:
            return {"size": sum(texts) / 1e6, **await _read_ms(journal, Path(folder))}


def measure() -> list[Figure]:
    """Measure live turns and long records, with views recorded and derived."""
    rows = []
    for world in WATCHED:
        costs = [asyncio.run(_turn_us(world, view)) for view in get_args(View)]
        rows.append((f"CPU of a turn with {VIEWERS} viewers, {world}", costs, "us"))
    for name, (world, options) in RECORDS.items():
        live, derived = (asyncio.run(_record(world, options, view)) for view in get_args(View))
        units = {key: "MB" if key == "size" else "ms" for key in live}
        rows += [(f"{name}: {key}", [live[key], derived[key]], unit) for key, unit in units.items()]
    return [
        Figure(name, f"recorded {live:,.1f} {unit}, derived {derived:,.1f} {unit}", "-", "-")
        for name, (live, derived), unit in rows
    ]

"""Measure a turn through the driver, next to its floor in the same run: ``python -m benchmarks turns``.

The floor is what a recorded turn cannot do without: world and captain, the checks and facts of the step, the
encoding of its events, and one batched append. The table shows the turn, the parts of the floor and the
ratio. Each pass is its own process, passes are interleaved, and the best counts, because other load on the
machine only adds to a figure.

``python -m benchmarks.turns DIR`` also measures the checkout in ``DIR``, pass by pass, in the same run.
``python -m benchmarks.turns --only counting [DIR]`` measures one world (or ``memory``), without viewers.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.figures import Figure
from spectator.bus import MemoryBus, Overflow
from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.core_events import View
from spectator.environments.contract import Stepped
from spectator.environments.world import World
from spectator.episodes.controls import EpisodeLimits, Pace
from spectator.episodes.plan import EpisodeRequest
from spectator.episodes.steps import check_contract, checked_decision, facts_of_step
from spectator.episodes.supervisor import Supervisor
from spectator.events import EventEncoder, RecordedEvent, encode_json
from spectator.journal.sql_journal import SqlJournal
from spectator.policies.policy import ScriptedPolicy
from spectator.steppers.local import inline, on_a_thread

OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "cricket": {"max_overs": 5},
    "counting": {"turns": 150},
}
"""Options of the measured worlds."""


@asynccontextmanager
async def supervised(slots: int, view: View) -> Any:
    """Run a supervisor with its bus and journal, stepped as episodes of ``view`` are."""
    with TemporaryDirectory(prefix="spectator-") as folder:
        journal = await SqlJournal.open(f"sqlite:///{Path(folder) / 'journal.db'}")
        bus, numbers = MemoryBus(), count(1)
        try:
            async with asyncio.TaskGroup() as tasks:
                yield (
                    Supervisor(
                        journal=journal,
                        bus=bus,
                        clock=SystemClock(),
                        tasks=tasks,
                        slots=slots,
                        limits=EpisodeLimits(),
                        new_id=lambda: f"ep-{next(numbers):06d}",
                        new_epoch=lambda: "e",
                        draw_seed=lambda: 0,
                        open_stepper=inline if view == "derived" else on_a_thread,
                    ),
                    bus,
                    journal,
                )
        finally:
            await journal.aclose()


def request(world: str, seed: int, view: View, options: Mapping[str, Any] | None = None) -> EpisodeRequest:
    """Return an episode of ``world`` at full speed, by default with the measured options."""
    options = OPTIONS[world] if options is None else options
    return EpisodeRequest(world, seed=seed, pace=Pace.MAX, narration=False, options=options, view=view)


HELD: Final = (128, 512)
"""Numbers of episodes in flight for the memory."""

HELD_AT: Final = 30
"""Least turns played in each of them."""

HELD_OVERS: Final = 20
"""Overs of an innings of those; one of five could end too early."""

WARM_UP_SEED: Final = 99
"""Seed of an uncounted first episode: a journal compiles its statements at their first use."""


def _resident() -> int:
    """Return the resident memory of this process, bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def held() -> dict[str, float]:
    """Measure the memory of one cricket episode in flight, in kB, among many."""
    found: dict[str, float] = {}
    async with supervised(max(HELD), "derived") as (supervisor, _, _journal):
        await (await supervisor.start(request("cricket", WARM_UP_SEED, "derived"))).wait()
        before, begun = _resident(), 0
        for wanted in HELD:
            while begun < wanted:
                begun += 1
                episode = await supervisor.start(
                    request("cricket", begun, "derived", {"max_overs": HELD_OVERS})
                )
                while episode.turn < HELD_AT and not episode.ended:  # noqa: ASYNC110 - a listener would be a viewer
                    await asyncio.sleep(0)
                await supervisor.pause(episode.episode_id, by="the benchmark")
            await asyncio.sleep(0.2)
            found[f"cricket: memory of one of {wanted} in flight, kB"] = (
                (_resident() - before) / wanted / 1000
            )
        await supervisor.aclose()
    return found


PASSES: Final = 7
"""Processes of each kind."""

AT_ONCE: Final = 32
"""Episodes of a fleet."""

ALONE: Final = 4
"""Episodes that are played one after the other."""

VIEWERS: Final = 10
"""Listeners of a watched episode."""

BATCH_TURNS: Final = 64
"""Turns that share an append, for the floor."""

AT: Final = "2026-11-21T05:00:00.000Z"
"""When the events of the floor happen."""

WORLD: Final = "world and captain"
CHECKED: Final = "the same, with checks and facts"
ENCODED: Final = "the same, encoded"
APPENDED: Final = "one batched append"
"""Cells of the floor, which is the last two together."""

AGAIN: Final = ", again"
"""Marks the second run of a cell in the same process."""

LONG: Final = 1500
"""Turns of a count so long that its start and end are negligible."""

LONG_ALONE: Final = f"alone, of {LONG:,} turns"


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of some work.

    Args:
        turns: Decisions made in it.
        cpu_s: CPU seconds of the whole process.
    """

    turns: int
    cpu_s: float

    @property
    def us(self) -> float:
        """CPU microseconds a turn."""
        return 1e6 * self.cpu_s / self.turns


def bare(world: World, seeds: Sequence[int], *, checked: bool = False, encoded: bool = False) -> Cost:
    """Play world and captains alone.

    ``checked`` adds checks and facts; ``encoded`` adds the text of events.
    """
    options = world.options_type.model_validate(OPTIONS[world.name]).model_dump(mode="json")
    turns, began = 0, time.process_time()
    for seed in seeds:
        environment = world.environment()
        captain = world.captains[world.default_captain]
        opponent = world.opponents.get(world.default_opponent, captain)
        if opponent.mirrors:
            opponent = captain
        seats = {
            actor: (opponent if number else captain).build(seed) for number, actor in enumerate(world.actors)
        }
        observation = environment.reset(seed=seed, episode_id="ep", options=options)
        environment.facts()
        encoder, numbers = EventEncoder("ep", "e"), count(1)
        while not observation.done:
            actor = observation.actor or ""
            policy = seats[actor]
            assert isinstance(policy, ScriptedPolicy)
            decision = policy.choose(observation)
            if checked:
                action, decided = checked_decision(actor, decision, 0.0, observation.legal_actions)
                observation = environment.step(action)
                stepped = Stepped(observation, list(environment.facts()), {})
                check_contract(stepped, world, world.profile)
                facts = facts_of_step(actor, decided, stepped, 0.0, {})
                if encoded:
                    for fact in facts:
                        encoder.encode(next(numbers), AT, turns, fact.type, encode_json(fact.data))
            else:
                observation = environment.step(decision.action)
                environment.facts()
            turns += 1
    return Cost(turns, time.process_time() - began)


async def _listen(subscription: Any) -> None:
    async for _ in subscription:
        pass


async def driven(
    world: str,
    seeds: Sequence[int],
    *,
    view: View,
    at_once: int,
    viewers: int = 0,
    options: Mapping[str, Any] | None = None,
) -> Cost:
    """Play episodes through supervisor, driver and journal, from start to end."""
    async with supervised(at_once, view) as (supervisor, bus, _):
        turns, waiting = 0, iter(seeds)

        async def lane(seeds: Iterator[int]) -> int:
            played = 0
            for seed in seeds:
                episode = await supervisor.start(request(world, seed, view, options))
                listening = [
                    asyncio.ensure_future(
                        _listen(bus.subscribe(episode.episode_id, Overflow.DROP_OLDEST, capacity=8192))
                    )
                    for _ in range(viewers)
                ]
                played += (await episode.wait()).turns
                await asyncio.gather(*listening)
            return played

        await lane(iter([WARM_UP_SEED]))
        began = time.process_time()
        turns = sum(await asyncio.gather(*(lane(waiting) for _ in range(at_once))))
        return Cost(turns, time.process_time() - began)


async def _recorded(world: str, seeds: Sequence[int], view: View) -> list[list[RecordedEvent]]:
    """Return the records of whole episodes."""
    async with supervised(len(seeds), view) as (supervisor, _, journal):
        episodes = [await supervisor.start(request(world, seed, view)) for seed in seeds]
        for episode in episodes:
            await episode.wait()
        return [await journal.read(episode.episode_id) for episode in episodes]


async def appended(records: Sequence[Sequence[RecordedEvent]]) -> Cost:
    """Append the same encoded events to the journal alone, :data:`BATCH_TURNS` turns each.

    The last of ``records`` is written first and not counted.
    """
    batches: list[list[list[RecordedEvent]]] = []
    for record in records:
        batches.append([[]])
        decisions = 0
        for one in record:
            decisions += one.event.type == "decision.made"
            if decisions > BATCH_TURNS:
                batches[-1].append([])
                decisions = 1
            batches[-1][-1].append(one)
    turns = sum(one.event.type == "decision.made" for record in records[:-1] for one in record)
    with TemporaryDirectory(prefix="spectator-") as folder:
        journal = await SqlJournal.open(f"sqlite:///{Path(folder) / 'journal.db'}")

        async def author(own: Sequence[Sequence[RecordedEvent]]) -> None:
            for batch in own:
                await journal.append(batch)

        await author(batches.pop())
        began = time.process_time()
        await asyncio.gather(*map(author, batches))
        used = time.process_time() - began
        await journal.aclose()
    return Cost(turns, used)


async def _costs(world: str, *, watched: bool) -> dict[str, float]:
    """Measure every cell of one world, in microseconds; live views only if ``watched``."""
    alone, fleet = range(1, ALONE + 1), range(1, AT_ONCE + 1)
    await driven(world, [99], view="live", at_once=1)
    records = await _recorded(world, range(1, 10), "derived")
    gc.freeze()  # as the server's own process does, and the command of rollouts
    found = {
        WORLD: bare(load_world(world), fleet),
        CHECKED: bare(load_world(world), fleet, checked=True),
        ENCODED: bare(load_world(world), fleet, checked=True, encoded=True),
        APPENDED: await appended(records),
    }
    for again in ("", AGAIN):  # the first fleet of a process also takes the memory that the next one reuses
        found[f"alone{again}"] = await driven(world, alone, view="derived", at_once=1)
        found[f"{AT_ONCE} at once{again}"] = await driven(world, fleet, view="derived", at_once=AT_ONCE)
        if world == "counting":
            found[f"{LONG_ALONE}{again}"] = await driven(
                world, alone, view="derived", at_once=1, options={"turns": LONG}
            )
    if watched:
        found |= await _watched_costs(world, alone, fleet)
    return {f"{world}: {name}": cost.us for name, cost in found.items()}


async def _watched_costs(world: str, alone: Sequence[int], fleet: Sequence[int]) -> dict[str, Cost]:
    return {
        "alone, live": await driven(world, alone, view="live", at_once=1),
        f"{AT_ONCE} at once, live": await driven(world, fleet, view="live", at_once=AT_ONCE),
        f"alone, {VIEWERS} listeners": await driven(world, alone, view="live", at_once=1, viewers=VIEWERS),
        f"{AT_ONCE} at once, {VIEWERS} listeners": await driven(
            world, fleet, view="live", at_once=AT_ONCE, viewers=VIEWERS
        ),
    }


def one_pass(part: str, *, watched: bool = True) -> dict[str, float]:
    """Measure one part in this process: a world's name, or ``memory``."""
    return asyncio.run(held() if part == "memory" else _costs(part, watched=watched))


def _pass_in(folder: Path, part: str, *more: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.turns", "--pass", part, *more]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def best(folders: Sequence[Path], passes: int = PASSES, only: str | None = None) -> list[dict[str, float]]:
    """Return the least of each cell for each checkout; their passes take turns.

    Args:
        folders: The checkouts.
        passes: Passes of each checkout.
        only: The one part to measure, a world without viewers or ``memory``; by default all.
    """
    found: list[dict[str, float]] = [{} for _ in folders]
    for number in range(passes):
        for part in (*OPTIONS, *(("memory",) if number < 2 else ())) if only is None else (only,):
            for folder, cells in zip(folders, found, strict=True):
                for name, value in _pass_in(folder, part, *([] if only is None else ["unwatched"])).items():
                    cells[name] = min(value, cells.get(name, value))
    return found


def measure() -> list[Figure]:
    """Return all figures of this checkout."""
    (cells,) = best([Path.cwd()])
    return list(_figures(cells))


def _figures(cells: Mapping[str, float]) -> Iterator[Figure]:
    for name, value in cells.items():
        if name.endswith("kB"):
            yield Figure(name.removesuffix(", kB"), f"{value:.0f} kB", "100 kB", "-")
            continue
        world, _, cell = name.partition(": ")
        played, checked, encoded, append = (
            cells[f"{world}: {part}"] for part in (WORLD, CHECKED, ENCODED, APPENDED)
        )
        if cell in (WORLD, CHECKED, ENCODED, APPENDED):
            yield Figure(f"a turn, {name}", f"{value:.0f} us", "-", "a part of the floor")
            continue
        yield Figure(
            f"a turn, {name}",
            f"{value / (encoded + append):.2f} x: {value:.0f} us",
            "1.5 x" if name.endswith(("alone", "at once", "turns", AGAIN)) else "-",
            f"{encoded + append:.0f} us: world and captain {played:.0f}, "
            f"checks and facts {checked - played:.0f}, "
            f"encoding {encoded - checked:.0f}, one batched append {append:.0f}",
        )


def main() -> None:
    """Run one pass, or measure this checkout next to others."""
    if sys.argv[1:2] == ["--pass"]:
        sys.stdout.write(json.dumps(one_pass(sys.argv[2], watched="unwatched" not in sys.argv)))
        return
    only, others = (sys.argv[2], sys.argv[3:]) if sys.argv[1:2] == ["--only"] else (None, sys.argv[1:])
    table = best([*map(Path, others), Path.cwd()], only=only)
    for name in table[-1]:
        sys.stdout.write(f"| {name} | " + " | ".join(_cell(cells, name) for cells in table) + " |\n")


def _cell(cells: Mapping[str, float], name: str) -> str:
    """Format a figure, and for a turn its ratio to the floor."""
    world, value = name.partition(":")[0], cells.get(name, 0.0)
    if name.endswith((WORLD, CHECKED, ENCODED, APPENDED, "kB")):
        return f"{value:.0f}"
    return f"{value:.0f}: {value / (cells[f'{world}: {ENCODED}'] + cells[f'{world}: {APPENDED}']):.2f} x"


if __name__ == "__main__":
    main()

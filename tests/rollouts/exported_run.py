"""A small run with something of everything: right and wrong members, stand-ins, failures, a fork."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectator.catalog import load_world
from spectator.clock import SystemClock
from spectator.environments.counting.world import CountingEnvironment
from spectator.environments.world import World
from spectator.episodes.controls import Pace
from spectator.episodes.fork import ForkRequest
from spectator.journal.contract import EpisodeFilter
from spectator.journal.sql_journal import SqlJournal
from spectator.rollouts.fleet import run_rollouts
from spectator.rollouts.fleet_plan import Deadlines
from spectator.rollouts.request import RolloutRequest
from tests.episodes.harness import supervising
from tests.llm.brains import Brain, Said, counter, read_situation, say
from tests.llm.endpoints import endpoint

GROUPS, SIZE, TURNS = 5, 4, 4


def wavering(body: Mapping[str, Any]) -> Said:
    """Counts; by the luck of its seed it miscounts at 2, or talks instead of acting at 3."""
    following = read_situation(body)["next"]
    if following == 2 and body["seed"] % 2:
        return say(body, "say", {"text": "ACTION: 7"}, "seven")
    if following == 3 and body["seed"] % 5 == 0:
        return Said(text="I would rather not say.")
    return counter(body)


class CrashingEnvironment(CountingEnvironment):
    """Raises at its second step where the seed is divisible by three."""

    def reset(self, *, seed: int, episode_id: str, options: Mapping[str, Any]) -> Any:
        self._crashes = seed % 3 == 0
        return super().reset(seed=seed, episode_id=episode_id, options=options)

    def step(self, action: Mapping[str, Any]) -> Any:
        if self._crashes and self._turn == 1:
            raise RuntimeError("the simulator crashed")
        return super().step(action)


def crashing_world(name: str) -> World:
    return replace(load_world(name), environment=CrashingEnvironment)


def play_run(
    folder: Path,
    *,
    brain: Brain = wavering,
    model: Mapping[str, Any] | None = None,
    load: Callable[[str], World] = crashing_world,
    **changes: Any,
) -> None:
    """Play the run into ``folder``; ``model`` and ``changes`` change the request."""
    with endpoint(brain) as fake:
        asked = {
            "label": "m", "model": "m-1", "base_url": fake.base_url, "stream": False, "timeout_s": 30.0,
            "tokens": True, **(model or {}),
        }  # fmt: skip
        fields = {
            "environment": "counting", "options": {"turns": TURNS}, "episodes": GROUPS * SIZE,
            "group_size": SIZE, "attempts": 2, "seed": 3, "model": asked, "on_invalid": "fallback",
            **changes,
        }  # fmt: skip
        run = run_rollouts(
            RolloutRequest.model_validate(fields),
            folder,
            concurrency=4,
            clock=SystemClock(),
            load=load,
            rng=random.Random(1),
            deadlines=Deadlines(startup_jitter_s=0.0),
        )
        asyncio.run(run)


async def fork_a_miscount(folder: Path) -> tuple[str, str]:
    """Let the usual captain play on from before a miscount; the ids of the parent and of the fork."""
    journal = await SqlJournal.open(f"sqlite:///{folder / 'journal.db'}")
    try:
        found = await journal.episodes(EpisodeFilter(limit=1000))
        parent = next(one for one in found if one.score == 0.0)
        events = [one.event for one in await journal.read(parent.episode_id)]
        (first, *_) = [event.seq for event in events if event.type == "step.taken"]
        async with supervising(journal=journal, slots=1) as stage:
            wanted = ForkRequest(parent.episode_id, first, captain="heuristic", pace=Pace.MAX)
            fork = await stage.supervisor.fork(wanted)
            await fork.wait()
        return parent.episode_id, fork.episode_id
    finally:
        await journal.aclose()

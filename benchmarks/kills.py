"""Prove recovery by killing a real server at random moments: ``python -m benchmarks kills``.

While viewers watch, the process is killed with SIGKILL repeatedly, while it plays and sometimes while it
starts. Every viewer resumes by itself. At the end all that each was shown is compared with the record.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx

from benchmarks.figures import Figure
from benchmarks.serving import ServerUnderTest
from benchmarks.witness import Witness, check

KILLS: Final = 200
VIEWERS: Final = 20
BY_EVENTS: Final = 4
"""Viewers on server-sent events."""

EARLY: Final = 0.2
"""Share of the kills after which the next process is killed while it starts."""

PATIENCE_S: Final = 240.0
"""Most seconds until play goes on, on a loaded machine."""

EPISODE: Final = {
    "environment": "counting",
    "pace": "fast",
    "options": {"turns": 100_000, "payload_bytes": 300},
}


async def kill(kills: int = KILLS, *, viewers: int = VIEWERS, seed: int = 1) -> tuple[Figure, dict[str, int]]:
    """Play one long episode through ``kills`` kills of its server.

    Returns:
        The figure, and all errors, counted by name.

    Raises:
        RuntimeError: Play did not go on in :data:`PATIENCE_S`.
    """
    chance = random.Random(seed)
    with (
        TemporaryDirectory(prefix="spectator-kills-") as data,
        contextlib.closing(ServerUnderTest(Path(data), {"SPECTATOR_ENVIRONMENT": "counting"})) as server,
    ):
        server.start()
        await asyncio.to_thread(server.wait)
        episode_id = _say(server.base, "start_episode", EPISODE)["episode_id"]
        witnesses = [
            Witness(server.base, f"/live/{episode_id}", random.Random(f"{seed}/{n}"), by_events=n < BY_EVENTS)
            for n in range(viewers)
        ]
        async with asyncio.TaskGroup() as tasks:
            for witness in witnesses:
                tasks.create_task(witness.follow())
            away = await _kill_again_and_again(server, witnesses, kills, chance)
            await asyncio.to_thread(_say, server.base, "stop_episode", {"episode_id": episode_id})
        for witness in witnesses:
            await witness.aclose()
        wrong = await asyncio.to_thread(check, witnesses, server.base)
    return _figure(witnesses, wrong, away, kills, seed), dict(wrong)


async def _kill_again_and_again(
    server: ServerUnderTest, witnesses: Sequence[Witness], kills: int, chance: random.Random
) -> list[float]:
    """Kill repeatedly; returns the seconds until every viewer saw another step."""
    away: list[float] = []
    done = 0
    await _progress(witnesses)
    while done < kills:
        await asyncio.sleep(chance.uniform(0.0, 0.5))
        died = time.monotonic()
        done += await _die(server)
        if done < kills and chance.random() < EARLY:
            await asyncio.sleep(chance.uniform(0.0, 1.5))
            done += await _die(server)
        await _progress(witnesses)
        away.append(time.monotonic() - died)
        sys.stderr.write(f"\r{done} of {kills} kills")
    sys.stderr.write("\n")
    return away


async def _die(server: ServerUnderTest) -> int:
    await asyncio.to_thread(server.kill)
    server.start()
    return 1


async def _progress(witnesses: Sequence[Witness]) -> None:
    """Wait until every viewer has seen another step."""
    before = [witness.steps for witness in witnesses]
    try:
        async with asyncio.timeout(PATIENCE_S):
            while any(now.steps <= then for now, then in zip(witnesses, before, strict=True)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise RuntimeError(f"play did not go on for every viewer within {PATIENCE_S:g} s") from None


def _say(base: str, command: str, body: object) -> dict[str, str]:
    answer = httpx.post(f"{base}/custom/{command}", json=body, timeout=30, trust_env=False)
    answer.raise_for_status()
    found: dict[str, str] = answer.json()
    return found


def _figure(
    witnesses: Sequence[Witness], wrong: Mapping[str, int], away: Sequence[float], kills: int, seed: int
) -> Figure:
    found = dict.fromkeys(("lost", "doubled", "reordered"), 0) | dict(wrong)
    value = (
        f"{', '.join(f'{count} {name}' for name, count in found.items())} of "
        f"{sum(witness.events for witness in witnesses):,} events shown over "
        f"{sum(witness.connections for witness in witnesses):,} connections; all see play go on after "
        f"{statistics.median(away):.1f} s in the median"
    )
    name = f"{kills} times kill -9 at random moments (seed {seed}), {len(witnesses)} viewers"
    return Figure(name, value, "0 lost, 0 doubled, 0 reordered", "-")


def measure() -> list[Figure]:
    """Return the figure."""
    return [asyncio.run(kill())[0]]

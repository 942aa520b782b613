"""Soak test: ``python -m benchmarks soak`` lets viewers act at random for twenty minutes.

Viewers of all kinds join, leave, stall, resume and start over at random, over WebSocket and server-sent
events, on one episode or on ``/live``, while episodes follow each other and the server is killed now and
then. At the end every event and every state that any viewer was shown is compared with the record.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from benchmarks.figures import Figure
from benchmarks.serving import ServerUnderTest
from benchmarks.witness import Witness, check

SECONDS: Final = 1200.0
VIEWERS: Final = 40

CALM: Final = 1 / 3
"""Last share of the time, without kills, so that a leak would show."""

UNSTABLE: Final = (httpx.HTTPError, KeyError)
"""Errors of a client whose server may be down or full."""


class Soak:
    """The soak test.

    Args:
        server: Server under test.
        seconds: Length of the test.
        lives: Number of kills.
        seed: Seed of all random choices.
    """

    def __init__(self, server: ServerUnderTest, seconds: float, lives: int, seed: int) -> None:
        self.witnesses: list[Witness] = []
        self.did: Counter[str] = Counter()
        self.memory_kb: list[tuple[float, int]] = []
        """Age of the last server in seconds and its resident memory, once a second in the last, calm part."""
        self._server = server
        self._seed = seed
        self._lives = lives
        self._began = time.monotonic()
        self._calm_from = self._began + seconds * (1 - CALM)
        self._until = self._began + seconds
        self._episode_id = ""
        self._born = self._began

    async def run(self, viewers: int) -> Counter[str]:
        """Let ``viewers`` act at random; returns what was wrong."""
        async with asyncio.TaskGroup() as tasks:
            directing = tasks.create_task(self._direct())
            killing = tasks.create_task(self._kill())
            roaming = [tasks.create_task(self._roam(number)) for number in range(viewers)]
            await asyncio.wait([*roaming, killing])
            directing.cancel()
        left = await asyncio.to_thread(self._viewers_left)
        wrong = await asyncio.to_thread(check, self.witnesses, self._server.base)
        return wrong + Counter({"viewers still counted": left})

    async def _direct(self) -> None:
        """Play one episode after another."""
        chance = random.Random(f"{self._seed}/director")
        async with httpx.AsyncClient(base_url=self._server.base, timeout=20, trust_env=False) as client:
            while True:
                options = {"turns": chance.randint(30, 200), "payload_bytes": chance.choice([100, 6_000])}
                body = {"environment": "counting", "pace": "fast", "options": options}
                with contextlib.suppress(*UNSTABLE):
                    answer = (await client.post("/custom/start_episode", json=body)).json()
                    self._episode_id = answer["episode_id"]
                    self.did["episodes"] += 1
                await asyncio.sleep(0.3)

    async def _kill(self) -> None:
        chance = random.Random(f"{self._seed}/killer")
        moments = sorted(chance.uniform(self._began, self._calm_from) for _ in range(self._lives))
        for moment in moments:
            await asyncio.sleep(max(1.0, moment - time.monotonic()))
            await asyncio.to_thread(self._server.kill)
            self._server.start()
            self._born = time.monotonic()
            self.did["kills"] += 1
        await asyncio.to_thread(self._server.wait)
        while time.monotonic() < self._until:
            await asyncio.sleep(1.0)
            if time.monotonic() > self._calm_from:
                age_s = time.monotonic() - self._born
                self.memory_kb.append((age_s, _resident_kb(self._server.process_id)))
            left = self._until - time.monotonic()
            sys.stderr.write(f"\r{left:.0f} s left, {self.did.total():,} actions ")

    async def _roam(self, number: int) -> None:
        chance = random.Random(f"{self._seed}/{number}")
        follower = Witness(self._server.base, "/live", chance)
        if number % 2 == 0:
            self.witnesses.append(follower)
        while time.monotonic() < self._until:
            if number % 2 == 0:
                await self._visit(follower, chance, lambda: False)
            elif self._episode_id:
                path = f"/live/{self._episode_id}"
                await self._follow(
                    Witness(self._server.base, path, chance, by_events=number % 4 == 1), chance
                )
            else:
                await asyncio.sleep(0.1)

    async def _follow(self, witness: Witness, chance: random.Random) -> None:
        self.witnesses.append(witness)

        def over() -> bool:
            return bool(witness.shown and witness.shown.over)

        while not over() and time.monotonic() < self._until:
            await self._visit(witness, chance, over)
        await witness.aclose()

    async def _visit(self, witness: Witness, chance: random.Random, over: Callable[[], bool]) -> None:
        """Connect, stay a while, and disconnect."""
        resume = chance.random() < 0.8
        stall_s = chance.uniform(0.5, 8.0) if chance.random() < 0.15 else 0.0
        stay_s = min(
            chance.choice([0.05, 0.5, 4.0, 30.0]) + stall_s, max(0.1, self._until - time.monotonic())
        )
        self.did.update(["resumed" if resume else "joined again", *(["stalled"] if stall_s else [])])
        try:
            async with asyncio.timeout(stay_s):
                await witness.watch(resume=resume, stall_s=stall_s)
            self.did["lost their connection"] += not over()
        except TimeoutError:
            self.did["left"] += 1
        await asyncio.sleep(chance.uniform(0.0, 0.5))

    def _viewers_left(self) -> int:
        """Return the viewers that the server still counts after all have left."""
        for _ in range(100):
            text = httpx.get(f"{self._server.base}/metrics", timeout=20, trust_env=False).text
            if not (left := int(float(text.split("\nspectator_viewers ")[1].split()[0]))):
                break
            time.sleep(0.1)
        return left


async def soak(
    seconds: float = SECONDS, *, viewers: int = VIEWERS, kills: int = 12, seed: int = 1
) -> tuple[Figure, dict[str, int], Counter[str]]:
    """Run the test; returns the figure, what was wrong by name, and what was done."""
    settings = {"SPECTATOR_ENVIRONMENT": "counting", "SPECTATOR_VIEWER_BACKLOG_BYTES": str(64 * 1024)}
    settings |= {"SPECTATOR_STARTS_PER_MINUTE": "0", "SPECTATOR_STARTS_PER_HOUR": "0"}
    with (
        TemporaryDirectory(prefix="spectator-soak-") as data,
        contextlib.closing(ServerUnderTest(Path(data), settings)) as server,
    ):
        server.start()
        await asyncio.to_thread(server.wait)
        trial = Soak(server, seconds, kills, seed)
        wrong = +(await trial.run(viewers))
    return _figure(trial, wrong, seconds, viewers), dict(wrong), trial.did


def _figure(trial: Soak, wrong: Mapping[str, int], seconds: float, viewers: int) -> Figure:
    found: dict[str, Any] = dict.fromkeys(("lost", "doubled", "reordered", "another state"), 0) | dict(wrong)
    taken = trial.memory_kb or [(0.0, 0)]
    memory = [
        f"{taken[place][1] / 1024:.1f} MB {taken[place][0]:.0f} s" for place in (0, len(taken) // 2, -1)
    ]
    value = (
        f"{', '.join(f'{count} {name}' for name, count in found.items())} of "
        f"{sum(witness.events for witness in trial.witnesses):,} events shown; "
        f"{', '.join(f'{count:,} {name}' for name, count in trial.did.items())}; memory of the "
        f"last server {', '.join(memory)} after its start"
    )
    return Figure(f"soak of {seconds / 60:g} minutes, {viewers} viewers", value, "0 of each", "-")


def _resident_kb(process_id: int) -> int:
    text = Path(f"/proc/{process_id}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0])


def measure() -> list[Figure]:
    """Return the figure."""
    return [asyncio.run(soak())[0]]

"""The figures of a live episode: how soon it starts, how soon its events arrive, how fast it can end."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.figures import Figure, ms, percentile
from benchmarks.machine import loopback_round_trip, sqlite_commit
from benchmarks.outside import install_slow_world
from benchmarks.serving import server
from benchmarks.viewer import LightViewer, open_viewer

MATCH = {"environment": "cricket", "max_overs": 5, "enable_tts": False}


async def _start(client: httpx.AsyncClient, **fields: Any) -> str:
    answer = await client.post("/custom/start_episode", json=fields)
    answer.raise_for_status()
    episode_id: str = answer.json()["episode_id"]
    return episode_id


async def _first_event(viewer: ClientConnection) -> None:
    """Read until the state of an episode, or an event of it, is here."""
    while json.loads(await viewer.recv())["frame"] not in {"event", "snapshot"}:
        pass


async def start_to_first_event(base: str, rounds: int = 15) -> Figure:
    """From the POST to the first event at a viewer who was already listening to whatever is on."""
    times = []
    async with httpx.AsyncClient(base_url=base) as client:
        for seed in range(rounds):
            async with connect(f"ws{base[4:]}/live") as viewer:
                await asyncio.sleep(0.05)
                began = time.perf_counter()
                started = asyncio.create_task(_start(client, **MATCH, pace="broadcast", seed=seed))
                await _first_event(viewer)
                times.append(time.perf_counter() - began)
                await started
            await client.post("/custom/stop_episode", json={"episode_id": await started})
    round_trip, _ = await loopback_round_trip()
    value = f"median {ms(percentile(times, 0.5))}, worst {ms(max(times))}"
    return Figure(
        "POST start_episode to first event at a viewer", value, "< 50 ms", f"loopback echo {ms(round_trip)}"
    )


def _delays(viewer: LightViewer) -> list[float]:
    frames = [(arrived, json.loads(payload)) for arrived, payload in viewer.frames()]
    return [
        arrived - datetime.fromisoformat(frame["at"]).timestamp()
        for arrived, frame in frames
        if frame["frame"] == "event"
    ]


async def event_to_viewer(base: str, viewers: int = 100, turns: int = 60) -> Figure:
    """From the stamp of an event (before it is journaled) to its arrival at each of many viewers."""
    async with httpx.AsyncClient(base_url=base) as client:
        options = {"turns": turns, "payload_bytes": 600}
        episode_id = await _start(client, environment="counting", pace="fast", options=options)
        watching = [await open_viewer(f"ws{base[4:]}/live/{episode_id}") for _ in range(viewers)]
        await asyncio.gather(*(viewer.closed for viewer in watching))
    delays = [delay for viewer in watching for delay in _delays(viewer)]
    _, worst = await loopback_round_trip()
    value = f"median {ms(percentile(delays, 0.5))}, p99 {ms(percentile(delays, 0.99))} of {len(delays)}"
    return Figure(
        f"event emitted to received, {viewers} viewers",
        value,
        "p99 < 20 ms",
        f"loopback echo p99 {ms(worst)}",
    )


async def match_at_max(base: str, rounds: int = 5) -> Figure:
    """A whole five-over match at the pace ``max``, from the POST to its end at a viewer."""
    times, events = [], []
    async with httpx.AsyncClient(base_url=base) as client:
        for seed in range(rounds):
            began = time.perf_counter()
            episode_id = await _start(client, **MATCH, pace="max", seed=seed)
            async with connect(f"ws{base[4:]}/live/{episode_id}", max_queue=None) as viewer:
                async for text in viewer:
                    if json.loads(text)["frame"] == "bye":
                        break
            times.append(time.perf_counter() - began)
            events.append((await client.get(f"/api/episodes/{episode_id}")).json()["head_seq"])
    median = percentile(times, 0.5)
    value = f"median {median:.2f} s for {percentile(events, 0.5):.0f} events"
    return Figure(
        "a finished 5-over match at pace=max", value, "< 1 s", f"one SQLite commit {ms(sqlite_commit())}"
    )


async def health_while_blocked(seconds: float = 2.0) -> Figure:
    """``/health`` while a step of an environment sleeps."""
    times: list[float] = []
    with TemporaryDirectory() as folder:
        install_slow_world(Path(folder), seconds)
        with server(python_path=Path(folder)) as base:
            async with httpx.AsyncClient(base_url=base) as client:
                await client.get("/health")
                await _start(client, environment="slow", pace="max")
                until = time.perf_counter() + seconds
                while time.perf_counter() < until:
                    began = time.perf_counter()
                    (await client.get("/health")).raise_for_status()
                    times.append(time.perf_counter() - began)
                    await asyncio.sleep(0.005)
                await client.post("/custom/stop_episode", json={})
    _, worst = await loopback_round_trip()
    value = f"median {ms(percentile(times, 0.5))}, p99 {ms(percentile(times, 0.99))} of {len(times)}"
    name = f"/health while a step blocks for {seconds:g} s"
    return Figure(name, value, "p99 < 20 ms", f"loopback echo p99 {ms(worst)}")


async def measure() -> list[Figure]:
    """All figures of a live episode."""
    with server() as base:
        figures = [await start_to_first_event(base), await event_to_viewer(base), await match_at_max(base)]
    return [*figures, await health_while_blocked()]

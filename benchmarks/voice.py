"""The figures of the voice: how soon a line is heard, what it costs, and what play pays for it."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import time
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from websockets.asyncio.client import connect

from benchmarks.figures import Figure, ms, percentile
from benchmarks.machine import loopback_round_trip
from benchmarks.serving import server, server_process
from spectator.clock import SystemClock
from spectator.events import Event, NarrationClip, RecordedEvent, record
from spectator.narration.clips import ClipStore
from spectator.narration.narrator import NarrationCounts, Narrator, NarratorPorts
from spectator.narration.speech import Speech, Unspoken
from spectator.narration.voices.espeak import EspeakVoice, espeak_program

LINE = "Thornbury to Okafor: good length, outside off, driven through the covers for four. {number} needed."
MATCH = {"environment": "cricket", "max_overs": 5, "seed": 7}


def _cpu() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


async def a_line(program: str, lines: int = 40) -> Figure:
    """Processor time and time of one line by espeak-ng, its MP3 included."""
    voice = EspeakVoice(program)
    await voice.speak(LINE)
    times, cpu, said_s = [], _cpu(), 0.0
    for number in range(lines):
        began = time.perf_counter()
        spoken = await voice.speak(LINE.format(number=number))
        assert isinstance(spoken, Speech)
        times.append(time.perf_counter() - began)
        said_s = spoken.duration_s
    cost = (_cpu() - cpu) / lines
    value = f"{ms(cost)} of processor time, median {ms(percentile(times, 0.5))}"
    return Figure("a line by espeak-ng, encoded", value, "< 150 ms", f"{said_s:.1f} s of speech")


async def line_to_clip(base: str) -> Figure:
    """From the stamp of a line that is spoken at once to its clip in a viewer's hands."""
    delays: list[float] = []
    async with httpx.AsyncClient(base_url=base) as client:
        for seed in range(6):
            answer = await client.post(
                "/custom/start_episode", json={**MATCH, "seed": seed, "max_overs": 1, "pace": "broadcast"}
            )
            delays += await _first_clips(client, base, answer.json()["episode_id"], count=3)
            await client.post("/custom/stop_episode", json={})
    round_trip, _ = await loopback_round_trip()
    value = f"median {ms(percentile(delays, 0.5))}, worst {ms(max(delays))} of {len(delays)}"
    return Figure("line told to clip fetched", value, "median < 400 ms", f"loopback echo {ms(round_trip)}")


async def _first_clips(client: httpx.AsyncClient, base: str, episode_id: str, count: int) -> list[float]:
    """Delays of clips whose line found the air free, so that waiting for the former is not counted."""
    told: dict[int, float] = {}
    delays: list[float] = []
    free_at = 0.0
    async with connect(f"ws{base[4:]}/live/{episode_id}") as viewer:
        async for text in viewer:
            frame = json.loads(text)
            if frame["frame"] != "event":
                continue
            at = datetime.fromisoformat(frame["at"]).timestamp()
            if frame["type"] == "narration.line":
                told[frame["seq"]] = at
            elif frame["type"] == "narration.clip":
                (await client.get(frame["data"]["url"])).raise_for_status()
                began = told.get(frame["data"]["for_seq"])
                if began is not None and began >= free_at:
                    delays.append(time.time() - began)
                free_at = at + frame["data"]["duration_s"] + 0.2
                if len(delays) >= count:
                    break
    return delays


async def episodes_with_and_without(episodes: int = 60, at_once: int = 20, rounds: int = 7) -> Figure:
    """Processor time of an episode at the pace ``max`` with speech asked for and not, in turns."""
    costs: dict[bool, list[float]] = {True: [], False: []}
    settings = {
        "SPECTATOR_MAX_EPISODES": str(2 * at_once),  # an end is recorded before its place is free
        "SPECTATOR_STARTS_PER_MINUTE": "0",
        "SPECTATOR_STARTS_PER_HOUR": "0",
        "SPECTATOR_VOICE": "espeak",
    }
    with server_process(settings) as (base, pid):
        async with httpx.AsyncClient(base_url=base, timeout=120) as client:
            await _play(client, at_once, at_once, voice=False)
            for _ in range(rounds):
                for voice in (False, True):
                    before = _cpu_of(pid)
                    await _play(client, episodes, at_once, voice=voice)
                    costs[voice].append((_cpu_of(pid) - before) / episodes)
    without, spoken = (percentile(costs[voice], 0.5) for voice in (False, True))
    value = f"{ms(spoken)} of the server's processor time each with, {ms(without)} without"
    name = f"{2 * rounds * episodes} matches of 1 over at pace=max, voice on"
    return Figure(name, f"{value}: {100 * (spoken / without - 1):+.1f} %", "within 5 %", "voice off")


def _cpu_of(pid: int) -> float:
    """Processor seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


async def _play(client: httpx.AsyncClient, episodes: int, at_once: int, *, voice: bool) -> None:
    waiting = iter(range(episodes))

    async def player() -> None:
        for seed in waiting:
            body: dict[str, Any] = {**MATCH, "max_overs": 1, "seed": seed, "pace": "max", "enable_tts": voice}
            started = await client.post("/custom/start_episode", json=body)
            started.raise_for_status()
            path = f"/api/episodes/{started.json()['episode_id']}"
            while (await client.get(path)).json()["ended_at"] is None:  # noqa: ASYNC110 - it is over HTTP
                await asyncio.sleep(0.02)

    async with asyncio.TaskGroup() as players:
        for _ in range(at_once):
            players.create_task(player())


class _Quick:
    """A voice that costs nothing, so that what grows is the narrator's own."""

    name = fingerprint = "quick"
    costs_money = False

    async def speak(self, text: str) -> Speech | Unspoken:
        return Speech(b"x" * 20_000, "audio/mpeg", 0.001)

    async def aclose(self) -> None:
        pass


async def memory_over_lines(lines: int = 10_000) -> Figure:
    """Memory of the process over many lines that become clips."""
    with TemporaryDirectory() as folder:
        clips = ClipStore(Path(folder), limit_bytes=4 * 1024 * 1024)
        told: asyncio.Queue[tuple[RecordedEvent, ...] | None] = asyncio.Queue(4)
        aired = asyncio.Event()

        async def aired_now(_: NarrationClip) -> None:
            aired.set()

        ports = NarratorPorts(str, aired_now, lambda: True, lambda: True, lambda _: None, str)
        narrator = Narrator(
            voices=[_Quick()], clips=clips, clock=SystemClock(), ports=ports, tally=NarrationCounts()
        )
        running = asyncio.create_task(narrator.run(_batches(told)))
        sizes = []
        for number in range(lines):
            data = {"text": LINE.format(number=number), "priority": 0}
            event = Event("ep", "e", number + 1, "2026-11-21T05:00:00.000Z", 1, "narration.line", data)
            aired.clear()
            await told.put((record(event),))
            await aired.wait()
            if number % (lines // 10) == lines // 20:
                sizes.append(_resident_mb())
        await told.put(None)
        await running
    value = f"{sizes[0]:.1f} MB after {lines // 20}, {sizes[-1]:.1f} MB after {lines}"
    return Figure("memory over 10,000 lines", value, "flat", "clips on disk at most 4 MB")


async def _batches(told: asyncio.Queue[tuple[RecordedEvent, ...] | None]) -> Any:
    while (batch := await told.get()) is not None:
        yield batch


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


async def measure() -> list[Figure]:
    """All figures of the voice."""
    program = espeak_program()
    if program is None:
        return [Figure("voice", "espeak-ng is not installed", "", "apt-get install espeak-ng")]
    figures = [await a_line(program), await memory_over_lines()]
    with server({"SPECTATOR_VOICE": "espeak"}) as base:
        figures.append(await line_to_clip(base))
    return [*figures, await episodes_with_and_without()]

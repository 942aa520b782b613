"""Measure a live episode: its start, the delay of its events, and a match at full speed."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sqlite3
import struct
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import httpx
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.figures import Figure, ms, percentile
from benchmarks.serving import install_slow_world, server


class LightViewer(asyncio.Protocol):
    """One WebSocket viewer that only listens.

    Args:
        url: A ``ws://`` address.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._path = parts.path
        self._host = parts.netloc
        self._chunks: list[tuple[float, bytes]] = []
        self.greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the opening handshake."""
        assert isinstance(transport, asyncio.Transport)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {self._path} HTTP/1.1",
            f"Host: {self._host}",
            "Upgrade: websocket",
            "Connection: Upgrade",
        ]
        lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", ""]
        transport.write("\r\n".join(lines).encode())

    def data_received(self, data: bytes) -> None:
        """Note the arrival."""
        self._chunks.append((time.time(), data))
        if not self.greeted.done():
            self.greeted.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Resolve ``closed``."""
        if not self.closed.done():
            self.closed.set_result(None)

    def frames(self) -> Iterator[tuple[float, bytes]]:
        """Yield text frames with the arrival of their last byte, in wall-clock seconds."""
        buffer, header_seen = b"", False
        for arrived, chunk in self._chunks:
            buffer += chunk
            if not header_seen:
                head, separator, rest = buffer.partition(b"\r\n\r\n")
                if not separator:
                    continue
                if b" 101 " not in head.split(b"\r\n")[0]:
                    raise RuntimeError(f"the server rejected the WebSocket: {head[:200]!r}")
                header_seen, buffer = True, rest
            while (frame := _first_frame(buffer)) is not None:
                opcode, payload, size = frame
                buffer = buffer[size:]
                if opcode == 1:
                    yield arrived, payload


def _first_frame(buffer: bytes) -> tuple[int, bytes, int] | None:
    """Return opcode, payload and size of the first complete unmasked frame, if any."""
    if len(buffer) < 2:
        return None
    length, offset = buffer[1] & 0x7F, 2
    if length == 126:
        if len(buffer) < 4:
            return None
        (length,), offset = struct.unpack_from("!H", buffer, 2), 4
    elif length == 127:
        if len(buffer) < 10:
            return None
        (length,), offset = struct.unpack_from("!Q", buffer, 2), 10
    if len(buffer) < offset + length:
        return None
    return buffer[0] & 0x0F, buffer[offset : offset + length], offset + length


async def open_viewer(url: str) -> LightViewer:
    """Connect one viewer; returns after the server's first bytes."""
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None
    loop = asyncio.get_running_loop()
    _, viewer = await loop.create_connection(lambda: LightViewer(url), parts.hostname, parts.port)
    await viewer.greeted
    return viewer


async def loopback_round_trip(rounds: int = 500) -> tuple[float, float]:
    """Measure a 1 KiB echo over loopback.

    Returns:
        Median and 99th percentile, seconds.
    """

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(await reader.readexactly(1024))
                await writer.drain()
        except asyncio.IncompleteReadError:
            writer.close()

    listener = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        writer.write(bytes(1024))
        await reader.readexactly(1024)
        times.append(time.perf_counter() - began)
    writer.close()
    await writer.wait_closed()
    listener.close()
    await listener.wait_closed()
    return percentile(times, 0.5), percentile(times, 0.99)


def sqlite_commit(rounds: int = 300) -> float:
    """Measure the commit of a 1 KiB row in SQLite with the journal's pragmas, seconds."""
    times = []
    with TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "limit.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT)")
        for number in range(rounds):
            began = time.perf_counter()
            connection.execute("INSERT INTO rows VALUES (?, ?)", (number, "x" * 1024))
            times.append(time.perf_counter() - began)
        connection.close()
    return percentile(times, 0.5)


MATCH = {"environment": "cricket", "max_overs": 5, "enable_tts": False}


async def _start(client: httpx.AsyncClient, **fields: Any) -> str:
    answer = await client.post("/custom/start_episode", json=fields)
    answer.raise_for_status()
    episode_id: str = answer.json()["episode_id"]
    return episode_id


async def _first_event(viewer: ClientConnection) -> None:
    """Read until a snapshot or an event arrives."""
    while json.loads(await viewer.recv())["frame"] not in {"event", "snapshot"}:
        pass


async def start_to_first_event(base: str, rounds: int = 15) -> Figure:
    """Measure from the POST to the first event at a viewer of ``/live``."""
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
    """Measure from the stamp of an event to its arrival at each of many viewers.

    An event is stamped before it is journaled.
    """
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
    """Measure a five-over match at pace ``max``, from the POST to its end at a viewer."""
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
    """Measure ``/health`` while a step of an environment sleeps."""
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
    """Return all figures of a live episode."""
    with server() as base:
        figures = [await start_to_first_event(base), await event_to_viewer(base), await match_at_max(base)]
    return [*figures, await health_while_blocked()]

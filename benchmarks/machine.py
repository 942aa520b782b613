"""What this machine takes for the parts of a path that no software can avoid."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import percentile


async def loopback_round_trip(rounds: int = 500) -> tuple[float, float]:
    """Median and 99th percentile, in seconds, of a 1 KiB echo over loopback between two asyncio streams."""

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
    """Median seconds of one committed 1 KiB row in SQLite, with the journal's own pragmas."""
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

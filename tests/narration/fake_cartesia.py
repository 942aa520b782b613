"""A stand-in for Cartesia on a real socket: it answers with a real MP3, or fails in a chosen way."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy
import soundfile


def tone(seconds: float) -> bytes:
    """An MP3 of a tone."""
    steps = numpy.arange(int(44_100 * seconds))
    encoded = io.BytesIO()
    soundfile.write(encoded, (0.2 * numpy.sin(steps / 16)).astype("float32"), 44_100, format="MP3")
    return encoded.getvalue()


CLIP = tone(2.0)


@dataclass(slots=True)
class FakeCartesia:
    """See :func:`serving`.

    Args:
        modes: What becomes of each request, in order; the last one holds from then on: ``ok``, ``slow``, a
            status, ``cut``, ``part``, ``garbage``, ``huge``, ``hang up``.
    """

    modes: list[str]
    base_url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
        }
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.requests.append({"line": head[0], **body})
        self.headers.append(headers)
        mode = self.modes.pop(0) if len(self.modes) > 1 else self.modes[0]
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self._play(mode, writer)
        finally:
            self.at_once -= 1

    async def _play(self, mode: str, writer: asyncio.StreamWriter) -> bool:
        if mode == "hang up":
            return False
        if mode == "slow":
            await self.stop.wait()
            return False
        if mode.isdigit():
            body = b'{"title": "refused"}'
            writer.write(f"HTTP/1.1 {mode} No\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
            return True
        audio = {"garbage": b"<html>not sound</html>" * 99, "huge": b"\xff" * 5_000_000, "part": CLIP[:2000]}
        sound = audio.get(mode, CLIP)
        head = f"HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ncontent-length: {len(sound)}\r\n\r\n"
        writer.write(head.encode() + (sound[: len(sound) // 2] if mode == "cut" else sound))
        await writer.drain()
        return mode != "cut"


@asynccontextmanager
async def serving(*modes: str) -> AsyncIterator[FakeCartesia]:
    """Serve on a free port of this machine."""
    fake = FakeCartesia(_modes(modes))
    server = await asyncio.start_server(fake.answer, "127.0.0.1", 0)
    fake.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield fake
    finally:
        fake.stop.set()
        server.close()
        await server.wait_closed()


def _modes(modes: Sequence[str]) -> list[str]:
    return list(modes) or ["ok"]

"""A viewer that costs the load client next to nothing: it notes arrivals now and parses later."""

from __future__ import annotations

import asyncio
import base64
import os
import struct
import time
from collections.abc import Iterator
from urllib.parse import urlsplit


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
        """The channel is over."""
        if not self.closed.done():
            self.closed.set_result(None)

    def frames(self) -> Iterator[tuple[float, bytes]]:
        """Text frames, each with the arrival of its last byte, in wall-clock seconds."""
        buffer, header_seen = b"", False
        for arrived, chunk in self._chunks:
            buffer += chunk
            if not header_seen:
                head, separator, rest = buffer.partition(b"\r\n\r\n")
                if not separator:
                    continue
                if b" 101 " not in head.split(b"\r\n")[0]:
                    raise RuntimeError(f"refused: {head[:200]!r}")
                header_seen, buffer = True, rest
            while (frame := _first_frame(buffer)) is not None:
                opcode, payload, size = frame
                buffer = buffer[size:]
                if opcode == 1:
                    yield arrived, payload


def _first_frame(buffer: bytes) -> tuple[int, bytes, int] | None:
    """Opcode, payload and whole size of an unmasked frame, if ``buffer`` holds one."""
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
    """Connect one viewer; returns once the server has greeted it."""
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None
    loop = asyncio.get_running_loop()
    _, viewer = await loop.create_connection(lambda: LightViewer(url), parts.hostname, parts.port)
    await viewer.greeted
    return viewer

"""A viewer for tests: it keeps every frame and folds the state as a page would."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from spectator.json_values import apply_patch

PATIENCE_S = 20.0


class Watcher:
    """One viewer.

    Args:
        socket: Its connection.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.frames: list[dict[str, Any]] = []
        self.texts: list[str] = []
        self.state: Any = None
        self.seq = 0

    def next(self) -> dict[str, Any]:
        """The next frame."""
        text = self.socket.recv(timeout=PATIENCE_S)
        assert isinstance(text, str)
        frame: dict[str, Any] = json.loads(text)
        self.texts.append(text)
        self.frames.append(frame)
        if frame["frame"] == "snapshot":
            self.state, self.seq = frame["state"], frame["seq"]
        elif frame["frame"] == "event" and frame["seq"] > self.seq:
            assert frame["seq"] == self.seq + 1, f"a gap between {self.seq} and {frame['seq']}"
            self.state, self.seq = apply_patch(self.state, frame["patch"]), frame["seq"]
        return frame

    def until(self, name: str) -> dict[str, Any]:
        """Read up to the next frame of this name."""
        while (frame := self.next())["frame"] != name:
            pass
        return frame

    def to_the_end(self) -> tuple[int | None, dict[str, Any]]:
        """Read to the close; gives its code and the bye before it."""
        try:
            while True:
                self.next()
        except ConnectionClosed:
            return self.socket.close_code, self.frames[-1]

    def say(self, **message: Any) -> None:
        """Send a message."""
        self.socket.send(json.dumps(message))

    def events(self) -> list[int]:
        """Numbers of the events that came, in order."""
        return [frame["seq"] for frame in self.frames if frame["frame"] == "event"]

    def kinds(self) -> list[str]:
        """Names of the frames that came, in order, without the counts of viewers."""
        return [frame["frame"] for frame in self.frames if frame["frame"] != "viewers"]


@contextmanager
def watch(url: str, **options: Any) -> Iterator[Watcher]:
    """A viewer at ``url``; what it does not read does not keep it from closing."""
    usual = {"compression": None, "open_timeout": PATIENCE_S, "max_size": None, "max_queue": None}
    with connect(url, **{**usual, **options}) as socket:
        yield Watcher(socket)


def open_by_hand(base_url: str, path: str) -> socket.socket:
    """A WebSocket without a client library, so that its peer may be as rude as it likes."""
    port = int(base_url.rpartition(":")[2])
    peer = socket.create_connection(("127.0.0.1", port), timeout=10)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.sendall(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    assert peer.recv(12) == b"HTTP/1.1 101"
    return peer

"""The way of ``picows``, a WebSocket library in Cython, on uvloop: one ``send`` for each viewer."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

import uvloop

from benchmarks.peers.orders import obey


async def main() -> None:
    """Serve and obey."""
    picows: Any = importlib.import_module("picows")
    viewers: list[Any] = []

    class Listener(picows.WSListener):  # type: ignore[misc]
        def on_ws_connected(self, transport: Any) -> None:
            viewers.append(transport)

    def send(message: str) -> None:
        payload, text = message.encode(), picows.WSMsgType.TEXT
        for viewer in viewers:
            viewer.send(text, payload)

    server = await picows.ws_create_server(lambda request: Listener(), "127.0.0.1", 0)
    await obey(server.sockets[0].getsockname()[1], send)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())

"""The way that the ``websockets`` library offers: ``broadcast``, on uvloop."""

from __future__ import annotations

import asyncio

import uvloop
from websockets.asyncio.server import ServerConnection, broadcast, serve

from benchmarks.peers.orders import obey


async def main() -> None:
    """Serve and obey."""
    viewers: set[ServerConnection] = set()

    async def watch(viewer: ServerConnection) -> None:
        viewers.add(viewer)
        await viewer.wait_closed()

    async with serve(watch, "127.0.0.1", 0, compression=None, ping_interval=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        await obey(port, lambda message: broadcast(viewers, message))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())

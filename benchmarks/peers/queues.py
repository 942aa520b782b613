"""The usual way of a fan-out: a FastAPI app with a queue and a task for each viewer.

A message is made once; each viewer's own task takes it from the viewer's queue and sends it as text. It runs
as our own server does: the sans-I/O protocol, no compression; and without pings.
"""

from __future__ import annotations

import asyncio

import uvicorn
from fastapi import FastAPI, WebSocket

from benchmarks.peers.orders import obey
from benchmarks.serving import free_port


async def main() -> None:
    """Serve and obey."""
    app, queues = FastAPI(), list[asyncio.Queue[str]]()

    @app.websocket("/")
    async def watch(websocket: WebSocket) -> None:
        await websocket.accept()
        queue: asyncio.Queue[str] = asyncio.Queue()
        queues.append(queue)
        while True:
            await websocket.send_text(await queue.get())

    def send(message: str) -> None:
        for queue in queues:
            queue.put_nowait(message)

    port = free_port()
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=port,
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        log_level="warning",
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.01)
    await obey(port, send)
    serving.cancel()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:
        runner.run(main())

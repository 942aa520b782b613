"""Owns the usual way of a fan-out, to compare with: a FastAPI app with a queue and a task for each viewer.

A message is made once; each viewer's own task takes it from the viewer's queue and sends it as text.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from fastapi import FastAPI, WebSocket

from benchmarks.serving import free_port

VIEWERS_PATH = "/viewers"


def create_app() -> FastAPI:
    """The application: viewers at :data:`VIEWERS_PATH`, and ``POST /send``."""
    app, queues = FastAPI(), list[asyncio.Queue[str]]()

    @app.websocket(VIEWERS_PATH)
    async def watch(websocket: WebSocket) -> None:
        await websocket.accept()
        queue: asyncio.Queue[str] = asyncio.Queue()
        queues.append(queue)
        while True:
            await websocket.send_text(await queue.get())
            queue.task_done()

    @app.post("/send")
    async def send(size: int, messages: int, times: int, interval_s: float) -> float:
        began = time.process_time()
        for _ in range(times):
            for _ in range(messages):
                message = f"{time.time():.6f} ".ljust(size, ".")
                for queue in queues:
                    queue.put_nowait(message)
            await asyncio.sleep(interval_s)
        for queue in queues:
            await queue.join()
        return time.process_time() - began

    return app


class Queueing:
    """The process, as the measurement drives it.

    Args:
        process: It.
        port: Where it listens.
        messages: Messages that it makes of what is to be sent at once, each as large as the others.
    """

    def __init__(self, process: subprocess.Popen[bytes], port: int, messages: int = 1) -> None:
        self.process = process
        self._messages = messages
        self.port = port
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120, trust_env=False)

    def wait(self, patience_s: float = 60.0) -> None:
        """Wait until it answers.

        Raises:
            RuntimeError: It does not.
        """
        until = time.monotonic() + patience_s
        while time.monotonic() < until and self.process.poll() is None:
            try:
                self.send(1, 0, 0.0)
                return
            except httpx.TransportError:
                time.sleep(0.05)
        raise RuntimeError("the application with a queue per viewer does not answer")

    def send(self, size: int, times: int, interval_s: float) -> float:
        """Send ``size`` bytes to everybody so many times; returns CPU seconds."""
        asked: dict[str, float] = {"size": size // self._messages, "messages": self._messages}
        asked |= {"times": times, "interval_s": interval_s}
        return float(self._client.post("/send", params=asked).raise_for_status().json())


@contextmanager
def queueing(messages: int = 1) -> Iterator[Queueing]:
    """Run the process."""
    port = free_port()
    with subprocess.Popen([sys.executable, "-m", "benchmarks.queueing", str(port)]) as process:
        try:
            running = Queueing(process, port, messages)
            running.wait()
            yield running
        finally:
            process.kill()


def main() -> None:
    """Serve at the port that is given, as our own does: the sans-I/O protocol, no compression; no pings."""
    uvicorn.run(
        create_app(),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        log_level="warning",
    )


if __name__ == "__main__":
    main()

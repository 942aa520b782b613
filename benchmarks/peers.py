"""Other servers that send the same to every viewer, for comparison.

``python -m benchmarks.peers NAME`` runs one that is written in Python. It prints its port and the id of the
process whose CPU time counts. For each line ``MESSAGES BYTES TIMES INTERVAL_S`` on standard input it sends
MESSAGES messages of BYTES bytes at once, TIMES times, and then prints ``done``.
"""

from __future__ import annotations

import asyncio
import http.client
import importlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, Self

import uvicorn
import uvloop
from fastapi import FastAPI, WebSocket
from websockets.asyncio.server import ServerConnection, broadcast, serve

from benchmarks.serving import free_port

_THIS: Final = [sys.executable, "-m", "benchmarks.peers"]

PEERS: Final[Mapping[str, Sequence[str]]] = {
    "FastAPI, a queue per viewer": [*_THIS, "queues"],
    "websockets, its broadcast": [*_THIS, "broadcast"],
    "Node ws": ["node", str(Path(__file__).with_name("node_ws.cjs"))],
    "picows": [*_THIS, "picows"],
    "nginx + nchan": [*_THIS, "nchan"],
    "uWebSockets, by socketify": [*_THIS, "socketify"],
}
"""Command of each peer. Needs ``pip install picows socketify``, ``npm install -g ws``, nginx with nchan."""


class PeerMissing(Exception):
    """A peer is not installed on this machine."""


class Peer:
    """The process of a peer; its viewers connect at ``/``.

    Args:
        process: The process.
        messages: Messages to split each send into, all of the same size.

    Raises:
        PeerMissing: The process ended at once.
    """

    def __init__(self, process: subprocess.Popen[str], messages: int) -> None:
        self._process = process
        self._messages = messages
        self._idle = 0.0
        answer = self._answer().split()
        if not answer:
            raise PeerMissing
        self.port, self.process_id = (int(number) for number in answer)
        self._clock = (~self.process_id << 3) | 2  # see clock_getcpuclockid(3)

    def measure_idle(self, seconds: float = 2.0) -> None:
        """Measure the CPU time of the idle process; some peers poll."""
        before = time.clock_gettime(self._clock)
        time.sleep(seconds)
        self._idle = (time.clock_gettime(self._clock) - before) / seconds

    def send(self, size: int, times: int, interval_s: float, settle: Callable[[], object]) -> float:
        """Send to every viewer; returns CPU seconds, less those of the idle process.

        Args:
            size: Bytes, each time.
            times: Number of sends.
            interval_s: Seconds between two sends.
            settle: Waits until everything has arrived.
        """
        began, before = time.monotonic(), time.clock_gettime(self._clock)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{self._messages} {size // self._messages} {times} {interval_s}\n")
        self._process.stdin.flush()
        self._answer()
        settle()
        spent = time.clock_gettime(self._clock) - before
        return spent - self._idle * (time.monotonic() - began)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def peer(name: str, messages: int) -> Iterator[Peer]:
    """Run one of :data:`PEERS`.

    Raises:
        PeerMissing: It is not installed on this machine.
    """
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(PEERS[name], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
    except FileNotFoundError as error:
        raise PeerMissing from error
    with process:
        try:
            yield Peer(process, messages)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


class SendOrder(NamedTuple):
    """A line of standard input: what to send to every viewer.

    Args:
        messages: Messages at once.
        size: Bytes of each.
        times: Number of sends.
        interval_s: Seconds between two sends.
    """

    messages: int
    size: int
    times: int
    interval_s: float

    @classmethod
    def read(cls, line: str) -> Self:
        """Parse a line."""
        messages, size, times, interval_s = line.split()
        return cls(int(messages), int(size), int(times), float(interval_s))

    def turns(self) -> Iterator[list[str]]:
        """Yield the messages of each send, stamped with the current time."""
        for _ in range(self.times):
            yield [f"{time.time():.6f} ".ljust(self.size, ".") for _ in range(self.messages)]


async def _obey(port: int, send: Callable[[str], None], process_id: int | None = None) -> None:
    """Print the port and the process id, then carry out the orders.

    Args:
        port: Port of the peer.
        send: Sends one message to every viewer, or schedules it.
        process_id: Process whose CPU time counts; by default this one.
    """
    print(port, process_id or os.getpid(), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = SendOrder.read(line)
        for messages in order.turns():
            for message in messages:
                send(message)
            await asyncio.sleep(order.interval_s)
        print("done", flush=True)


async def _queues() -> None:
    """Serve with a FastAPI app that has a queue and a task for each viewer, the usual design.

    It runs as our server does (the sans-I/O protocol, no compression), but without pings.
    """
    app, queues = FastAPI(), list[asyncio.Queue[str]]()

    @app.websocket("/")
    async def watch(websocket: WebSocket) -> None:
        await websocket.accept()
        waiting: asyncio.Queue[str] = asyncio.Queue()
        queues.append(waiting)
        while True:
            await websocket.send_text(await waiting.get())

    def send(message: str) -> None:
        for waiting in queues:
            waiting.put_nowait(message)

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
    while not server.started:  # noqa: ASYNC110 - uvicorn offers no event
        await asyncio.sleep(0.01)
    await _obey(port, send)
    serving.cancel()


async def _broadcast() -> None:
    """Serve with the ``websockets`` library and its ``broadcast``, on uvloop."""
    viewers: set[ServerConnection] = set()

    async def watch(viewer: ServerConnection) -> None:
        viewers.add(viewer)
        await viewer.wait_closed()

    async with serve(watch, "127.0.0.1", 0, compression=None, ping_interval=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        await _obey(port, lambda message: broadcast(viewers, message))


async def _picows() -> None:
    """Serve with ``picows`` (WebSockets in Cython) on uvloop, one ``send`` per viewer."""
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
    await _obey(server.sockets[0].getsockname()[1], send)


NGINX_CONFIGURATION: Final = """
load_module modules/ngx_nchan_module.so;
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 20000; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  keepalive_requests 1000000;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location = / {{
      nchan_subscriber websocket;
      nchan_channel_id all;
      nchan_websocket_ping_interval 0;
    }}
    location = /publish {{
      nchan_publisher http;
      nchan_channel_id all;
      nchan_message_buffer_length 1;
      client_body_buffer_size 1m;
      client_max_body_size 1m;
    }}
  }}
}}
"""


def _nchan() -> None:
    """Serve with nginx and its module nchan, one process; messages are posted to it."""
    port = free_port()
    with TemporaryDirectory() as folder:
        settings = Path(folder, "nginx.conf")
        settings.write_text(NGINX_CONFIGURATION.format(folder=folder, port=port))
        with subprocess.Popen(["nginx", "-p", "/usr/share/nginx", "-c", str(settings)]) as nginx:
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
            time.sleep(1.0)
            connection = http.client.HTTPConnection("127.0.0.1", port)

            def send(message: str) -> None:
                connection.request("POST", "/publish", message.encode())
                connection.getresponse().read()

            try:
                asyncio.run(_obey(port, send, process_id=nginx.pid))
            finally:
                nginx.kill()


POLL_S: Final = 0.005
"""Seconds between two polls for a new viewer or an order."""


def _socketify() -> None:
    """Serve with ``socketify``, which is uWebSockets (C++) under Python, by its ``publish``.

    The loop runs step by step here, because by itself it polls without a pause after each publication.
    """
    socketify: Any = importlib.import_module("socketify")
    port = free_port()
    app = socketify.App()
    app.ws("/", {"open": lambda viewer: viewer.subscribe("all"), "idle_timeout": 0})
    app.listen(port, lambda listening: None)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    print(port, os.getpid(), flush=True)
    while True:
        app.loop.uv_loop.run_nowait()
        try:
            line = lines.get(timeout=POLL_S)
        except queue.Empty:
            continue
        if not line:
            return
        order = SendOrder.read(line)
        for messages in order.turns():
            for message in messages:
                app.publish("all", message, socketify.OpCode.TEXT)
            until = time.monotonic() + order.interval_s
            while time.monotonic() < until:
                app.loop.uv_loop.run_nowait()
                time.sleep(POLL_S)
        print("done", flush=True)


def main() -> None:
    """Run the peer named by the first argument."""
    name = sys.argv[1]
    if name in ("nchan", "socketify"):
        (_nchan if name == "nchan" else _socketify)()
        return
    work = {"queues": _queues, "broadcast": _broadcast, "picows": _picows}[name]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())


if __name__ == "__main__":
    main()

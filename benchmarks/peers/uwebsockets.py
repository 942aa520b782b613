"""The way of ``socketify``, which is uWebSockets (C++) under Python: its own ``publish``.

Its loop is turned by hand: left to itself it polls without a pause for a while after each publication.
"""

from __future__ import annotations

import importlib
import os
import queue
import sys
import threading
import time
from typing import Any, Final

from benchmarks.peers.orders import SendOrder
from benchmarks.serving import free_port

LOOK_S: Final = 0.005
"""Between two looks for a new viewer or an order."""


def main() -> None:
    """Serve and obey."""
    socketify: Any = importlib.import_module("socketify")
    port = free_port()
    app = socketify.App()
    app.ws("/", {"open": lambda viewer: viewer.subscribe("all"), "idle_timeout": 0})
    app.listen(port, lambda listening: None)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    print(port, os.getpid(), flush=True)
    while True:
        app.loop.uv_loop.run_nowait()
        try:
            line = lines.get(timeout=LOOK_S)
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
                time.sleep(LOOK_S)
        print("done", flush=True)


def _read(lines: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    lines.put("")


if __name__ == "__main__":
    main()

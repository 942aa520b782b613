"""A process that has imported the server and forks servers, so that a start costs no import.

Each line on its standard input is the arguments of one server; it answers with the server's process id.
"""

from __future__ import annotations

import importlib
import os
import shlex
import signal
import sys
from typing import Final

LATE: Final = (
    "sqlalchemy.dialects.sqlite",
    "uvloop",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "spectator.environments.counting",
    "spectator.environments.counting.world",
)
"""Modules that a server imports only when it starts."""


def main() -> None:
    """Fork servers until the input ends."""
    app = importlib.import_module("server.app")
    for name in LATE:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # dead children are reaped at once
    for line in sys.stdin:
        process_id = os.fork()
        if process_id == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(sys.stdin.fileno())
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
            app.main(shlex.split(line))
            return
        print(process_id, flush=True)


if __name__ == "__main__":
    main()

"""Serve the echo environment of `openenv init` with OpenEnv's own server.

Runs in the environment of the ``openenv`` package: openenv_echo.py SESSIONS

Prints its port and its process id, and serves until its standard input is closed.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import uvicorn
from openenv.core.env_server.http_server import create_app


def serve(sessions: int) -> None:
    """Serve the template's environment for up to ``sessions`` sessions."""
    made = import_module("echo_bench.models")
    server = import_module("echo_bench.server.echo_bench_environment")
    app = create_app(
        server.EchoBenchEnvironment,
        made.EchoBenchAction,
        made.EchoBenchObservation,
        env_name="echo_bench",
        max_concurrent_envs=sessions,
    )
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    running = uvicorn.Server(uvicorn.Config(app, log_level="error"))

    def stop() -> None:
        sys.stdin.read()
        running.should_exit = True

    threading.Thread(target=stop, daemon=True).start()
    print(listener.getsockname()[1], os.getpid(), flush=True)
    running.run(sockets=[listener])


def main() -> None:
    """Make the environment as its users do, and serve it."""
    with TemporaryDirectory(prefix="openenv-echo-") as folder:
        made = [str(Path(sys.executable).with_name("openenv")), "init", "echo_bench"]
        subprocess.run(made, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=sys.stderr)
        sys.path.insert(0, folder)
        serve(int(sys.argv[1]))


if __name__ == "__main__":
    main()

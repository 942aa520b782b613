"""Owns a real server process for a measurement, on a free port, with its data in a scratch folder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def server(settings: Mapping[str, str] | None = None, *, python_path: Path | None = None) -> Iterator[str]:
    """Run ``python -m server.app``; yields its base URL, ends it by its own process id."""
    with server_process(settings, python_path=python_path) as (base, _):
        yield base


@contextmanager
def server_process(
    settings: Mapping[str, str] | None = None, *, python_path: Path | None = None
) -> Iterator[tuple[str, int]]:
    """The same; yields its process id, too."""
    with TemporaryDirectory(prefix="spectator-bench-") as data:
        with _running(Path(data), settings, python_path) as running:
            yield running


@contextmanager
def server_in(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """The same over a folder that is there already; yields its base URL."""
    with _running(folder, settings, None) as (base, _):
        yield base


@contextmanager
def _running(
    data: Path, settings: Mapping[str, str] | None, python_path: Path | None
) -> Iterator[tuple[str, int]]:
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPECTATOR_")}
    environment |= {"SPECTATOR_DATA_DIR": str(data), **(settings or {})}
    if python_path is not None:
        environment["PYTHONPATH"] = str(python_path)
    command = [sys.executable, "-m", "server.app", "--host", "127.0.0.1", "--port", str(port)]
    log = data / "log"
    with log.open("w") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        base = f"http://127.0.0.1:{port}"
        _wait(base, process, log)
        yield base, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(base: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError(f"the server ended:\n{log.read_text()}")
        try:
            if httpx.get(f"{base}/readyz", timeout=1).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise RuntimeError(f"the server does not answer:\n{log.read_text()}")

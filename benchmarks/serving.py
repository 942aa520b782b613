"""A real server process for a measurement, on a free port, with its data in a scratch folder."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
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


class ServerUnderTest:
    """A server process that may die and come back at the same place with the same data.

    Args:
        data: Its folder.
        settings: Further variables.
        python_path: A folder of modules that it shall find.
        nursery: The module that it begins from, and that module's arguments.
    """

    def __init__(
        self,
        data: Path,
        settings: Mapping[str, str] | None = None,
        *,
        python_path: Path | None = None,
        nursery: Sequence[str] = ("benchmarks.nursery",),
    ) -> None:
        port = free_port()
        self.base = f"http://127.0.0.1:{port}"
        self.process_id = 0
        """Of the one that runs."""
        self._arguments = ["--host", "127.0.0.1", "--port", str(port)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPECTATOR_")}
        environment |= {"SPECTATOR_DATA_DIR": str(data), "SPECTATOR_EXHIBITION": "false", **(settings or {})}
        if python_path is not None:
            environment["PYTHONPATH"] = str(python_path)
        self._log = data / "log"
        with self._log.open("a") as output:
            self._nursery = subprocess.Popen(
                [sys.executable, "-m", *nursery],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )

    def start(self) -> None:
        """Start it; returns at once."""
        assert self._nursery.stdin is not None and self._nursery.stdout is not None
        self._nursery.stdin.write(shlex.join(self._arguments) + "\n")
        self._nursery.stdin.flush()
        self.process_id = int(self._nursery.stdout.readline())

    def wait(self, patience_s: float = 60.0) -> None:
        """Wait until it is ready.

        Raises:
            RuntimeError: It ended, or it does not answer.
        """
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            if not self.runs():
                raise RuntimeError(f"the server ended:\n{self._log.read_text()}")
            try:
                if httpx.get(f"{self.base}/readyz", timeout=1, trust_env=False).is_success:
                    return
            except httpx.TransportError:
                pass  # it does not listen yet
            time.sleep(0.05)
        raise RuntimeError(f"the server does not answer:\n{self._log.read_text()}")

    def log(self) -> str:
        """What it and those before it at its place wrote."""
        return self._log.read_text()

    def runs(self) -> bool:
        """Whether the process is there."""
        try:
            os.kill(self.process_id, 0)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL, 10.0)

    def stop(self) -> float:
        """End it in order; returns the seconds that it took."""
        began = time.monotonic()
        if not self._end(signal.SIGTERM, 20.0):
            self.kill()
        return time.monotonic() - began

    def close(self) -> None:
        """End it and what it began from."""
        if self.process_id and self.runs():
            self.stop()
        with self._nursery as nursery:
            nursery.kill()

    def _end(self, number: signal.Signals, patience_s: float) -> bool:
        os.kill(self.process_id, number)
        until = time.monotonic() + patience_s
        while self.runs() and time.monotonic() < until:
            time.sleep(0.01)
        return not self.runs()


@contextmanager
def server_process(
    settings: Mapping[str, str] | None = None,
    *,
    python_path: Path | None = None,
    nursery: Sequence[str] = ("benchmarks.nursery",),
) -> Iterator[tuple[str, int]]:
    """The same; yields its process id, too."""
    with TemporaryDirectory(prefix="spectator-bench-") as data:
        with _running(
            ServerUnderTest(Path(data), settings, python_path=python_path, nursery=nursery)
        ) as running:
            yield running.base, running.process_id


@contextmanager
def _running(server: ServerUnderTest) -> Iterator[ServerUnderTest]:
    with contextlib.closing(server):
        server.start()
        server.wait()
        yield server

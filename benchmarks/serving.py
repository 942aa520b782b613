"""Run real server processes for measurements, on free ports, with data in scratch folders.

The worlds that only measurements need are installed here too: packages with entry points on the module path.
"""

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
    """Return a port that was free just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def server(settings: Mapping[str, str] | None = None, *, python_path: Path | None = None) -> Iterator[str]:
    """Run ``python -m server.app``; yields its base URL."""
    with server_process(settings, python_path=python_path) as (base, _):
        yield base


class ServerUnderTest:
    """A server process that can be killed and restarted at the same address with the same data.

    Args:
        data: Its data folder.
        settings: Further environment variables.
        python_path: Folder on its module path.
        fork_server: The module that forks it, and that module's arguments.
    """

    def __init__(
        self,
        data: Path,
        settings: Mapping[str, str] | None = None,
        *,
        python_path: Path | None = None,
        fork_server: Sequence[str] = ("benchmarks.fork_server",),
    ) -> None:
        port = free_port()
        self.base = f"http://127.0.0.1:{port}"
        self.process_id = 0
        """Process id of the running server."""
        self._arguments = ["--host", "127.0.0.1", "--port", str(port)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPECTATOR_")}
        environment |= {"SPECTATOR_DATA_DIR": str(data), "SPECTATOR_EXHIBITION": "false", **(settings or {})}
        if python_path is not None:
            environment["PYTHONPATH"] = str(python_path)
        self._log = data / "log"
        with self._log.open("a") as output:
            self._fork_server = subprocess.Popen(
                [sys.executable, "-m", *fork_server],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )

    def start(self) -> None:
        """Start the server without waiting."""
        assert self._fork_server.stdin is not None and self._fork_server.stdout is not None
        self._fork_server.stdin.write(shlex.join(self._arguments) + "\n")
        self._fork_server.stdin.flush()
        self.process_id = int(self._fork_server.stdout.readline())

    def wait(self, patience_s: float = 60.0) -> None:
        """Wait until the server is ready.

        Raises:
            RuntimeError: The server ended or does not answer.
        """
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            if not self.runs():
                raise RuntimeError(f"the server ended; its log:\n{self._log.read_text()}")
            try:
                if httpx.get(f"{self.base}/readyz", timeout=1, trust_env=False).is_success:
                    return
            except httpx.TransportError:
                pass  # not listening yet
            time.sleep(0.05)
        raise RuntimeError(f"the server does not answer; its log:\n{self._log.read_text()}")

    def log(self) -> str:
        """Return the log of this server and those before it."""
        return self._log.read_text()

    def runs(self) -> bool:
        """Return whether the process is running."""
        try:
            os.kill(self.process_id, 0)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self._end(signal.SIGKILL, 10.0)

    def stop(self) -> float:
        """Stop the server with SIGTERM; returns the seconds that it took."""
        began = time.monotonic()
        if not self._end(signal.SIGTERM, 20.0):
            self.kill()
        return time.monotonic() - began

    def close(self) -> None:
        """Stop the server and its fork server."""
        if self.process_id and self.runs():
            self.stop()
        with self._fork_server as fork_server:
            fork_server.kill()

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
    fork_server: Sequence[str] = ("benchmarks.fork_server",),
) -> Iterator[tuple[str, int]]:
    """Run ``python -m server.app``; yields its base URL and its process id."""
    with TemporaryDirectory(prefix="spectator-bench-") as data:
        with _running(
            ServerUnderTest(Path(data), settings, python_path=python_path, fork_server=fork_server)
        ) as running:
            yield running.base, running.process_id


@contextmanager
def _running(server: ServerUnderTest) -> Iterator[ServerUnderTest]:
    with contextlib.closing(server):
        server.start()
        server.wait()
        yield server


HEAD = """
import dataclasses, time
from spectator.environments.counting import WORLD as COUNTING
from spectator.environments.counting.world import CountingEnvironment
"""

SLOW = """
class SlowEnvironment(CountingEnvironment):
    def step(self, action):
        time.sleep({seconds})
        return super().step(action)

WORLD = dataclasses.replace(COUNTING, name="slow", title="Slow", environment=SlowEnvironment)
"""

MEASURED = """
class RepeatingEnvironment(CountingEnvironment):
    def facts(self):
        return [fact for fact in super().facts() for _ in range({events} - 2)]

WORLD = dataclasses.replace(
    COUNTING,
    name="measured",
    title="Measured",
    environment=RepeatingEnvironment,
    beats={{"counting.number_said": {beats} / ({events} - 2)}},
)
"""


def install_slow_world(folder: Path, seconds: float) -> None:
    """Install the world ``slow``, whose steps take ``seconds``, into ``folder``."""
    _install(folder, "slow", SLOW.format(seconds=seconds))


def install_measured_world(folder: Path, events: int, beats: float) -> None:
    """Install the world ``measured`` into ``folder``.

    Args:
        folder: Folder for the module path.
        events: Events of a step, 3 or more: the decision, repeated numbers, the step.
        beats: Beats of a step, 2 s each at the pace ``broadcast``.
    """
    _install(folder, "measured", MEASURED.format(events=events, beats=beats))


def _install(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}_world.py").write_text(HEAD + text)
    about = folder / f"{name}_world-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-world\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[spectator.environments]\n{name} = {name}_world:WORLD\n")

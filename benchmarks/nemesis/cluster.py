"""The processes of a run: servers, workers, and what they share, all of which can be broken and healed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import httpx

from benchmarks.nemesis.faults import FaultOrders
from benchmarks.nemesis.fork_server import Program
from benchmarks.nemesis.proxy import Proxy, ProxyMode
from benchmarks.nemesis.replicated_postgres import DATABASE, Postgres
from benchmarks.serving import free_port
from tests.postgres import USER

START_S: Final = 120.0
"""Seconds that a server may take to start."""

SETTINGS: Final = {
    "SPECTATOR_ENVIRONMENT": "counting",
    "SPECTATOR_EXHIBITION": "false",
    "SPECTATOR_VOICE": "silent",
    "SPECTATOR_MAX_EPISODES": "8",
    "SPECTATOR_STARTS_PER_MINUTE": "0",
    "SPECTATOR_STARTS_PER_HOUR": "0",
    "SPECTATOR_RUNS_DIR": "",
    "SPECTATOR_LOG_FORMAT": "text",
}


class ForkServer:
    """The process that forks all programs; see :mod:`.fork_server`.

    Args:
        library: The library of ``faults.c``; ``None`` without a C compiler.
    """

    def __init__(self, library: Path | None) -> None:
        preloaded = {} if library is None else {"LD_PRELOAD": str(library)}
        self.has_faults = library is not None
        """Whether disks and clocks can be broken."""
        self.library = library
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.nemesis.fork_server"],
            env={**os.environ, **preloaded},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def fork(self, program: Program) -> int:
        """Start a program; returns its process id."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(program)) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End it, and with it everything that it started."""
        with self._process as process:
            process.kill()


@dataclass(slots=True)
class KillableProcess:
    """A program that can be killed, halted and started again.

    Args:
        fork_server: Starts it.
        program: What it runs.
    """

    fork_server: ForkServer
    program: Program
    process_id: int = 0

    def start(self) -> None:
        """Start it without waiting."""
        self.process_id = self.fork_server.fork(self.program)

    def runs(self) -> bool:
        """Return whether it is running."""
        if not self.process_id:
            return False
        try:
            os.kill(self.process_id, 0)
        except ProcessLookupError:
            return False
        return True

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it is running."""
        if self.process_id:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process_id, number)

    def end(self, number: signal.Signals = signal.SIGKILL, patience_s: float = 10.0) -> bool:
        """End it with a signal, or SIGKILL after ``patience_s``; returns whether the signal sufficed."""
        self.send(number)
        until = time.monotonic() + patience_s
        while self.runs() and time.monotonic() < until:
            time.sleep(0.01)
        if ended := not self.runs():
            return ended
        self.send(signal.SIGKILL)
        while self.runs():
            time.sleep(0.01)
        return False

    def log(self) -> str:
        """Return what it and those before it wrote."""
        with contextlib.suppress(FileNotFoundError):
            return Path(self.program.log).read_text(errors="replace")
        return ""


@dataclass(slots=True)
class NemesisServer(KillableProcess):
    """A server at a fixed address.

    Args:
        base: Its address.
        data: Its data folder.
        orders: What its disk and its clock do; ``None`` without a C compiler.
        database: Its way to the database; ``None`` for SQLite.
        notices: Its way to listen for notices of other servers.
    """

    base: str = ""
    data: Path = Path()
    orders: FaultOrders | None = None
    database: Proxy | None = None
    notices: Proxy | None = None

    def ready(self) -> str | None:
        """Return why it is not ready; ``None`` if it is.

        Raises:
            httpx.HTTPError: It does not answer.
        """
        answer = httpx.get(f"{self.base}/readyz", timeout=5, trust_env=False)
        return None if answer.is_success else str(answer.json().get("detail", answer.text))

    def wait(self, patience_s: float = START_S) -> None:
        """Wait until it answers.

        Raises:
            RuntimeError: It ended, or does not answer.
        """
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            if not self.runs():
                raise RuntimeError(f"the server ended; its log:\n{self.log()[-3000:]}")
            with contextlib.suppress(httpx.HTTPError):
                httpx.get(f"{self.base}/health", timeout=2, trust_env=False).raise_for_status()
                return
            time.sleep(0.03)
        raise RuntimeError(f"the server does not answer; its log:\n{self.log()[-3000:]}")


@dataclass(slots=True)
class NemesisStage:
    """Everything of a run that nemeses can break.

    Args:
        folder: Folder of the run.
        servers: The servers; one with SQLite, otherwise two.
        postgres: The database; ``None`` with SQLite.
        worker: A worker of rollouts, if the run has one.
        lost: Whether the database lost commits.
        left_dead: Servers that :meth:`heal` does not start again.
    """

    folder: Path
    servers: list[NemesisServer]
    postgres: Postgres | None = None
    worker: KillableProcess | None = None
    lost: bool = False
    left_dead: list[NemesisServer] = field(default_factory=list)

    @property
    def living(self) -> list[NemesisServer]:
        """The servers that should answer."""
        return [server for server in self.servers if server not in self.left_dead]

    @property
    def bases(self) -> list[str]:
        """The addresses of all servers."""
        return [server.base for server in self.servers]

    @property
    def restarted(self) -> bool:
        """Whether the database restarted or was replaced."""
        return self.lost or (self.postgres is not None and self.postgres.starts > 1)

    @property
    def failed_writes(self) -> int:
        """Writes that failed because a nemesis said so."""
        orders = [server.orders for server in self.servers]
        orders += [self.postgres.orders] if self.postgres else []
        return sum(one.failed for one in orders if one is not None)

    @property
    def url(self) -> str:
        """The URL of the journal, past every proxy."""
        if self.postgres is not None:
            return self.postgres.url
        return f"sqlite:///{self.servers[0].data / 'journal.db'}"

    def heal(self) -> None:
        """Undo everything but what is lost, and start what is dead."""
        if self.postgres is not None:
            if self.postgres.orders is not None:
                self.postgres.orders.heal()
            self.postgres.restart()
        for server in self.servers:
            for proxy in (server.database, server.notices):
                if proxy is not None:
                    proxy.set(ProxyMode.PASS)
            if server.orders is not None:
                server.orders.heal()
            server.send(signal.SIGCONT)
        for server in self.living:
            if not server.runs():
                server.start()
        for server in self.living:
            server.wait()
        if self.worker is not None:
            self.worker.send(signal.SIGCONT)

    def close(self) -> None:
        """End every process."""
        for process in (*self.servers, *([self.worker] if self.worker else [])):
            process.send(signal.SIGCONT)
            process.end()
        if self.postgres is not None:
            self.postgres.close()
        for server in self.servers:
            if server.orders is not None:
                server.orders.close()


def new_server(
    fork_server: ForkServer,
    folder: Path,
    name: str,
    variables: Mapping[str, str],
    *,
    bug: str = "",
    ways: Sequence[Proxy] = (),
) -> NemesisServer:
    """Describe a server, which is not started yet.

    Args:
        folder: Folder of the run.
        name: Its name in the run.
        variables: Further environment variables.
        bug: The planted bug.
        ways: Its proxies to the database, for statements and to listen; none for SQLite.
    """
    data, port = folder / name, free_port()
    data.mkdir(parents=True)
    orders = FaultOrders(folder / f"{name}.orders") if fork_server.has_faults else None
    variables = {**SETTINGS, "SPECTATOR_DATA_DIR": str(data), **variables}
    for key, way in zip(("SPECTATOR_JOURNAL_URL", "SPECTATOR_JOURNAL_LISTEN_URL"), ways, strict=False):
        variables[key] = f"postgresql://{USER}@127.0.0.1:{way.port}/{DATABASE}"
    program = Program(
        "server",
        ["--host", "127.0.0.1", "--port", str(port)],
        variables,
        str(folder / f"{name}.log"),
        bug=bug,
        orders=() if orders is None else (str(orders.path), str(data)),
    )
    database, notices = (*ways, None, None)[:2]
    return NemesisServer(
        fork_server, program, base=f"http://127.0.0.1:{port}", data=data, orders=orders,
        database=database, notices=notices,
    )  # fmt: skip

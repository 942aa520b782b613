"""A process that has imported server and commands, and forks them, so that a start costs no import.

Each line on its standard input is the JSON of a :class:`Program`; it answers with the process id. The planted
bug, the version and the orders for the disk and the clock are set in the child, never in the product.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.fork_server import LATE
from spectator.journal import ownership

HEARTBEAT_S: Final = 0.5
"""Seconds between two heartbeats, a quarter of the usual, so that a takeover takes 3 s instead of 12."""

PARENT_DIED: Final = 1
"""``PR_SET_PDEATHSIG`` of ``prctl(2)``."""

MODULES: Final = (
    *LATE,
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
    "spectator.cli.rollouts_run",
    "spectator.cli.rollouts",
)


@dataclass(frozen=True, slots=True)
class Program:
    """What to run in a child.

    Args:
        name: ``server``, or ``spectator`` for the command line.
        arguments: Its arguments.
        variables: Further environment variables.
        log: File for standard output and standard error.
        bug: Name of the planted bug; none if empty.
        version: Another version that it reports.
        orders: File of orders of ``faults.c``, with the folder whose files are affected.
    """

    name: str
    arguments: Sequence[str]
    variables: Mapping[str, str]
    log: str
    bug: str = ""
    version: str = ""
    orders: Sequence[str] = field(default=())


def main() -> None:
    """Fork programs until the input ends."""
    ctypes.CDLL(None).prctl(PARENT_DIED, signal.SIGKILL)
    ownership.INTERVAL_S = HEARTBEAT_S  # type: ignore[misc]  # before the modules that copy it
    importlib.import_module("server.app")
    for name in MODULES:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # dead children are reaped at once
    parent = os.getpid()
    for line in sys.stdin:
        process_id = os.fork()
        if process_id == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            ctypes.CDLL(None).prctl(PARENT_DIED, signal.SIGKILL)
            if os.getppid() == parent:
                _become(Program(**json.loads(line)))
            return
        print(process_id, flush=True)


def _become(program: Program) -> None:
    for name in [name for name in os.environ if name.startswith("SPECTATOR_")]:
        del os.environ[name]
    os.environ.update(program.variables)
    with open(program.log, "ab") as log, open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    if program.orders:
        ctypes.CDLL(os.environ["LD_PRELOAD"]).nemesis_obey(*(one.encode() for one in program.orders))
    if program.version:
        for name in ("spectator", "server.app", "server.http.pages", "server.openenv.mcp"):
            sys.modules[name].__version__ = program.version  # type: ignore[attr-defined]
    if program.bug:
        importlib.import_module("benchmarks.nemesis.planted_bugs").plant(program.bug)
    if program.name == "server":
        importlib.import_module("server.app").main(program.arguments)
    else:
        importlib.import_module("spectator.cli").main(args=list(program.arguments), prog_name="spectator")


if __name__ == "__main__":
    main()

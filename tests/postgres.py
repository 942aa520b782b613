"""A PostgreSQL of the tests' own: one throwaway cluster on a Unix socket, a database for every test."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, Final

SETTINGS: Final = (
    "listen_addresses=",
    "fsync=off",
    "full_page_writes=off",
    "max_connections=60",
    "shared_buffers=32MB",
    "autovacuum=off",
)
"""Nothing has to outlive the tests, and only they may come in."""

PROGRAMS: Final = ("initdb", "postgres", "pg_ctl")

USER: Final = "spectator"

EMPTIED: Final = (
    "begun", "calls", "checkpoints", "commands", "episodes", "events", "fleet_leases", "fleet_runs", "leases",
    "messages", "owners", "removals", "reserved", "rooms", "secrets", "starters", "truths",
)  # fmt: skip
"""A journal's tables but for its version."""


def find_programs() -> str | None:
    """The folder of PostgreSQL's programs, the newest where there are several."""
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda one: int(one.parent.name))
    on_path = shutil.which("pg_ctl")
    folders = [*reversed(packaged), *([Path(on_path).resolve().parent] if on_path else [])]
    for folder in folders:
        if all((folder / program).exists() for program in PROGRAMS):
            return str(folder)
    return None


def unprivileged() -> dict[str, Any]:
    """The user that a program which refuses to run as root is run as; empty where root does not ask."""
    if os.getuid() != 0:
        return {}
    return {"user": pwd.getpwnam("nobody").pw_uid, "group": pwd.getpwnam("nobody").pw_gid}


class Cluster:
    """A running cluster; see :func:`running_cluster`.

    Args:
        programs: Folder of its programs.
        folder: What it lives in, and its socket.
    """

    def __init__(self, programs: str, folder: Path) -> None:
        self.folder = folder
        self._programs = Path(programs)
        self._numbers = count(1)
        self._by_folder: dict[Path, str] = {}
        self._free: list[str] = []

    def begin(self) -> None:
        """Make it and start it."""
        options = ["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", f"--username={USER}"]
        self._run("initdb", "-D", str(self.folder / "data"), *options)
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            for one in (*SETTINGS, f"unix_socket_directories={self.folder}"):
                name, _, value = one.partition("=")
                file.write(f"{name} = '{value}'\n")
        self.start()

    def start(self) -> None:
        """Start the server, which was stopped."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-l", str(self.folder / "log"), "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it, by default as a death would."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-m", mode, "stop")

    def url(self, database: str, **parameters: str) -> str:
        """The URL of a database, as a journal takes it."""
        more = "".join(f"&{name}={value}" for name, value in parameters.items())
        return f"postgresql://{USER}@/{database}?host={self.folder}{more}"

    def make(self, template: str = "template1", options: str = "") -> str:
        """Make a database; its name."""
        name = f"test_{next(self._numbers)}"
        self.execute("postgres", f"CREATE DATABASE {name} TEMPLATE {template} {options}")
        return name

    def database_of(self, folder: Path, template: str) -> str:
        """The database that stands for a folder: one that was given back, emptied, or a new one."""
        if folder not in self._by_folder:
            name = self._free.pop() if self._free else self.make(template)
            self.execute(name, f"TRUNCATE {', '.join(EMPTIED)}")
            self._by_folder[folder] = name
        return self._by_folder[folder]

    def give_back(self) -> None:
        """Let the databases of all folders stand for others."""
        self._free += self._by_folder.values()
        self._by_folder.clear()

    def execute(self, database: str, statement: str, values: Sequence[Any] | None = None) -> list[Any]:
        """Run a statement; its rows."""
        with self.connect(database) as connection:
            connection.autocommit = True
            found = connection.execute(statement, values)
            return found.fetchall() if found.description else []

    def connect(self, database: str) -> Any:
        """A connection of psycopg's own."""
        psycopg: Any = import_module("psycopg")
        return psycopg.connect(host=str(self.folder), dbname=database, user=USER)

    def _run(self, program: str, *arguments: str) -> None:
        """Run a program; its words go to a file, since the server that it starts would hold a pipe open."""
        with (self.folder / "said").open("w+") as said:
            done = subprocess.run(
                [str(self._programs / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                cwd="/",
                check=False,
                **unprivileged(),
            )
            said.seek(0)
            assert done.returncode == 0, f"{program}: {said.read()}"


@contextmanager
def running_cluster(programs: str) -> Iterator[Cluster]:
    """A cluster that lives as long as the context; it never runs as root, which PostgreSQL refuses."""
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT", "/tmp")))
    if os.getuid() == 0:
        shutil.chown(folder, **unprivileged())
    folder.chmod(0o755)
    cluster = Cluster(programs, folder)
    try:
        cluster.begin()
        yield cluster
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


POOL_PORT: Final = 6432
"""Part of the name of the pooler's socket."""

POOLER: Final = """
[databases]
* = host={folder} user={user}
[pgbouncer]
pool_mode = transaction
default_pool_size = 3
listen_port = {port}
unix_socket_dir = {folder}
auth_type = any
logfile = {folder}/pooler.log
"""
"""PgBouncer in transaction mode, with so few connections that those who come share them."""


@contextmanager
def running_pooler(program: str, cluster: Cluster) -> Iterator[None]:
    """A PgBouncer before a cluster, at :data:`POOL_PORT`, as long as the context lives."""
    settings = cluster.folder / "pooler.ini"
    settings.write_text(POOLER.format(folder=cluster.folder, user=USER, port=POOL_PORT))
    with subprocess.Popen(
        [program, str(settings)],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **unprivileged(),
    ) as pooler:
        try:
            socket = cluster.folder / f".s.PGSQL.{POOL_PORT}"
            while not socket.exists():
                assert pooler.poll() is None, (cluster.folder / "pooler.log").read_text()
                time.sleep(0.01)
            yield
        finally:
            pooler.terminate()

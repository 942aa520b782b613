"""A PostgreSQL with a streaming standby, which can die, be promoted, or be replaced by an old copy."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from unittest.mock import patch

import psycopg

from benchmarks.nemesis.faults import FaultOrders
from tests.postgres import USER, Cluster

DATABASE: Final = "journal"

ANSWERS_S: Final = 120.0
"""Seconds within which a database must answer after it was repaired."""


class Postgres:
    """A PostgreSQL with a streaming standby, copied from a template that is stopped.

    Args:
        programs: Folder of PostgreSQL's programs.
        template: A data folder with an empty journal.
        folder: Folder of this run.
        settings: Further settings of both nodes.
        library: The library of ``faults.c``; ``None`` without a C compiler.
    """

    def __init__(
        self, programs: str, template: Path, folder: Path, settings: Mapping[str, str], library: Path | None
    ) -> None:
        self._nodes = {name: Cluster(programs, folder / name) for name in ("primary", "standby")}
        self.orders = None if library is None else FaultOrders(folder / "postgres.orders")
        """What the disk of the primary does."""
        self.starts = 0
        """How often the node that takes writes was started."""
        self._library = library
        self.promoted = False
        """Whether the standby is the primary now."""
        self._kept = folder / "kept"
        for name, node in self._nodes.items():
            node.folder.mkdir(mode=0o755, parents=True)
            shutil.chown(node.folder, *_owner(template))
            _copy(template, node.folder / "data")
            own = {"unix_socket_directories": str(node.folder), "hot_standby": "on", **settings}
            if name == "standby":
                own["primary_conninfo"] = f"host={self._nodes['primary'].folder} user={USER}"
                (node.folder / "data/standby.signal").touch()
            with (node.folder / "data/postgresql.conf").open("a") as file:
                file.writelines(f"{key} = '{value}'\n" for key, value in own.items())

    @property
    def current(self) -> Cluster:
        """The node that takes writes."""
        return self._nodes["standby" if self.promoted else "primary"]

    @property
    def socket(self) -> Path:
        """The socket of the node that takes writes."""
        return self.current.folder / ".s.PGSQL.5432"

    @property
    def url(self) -> str:
        """The URL of the journal, past every proxy."""
        return self.current.url(DATABASE)

    def start(self, *, standby: bool) -> None:
        """Start the primary, and the standby if wanted."""
        self.restart()
        if standby:
            self._nodes["standby"].start()

    def restart(self) -> None:
        """Start the node that takes writes if it has stopped, and wait until it answers."""
        until = time.monotonic() + ANSWERS_S
        while True:
            if not self.runs():
                self._start()
            try:
                self.current.execute("postgres", "SELECT 1")
                return
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def _start(self) -> None:
        self.starts += 1
        node, faulty = self.current, {}
        if self._library is not None and self.orders is not None and not self.promoted:
            faulty = {
                "LD_PRELOAD": str(self._library),
                "NEMESIS_ORDERS": str(self.orders.path),
                "NEMESIS_FOLDER": str(node.folder / "data"),
            }
        with patch.dict(os.environ, faulty):
            node.start()

    def runs(self) -> bool:
        """Return whether the node that takes writes is running."""
        note = self.current.folder / "data/postmaster.pid"
        try:
            os.kill(int(note.read_text().split()[0]), 0)
        except (FileNotFoundError, ProcessLookupError, IndexError):
            return False
        return True

    def cut_replication(self) -> None:
        """Let the standby receive nothing from now on."""
        standby = self._nodes["standby"]
        standby.execute("postgres", "ALTER SYSTEM SET primary_conninfo = ''")
        standby.execute("postgres", "SELECT pg_reload_conf()")

    def promote(self) -> None:
        """Kill the primary, and let the standby take its place."""
        self._nodes["primary"].stop()
        self._nodes["standby"].execute("postgres", "SELECT pg_promote(true, 20)")
        self.promoted = True

    def keep(self) -> None:
        """Keep a copy of the database, as a backup."""
        self.current.stop("fast")
        _copy(self.current.folder / "data", self._kept)
        self.restart()

    def restore(self) -> None:
        """Replace the database by the kept copy."""
        self.current.stop()
        shutil.rmtree(self.current.folder / "data")
        _copy(self._kept, self.current.folder / "data")
        self.restart()

    def close(self) -> None:
        """Stop all nodes."""
        for node in self._nodes.values():
            if (node.folder / "data/postmaster.pid").exists():
                with contextlib.suppress(AssertionError):
                    node.stop()
        if self.orders is not None:
            self.orders.close()


def _owner(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_uid, about.st_gid


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", "--reflink=auto", str(source), str(target)], check=True)

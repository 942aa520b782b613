"""Break a deployment in every way that ``docs/runbook.md`` names, and time what an operator sees.

``python -m benchmarks.drills --prometheus PROGRAM`` starts PostgreSQL with a standby, servers, and Prometheus
with the alert rules that ship. Each drill breaks one thing, waits until ``/operator`` and Prometheus show it,
does what the runbook says, and waits until the trouble is over. It prints the runbook's table. It needs root.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from tests.llm.brains import counter
from tests.llm.endpoints import endpoint, write_captains
from tests.postgres import Cluster, find_programs, running_cluster, unprivileged
from tests.serving import ROOT, ServerProcess, free_port, serve_process

TOKEN: Final = "the-token-of-a-drill"
HEADERS: Final = {"Authorization": f"Bearer {TOKEN}"}
PATIENCE_S: Final = 300.0
PAGE_BYTES: Final = 8192


def until(what: str, found: Callable[[], Any]) -> float:
    """Wait until ``found`` returns something; return the seconds that took."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_S:
        with suppress(httpx.HTTPError, KeyError, ValueError):
            if found():
                return time.monotonic() - began
        time.sleep(0.25)
    raise AssertionError(f"{what} did not come within {PATIENCE_S:g} s")


@dataclass
class Post:
    """Where a server runs; it can be started there again.

    Args:
        variables: Its environment.
    """

    folder: Path
    variables: dict[str, str]
    port: int = field(default_factory=free_port)
    server: ServerProcess | None = None
    stack: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        """Start the server, or start it again."""
        given = {"SPECTATOR_OPERATOR_TOKEN": TOKEN, "SPECTATOR_VOICE": "silent", **self.variables}
        self.stack.close()
        self.server = self.stack.enter_context(serve_process(self.folder, port=self.port, variables=given))

    def kill(self) -> None:
        """End it as a crash would."""
        assert self.server is not None
        self.server.kill()

    def stop(self) -> None:
        """End it in order."""
        assert self.server is not None
        self.server.terminate()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self.server is not None
        return self.server.process.pid

    def ask(self, path: str, **body: Any) -> Any:
        """Return the server's answer as JSON; posts ``body`` if there is one."""
        url = f"http://127.0.0.1:{self.port}/{path}"
        method = "POST" if body else "GET"
        return httpx.request(method, url, json=body or None, headers=HEADERS, timeout=30).json()

    def play(self, **body: Any) -> str:
        """Start an episode; return its id."""
        asked = {"pace": "fast", "options": {"turns": 100_000}, **body}
        return str(self.ask("custom/start_episode", **asked)["episode_id"])

    def troubles(self) -> set[str]:
        """Return the kinds of trouble that the operator's page shows."""
        return {one["kind"] for one in self.ask("operator/status")["trouble"]}


@dataclass
class DrillGround:
    """What the drills break.

    Args:
        standby: Folder of the standby's data.
        a: A server on PostgreSQL, with ``b``.
        c: A server on SQLite.
        alerts: Address of Prometheus' alerts.
    """

    postgres: Cluster
    database: str
    standby: Path
    a: Post
    b: Post
    c: Post
    alerts: str

    def firing(self, name: str) -> bool:
        """Return whether Prometheus fires an alert."""
        alerts = httpx.get(self.alerts, timeout=5).json()["data"]["alerts"]
        return any(one["labels"]["alertname"] == name and one["state"] == "firing" for one in alerts)

    def end_idle_sessions(self) -> None:
        """End the sessions that hold a transaction open, as the runbook says."""
        idle = "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction'"
        for (pid,) in self.postgres.execute("postgres", idle):
            self.postgres.execute("postgres", f"SELECT pg_terminate_backend({pid})")

    def in_standby(self, statement: str) -> None:
        """Run a statement in the standby."""
        import psycopg

        with psycopg.connect(
            host=str(self.standby.parent), port=5433, dbname=self.database, user="spectator"
        ) as one:
            one.execute(statement)


@dataclass(frozen=True)
class Drill:
    """One fault.

    Args:
        name: Section of the runbook.
        fault: What was broken, for people.
        remedy: What the runbook says, for people.
        broken: Breaks it; repairs it on the way out as the runbook says. Yields the place that shows it.
        page: Whether the operator's page shows it too.
        over: Whether play goes on, or what else shows that it is over.
    """

    name: str
    fault: str
    remedy: str
    broken: Callable[[DrillGround], Any]
    page: bool = True
    over: Callable[[DrillGround], Any] = lambda stage: True


def goes_on(place: Post) -> Callable[[], bool]:
    """Return a check that an episode plays a further turn at a place."""
    before = {one["episode_id"]: one["turn"] for one in place.ask("custom/status")["running"]}

    def moved() -> bool:
        now = place.ask("custom/status")["running"]
        return any(one["turn"] > before.get(one["episode_id"], 10**9) for one in now)

    return moved


def hold(stage: DrillGround, drill: Drill) -> str:
    """Do a drill; return its row of the table."""
    until(f"the end of the last alert {drill.name}", lambda: not stage.firing(drill.name))
    with ExitStack() as stack:
        began = time.monotonic()
        place = stack.enter_context(contextmanager(drill.broken)(stage))
        shown = "-"
        if drill.page:
            until(f"{drill.name} at /operator", lambda: drill.name in place.troubles())
            shown = f"{time.monotonic() - began:.0f}"
        until(f"the alert {drill.name}", lambda: stage.firing(drill.name))
        fired = f"{time.monotonic() - began:.0f}"
    done = time.monotonic()
    if drill.page:
        until(f"the end of {drill.name}", lambda: drill.name not in place.troubles())
    until(f"what follows {drill.name}", lambda: drill.over(stage))
    after = time.monotonic() - done
    return f"| {drill.name} | {drill.fault} | {shown} | {fired} | {drill.remedy} | over after {after:.0f} s |"


def killed(stage: DrillGround) -> Iterator[Post]:
    """Kill a server; the other plays on."""
    episode_id = stage.a.play()
    stage.a.kill()
    yield stage.b
    stage.a.start()
    until("the takeover", lambda: episode_id in str(stage.b.ask("custom/status")["running"]))
    stage.b.ask("custom/stop_episode", episode_id=episode_id)


def killed_while_full(stage: DrillGround) -> Iterator[Post]:
    """Kill one of two servers that have no free slot."""
    for place in (stage.a, stage.b):
        while len((status := place.ask("custom/status"))["running"]) < status["slots"]:
            place.play()
    stage.a.kill()
    yield stage.b
    stage.a.start()


def all_stopped(stage: DrillGround) -> bool:
    """Stop every episode on PostgreSQL."""
    for place in (stage.a, stage.b):
        for one in place.ask("custom/status")["running"]:
            place.ask("custom/stop_episode", episode_id=one["episode_id"])
    return True


def killed_again(stage: DrillGround) -> Iterator[Post]:
    """Kill a server three times."""
    for _ in range(3):
        time.sleep(11)  # Prometheus must see each start
        stage.c.kill()
        stage.c.start()
    yield stage.c


def database_away(stage: DrillGround) -> Iterator[Post]:
    """Stop the database as a crash would, while nothing is played."""
    stage.postgres.stop()
    yield stage.a
    stage.postgres.start()


def table_locked(stage: DrillGround) -> Iterator[Post]:
    """Hold a table in a transaction that stays open; end it as the runbook says."""
    stage.a.play()
    with closing(stage.postgres.connect(stage.database)) as other:
        other.execute("LOCK TABLE events")
        yield stage.a
        stage.end_idle_sessions()


def file_locked(stage: DrillGround) -> Iterator[Post]:
    """Hold SQLite's lock until the patience of the episode is over."""
    episode_id = stage.c.play()
    with closing(sqlite3.connect(stage.c.folder / "journal.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        until("trouble", lambda: "recording-stalled" in stage.c.troubles())
        time.sleep(15)
        other.execute("ROLLBACK")
    until("the end", lambda: stage.c.ask(f"api/episodes/{episode_id}")["reason"] == "interrupted")
    yield stage.c


def check_damaged(place: Post, episode_id: str) -> None:
    """Check that a server names the damaged record when it is read."""
    answer = place.ask(f"api/episodes/{episode_id}/export")
    assert answer["type"] == "/problems/record-damaged" and episode_id in answer["detail"], answer


def page_damaged(stage: DrillGround) -> Iterator[Post]:
    """Damage a page of SQLite's file, and read the record that it holds."""
    episode_id = stage.c.play(pace="max", options={"turns": 200})
    until("the end", lambda: stage.c.ask(f"api/episodes/{episode_id}")["ended_at"])
    stage.c.stop()
    file = stage.c.folder / "journal.db"
    backup = file.read_bytes()
    at = backup.index(b'"seq":2,') // PAGE_BYTES * PAGE_BYTES
    file.write_bytes(backup[:at] + b"\xff" * 24 + backup[at + 24 :])
    stage.c.start()
    check_damaged(stage.c, episode_id)
    yield stage.c
    stage.c.stop()
    file.write_bytes(backup)
    stage.c.start()


def heap_damaged(stage: DrillGround) -> Iterator[Post]:
    """Damage a page of PostgreSQL's table of events, and read the record that it holds."""
    episode_id = stage.a.play(pace="max", options={"turns": 200})
    until("the end", lambda: stage.a.ask(f"api/episodes/{episode_id}")["ended_at"])
    ((name,),) = stage.postgres.execute(stage.database, "SELECT pg_relation_filepath('events')")
    block = "SELECT (ctid::text::point)[0]::int FROM events WHERE episode_id = %s AND seq = 2"
    ((number,),) = stage.postgres.execute(stage.database, block, [episode_id])
    file = stage.postgres.folder / "data" / name

    def write(content: bytes) -> bytes:
        """Write the head of the page while the database is away; return what was there."""
        stage.postgres.stop("fast")
        with file.open("r+b") as one:
            one.seek(number * PAGE_BYTES)
            before: bytes = one.read(len(content))
            one.seek(number * PAGE_BYTES)
            one.write(content)
        stage.postgres.start()
        return before

    backup = write(b"\xff" * 24)
    until("readiness", lambda: stage.a.ask("readyz").get("status") == "ready")
    check_damaged(stage.a, episode_id)
    yield stage.a
    write(backup)
    stage.a.kill()
    stage.a.start()


def standby_behind(stage: DrillGround) -> Iterator[Post]:
    """Pause the replay of the standby while something is played."""
    episode_id = stage.a.play(pace="max", options={"turns": 1_000_000})
    stage.in_standby("SELECT pg_wal_replay_pause()")
    yield stage.a
    stage.in_standby("SELECT pg_wal_replay_resume()")
    stage.a.ask("custom/stop_episode", episode_id=episode_id)


def disk_filled(stage: DrillGround) -> Iterator[Post]:
    """Fill the disk of a server's data folder but for 900 MB."""
    filler = stage.c.folder / "clips"
    filler.touch()
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(stage.c.folder).free - 900_000_000)
    yield stage.c
    filler.unlink()


def sockets_opened(stage: DrillGround) -> Iterator[Post]:
    """Let viewers use 230 of 256 descriptors; silent connections are closed by the server itself."""
    episode_id = stage.c.play(pace="broadcast")
    asked = f"GET /live/{episode_id}/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"
    before = resource.prlimit(stage.c.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(stage.c.pid, resource.RLIMIT_NOFILE, (256, before[1]))
    there = len(os.listdir(f"/proc/{stage.c.pid}/fd"))
    viewers = [socket.create_connection(("127.0.0.1", stage.c.port)) for _ in range(230 - there)]
    for one in viewers:
        one.sendall(asked.encode())
    yield stage.c
    for one in viewers:
        one.close()
    stage.c.ask("custom/stop_episode", episode_id=episode_id)
    resource.prlimit(stage.c.pid, resource.RLIMIT_NOFILE, before)


def slowed(stage: DrillGround) -> Iterator[Post]:
    """Stop the process half of the time, as a machine with too much work does."""
    script = f"while :; do kill -STOP {stage.c.pid}; sleep 0.4; kill -CONT {stage.c.pid}; sleep 0.4; done"
    with subprocess.Popen(["sh", "-c", script]) as hinder:
        yield stage.c
        hinder.terminate()
    os.kill(stage.c.pid, signal.SIGCONT)


def recovery_blocked(stage: DrillGround) -> Iterator[Post]:
    """Start a server whose recovery waits for a locked table."""
    stage.a.play()
    for place in (stage.a, stage.b):
        place.kill()
    with closing(stage.postgres.connect(stage.database)) as other:
        other.execute("LOCK TABLE leases")
        environ = {**os.environ, **stage.a.variables, "SPECTATOR_OPERATOR_TOKEN": TOKEN}
        environ |= {"SPECTATOR_DATA_DIR": str(stage.a.folder), "SPECTATOR_ENVIRONMENT": "counting"}
        command = [sys.executable, "-m", "server.app", "--port", str(stage.a.port)]
        waiting = subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.DEVNULL)
        yield stage.a
        stage.end_idle_sessions()
    until("readiness", lambda: stage.a.ask("readyz").get("status") == "ready")
    waiting.terminate()
    waiting.wait()
    stage.a.start()
    stage.b.start()


def tokens_spent(stage: DrillGround) -> Iterator[Post]:
    """Let a model play under a cap of 500 tokens a day; start without the cap as the runbook says."""
    with endpoint(counter) as model:
        table = {"base_url": model.base_url, "style": "xml"}
        captains = write_captains(stage.c.folder / "captains.toml", plain=table)
        stage.c.variables |= {"SPECTATOR_CAPTAINS_FILE": str(captains), "SPECTATOR_MODEL_DAY_TOKENS": "500"}
        stage.c.start()
        stage.c.play(captain_preset="llm:plain", pace="max", options={"turns": 50})
        yield stage.c
        del stage.c.variables["SPECTATOR_MODEL_DAY_TOKENS"]
        stage.c.start()


DRILLS: Final = (
    Drill("server-down", "`kill -9` of one of two servers", "start it again", killed, page=False),
    Drill("journal-unavailable", "PostgreSQL stopped", "start the database", database_away),
    Drill(
        "recording-stalled", "`LOCK TABLE events` in an open transaction", "terminate the session",
        table_locked, over=lambda stage: until("a further turn", goes_on(stage.a)) >= 0,
    ),
    Drill("journal-damaged", "24 bytes of a page of SQLite", "restore the backup", page_damaged),
    Drill("journal-damaged", "24 bytes of a page of PostgreSQL", "restore the backup", heap_damaged),
    Drill("replica-lags", "replay of the standby paused", "resume it", standby_behind),
    Drill("disk-low", "disk filled but for 900 MB", "remove clips", disk_filled),
    Drill(
        "episodes-fail", "SQLite locked for longer than `SPECTATOR_JOURNAL_PATIENCE_S`",
        "remove the lock", file_locked, page=False,
    ),
    Drill(
        "descriptors-low", "230 of 256 descriptors used", "close the connections", sockets_opened, page=False
    ),
    Drill("loop-late", "process stopped half of the time", "give it CPU", slowed, page=False),
    Drill("models-spent", "a model under a cap of 500 tokens", "raise the cap", tokens_spent),
    Drill(
        "episodes-unplayed", "one of two full servers killed", "start another", killed_while_full,
        over=all_stopped,
    ),
    Drill("server-restarts", "`kill -9` three times", "-", killed_again, page=False),
    Drill("recovering", "`LOCK TABLE leases` before a start", "terminate the session", recovery_blocked),
)  # fmt: skip


@contextmanager
def standby_of(cluster: Cluster, programs: str) -> Iterator[Path]:
    """Run a standby of a cluster; yields the folder of its data."""
    folder = cluster.folder / "standby"
    conf = cluster.folder / "data" / "pg_hba.conf"
    conf.write_text("local replication all trust\n" + conf.read_text())
    cluster.execute("postgres", "SELECT pg_reload_conf()")
    subprocess.run(
        [f"{programs}/pg_basebackup", "-h", str(cluster.folder), "-U", "spectator", "-D", str(folder), "-R"],
        check=True, cwd="/", **unprivileged(),
    )  # fmt: skip
    run = [f"{programs}/pg_ctl", "-D", str(folder), "-w", "-l", str(cluster.folder / "standby.log")]
    quiet: dict[str, Any] = {"cwd": "/", "stdout": subprocess.DEVNULL, **unprivileged()}
    subprocess.run([*run, "-o", "-p 5433", "start"], check=True, **quiet)
    try:
        yield folder
    finally:
        subprocess.run([*run, "-m", "immediate", "stop"], check=False, **quiet)


@contextmanager
def prometheus(program: str, folder: Path, places: Mapping[str, Post]) -> Iterator[str]:
    """Run Prometheus with the configuration that ships; yields the address of its alerts."""
    settings = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text())
    (folder / "token").write_text(TOKEN)
    settings["rule_files"] = [str(ROOT / "deploy" / "alerts.yml")]
    (job,) = settings["scrape_configs"]
    job["authorization"] = {"credentials_file": str(folder / "token")}
    job["static_configs"] = [{"targets": [f"127.0.0.1:{one.port}" for one in places.values()]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    port = free_port()
    command = [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"]
    command.append(f"--web.listen-address=127.0.0.1:{port}")
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as one:
        try:
            yield f"http://127.0.0.1:{port}/api/v1/alerts"
        finally:
            one.terminate()


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a file system of 1.1 GB."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1100m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def main() -> None:
    """Do the named drills, or all, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--prometheus", required=True, help="the program")
    parser.add_argument("names", nargs="*", help="sections of the runbook; all if omitted")
    given = parser.parse_args()
    programs = find_programs()
    assert programs is not None, "PostgreSQL is not installed"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(running_cluster(programs))
        database = cluster.make()
        standby = stack.enter_context(standby_of(cluster, programs))
        shared = {"SPECTATOR_JOURNAL_URL": cluster.url(database), "SPECTATOR_MAX_EPISODES": "4"}
        a, b = (Post(folder / name, shared) for name in "ab")
        disk = stack.enter_context(small_disk(folder / "c"))
        c = Post(disk, {"SPECTATOR_JOURNAL_PATIENCE_S": "5"})
        for place in (a, b, c):
            place.start()
            stack.callback(place.stack.close)
        address = prometheus(given.prometheus, folder, {"a": a, "b": b, "c": c})
        stage = DrillGround(cluster, database, standby, a, b, c, stack.enter_context(address))
        print("| alert | fault | page, s | alert, s | runbook | outcome |\n|---|---|---|---|---|---|")
        for drill in DRILLS:
            if not given.names or drill.name in given.names:
                print(hold(stage, drill), flush=True)


if __name__ == "__main__":
    main()

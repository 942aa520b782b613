"""Measure a start after a crash: the time to the first answer and to the recovery of a long record.

``python -m benchmarks.recovery 1000`` plays one episode of the counting world on a real server until its
journal has 1,000 MB, kills the server, starts another on the same data, and measures it from outside; then
again without the checkpoints, which replays the whole record. Then the episode is ended, and forks near its
end are measured. A start on an empty folder in the same run shows the cost of the imports. ``python -m
benchmarks recovery`` does the same.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from benchmarks.figures import HEADER, Figure
from benchmarks.serving import free_port

MEGABYTES: Final = 1000
PAYLOAD_BYTES: Final = 65_536
PATIENCE_S: Final = 600.0
LOOK_S: Final = 0.02
"""Seconds between two looks at a starting server or a growing journal."""

ENDLESS: Final = {
    "environment": "counting",
    "pace": "max",
    "options": {"turns": 1_000_000, "payload_bytes": PAYLOAD_BYTES},
}


@dataclass(frozen=True, slots=True)
class ServerStart:
    """A server started on a record.

    Args:
        healthy_s: Seconds from the start of its process until ``/health`` answered.
        ready_s: Seconds until ``/readyz`` answered, after recovery.
        cpu_s: CPU seconds until then.
        peak_mb: Peak resident memory until then, million bytes.
        turn: Turn from which play went on; ``None`` without an episode.
    """

    healthy_s: float
    ready_s: float
    cpu_s: float
    peak_mb: float
    turn: int | None


def measure(megabytes: int = MEGABYTES) -> Iterator[Figure]:
    """Measure a start on nothing, on a long record, and on one without checkpoints."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        for place in (folder, empty := Path(scratch) / "empty"):
            place.mkdir()
        yield from figures("start on an empty folder", started(empty), "-")
        journal = folder / "journal.db"
        with _server(folder) as (base, process):
            _play(base, journal, megabytes)
            process.kill()
        size = journal.stat().st_size / 1e6
        name = f"start on an unended record of {size:,.0f} MB"
        yield from figures(name, started(folder), f"reading the file: {_read_s(journal):.2f} s")
        forget_checkpoints(journal)
        yield from figures(f"{name}, no checkpoints", started(folder), f"{_read_s(journal):.2f} s")
        yield from _ended_forks(folder, journal, f"{size:,.0f} MB")


def figures(name: str, start: ServerStart, limit: str) -> Iterator[Figure]:
    """Yield the figures of a start."""
    on = "" if start.turn is None else f", played on from turn {start.turn:,}"
    took = f"{start.ready_s:.2f} s, {start.ready_s - start.healthy_s:.2f} s of them after it{on}"
    yield Figure(f"{name}: until `/health`", f"{start.healthy_s:.2f} s", "that of an empty folder", "-")
    yield Figure(f"{name}: until `/readyz`", took, "5 s after `/health`", limit)
    yield Figure(f"{name}: CPU until then", f"{start.cpu_s:.2f} s", "-", "-")
    yield Figure(f"{name}: most memory", f"{start.peak_mb:.0f} MB", "200 MB", "-")


def started(folder: Path) -> ServerStart:
    """Start a server on the data of ``folder``, measure until ready, and kill it."""
    began = time.monotonic()
    with _server(folder) as (base, process):
        healthy_s = _until_success(f"{base}/health", process) - began
        ready_s = _until_success(f"{base}/readyz", process) - began
        cpu_s, peak_mb = _cpu_s(process.pid), _peak_mb(process.pid)
        running = _status(base)
        process.kill()
    return ServerStart(healthy_s, ready_s, cpu_s, peak_mb, running[0]["turn"] if running else None)


def _ended_forks(folder: Path, journal: Path, size: str) -> Iterator[Figure]:
    """End the episode, then measure forks of its record."""
    with _server(folder) as (base, process):
        _until_success(f"{base}/readyz", process)
        until = time.monotonic() + PATIENCE_S
        while not _checkpoints(journal):
            _need_time(until)
        ended = httpx.post(f"{base}/custom/stop_episode", timeout=PATIENCE_S, trust_env=False)
        ended.raise_for_status()
        process.kill()
    yield from _forks(folder, journal, size)


def _forks(folder: Path, journal: Path, size: str) -> Iterator[Figure]:
    """Fork near the end of the ended record, with and without checkpoints."""
    with closing(sqlite3.connect(journal)) as connection:
        episode_id = connection.execute("SELECT MIN(episode_id) FROM episodes").fetchone()[0]
        last = 'SELECT MAX(seq) FROM events WHERE episode_id = ? AND text LIKE \'%"type":"step.taken"%\''
        seq = connection.execute(last, (episode_id,)).fetchone()[0]
    wanted = {"episode_id": episode_id, "seq": seq}
    for forget, how in ((False, "checkpoint"), (True, "no checkpoint")):
        if forget:
            forget_checkpoints(journal)
        with _server(folder) as (base, process):
            _until_success(f"{base}/readyz", process)
            before, began, cpu_s = _peak_mb(process.pid), time.monotonic(), _cpu_s(process.pid)
            answer = httpx.post(f"{base}/custom/fork", json=wanted, timeout=PATIENCE_S, trust_env=False)
            took, cpu_s = time.monotonic() - began, _cpu_s(process.pid) - cpu_s
            answer.raise_for_status()
            grown = _peak_mb(process.pid) - before
            httpx.post(f"{base}/custom/stop_episode", timeout=PATIENCE_S, trust_env=False)
            process.kill()
        name = f"fork at the last step of an ended record of {size}, {how}"
        limit = f"reading the file: {_read_s(journal):.2f} s"
        yield Figure(name, f"{took:.2f} s, {cpu_s:.2f} s of CPU, {grown:+.0f} MB", "-", limit)


def _checkpoints(journal: Path) -> int:
    with closing(sqlite3.connect(journal)) as connection:
        return int(connection.execute("SELECT COUNT(*) FROM checkpoints").fetchone()[0])


def forget_checkpoints(journal: Path) -> None:
    """Delete the checkpoints of a journal."""
    with closing(sqlite3.connect(journal)) as connection, connection:
        connection.execute("DELETE FROM checkpoints")


@contextmanager
def _server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    port = free_port()
    variables = {name: text for name, text in os.environ.items() if not name.startswith("SPECTATOR_")}
    variables |= _settings(folder)
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "server.app", "--host", "127.0.0.1", "--port", str(port)],
            env=variables,
            stderr=log,
        )
    try:
        yield f"http://127.0.0.1:{port}", process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()


def _settings(folder: Path) -> Mapping[str, str]:
    return {
        "SPECTATOR_DATA_DIR": str(folder),
        "SPECTATOR_ENVIRONMENT": "counting",
        "SPECTATOR_VOICE": "silent",
        "SPECTATOR_EPISODE_MB": "100000",
        "SPECTATOR_KEEP_MB": "0",
    }


def _play(base: str, journal: Path, megabytes: int) -> None:
    """Play until the journal has grown to ``megabytes``."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            httpx.post(f"{base}/custom/start_episode", json=ENDLESS, trust_env=False).raise_for_status()
            break
        except httpx.TransportError:
            _need_time(until)
    while journal.stat().st_size < megabytes * 1e6:
        _need_time(until)


def _until_success(url: str, process: subprocess.Popen[bytes]) -> float:
    """Wait for a successful answer; returns its time."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            if httpx.get(url, timeout=5, trust_env=False).is_success:
                return time.monotonic()
        except httpx.TransportError:
            pass  # it does not listen yet, or is busy
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        _need_time(until)


def _need_time(until: float) -> None:
    if time.monotonic() > until:
        raise RuntimeError(f"no progress for {PATIENCE_S:g} s")
    time.sleep(LOOK_S)


def _status(base: str) -> list[dict[str, Any]]:
    running: list[dict[str, Any]] = httpx.get(f"{base}/custom/status", timeout=30, trust_env=False).json()[
        "running"
    ]
    return running


def _peak_mb(process_id: int) -> float:
    """Return the peak resident memory of a process, million bytes (Linux)."""
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("/proc has no VmHWM; this measurement needs Linux")


def _cpu_s(process_id: int) -> float:
    """Return the user and system CPU seconds of a process (Linux)."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _read_s(journal: Path) -> float:
    """Measure reading the file once, a million bytes at a time."""
    began = time.monotonic()
    with journal.open("rb", buffering=0) as file:
        while file.read(1_000_000):
            continue
    return time.monotonic() - began


def main() -> None:
    """Measure a record of the given size, and print."""
    print(HEADER, flush=True)
    for figure in measure(int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES):
        print(figure.row(), flush=True)


if __name__ == "__main__":
    main()

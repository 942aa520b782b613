"""The running of a real server for tests: in a thread, or as a process of its own."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx

from server import wiring
from server.app import build_server
from server.background.child_processes import ReadingProcess
from server.process import Server, listen
from server.settings import Settings
from spectator.journal.pieces import Piece, PieceRequest, piece_of

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 30.0
BRIEFLY_IDLE = httpx.Limits(keepalive_expiry=2)
"""A server ends idle connections after 5 s, as httpx does: a request then may meet the end."""


def test_settings(data_dir: Path, **changes: Any) -> Settings:
    """Settings for a test: a free port, the smallest world, no limits on starts."""
    base: dict[str, Any] = {
        "port": 0,
        "data_dir": data_dir,
        "environment": "counting",
        "exhibition": False,
        "starts_per_minute": 0,
        "starts_per_hour": 0,
        "voice": "silent",
        "runs_dir": None,
    }
    return Settings(**{**base, **changes})


def people_settings(data_dir: Path, token: str) -> Settings:
    """Settings for matches that people play: a token, and time enough to decide on a busy machine."""
    return test_settings(
        data_dir, operator_token=token, max_episodes=4, person_decision_s=600, decision_timeout_s=900
    )


test_settings.__test__ = False  # type: ignore[attr-defined]


@dataclass
class Serving:
    """A server that runs in a thread of this process.

    Args:
        base_url: Where it listens, such as ``http://127.0.0.1:40123``.
        server: The server itself.
        client: An HTTP client for it.
        seats: Keys of the seats that people play, by episode and actor, as starts told them.
    """

    base_url: str
    server: Server
    client: httpx.Client
    seats: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def ws_url(self) -> str:
        """Where its sockets are."""
        return self.base_url.replace("http", "ws", 1)

    def start(self, **body: Any) -> str:
        """Start an episode, as fast as can be unless ``body`` says otherwise; returns its id."""
        answer = self.client.post("/custom/start_episode", json={"pace": "max", **body})
        assert answer.status_code == 202, answer.text
        started = answer.json()
        self.seats[started["episode_id"]] = {name: one["key"] for name, one in started["seats"].items()}
        return str(started["episode_id"])

    def seat_header(self, episode_id: str, *actors: str) -> dict[str, str]:
        """The header of whoever has the seats of ``actors``, or of all where none are named."""
        keys = self.seats[episode_id]
        return {"X-Seat-Key": ",".join(keys[actor] for actor in actors or keys)}

    def events(self, episode_id: str) -> list[dict[str, Any]]:
        """What is recorded of an episode so far."""
        lines = self.client.get(f"/api/episodes/{episode_id}/events").text.splitlines()
        return [json.loads(line) for line in lines]

    def finish(self, episode_id: str) -> dict[str, Any]:
        """Wait for an episode's end; returns its entry in the history."""

        def ended() -> dict[str, Any] | None:
            entry: dict[str, Any] = self.client.get(f"/api/episodes/{episode_id}").json()
            return None if entry["ended_at"] is None else entry

        found: dict[str, Any] = until(f"the end of {episode_id}", ended)
        return found


class ErrorLog(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record."""
        self.lines.append(logging.Formatter().format(record))


@contextmanager
def without_errors() -> Iterator[None]:
    """What happens inside makes no server of this process log an error."""
    log = ErrorLog()
    loggers = [logging.getLogger(name) for name in ("server", "spectator", "uvicorn", "asyncio")]
    for logger in loggers:
        logger.addHandler(log)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(log)
    assert not log.lines, "\n".join(log.lines)


def until(what: str, found: Callable[[], Any]) -> Any:
    """Wait until ``found`` returns something true, and return it; ask less often as time goes by."""
    deadline, pause_s = time.monotonic() + PATIENCE_S, 0.01
    while not (result := found()):
        assert time.monotonic() < deadline, f"{what} did not come within {PATIENCE_S} s"
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, 0.1)
    return result


def until_ready(base_url: str, deadline: float) -> None:
    """Wait until what ran before the server is recovered; whatever else is amiss is the test's business."""
    with httpx.Client(base_url=base_url, timeout=PATIENCE_S, verify=False) as client:
        while client.get("/readyz").json().get("type") == "/problems/recovering":
            assert time.monotonic() < deadline, "the server did not recover in time"
            time.sleep(0.01)


class ReadingHere(ReadingProcess):
    """Reads pieces in this process: the start of another takes three times as long as that of a server."""

    async def read(self, wanted: PieceRequest) -> Piece:
        """Read a piece."""
        texts = await self._journal.texts(wanted.episode_id, after_seq=wanted.after_seq, limit=wanted.limit)
        return await asyncio.to_thread(piece_of, texts, wanted.crc)


@contextmanager
def serve(settings: Settings, *, ready: bool = True, reads_aside: bool = False) -> Iterator[Serving]:
    """Run a server in a thread; it is stopped in order on the way out.

    Args:
        settings: How it is set.
        ready: Whether to wait until what ran before it is recovered.
        reads_aside: Whether long records are read by a process beside it, as by every other server.
    """
    server = build_server(settings)
    listener = listen(settings)
    base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    failure: list[BaseException] = []

    def run() -> None:
        try:
            server.run(sockets=[listener])
        except BaseException as error:  # noqa: BLE001 - told to the test
            failure.append(error)

    thread = threading.Thread(target=run, name="server under test")
    reader = ReadingProcess if reads_aside else ReadingHere
    try:
        with patch.object(wiring, "ReadingProcess", reader):
            thread.start()
            deadline = time.monotonic() + PATIENCE_S
            while not server.started:
                assert thread.is_alive(), f"the server did not start: {failure}"
                assert time.monotonic() < deadline, "the server did not start in time"
                time.sleep(0.01)
        if ready:
            until_ready(base_url, deadline)
        with httpx.Client(base_url=base_url, timeout=PATIENCE_S, limits=BRIEFLY_IDLE, verify=False) as client:
            yield Serving(base_url, server, client)
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listener.close()
    assert not thread.is_alive(), "the server did not stop"
    assert not failure, failure


@dataclass
class ServerProcess:
    """A server that runs as a process of its own.

    Args:
        base_url: Where it listens.
        process: The process.
        log: What it wrote to standard error.
    """

    base_url: str
    process: subprocess.Popen[str]
    log: list[str] = field(default_factory=list)

    @property
    def ws_url(self) -> str:
        """Where its sockets are."""
        return self.base_url.replace("http", "ws", 1)

    def terminate(self) -> float:
        """Send SIGTERM and wait; returns the seconds it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)
        return time.monotonic() - began

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait(PATIENCE_S)


def free_port() -> int:
    """A port that was free a moment ago, for servers that must come back at the same place."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serve_process(
    data_dir: Path,
    *,
    port: int = 0,
    variables: Mapping[str, str] | None = None,
    program: str = "",
    command: Sequence[str] = (),
    cwd: Path = ROOT,
) -> Iterator[ServerProcess]:
    """Run ``python -m server.app`` as a process; it is killed on the way out if it still runs.

    Args:
        data_dir: Its folder.
        port: Where it listens; 0 takes a free one.
        variables: Further variables of its environment.
        program: What it runs before, so that it is another program.
        command: The command of an installed server, in place of this checkout's.
        cwd: Its working folder.
    """
    environ = {name: text for name, text in os.environ.items() if not name.startswith("SPECTATOR_")}
    environ |= {
        "SPECTATOR_DATA_DIR": str(data_dir),
        "SPECTATOR_ENVIRONMENT": "counting",
        "SPECTATOR_EXHIBITION": "false",
        "PYTHONWARNINGS": "error",
        **(variables or {}),
    }
    process = subprocess.Popen(
        [*(command or [sys.executable, *_program(program)]), "--port", str(port)],
        cwd=cwd,
        env=environ,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    log: list[str] = []
    reader: threading.Thread | None = None
    try:
        while " at http://" not in (line := process.stderr.readline()):
            log.append(line)
            assert line, f"the server did not start: {''.join(log)}"
        serving = ServerProcess(line.split(" at ")[1].strip(), process, log)
        reader = threading.Thread(target=log.extend, args=(process.stderr,))
        reader.start()
        _wait_until_healthy(serving)
        yield serving
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE_S)
        if reader is not None:
            reader.join(PATIENCE_S)
        process.stderr.close()


def _program(before: str) -> list[str]:
    return ["-c", f"{before}\nfrom server.app import main\nmain()"] if before else ["-m", "server.app"]


def _wait_until_healthy(serving: ServerProcess) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert serving.process.poll() is None, f"the server ended: {''.join(serving.log)}"
        try:
            httpx.get(f"{serving.base_url}/health", timeout=1.0).raise_for_status()
            until_ready(serving.base_url, deadline)
            return
        except httpx.TransportError:
            time.sleep(0.02)
    raise AssertionError("the server did not become healthy in time")

"""A Redis of the tests' own: one throwaway process on the loopback, behind a password."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tests.serving import free_port

PASSWORD: Final = "s3cret-of-the-cache"

PATIENCE_S: Final = 20.0


class RedisServer:
    """A Redis that keeps nothing on the disk; see :func:`running_redis`.

    Args:
        program: Its program.
        folder: What it may write into.
    """

    def __init__(self, program: str, folder: Path) -> None:
        self.port = free_port()
        self._program = program
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, number: int = 0) -> str:
        """The URL of one of its databases, as a server takes it."""
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}/{number}"

    def start(self) -> None:
        """Start it, where it was before."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            [self._program, *options, "--requirepass", PASSWORD, "--dir", str(self._folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        redis: Any = import_module("redis")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.execute("PING")
                return
            except redis.ConnectionError:
                assert self._process.poll() is None, "redis-server ended"
                assert time.monotonic() < deadline, "redis-server did not start in time"
                time.sleep(0.01)

    def stop(self) -> None:
        """End it as a death would; nothing where it does not run."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(PATIENCE_S)

    def freeze(self) -> None:
        """Let it answer nobody, until :meth:`thaw`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it answer again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def execute(self, *command: Any) -> Any:
        """What it answers to a command."""
        redis: Any = import_module("redis")
        with redis.Redis.from_url(self.url(), socket_timeout=PATIENCE_S) as client:
            return client.execute_command(*command)

    def streams(self) -> dict[str, list[tuple[int, str]]]:
        """The streams of episodes, each with the numbers and texts in it."""
        keys = [key.decode() for key in self.execute("KEYS", "spectator:*") if not key.endswith(b":proof")]
        return {
            key: [
                (int(number.partition(b"-")[0]), fields[b"event"].decode())
                for number, fields in self.execute("XRANGE", key, "-", "+")
            ]
            for key in keys
        }


@contextmanager
def running_redis(program: str) -> Iterator[RedisServer]:
    """A Redis that lives as long as the context."""
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        server = RedisServer(program, Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()

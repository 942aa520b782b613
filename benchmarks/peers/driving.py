"""The driving of the peers: each a process of its own, its viewers at ``/``."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

WAYS: Final[Mapping[str, Sequence[str]]] = {
    "FastAPI, a queue per viewer": [sys.executable, "-m", "benchmarks.peers.queues"],
    "websockets, its broadcast": [sys.executable, "-m", "benchmarks.peers.broadcast"],
    "Node ws": ["node", str(Path(__file__).with_name("node_ws.cjs"))],
    "picows": [sys.executable, "-m", "benchmarks.peers.picows_loop"],
    "nginx + nchan": [sys.executable, "-m", "benchmarks.peers.nchan"],
    "uWebSockets, by socketify": [sys.executable, "-m", "benchmarks.peers.uwebsockets"],
}
"""How to run each. They need ``pip install picows socketify``, ``npm install -g ws`` and nginx with nchan."""


class NotHere(Exception):
    """A peer does not run on this machine."""


class Peer:
    """The process, as the measurement drives it.

    Args:
        process: It.
        messages: Messages that it makes of what is to be sent at once, each as large as the others.

    Raises:
        NotHere: It ended at once.
    """

    def __init__(self, process: subprocess.Popen[str], messages: int) -> None:
        self._process = process
        self._messages = messages
        self._idle = 0.0
        answer = self._answer().split()
        if not answer:
            raise NotHere
        self.port, self.process_id = (int(number) for number in answer)
        self._clock = (~self.process_id << 3) | 2  # see clock_getcpuclockid(3)

    def rest(self, seconds: float = 2.0) -> None:
        """Learn what it spends while there is nothing to send; some poll."""
        before = time.clock_gettime(self._clock)
        time.sleep(seconds)
        self._idle = (time.clock_gettime(self._clock) - before) / seconds

    def send(self, size: int, times: int, interval_s: float, settle: Callable[[], object]) -> float:
        """Send to everybody so many times; returns CPU seconds, less what resting costs.

        Args:
            size: Bytes, each time.
            times: How often.
            interval_s: Seconds in between.
            settle: Waits until everything has arrived.
        """
        began, before = time.monotonic(), time.clock_gettime(self._clock)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{self._messages} {size // self._messages} {times} {interval_s}\n")
        self._process.stdin.flush()
        self._answer()
        settle()
        spent = time.clock_gettime(self._clock) - before
        return spent - self._idle * (time.monotonic() - began)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def peer(name: str, messages: int) -> Iterator[Peer]:
    """Run one of :data:`WAYS`.

    Raises:
        NotHere: What it needs is not on this machine.
    """
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(WAYS[name], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
    except FileNotFoundError as error:
        raise NotHere from error
    with process:
        try:
            yield Peer(process, messages)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()

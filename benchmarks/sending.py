"""The limit of a fan-out: a process that does nothing but ``send()`` the same bytes to every socket.

The loop is the one in C, where it was built; else one in Python, which costs a little more.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.crowd import Crowd
from server.transport.fast_path import compiled

SEND_TO_EACH = compiled()

LOOP = "a Python loop of send()" if SEND_TO_EACH is None else "a C loop of send()"
"""What the limit is."""


def main() -> None:
    """Print a port; then obey lines ``accept COUNT`` and ``send BYTES TIMES INTERVAL_S``.

    The answer to ``send`` is the CPU seconds that it took, all but the waiting between the rounds.
    """
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    print(listener.getsockname()[1], flush=True)
    viewers: list[socket.socket] = []
    for line in sys.stdin:
        command, *numbers = line.split()
        if command == "accept":
            viewers += [_accept(listener) for _ in range(int(numbers[0]) - len(viewers))]
            print("accepted", flush=True)
        else:
            print(_send(viewers, int(numbers[0]), int(numbers[1]), float(numbers[2])), flush=True)


def _accept(listener: socket.socket) -> socket.socket:
    """Take a viewer as a server would: its handshake is answered, and nothing of ours waits to be joined."""
    viewer, _ = listener.accept()
    viewer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    viewer.recv(4096)
    viewer.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
    return viewer


def _send(viewers: list[socket.socket], size: int, times: int, interval_s: float) -> float:
    descriptors = array("i", [viewer.fileno() for viewer in viewers])
    spent = 0.0
    for _ in range(times):
        message = f"{time.time():.6f} ".encode().ljust(size, b".")
        began = time.process_time()
        _send_to_each(viewers, descriptors, message)
        spent += time.process_time() - began
        time.sleep(interval_s)
    return spent


def _send_to_each(viewers: list[socket.socket], descriptors: array[int], message: bytes) -> None:
    if SEND_TO_EACH is None:
        for viewer in viewers:
            viewer.sendall(message)
    elif SEND_TO_EACH(descriptors, message):
        raise RuntimeError("a viewer did not take everything")


class Sending:
    """The process, as the measurement drives it.

    Args:
        process: It.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.port = int(self._answer())

    def admit(self, viewers: Crowd, count: int) -> None:
        """Let viewers connect until there are ``count`` of them."""
        self._say(f"accept {count}")
        viewers.join(self.port, count, "/")
        self._answer()

    def send(self, size: int, times: int, interval_s: float) -> float:
        """Send ``size`` bytes to everybody so many times; returns CPU seconds."""
        self._say(f"send {size} {times} {interval_s}")
        return float(self._answer())

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@contextmanager
def sending() -> Iterator[Sending]:
    """Run the process."""
    command = [sys.executable, "-m", "benchmarks.sending"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Sending(process)
        finally:
            process.kill()


if __name__ == "__main__":
    main()

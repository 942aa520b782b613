"""A worker whose environment never gives its event loop back: ``-m tests.rollouts.workers.computing FD``."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading

from spectator.rollouts.workers.desk_line import DeskLine


async def hold(connection: socket.socket) -> None:
    """Talk to the desk, and never give the event loop back."""
    DeskLine(connection).start()
    threading.Event().wait()


if __name__ == "__main__":
    asyncio.run(hold(socket.socket(fileno=int(sys.argv[1]))))

"""Starting workers: on this machine, each in a process of its own at the other end of a pair of sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from spectator.rollouts.workers.link import WorkerLink
from spectator.rollouts.workers.worker import work


class Launched(Protocol):
    """A worker that was started."""

    @property
    def told(self) -> str:
        """Where it is, for people."""
        ...

    async def stop(self) -> None:
        """End it at once, whatever it does, and wait until it is gone."""
        ...


class Launcher(Protocol):
    """Starts workers."""

    async def launch(self, link: WorkerLink) -> Launched:
        """Start a worker that talks to ``link``.

        Raises:
            SpectatorError: None can be started.
        """
        ...

    async def aclose(self) -> None:
        """Let go of what it needs to start workers."""
        ...


class LocalLauncher:
    """Starts workers as processes of this machine. They end with this one, however it ends.

    Where the system can, they are forked from a process that has loaded what they need and does nothing else.

    Args:
        needs: Modules that every worker needs.
    """

    def __init__(self, needs: Sequence[str] = ()) -> None:
        self._context: Any = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
        self._context.set_forkserver_preload(["__main__", work.__module__, *needs])

    async def launch(self, link: WorkerLink) -> LocalWorker:
        """Start a worker."""
        ours, theirs = socket.socketpair()
        process = self._context.Process(target=work, args=(theirs,), name=link.name, daemon=True)
        with theirs:  # the only copy that is left is the worker's: its death closes the connection
            await asyncio.to_thread(process.start)
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(lambda: link, sock=ours)
        return LocalWorker(process)

    async def aclose(self) -> None:
        """Nothing."""


class LocalWorker:
    """A worker that is a process of this machine.

    Args:
        process: The process.
    """

    def __init__(self, process: BaseProcess) -> None:
        self.process = process

    @property
    def told(self) -> str:
        """Its process."""
        return f"process {self.process.pid}"

    async def stop(self) -> None:
        """End it at once, and wait until it is gone."""
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()

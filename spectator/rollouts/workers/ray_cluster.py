"""Starts workers on a Ray cluster. Ray only places them; the run's own process records."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Any, Final

from spectator.errors import ConfigurationError, typed_as
from spectator.rollouts.workers.door import Door, work_for
from spectator.rollouts.workers.link import WorkerLink

INSTALL: Final = "pip install 'openenv-spectator[ray]'"

STOP_S: Final = 10.0
"""Seconds that Ray may take to end a worker."""


def connect(address: str, *, shows: bool = False) -> tuple[Any, bool]:
    """Ray's package, connected to a cluster, and whether it was not in use here before.

    Args:
        address: Of the cluster: ``host:port``, or ``auto`` for the one of this machine.
        shows: Whether what workers say is shown here.

    Raises:
        ConfigurationError: Ray is not installed, or there is no cluster at the address.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{error.name} is not installed; --ray needs: {INSTALL}") from error
    if ray.is_initialized():
        return ray, False
    with typed_as(lambda error: ConfigurationError(f"no Ray cluster at {address}: {error}")):
        ray.init(address=address, log_to_driver=shows, logging_level=logging.ERROR)
    return ray, True


def one_for_each(ray: Any, function: Callable[..., object], again: int = 0) -> Any:
    """``function`` as a Ray task of one processor, each in a process of its own, spread over the nodes.

    Args:
        ray: The package.
        function: What is done.
        again: How often Ray starts one anew whose process died.
    """
    place = ray.remote(num_cpus=1, max_retries=again, max_calls=1, scheduling_strategy="SPREAD")
    return place(function)


class RayLauncher:
    """Starts each worker as a Ray task of one processor, spread over the nodes, never tried again by Ray.

    This package is to be installed on every node, and the model's endpoint, the key's variable and the
    environments' servers are to be reached from there.

    Args:
        address: Of the cluster: ``host:port``, or ``auto`` for the one of this machine.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._ray: Any = None
        self._opening = asyncio.Lock()
        self._door: Door | None = None
        self._play: Any = None
        self._host = ""
        self._key = secrets.token_bytes(32)
        self._began = False

    async def launch(self, link: WorkerLink) -> RayWorker:
        """Start a worker.

        Raises:
            ConfigurationError: Ray is not installed, or there is no cluster at the address.
        """
        door = await self._opened()
        door.expect(link)
        started = self._play.remote(self._host, door.port, self._key, link.name)
        return RayWorker(self._ray, started)

    async def aclose(self) -> None:
        """Let go of the cluster, if it was not in use here before."""
        if self._door is not None:
            self._door.close()
        if self._began:
            await asyncio.to_thread(self._ray.shutdown)

    async def _opened(self) -> Door:
        """The door, opened by the first of all workers that are launched at once."""
        async with self._opening:
            if self._door is None:
                await asyncio.to_thread(self._connect)
                self._door = await Door.open(self._host, self._key)
            return self._door

    def _connect(self) -> None:
        self._ray, self._began = connect(self._address)
        self._host = self._ray.util.get_node_ip_address()
        self._play = one_for_each(self._ray, work_for)


class RayWorker:
    """A worker that Ray placed.

    Args:
        ray: The package.
        started: The reference of its task.
    """

    def __init__(self, ray: Any, started: Any) -> None:
        self._ray = ray
        self._started = started

    @property
    def told(self) -> str:
        """Its task."""
        return f"Ray task {self._started.task_id().hex()}"

    async def stop(self) -> None:
        """End it at once, and wait until it is gone."""
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        self._ray.cancel(self._started, force=True)
        self._ray.wait([self._started], timeout=STOP_S)

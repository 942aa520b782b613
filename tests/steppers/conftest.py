"""Servers that the tests of steppers talk to: ours, and ones that misbehave in one way each."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as serve_sockets

from spectator import catalog
from tests.profiled_worlds import NAMES
from tests.serving import Serving, serve, test_settings


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Our own server, with the worlds of every profile."""
    with pytest.MonkeyPatch.context() as patch:
        for name in NAMES:
            patch.setitem(catalog.BUILT_IN, name, f"tests.profiled_worlds:{name.upper()}")
        catalog.load_world.cache_clear()
        with serve(test_settings(tmp_path_factory.mktemp("data"), step_timeout_s=20)) as running:
            yield running
    catalog.load_world.cache_clear()


@contextmanager
def socket_server(answer: Callable[[ServerConnection, dict[str, Any]], Awaitable[None]]) -> Iterator[str]:
    """A WebSocket server in a thread that answers each message by ``answer``; its address."""
    ready, address, stop = threading.Event(), list[str](), list[Callable[[], object]]()

    async def talk(connection: ServerConnection) -> None:
        async for text in connection:
            await answer(connection, json.loads(text))

    async def run() -> None:
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with serve_sockets(talk, "127.0.0.1", 0, close_timeout=0.2) as server:
            address.append(f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/ws")
            stop.append(partial(loop.call_soon_threadsafe, over.set))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield address[0]
    finally:
        stop[0]()
        thread.join(10)

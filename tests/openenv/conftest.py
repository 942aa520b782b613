"""The servers and the peers that the tests of the contract share."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from spectator import catalog
from tests.gate import Gate
from tests.openenv.worlds import NAMES
from tests.serving import Serving, serve, test_settings

HERE = Path(__file__).resolve().parent
PATIENCE_S = 30

RunPeer = Callable[..., Any]


class Client:
    """A client of the socket that says and hears JSON.

    Args:
        socket: The connection.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def ask(self, kind: str, data: Any = None) -> Any:
        """Send a message; returns the answer's data, whose type must be the right one."""
        answer = self.send({"type": kind, **({} if data is None else {"data": data})})
        assert answer["type"] == {"reset": "observation", "step": "observation"}.get(kind, kind), answer
        return answer["data"]

    def fail(self, message: Any) -> Any:
        """Send a message that must be answered with an error; returns the error's data."""
        answer = self.send(message)
        assert answer["type"] == "error", answer
        return answer["data"]

    def send(self, message: Any) -> Any:
        """Send a message as it is, JSON made of it when it is neither text nor bytes; returns the answer."""
        with contextlib.suppress(ConnectionClosed):  # what was said before the close is still to be heard
            self.socket.send(message if isinstance(message, str | bytes) else json.dumps(message))
        return self.hear()

    def hear(self) -> Any:
        """The next message."""
        text = self.socket.recv(timeout=PATIENCE_S)
        assert isinstance(text, str)
        return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def open_client(serving: Serving, path: str = "/ws") -> Client:
    """A client of one server's socket; the caller closes ``client.socket``."""
    return Client(connect(f"{serving.ws_url}{path}", close_timeout=PATIENCE_S, legacy=True))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server whose default is the smallest world."""
    with serve(test_settings(tmp_path_factory.mktemp("data"))) as running:
        yield running


@pytest.fixture
def client(shared: Serving) -> Iterator[Client]:
    """A client of its socket."""
    one = open_client(shared)
    with one.socket:
        yield one


@pytest.fixture
def gate() -> Iterator[Gate]:
    """The gate of the worlds that wait."""
    Gate.current = Gate()
    yield Gate.current
    Gate.current.open()


@pytest.fixture
def start(tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Serving]]:
    """Starts a server that has the worlds that misbehave; takes settings."""
    running = []
    for name in NAMES:
        monkeypatch.setitem(catalog.BUILT_IN, name, f"tests.openenv.worlds:{name.upper()}")

    def begin(**settings: Any) -> Serving:
        context = serve(test_settings(tmp_path, **settings))
        running.append(context)
        return context.__enter__()

    yield begin
    gate.open()
    for context in running:
        context.__exit__(None, None, None)
    catalog.load_world.cache_clear()


@pytest.fixture(scope="session")
def run_peer(openenv_python: str) -> RunPeer:
    """Runs a script of this folder where the official package is; returns what it tells."""

    def run(script: str, *arguments: str, timeout_s: float = 110) -> Any:
        done = subprocess.run(
            [openenv_python, str(HERE / script), *arguments],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        )
        assert done.returncode == 0, f"{script} failed:\n{done.stderr[-4000:]}"
        return json.loads(done.stdout.splitlines()[-1])

    return run

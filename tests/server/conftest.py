"""The servers that tests of the edge share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spectator import catalog
from tests.gate import Gate
from tests.serving import Serving, serve, test_settings, without_errors


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with the smallest world and two slots."""
    with serve(test_settings(tmp_path_factory.mktemp("data"), max_episodes=2)) as running:
        yield running


@pytest.fixture
def serving(shared_server: Serving) -> Iterator[Serving]:
    """The same, on which nothing runs yet."""
    with without_errors():
        yield shared_server
    for episode in shared_server.client.get("/custom/status").json()["running"]:
        shared_server.client.post("/custom/stop_episode", json={"episode_id": episode["episode_id"]})


@pytest.fixture
def test_worlds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """The worlds of ``tests.server.worlds`` are in the catalogue; the gate of the stuck one is given."""
    for name in ("stuck", "paid"):
        monkeypatch.setitem(catalog.BUILT_IN, name, f"tests.server.worlds:{name.upper()}")
    gate = Gate()
    Gate.current = gate
    yield gate
    gate.open()
    catalog.load_world.cache_clear()


@pytest.fixture
def worlds_server(tmp_path: Path, test_worlds: Gate) -> Iterator[Serving]:
    """A server that has the worlds of the tests."""
    with without_errors(), serve(test_settings(tmp_path, max_episodes=2)) as running:
        yield running
        test_worlds.open()

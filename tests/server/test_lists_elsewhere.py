"""The lobby, ``/live`` and the wall of one server show what another on the same PostgreSQL plays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from websockets.sync.client import ClientConnection, connect

from server.viewers import other_servers
from spectator.json_values import apply_patch
from tests.postgres import Cluster
from tests.server.test_two_servers import LISTENING, questions_of, start
from tests.serving import PATIENCE_S, ServerProcess, Serving, serve, serve_process, test_settings, until

LONG = {"turns": 1000}


@pytest.fixture(scope="module")
def player(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server that plays: a process of its own."""
    with serve_process(tmp_path_factory.mktemp("b"), variables={"SPECTATOR_JOURNAL_URL": url}) as process:
        yield process


@pytest.fixture(autouse=True)
def nothing_left(player: ServerProcess) -> Iterator[None]:
    """What a test that failed left is stopped: the next one finds all slots free."""
    yield
    for one in httpx.get(f"{player.base_url}/custom/status", timeout=30).json()["running"]:
        httpx.post(
            f"{player.base_url}/custom/stop_episode", json={"episode_id": one["episode_id"]}, timeout=30
        )


@pytest.fixture
def watching(url: str, tmp_path: Path) -> Iterator[Serving]:
    """The server that is looked at, which plays nothing."""
    with serve(test_settings(tmp_path, journal_url=SecretStr(url))) as serving:
        yield serving


def say(player: ServerProcess, verb: str, episode_id: str) -> None:
    told = httpx.post(f"{player.base_url}/custom/{verb}", json={"episode_id": episode_id}, timeout=30)
    assert told.status_code == 200, told.text


def shown(serving: Serving) -> dict[str, dict[str, Any]]:
    """What the status says is played elsewhere."""
    status = serving.client.get("/custom/status").json()
    assert status["running"] == []
    return {one["episode_id"]: one for one in status["shown"]}


def tile_at(base_url: str, episode_id: str) -> dict[str, Any]:
    """The tile of an episode on the wall of a server; empty where there is none."""
    tiles: dict[str, dict[str, Any]] = httpx.get(f"{base_url}/live/wall", timeout=30).json()["tiles"]
    return tiles.get(episode_id, {})


def next_frame(socket: ClientConnection) -> dict[str, Any]:
    frame: dict[str, Any] = json.loads(socket.recv(timeout=PATIENCE_S))
    return frame


def test_the_lists_of_one_server_show_what_another_plays(player: ServerProcess, watching: Serving) -> None:
    episode_id = start(player, options=LONG)
    say(player, "pause", episode_id)
    one = until("its line", lambda: shown(watching).get(episode_id))
    assert (one["environment"], one["captain_preset"], one["turn"]) == ("counting", "heuristic", None)
    until("the pause", lambda: tile_at(player.base_url, episode_id).get("status") == "paused")
    until("its tile", lambda: tile_at(watching.base_url, episode_id) == tile_at(player.base_url, episode_id))
    played = tile_at(player.base_url, episode_id)
    with connect(f"{watching.ws_url}/live/wall") as wall, connect(f"{watching.ws_url}/live") as live:
        tiles = next_frame(wall)["tiles"]
        while tiles.get(episode_id) != played:
            tiles = apply_patch(tiles, next_frame(wall)["tiles"])
        assert played["status"] == "paused"
        assert watching.client.get("/live/wall").json()["tiles"] == {episode_id: played}
        hello = next_frame(live)
        assert (hello["frame"], hello["episode_id"]) == ("hello", episode_id)
        one = until("its viewer", lambda: shown(watching)[episode_id]["viewers"] and shown(watching))
        line = one[episode_id]
        assert (line["viewers"], line["paused"], line["turn"]) == (1, True, played["turn"])
        say(player, "stop_episode", episode_id)
        while tiles[episode_id]["status"] != "ended":
            tiles = apply_patch(tiles, next_frame(wall)["tiles"])
        assert tiles[episode_id]["reason"] == "stopped"
        until("its going", lambda: episode_id not in shown(watching))


def test_who_waits_at_one_server_is_shown_what_begins_at_another(
    player: ServerProcess, postgres: Cluster, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked on time here, so that it is the notice of the beginning that wakes."""
    monkeypatch.setattr(other_servers, "LIST_INTERVAL_S", 3600)
    database = url.partition("@/")[2].partition("?")[0]
    with serve(test_settings(tmp_path, journal_url=SecretStr(url))) as serving:
        until("listening", lambda: len(postgres.execute(database, LISTENING)) >= 2)
        with connect(f"{serving.ws_url}/live") as live:
            assert next_frame(live)["frame"] == "waiting"
            episode_id = start(player, options=LONG)
            hello = next_frame(live)
            assert (hello["frame"], hello["episode_id"]) == ("hello", episode_id)
    say(player, "stop_episode", episode_id)


def test_pages_are_answered_from_memory(
    player: ServerProcess, watching: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    episode_id = start(player, options=LONG)
    say(player, "pause", episode_id)
    until("its line", lambda: episode_id in shown(watching))

    def tile() -> dict[str, Any]:
        return tile_at(watching.base_url, episode_id)

    until("the pause", lambda: tile().get("status") == "paused")
    asked = questions_of(episode_id, monkeypatch)
    for _ in range(10):
        assert tile()["status"] == "paused"
        assert shown(watching)[episode_id]["paused"]
    assert not +asked
    say(player, "stop_episode", episode_id)

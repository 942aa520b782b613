"""The wall: every running episode in one frame, its changes as merge patches, the same bytes for all."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from server.wall import AFTERGLOW_S, Wall
from spectator.episodes.pacing import Pace
from spectator.merge_patch import apply_patch
from tests.episodes.harness import supervising
from tests.fakes import ManualClock
from tests.serving import Serving, serve, test_settings

LONG: dict[str, Any] = {"pace": "broadcast", "options": {"turns": 1000}}


def next_frame(socket: ClientConnection) -> dict[str, Any]:
    frame: dict[str, Any] = json.loads(socket.recv(timeout=30))
    return frame


def test_every_running_episode_is_a_tile(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, max_episodes=3)) as serving:
        first = serving.start(**LONG, seed=5)
        with connect(f"{serving.ws_url}/live/wall") as socket:
            whole = next_frame(socket)
            assert whole["frame"] == "wall" and list(whole["tiles"]) == [first]
            tile = whole["tiles"][first]
            assert (tile["environment"], tile["seed"], tile["status"]) == ("counting", 5, "live")
            assert tile["seats"] == ["Careful counter"]
            second = serving.start(**LONG)
            tiles, version = whole["tiles"], whole["version"]
            while second not in tiles:
                changed = next_frame(socket)
                assert (changed["frame"], changed["version"]) == ("wall.changed", version + 1)
                tiles, version = apply_patch(tiles, changed["tiles"]), changed["version"]
            serving.client.post("/custom/pause", json={"episode_id": second})
            while tiles[second]["status"] != "paused":
                tiles = apply_patch(tiles, next_frame(socket)["tiles"])
            serving.client.post("/custom/stop_episode", json={"episode_id": first})
            while tiles[first]["status"] != "ended":
                tiles = apply_patch(tiles, next_frame(socket)["tiles"])
            assert tiles[first]["reason"] == "stopped"


def test_the_same_can_be_polled(serving: Serving) -> None:
    assert serving.client.get("/live/wall").json()["tiles"] == {}
    episode_id = serving.start(**LONG)
    answer = serving.client.get("/live/wall")
    assert list(answer.json()["tiles"]) == [episode_id]
    assert answer.headers["cache-control"] == "no-store"


def test_whoever_speaks_or_is_too_many_is_shown_the_door(tmp_path: Path) -> None:
    with serve(test_settings(tmp_path, max_viewers=1)) as serving:
        with connect(f"{serving.ws_url}/live/wall") as socket:
            next_frame(socket)
            with connect(f"{serving.ws_url}/live/wall") as other:
                assert next_frame(other)["code"] == 4029
            socket.send("hello")
            assert next_frame(socket)["code"] == 4400
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=30)
        deadline = time.monotonic() + 30
        while len(serving.server.config.app.state.services.audience) and time.monotonic() < deadline:  # type: ignore[union-attr]
            time.sleep(0.01)
        with connect(f"{serving.ws_url}/live/wall") as again:
            assert next_frame(again)["frame"] == "wall"


def test_the_server_sends_the_wall_away_when_it_goes(tmp_path: Path) -> None:
    with ExitStack() as sockets:
        with serve(test_settings(tmp_path)) as serving:
            socket = sockets.enter_context(connect(f"{serving.ws_url}/live/wall"))
            next_frame(socket)
        assert next_frame(socket)["code"] == 1012


def test_who_falls_behind_is_given_the_whole_and_the_end_glows_for_a_while() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with supervising(slots=2) as stage:
            wall = Wall(stage.supervisor, clock, stage.supervisor._tasks)
            episode = await stage.start(pace=Pace.BROADCAST, options={"turns": 1000})
            wall.enter()
            assert json.loads(await wall.next_after(None))["frame"] == "wall"
            version = wall.version
            await episode.pause("test")
            wall.look()
            assert json.loads(await wall.next_after(version))["frame"] == "wall.changed"
            await episode.resume("test")
            wall.look()
            behind = await wall.next_after(version)
            assert json.loads(behind)["frame"] == "wall"
            assert behind is await wall.next_after(version), "encoded once"
            wall.look()
            waiting = asyncio.ensure_future(wall.next_after(wall.version))
            await asyncio.sleep(0)
            assert not waiting.done(), "nothing has changed"
            await stage.supervisor.stop(None, by="test")
            wall.look()
            assert episode.episode_id in json.loads(wall.whole())["tiles"]
            assert json.loads(await waiting)["tiles"][episode.episode_id]["reason"] == "stopped"
            clock.advance(AFTERGLOW_S)
            wall.look()
            assert json.loads(wall.whole())["tiles"] == {}
            wall.leave()

    asyncio.run(scenario())
